// Package inprocess is a watermill transport within one process: bounded, ordered per key, at least
// once while the process lives.
//
// Watermill's own gochannel does not meet that contract: it drops messages without a subscriber,
// reports messages as acknowledged when it is closed before that, and holds one lock per topic while
// it waits. Here a message keeps its place in a topic until every group of the topic has acknowledged
// it, and only then Publish returns. Nothing is stored: the relay, whose checkpoint lags behind,
// publishes messages again that were pending when the process died.
package inprocess
