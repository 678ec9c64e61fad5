// Package inprocess is a watermill transport within one process: bounded, in order per key, at least
// once while the process lives.
//
// Watermill's own gochannel does not keep that contract: it drops what nobody is subscribed to, says
// that a message was acknowledged when it is closed before that, and holds one lock per topic while it
// waits. Here a message keeps its place in a lane until every group of the lane has acknowledged it,
// and Publish returns only then. Nothing is stored: what was under way when the process dies is
// published again by the relay, whose checkpoint stands before it.
package inprocess
