// Package broker distributes work between parts of Letterhead through topics.
//
// The event log remains the only source of truth. Messages are copies of events: a relay reads the log and
// publishes them, and workers subscribe. So a lost message only causes a timeout, and a repeated message only
// causes repeated work.
//
// Other packages use Port. Bus implements it on top of any watermill transport. Retries, dead-lettering and
// acknowledgements are implemented in Bus, so that the in-process transport (package inprocess) and Kafka
// behave in the same way. brokertest contains the suite that both must pass.
//
// The contract:
//
//   - A topic is ordered per key. Messages of one key reach a group one at a time, in the order in which
//     they were published; messages of different keys may be handled concurrently.
//   - A group receives each message at least once, from its first subscription on. A message that is
//     published before any group has subscribed waits for the first group. The members of a group share
//     its messages.
//   - Publish returns nil when the message is safe: Kafka's in-sync replicas have it, or, in process, every
//     group has acknowledged it. A publisher may then save a checkpoint.
//   - A handler acknowledges the message by returning nil. After an error the message is retried, with
//     growing waits, at most Config.Retries times. Then it is published to DeadLetterTopic and
//     acknowledged, so that a bad message never blocks the topic. If the handler fails because the
//     subscription ends, the message goes to the next member of the group.
//   - Everything is bounded: Publish waits while a topic is full.
package broker
