// Package projections turns the event log into the tables that questions are answered from, and keeps
// them so. One folder below holds one read model: its tables, its fold and its queries.
//
// # One reader, many folds
//
// The Runner's main lane reads the log once, decodes each event once and hands it to every read model.
// What a batch changed and how far it got (the checkpoint) are committed in one transaction, so a crash
// neither loses nor doubles anything. Live batches are as small as what has come since the last one; a
// lane that is behind folds tens of thousands of events in memory and then writes each changed row once.
//
// A read model whose fold fails is set aside: the batch is folded again without it, and a lane of its own
// goes to the very event that it failed on and tries that again, with growing pauses. The others go on.
//
// # Generations
//
// Tables are disposable. Each set of them is a generation, and its tables are named
// <model>_v<fold version>_g<generation>_<table>; projections_registry says which one is live. A new fold
// version, or a rebuild of the same, fills a new generation beside the live one, which goes on being
// folded and read. When it is level, one transaction makes it live. A reader holds the generation it
// began with, and the old tables go when the last of their readers has left.
//
//	main lane   ──► live generations, all at one position
//	chase lanes ──► building generations (first start, new version, rebuild),
//	                set-aside ones, scratch ones (verify)      … until level with the main lane
//
// # Same events, same rows
//
// Rows hold nothing but what events say: no wall time, no row numbers, no order of a map. Verify folds
// the log again from the beginning and compares every column.
package projections
