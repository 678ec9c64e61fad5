// Package broker carries work between parts of Letterhead, over lanes.
//
// The event log stays the only source of truth: what travels here are copies of events that somebody
// has to act on. A relay reads the log and publishes; workers subscribe. A message that is lost or
// repeated therefore costs a repeat or a deadline, never a fact.
//
// Port is what the rest of the house sees. Bus keeps it over any watermill transport: retries,
// setting poison messages aside and acknowledging are done once, here, so that the in-process
// transport (package inprocess) and Kafka behave alike. brokertest holds the suite that each must pass.
//
// The contract:
//
//   - A lane is ordered per key. Messages of one key reach a group one at a time, in the order in which
//     they were published; messages of different keys may be handled at once.
//   - A group sees each message at least once, from its first subscription on. A message that is
//     published before any group has subscribed waits for the first. Members of one group share the
//     messages.
//   - Publish returns nil when the message is safe with the transport: Kafka has it on disk, or, in
//     process, every group has acknowledged it. So whoever publishes may then save a checkpoint.
//   - A handler that returns nil has acknowledged. An error is retried, with growing waits, at most
//     Config.Retries times; then the message is set aside in PoisonLane and acknowledged, so that one
//     bad message never blocks the lane. An error that only says that the subscription is ending leaves
//     the message with the transport, for the next member of the group.
//   - Everything is bounded: a full lane makes Publish wait.
package broker
