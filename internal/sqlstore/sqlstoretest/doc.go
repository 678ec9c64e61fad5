// Package sqlstoretest gives tests a database on each engine: a SQLite file always, and a schema of its
// own on a real PostgreSQL when one is named (see internal/testservices). It is for tests only.
package sqlstoretest
