// Package kurrent keeps the event log in EventStoreDB (today KurrentDB), through EventStore-Client-Go v4.
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
//   - The client looks for a server again and again and does not hear the context meanwhile. Every call
//     runs beside its caller, who leaves when its context ends; a bound on the calls keeps those that are
//     stuck from adding up.
//   - It panics on messages it does not know: every call recovers.
//   - Reads of $all know no filter, so filters are applied here.
package kurrent
