// Package engine keeps the tables of read models current. It knows read models only as projections.Projection.
//
// # One reader, many folds
//
// The Runner's live loop reads the log once, decodes each event once and passes it to every read model. The changes of
// a batch and its position (the checkpoint) are committed in one transaction, so a crash neither loses nor doubles
// anything. Live batches contain what was appended since the last one. A catch-up loop folds tens of thousands of
// events in memory and then writes each changed row once.
//
// A read model whose fold fails is quarantined: the batch is folded again without it, and a separate catch-up loop
// moves it to the event that it failed on and retries that event with growing pauses. The other models continue.
//
// # Generations
//
// Tables are disposable. Each set of them is a generation, whose tables are named
// <model>_v<fold version>_g<generation>_<table>; the table projections_registry lists the generations and says which is
// live. A new fold version, or a rebuild of the same version, fills a new generation next to the live one, which is
// folded and read in the meantime. When the new one has caught up, one transaction makes it live. Readers keep the
// generation they began with, and the old tables are dropped when their last reader has left.
//
//	live loop      ──► live generations, all at one position
//	catch-up loops ──► building generations (first start, new version, rebuild),
//	                   quarantined ones, scratch ones (verify)   … until they reach the live loop
//
// # Several nodes on one database
//
// On a database that several processes share, one node folds: the one that sqlstore's Lead lets lead. It folds all read
// models, because the log is read and decoded once for all of them and they commit together. A leadership for each read
// model would read the log once for each, put their positions apart, and spread work that one node can do alone: a
// leader keeps up with many times the rate at which the log is written. (The search index follows the brands table and
// has its own leadership.)
//
// Every node, including the leader, polls projections_registry (every pollPause; faster while a caller of WaitFor
// waits). From it a follower learns which tables are live, how far they are folded, and which models are stopped and
// why. It first tells models what to invalidate (Forgetter, Invalidator), and only then wakes callers of WaitFor.
//
//	building ──► live ──► retired ──► dropped after Config.DropAfter
//	   └──► failed (a rebuild; the reason is kept for the node that asked)
//	scratch ──► dropped by its Verify, or much later if that was killed
//
// Nodes of this release and of the one before may share the database. A Version names the data format with which
// readers begin to get it; projections_format holds the format in force. Until that is the new one, a leader of the new
// release folds a generation of the new version next to the live one, in a state that the old release ignores:
//
//	next ──► live   with all others and the data format in one transaction, when an operator finishes the upgrade
//
// Leadership only prevents two nodes from doing the same work. The checkpoint prevents them from doing it twice: each
// transaction begins by moving it from the exact position and state in which this node left it. If that row is missing,
// another node has taken over. Then nothing of the batch is written, and the node drops everything it holds in memory,
// resigns as leader and starts again from the registry. Every new leader also starts from the registry and ignores
// generations that it folded during an earlier leadership.
//
// Rebuild inserts a building generation from any node, and the leader fills it; after a crash the next leader continues
// from its checkpoint. Verify folds its own scratch tables on the node that was asked and blocks no other: it reads the
// live tables in one snapshot of the database and folds up to the position of that snapshot.
//
// # Which log was folded
//
// projections_registry also remembers the log that was folded: its first event, an event that was folded about a second
// ago, and the position of each read model. A Runner compares that with the log before it folds, and fails with a
// *eventlog.LossError if they differ, because the log lost events at its end or is another log. The read models then
// show which events were lost, so they are neither folded further nor rebuilt. An operator restores a backup, or
// accepts the loss with "letterhead recover accept-loss", which calls Forget.
package engine
