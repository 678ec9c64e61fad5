// Package kafka is the broker for distributed installations.
//
// Two clients share one configuration, one set of topics and one partitioner:
//
//   - The crawl topics use watermill-kafka (sarama), as a broker.Transport of a broker.Bus, with
//     consumer groups and an idempotent producer that waits for all in-sync replicas.
//   - The topics of record (ledger, brands), which external systems such as a data warehouse consume,
//     are written in batches with kafka-go (Records). docs/events.md describes the format of their
//     messages.
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
