// Package inprocess is a watermill transport within one process. It is bounded, ordered per key, and delivers
// at least once while the process runs.
//
// Watermill's gochannel does not meet the contract of package broker: it drops messages without a subscriber,
// it reports pending messages as acknowledged when it is closed, and it holds one lock per topic while it
// waits. In this package a message stays in a topic until every group of the topic has acknowledged it, and
// only then Publish returns. Nothing is stored. After a crash the relay publishes pending messages again,
// because it saves its checkpoint only after Publish returned.
package inprocess
