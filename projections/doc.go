// Package projections is the API for authors of read models. A read model is computed from the event log and
// stored in tables. Each folder below contains one read model: its tables, its fold and its queries. Package
// projections/engine reads the log and runs the folds.
//
// # Adding a read model
//
// A read model is a package projections/<name> that imports this package and never the engine. It embeds a Model, which
// has its name, its versions and the handle of its queries. A Keyed table has columns that say where their values are
// in a row, and contains all SQL; its Fold applies one event at a time. See projections/failures for a complete model.
//
// Besides the package and its test, which calls projectionstest.Replay, add it to the models that the node passes to
// engine.New.
//
// Rows depend only on events: they contain no wall time, no row ids and no map order. So a replay gives the same
// rows, and Verify, which folds the log again and compares every column, finds no difference.
//
// # Changing a read model
//
// If folding the same events would give other rows, increase Version.Number and keep the old version, with its fold
// and its queries, for one release, because nodes of both releases may share a database. The engine fills the tables
// of the new version next to the live ones and swaps them in one transaction.
package projections
