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
// # Several nodes on one database
//
// On a database that several processes share, one node folds: the one that sqlstore's Lead lets lead. It folds
// all read models, because the log is read and decoded once for all of them and they commit together; a
// leadership for each read model would read the log once for each, put their positions apart, and spread work
// that one node has to spare: a leader keeps up with many times the rate at which the log is written. (The
// search index follows the brands table and has a leadership of its own.)
//
// Every node, also the one that leads, looks at projections_registry all the time (pollPause; faster while
// somebody waits in WaitFor). From it a node that follows knows which tables are live, how far they are
// folded, and what stands still and why; it tells models what to forget (Reloader, Invalidator), and only
// then those who wait.
//
//	building ──► live ──► retired ──► dropped after Config.DropAfter
//	   └──► failed (a rebuild; the reason is for who asked)
//	scratch ──► dropped by its Verify, or after long when that died
//
// Nodes of one release and of the one before may share the database. A Version says with which data format readers
// begin to get it; a row of the registry says which format is in force. Until it is the new one, a leader of the new
// release folds a generation of the new version beside the live one, in a state that the release before leaves alone:
//
//	next ──► live   with all others and the data format in one transaction, when an operator finishes the upgrade
//
// Leadership only keeps two nodes from doing the same work. What keeps them from doing it twice is the
// checkpoint: each transaction begins by moving it from exactly where, and in the state in which, this node
// left it. When no such row is there, another node has been at work; then nothing of the batch is written,
// and the node drops all it holds in memory, gives the leadership back and begins anew with what the registry
// says. So does every new leader: what it folded an hour ago is of no use to it.
//
// Rebuild puts a building generation into the registry, from any node, and the leader fills it; when that
// dies the next one goes on from its checkpoint. Verify folds scratch tables of its own on the node that was
// asked, and stops nobody: it reads the live tables in one state of the database and folds up to the very
// position of that state.
//
// # Which log was folded
//
// The registry remembers the log that was folded: its first event, an event that was folded about a second ago,
// and the position of each read model. Memory.Losses compares that with a log. A Runner compares before it folds,
// and fails with a *eventlog.LossError when the log does not hold what is remembered: it is shorter than it was,
// or it is another log. The read models are then the evidence of what was lost, so they are neither folded further
// nor rebuilt. An operator restores a backup, or accepts the loss with "letterhead recover accept-loss", which
// calls Forget.
//
// # Same events, same rows
//
// Rows hold nothing but what events say: no wall time, no row numbers, no order of a map. Verify folds
// the log again from the beginning and compares every column.
package projections
