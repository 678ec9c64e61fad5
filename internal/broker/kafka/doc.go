// Package kafka is the broker of an installation of several nodes.
//
// Two clients share one configuration, one set of topics and one way to choose a partition:
//
//   - The crawl lanes go through watermill-kafka (sarama), as a broker.Transport under a broker.Bus:
//     idempotent producer, acknowledged by all in-sync replicas, consumer groups.
//   - The lanes of record (ledger, brands) go through kafka-go, in batches (Records): what a data warehouse
//     or another team consumes. The format of their messages is described in docs/events.md.
//
// Topics are named by a prefix and the lane. They are made when they are missing; one that exists with other
// settings is used as it is, and warned of: raising the number of partitions moves keys to other partitions,
// which breaks their order, so only an operator may decide it.
//
// What the transport promises is broker.Port's contract. Its edges, here:
//
//   - Publish returns when the in-sync replicas have the messages. When its context ends first, they may
//     still arrive.
//   - A member that dies is noticed after Config.SessionTimeout; another then repeats what was not committed,
//     at most some seconds of messages. When members come or go in health, a message whose handler was under
//     way may be handled twice.
//   - A message that is none of ours (no id, no key, too large) is handed on as broker.Unreadable, which
//     sets it aside. Nothing that lies in a topic stops its partition.
package kafka
