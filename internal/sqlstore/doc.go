// Package sqlstore is the database of the read models, of snapshots, of workers' positions and of the table of account
// names: a SQLite file of one process, or a PostgreSQL database (14 or newer) that several processes share. Store is
// the same for both; Shared reports which one it is.
//
// # SQLite
//
// One file in WAL mode, one writer at a time, a pool of readers. Two kinds of writes share the writer slot. Write
// commits with synchronous=NORMAL: a crash of the process loses nothing, a loss of power may lose the last
// transactions, which the projections fold again from the log. WriteDurable commits with synchronous=FULL, for the few
// rows that cannot be restored from a log. A separate connection copies the write-ahead log into the file, outside the
// commits.
//
// # PostgreSQL
//
// Two pools of connections (pgx): a read-only one and one that writes. The server limits the time of every statement,
// every call ends with its context, and a server that hangs, restarts or is unreachable makes calls fail with
// ErrUnavailable; the pools recover. Writes are REPEATABLE READ and are retried a limited number of times
// after a conflict, a deadlock or a lost connection. If the response to COMMIT is lost, the outcome of the transaction
// is queried by its number; if that fails in time, or another server has taken over (on a new timeline), the error is
// ErrAmbiguous. (A fail-over to a standby that had not received a transaction loses it. Use a synchronous standby.)
// Many rows are written by COPY.
//
// Processes use it to take turns in changing the schema (Setup), elect a leader (Lead), and agree on the time (Clock).
//
// # Shared SQL
//
// The SQL of the packages that use it is written once: $1 placeholders; TEXT, BIGINT, BYTEA and DOUBLE PRECISION
// columns; INSERT … ON CONFLICT; CREATE texts through DDL. Values read into any have the same Go types on
// both: int64, string, float64, []byte, nil. The differences: a comparison selected as a column is a bool on
// PostgreSQL and an int64 on SQLite, and sum over BIGINT is a string of digits there when it is read into
// any (into an int64 it is the same). A TEXT contains no NUL and only UTF-8; other bytes become U+FFFD (see Insert).
package sqlstore
