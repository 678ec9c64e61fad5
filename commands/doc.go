// Package commands contains every use case that changes something, one file each: load, decide, append
// at the expected revision.
//
// # The desks
//
// Everything about one account goes through a Desk: ChargeLookup, HoldCredits, GrantCredits and so on.
// A desk has one actor per account in use (actor.go): a goroutine with a bounded queue and the folded
// state. It takes the queued commands as a group, decides each one separately against the running
// balance, appends all accepted events in one append at the exact revision, and then answers. So a
// busy account costs one append per group and no read, a refused command never fails its group, and no
// caller is told of a charge that is not durable.
//
// Several desks, in one process or on several nodes, may serve the same account. Only the stream
// decides: a desk that loses the race for a revision reads the tail, decides its group again and
// retries within a time limit, then answers ErrBusy. Desks that compete for an account alternate
// (turns.go). An append whose outcome is unknown is repeated unchanged, with the same ids at the same
// revision, until the log reports the outcome. If it does not do so in time, the callers get
// ErrUnknownOutcome, and charges and holds that turn out to have landed are compensated: the stream is
// checked for another minute, then the append is treated as lost.
//
// Compensations for callers who left (a charge to reverse, a hold to release) are the actor's own
// work: they bypass the queue, are retried with growing pauses, and are left to an operator after
// about a minute. A node that answers a repeat from a charge first keeps the charge by an event
// (ChargeKept), and a kept charge is not reversed: whichever event is on the stream first decides.
//
// No revision protects an outcome that appends nothing (a refusal, or a repeat of a kept charge). It
// is final only after the stream's tail was read, with one read for all waiting callers.
//
// The UsageDesk counts searches with the same actor; many searches become one event. The UsageRecorder
// sums up usage that needs no decision. Brands are written rarely, so their commands load, decide,
// append and retry without an actor (brands.go).
//
// # After a kill
//
// A kill -9 between the durable append and the answer leaves a charge whose caller got no answer. It
// is in the ledger under its request id, and an operator can reverse it within 24 h. Holds that were
// open are released when they are overdue. Reservations are in memory only and vanish.
package commands
