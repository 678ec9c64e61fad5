// Package esdb keeps the event log in EventStoreDB (now KurrentDB), through EventStore-Client-Go v4.
//
// The port's position is the commit position of an event. The envelope (schema version, time and metadata) is
// stored as JSON in EventStoreDB's user metadata; an event's data is stored unchanged. System events and
// links, whose stream or type begins with $, are skipped.
//
// All appends of a connection share one call (BatchAppend), because a call for each would take more CPU time than
// the append, here and in the server. The client does not offer it, so batch.go speaks the protocol, on the
// client's connection. Everything except a certain rejection is ErrAmbiguous: the end of the call, timeouts, resets.
// Repeating the same append resolves it, because the server compares event ids (see esdbtest).
//
// Much of this package works around the client:
//
//   - A client that finds no server in time never recovers, and its callers hang. The supervisor tests each
//     client before it is shared, and replaces it at the first sign of a lost server. While there is no client,
//     calls fail after ConnectWait. A client is closed after its last caller has left, because Close makes the
//     remaining ones panic.
//   - On a silently lost connection the client waits for the keepalive, which may be forever. A member that
//     has been silent for SilentFor is tested and replaced if it does not answer. Its callers then leave:
//     reads are retried on the next member, appends are ambiguous, and subscriptions continue there.
//   - The client ignores the context while it looks for a server. Every call therefore runs in another
//     goroutine, which its caller can leave; the number of calls is bounded, so stuck ones cannot pile up.
//   - The client panics on unknown messages: every call recovers.
//   - The client reconnects on its own, to whatever server has the address by then. Each client therefore
//     gets an address that allows a single connection (singleconn.go), to a server that the supervisor has found,
//     by gossip in a cluster (find.go). A member that is not the leader is replaced, and the next connection
//     goes to the leader.
//   - The client's subscriptions never reconnect: this package opens a new one at the same position.
//
// Some of it works around the server. Reads have no filter; subscriptions have, so they read the past with a
// wide search window and then follow with a narrow one (follow.go), and filtered reads from far back use a
// subscription as well. A subscription that was too slow reads pages at intervals until the burst is over. A
// checkpoint only counts if it is the position of an event. Servers before 24.2 lose events with filters, so their
// events are filtered here. Servers before 23.10 are rejected (version.go).
package esdb
