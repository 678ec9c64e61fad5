// Package kafka is the broker for installations of several nodes.
//
// Two clients share one configuration, one set of topics and one partitioner:
//
//   - The crawl topics use watermill-kafka (sarama), as a broker.Transport of a broker.Bus: idempotent
//     producer, acknowledged by all in-sync replicas, consumer groups.
//   - The topics of record (ledger, brands) use kafka-go, in batches (Records): a data warehouse or another
//     team consumes them. The format of their messages is described in docs/events.md.
//
// In Kafka a topic has a prefix before its name. Missing topics are created. An existing topic with other
// settings is used as it is, with a warning: raising the number of partitions moves keys to other
// partitions, which breaks their order, so only an operator may decide it.
//
// The transport implements the contract of broker.Port, with these details:
//
//   - Publish returns when the in-sync replicas have the messages. If its context ends first, they may
//     still arrive.
//   - A member that dies is detected after Config.SessionTimeout; another then repeats uncommitted messages,
//     at most a few seconds of them. When healthy members join or leave, a message whose handler was
//     running may be handled twice.
//   - A message that no Bus published (no id, no key, too large) is delivered as broker.Unreadable, which
//     dead-letters it. No content of a topic can stop a partition.
package kafka
