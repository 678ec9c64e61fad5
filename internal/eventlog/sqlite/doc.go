// Package sqlite keeps the event log in one SQLite file (modernc.org/sqlite, pure Go).
//
// One goroutine writes. It takes all queued appends, decides each separately, inserts the accepted ones and
// commits them as one group, so that one flush serves all of them; under light load a group is a single
// append, which never waits for others. The file is in WAL mode with synchronous=FULL, so a completed commit
// is on the disk. Checkpoints (moving the WAL into the file) run on another connection, because inside a
// commit they would cause the slowest appends.
//
// An import (eventlog.Importer) is all or nothing and therefore forms a separate group, on the same goroutine.
//
// Reads use a small pool of connections and never wait for the writer. A subscription reads pages up to the
// end and then waits for a signal that the writer gives after each commit; nothing polls. This requires that
// only one process has the file open: Open locks a file next to it.
//
// Layout: events are rows keyed by position, without gaps; a unique index on stream and revision serves
// stream reads and is the last safeguard of the expected revision. Streams and types are small integers.
// The envelope column holds the rest (envelope.go), with the data packed (pack.go), and a checksum over the
// whole row, because SQLite has no checksums: a flipped bit causes ErrCorrupt instead of a wrong balance.
//
// SQLite drops everything after a damaged frame of the WAL, and no check of the file can detect the missing events. The
// end of the log is therefore recorded outside the log as well, in the marker file (marker.go). Open scans the WAL
// (walscan.go) and compares the log with the marker before it changes anything (examine.go). AcceptLoss continues with
// the intact part (salvage.go). Check and Scrub verify a whole log (audit.go).
package sqlite
