// Package sqlite keeps the event log in one SQLite file (modernc.org/sqlite, pure Go).
//
// One goroutine writes. It takes whatever appends are queued, decides each on its own, inserts the
// accepted ones and commits them as one group: one flush serves them all, and under light load a group
// is one append, with no waiting. The file is in WAL mode with synchronous=FULL, so a commit that
// returned has reached the disk. Checkpoints (moving the WAL into the file) run on another connection,
// because inside a commit they are what makes the slowest appends slow.
//
// An import (eventlog.Importer) is a group of its own, because it is all or nothing: it takes turns with the
// groups of appends on the same goroutine.
//
// Reads have a small pool of connections of their own and never wait for the writer. A subscription
// reads pages until it is at the end and then sleeps on a signal that the writer gives after each
// commit; nothing polls. That works because only one process can have the file open: Open takes a lock
// file beside it.
//
// Layout: events are rows keyed by position, without gaps; a unique index on stream and revision serves
// stream reads and is the last fence of the expected revision. Streams and types are small integers.
// The envelope column holds the rest (envelope.go), with a checksum over the whole event, because SQLite
// has none of its own: a flipped bit is ErrCorrupt and not somebody's balance.
//
// SQLite drops what follows a damaged frame of the WAL, and no check of the file can notice what is not there
// any more. So the end of the log is also kept outside of it, in the marker file (marker.go), and Open compares
// the two before anything is changed (examine.go), after it has looked through the WAL itself (walscan.go).
// AcceptLoss goes on with what is left (salvage.go). Check and Scrub verify a whole log (audit.go).
package sqlite
