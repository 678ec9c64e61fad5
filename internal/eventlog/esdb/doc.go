// Package esdb keeps the event log in EventStoreDB (today KurrentDB), through EventStore-Client-Go v4.
//
// What the port calls a position is the commit position of an event. The envelope (schema version, time
// and metadata) travels as JSON in EventStoreDB's user metadata; an event's data is stored as it is.
// System events and links, whose stream or type begins with $, are passed over.
//
// Much of this package is about not believing the client:
//
//   - Sizes are checked before anything is sent, because a server that refuses in the middle of an append
//     is reported as a bare EOF, from which nobody can tell whether it was written.
//   - Whatever is not surely refused is ErrAmbiguous: EOF, timeouts, resets. The repeat of the same append
//     settles it, because the server compares event ids (esdbtest says how).
//   - A client that finds no server in time is dead for ever, and callers hang in it. The supervisor tries
//     each client before anybody shares it, gives it up at the first sign that it has lost its server, and
//     makes another; while there is none, callers are told so after ConnectWait. A client is closed when
//     the last caller has left it, because its Close makes those panic who are inside.
//   - On a connection that was lost without a word it waits for as long as the keepalive takes, which may
//     be for ever. A member that says nothing for SilentFor is tried and given up when it does not answer,
//     and who waits on it leaves: reads are read again on the next one, appends are ambiguous, and
//     subscriptions go on there.
//   - It does not hear the context while it looks for a server. Every call runs beside its caller, who
//     leaves when its context ends; a bound on the calls keeps those that are stuck from adding up.
//   - It panics on messages it does not know: every call recovers.
//   - It connects again by itself, to whatever has the address by then. Each client gets an address that leads to one
//     connection (tether.go), to a server that the supervisor has found, by gossip in a cluster (find.go). A server that
//     does not lead is given up, and the next connection goes to the leader.
//   - Its subscriptions never reconnect: ours open another one where they were.
//
// And about not believing too much of the server. Reads know no filter; subscriptions do, so those go
// through the past with a wide search window and then follow with a narrow one (follow.go), and filtered
// reads from far back go through a subscription as well. Only checkpoints that are an event's own position
// are taken for one; servers before 24.2 lose events to filters, so there the filter is ours. Servers before 23.10 are refused
// (version.go).
package esdb
