// Package commands holds every use case that changes something, one file each: load, decide, append at
// the expected revision.
//
// # The desks
//
// Everything about one account goes through a Desk: ChargeLookup, HoldCredits, GrantCredits and so on. A
// desk keeps one actor per account that is in use (actor.go): a goroutine with a bounded queue and the
// folded state. It takes what is queued as a group, decides each member on its own against the running
// balance, appends all that was accepted as one append at the exact revision, and then answers. So a busy
// account costs one append per group and no read, a refused member never sinks its group, and nobody is
// told of a charge that is not durable.
//
// Several desks, in one process or on several nodes, may serve the same account. The stream alone decides:
// a desk that loses the race for a revision reads the tail, decides its group again and retries inside a
// time bound, then answers ErrBusy. Desks that meet on an account take turns (turns.go). An append whose outcome is unknown is
// repeated as it is, same ids at the same revision, until the log says what happened; if it does not say
// so in time, the callers get ErrUnknownOutcome, and what turns out to have been charged is handed back:
// the stream is looked at for a minute more, then the append is taken as lost.
//
// What is owed to callers who left (a charge to reverse, a hold to release) is the actor's own business: it
// stands in no queue, is tried again with growing pauses, and is left to an operator after about a minute.
// Whoever answers a repeat from a charge, on whatever node, first keeps it by an event (ChargeKept), and a
// charge that is kept is not handed back: what is on the stream first decides.
//
// An outcome that appends nothing (a refusal, a repeat of what is kept) is fenced by no revision. It is final only after
// the stream's tail was read, one read for all who wait.
//
// The UsageDesk counts searches with the same actor; many searches become one event. The UsageRecorder
// adds up what needs no decision. Brands, which are written seldom, load, decide, append and retry without
// an actor (brands.go).
//
// # What a kill leaves behind
//
// A kill -9 between the durable append and the answer leaves a charge whose caller heard nothing. It stands
// on the ledger under its request id, and an operator can reverse it within 24 h. Holds that were open are
// released when they are overdue. Reservations are in memory only and vanish.
package commands
