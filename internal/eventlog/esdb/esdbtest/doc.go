// Package esdbtest is a stand-in for an EventStoreDB server. It serves the real gRPC services, with the client's
// protobuf stubs, from a log in memory or in a folder. The real client uses a real connection, so tests cover the
// client's behavior too. Tests start a server in their own process (Start); several processes can share one (New,
// tools/esdb-standin).
//
// It can simulate faults: in single calls (Faults), or at random (Chaos). LEFT_OUT.md lists the missing features.
//
// It behaves as the source code of the server does (EventStore/EventStore: IndexWriter.CheckCommit, AllReader,
// Streams.Append, Enumerator.AllSubscriptionFiltered). Comments name the corresponding functions.
//
// The log is a journal instead of internal/eventlog/sqlite, which does not support some features of EventStoreDB:
// system streams and event types ($…), events of a mebibyte, any content type and user metadata, appends to a stream
// that must exist, and the current revision in a rejection.
package esdbtest
