// Package sqlstoretest gives tests a database on each engine: a SQLite file, and a new schema of a real PostgreSQL if
// one is configured (see internal/testservices). It is for tests only.
package sqlstoretest
