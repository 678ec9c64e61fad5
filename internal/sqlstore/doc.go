// Package sqlstore is the database of the read models, of the disposable snapshots and of the holders'
// side table: one SQLite file in WAL mode, one writer at a time, a pool of readers.
//
// Two kinds of writes share the one writer slot. Write commits with synchronous=NORMAL: after a crash of
// the process everything is there, after a loss of power the last moments may be missing, whole
// transactions at a time, and the projections fold them again from the log. WriteDurable commits with
// synchronous=FULL, for the few rows that no log can give back.
//
// The write-ahead log is copied into the file by a connection of its own, away from the commits.
//
// The SQL of the packages above is kept to what PostgreSQL understands too: $1 placeholders, TEXT,
// BIGINT, BYTEA and DOUBLE PRECISION columns, INSERT … ON CONFLICT. What differs is in this package:
// BigKey and Insert.
package sqlstore
