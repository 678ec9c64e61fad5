// Package kafka is the broker for distributed installations.
//
// The crawl topics carry the messages of a broker.Bus, as a broker.Transport. The topics of record (ledger, brands),
// which external systems such as a data warehouse consume, are written by Records; docs/events.md describes the format
// of their messages. Both use the same producers, which are idempotent and wait for all in-sync replicas, and the same
// partitioner.
//
// In Kafka the name of a topic has a prefix. Missing topics are created. An existing topic with
// different settings is used unchanged, with a warning. In particular the number of partitions is not
// increased, because that moves keys to other partitions and breaks their order.
//
// The transport implements the contract of broker.Port, with these details:
//
//   - Publish returns when the in-sync replicas have the messages. If its context ends first, the
//     messages may still arrive.
//   - A dead member is detected after Config.SessionTimeout. Then another member repeats its
//     uncommitted messages, which are a few seconds old at most. When members join or leave,
//     messages whose handlers are running may be handled twice.
//   - A message that no Bus published (without id or key, or too large) is delivered as
//     broker.Unreadable, so that it is dead-lettered. No message can block a partition.
package kafka
