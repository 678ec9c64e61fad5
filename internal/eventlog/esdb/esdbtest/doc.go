// Package esdbtest is a stand-in for an EventStoreDB server: it serves the real gRPC services, from the
// client's own protobuf stubs, over a log of its own, in memory or in a folder. The real client talks to
// it over a real connection, so that its habits are tested too. Tests start it inside themselves (Start);
// several processes share one on a port (New, tools/esdb-standin).
//
// It can be told to misbehave: once (Faults), or now and then for as long as it runs (Chaos). LEFT_OUT.md
// lists what it does not do.
//
// What it does, it does as the server's source does (EventStore/EventStore: IndexWriter.CheckCommit,
// AllReader, Streams.Append, Enumerator.AllSubscriptionFiltered): comments name the rule at each place.
//
// The log is its own journal and not internal/eventlog/sqlite, which cannot carry what EventStoreDB
// promises others: streams and types of the system ($…), events of a mebibyte, any content type and user
// metadata, appends to a stream that must exist, the revision in a refusal.
package esdbtest
