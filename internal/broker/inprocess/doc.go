// Package inprocess is a broker.Transport within one process. It is bounded, ordered per key, and delivers
// at least once while the process runs.
//
// A message stays in a topic until every group of the topic has acknowledged it, and only then Publish returns.
// Nothing is stored. After a crash the relay publishes pending messages again, because it saves its checkpoint only
// after Publish returned.
package inprocess
