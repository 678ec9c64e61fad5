// Package esdbtest is an EventStoreDB server inside the test: it serves the real gRPC services, from the
// client's own protobuf stubs, over a store in memory. The real client talks to it over a real
// connection, so that its habits are tested too.
//
// It can be told to misbehave (Faults): commit and lose the answer, end a call early, send what the
// client does not expect, drop subscriptions. LEFT_OUT.md lists what it does not do.
//
// What it does, it does as the server's source does (EventStore/EventStore: IndexWriter.CheckCommit,
// AllReader, Streams.Append): comments name the rule at each place.
package esdbtest
