// Package broker carries work between parts of Letterhead, over topics.
//
// The event log remains the only source of truth: messages are copies of events that some consumer has
// to act on. A relay reads the log and publishes; workers subscribe. A message that is lost or
// repeated therefore costs a repeat or a deadline, never a fact.
//
// Other packages use Port. Bus implements it on top of any watermill transport: retries,
// dead-lettering and acknowledging are implemented once, here, so that the in-process transport
// (package inprocess) and Kafka behave alike. brokertest holds the suite that each must pass.
//
// The contract:
//
//   - A topic is ordered per key. Messages of one key reach a group one at a time, in the order in which
//     they were published; messages of different keys may be handled concurrently.
//   - A group receives each message at least once, from its first subscription on. A message that is
//     published before any group has subscribed waits for the first. Members of one group share the
//     messages.
//   - Publish returns nil when the message is safe with the transport: Kafka has it on disk, or, in
//     process, every group has acknowledged it. A publisher may then save a checkpoint.
//   - A handler that returns nil has acknowledged the message. After an error it is retried, with growing
//     waits, at most Config.Retries times; then the message is published to DeadLetterTopic and acknowledged,
//     so that one bad message never blocks the topic. An error due to the end of the subscription leaves
//     the message with the transport, for the next member of the group.
//   - Everything is bounded: Publish waits while a topic is full.
package broker
