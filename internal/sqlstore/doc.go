// Package sqlstore is the database of the read models, of the disposable snapshots, of the positions of
// workers and of the holders' side table: a SQLite file of this process alone, or a PostgreSQL database (14
// or newer) that several processes share. Store is the same for both; Shared tells them apart.
//
// # SQLite
//
// One file in WAL mode, one writer at a time, a pool of readers. Two kinds of writes share the one writer
// slot. Write commits with synchronous=NORMAL: after a crash of the process everything is there, after a
// loss of power the last moments may be missing, whole transactions at a time, and the projections fold
// them again from the log. WriteDurable commits with synchronous=FULL, for the few rows that no log can
// give back. The write-ahead log is copied into the file by a connection of its own, away from the commits.
//
// # PostgreSQL
//
// Two pools of connections (pgx), one that may only read and one that writes. Every statement has a time
// limit at the server, every call ends with its context, and a server that hangs, restarts or cannot be
// reached makes calls end with ErrUnavailable; the pools recover by themselves. Writes are REPEATABLE READ
// and run again, a bounded number of times, after a conflict, a deadlock or a lost connection. When the
// answer to COMMIT is lost, the server is asked for the transaction's outcome by its number; only when that
// cannot be had in time, or another server has taken over meanwhile (its timeline is another), is the error
// ErrAmbiguous. (After a fail-over to a standby that had not yet received a transaction, it is lost. Use a
// synchronous standby.) Many rows are written by COPY.
//
// What processes agree on through it: the turn to change the schema (Setup), leadership (Lead), and the
// time (Clock).
//
// # Shared SQL
//
// The SQL of the packages above is written once: $1 placeholders; TEXT, BIGINT, BYTEA and DOUBLE PRECISION
// columns; INSERT … ON CONFLICT; CREATE texts through DDL. Rows read into any have the same Go types on
// both: int64, string, float64, []byte, nil. What differs: a comparison selected as a column is a bool on
// PostgreSQL and an int64 on SQLite, and sum over BIGINT is a string of digits there when it is read into
// any (into an int64 it is the same). A TEXT holds no NUL and only UTF-8; others become U+FFFD (see Insert).
package sqlstore
