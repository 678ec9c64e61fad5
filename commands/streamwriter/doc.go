// Package streamwriter writes event streams on which many callers decide at the same time. It knows
// streams, states, decisions and the event log, and nothing of accounts or credits: a use case brings
// the State that it folds, a Kind that describes the streams, and a Command for each decision.
//
// # Groups
//
// Actors has one Actor per stream in use (actor.go): a goroutine with a bounded queue and the folded state. It takes
// the queued commands as a group, decides each one separately against the running state (group.go), appends all
// accepted events in one append at the exact revision, and then answers. So a busy stream costs one append per group
// and no read, a rejected command never fails its group, and callers learn only of durable decisions.
//
// # Conflicts
//
// Several sets of actors, in one process or on several nodes, may write to the same stream. Only the
// stream decides: an actor that loses the race for a revision reads the tail, decides its group again
// and retries within a time limit, then answers ErrBusy. Actors that compete for a stream alternate
// (fairness.go). No revision protects an outcome that appends nothing, such as a rejection. It is final
// only after the stream's tail was read, with one read for all waiting callers.
//
// # Unknown outcomes
//
// An append whose outcome is unknown is repeated unchanged, with the same ids at the same revision,
// until the log reports the outcome. If it does not do so in time, the callers get ErrUnknownOutcome
// (ambiguous.go): the stream is checked for another minute, what turns out to have been stored is
// compensated, and then the append is treated as lost.
//
// Compensations, also those for callers who left, are the actor's own work (compensate.go): they bypass
// the queue, are retried with growing pauses, and are left to an operator after about a minute.
//
// # Loading
//
// A stream is folded from a snapshot, if there is one, and the events after it (load.go). A long one
// continues to load in the background, and its commands get a *LoadingError (loading.go).
package streamwriter
