// Package commands contains every use case that changes something, one file each: load, decide, append
// at the expected revision.
//
// Everything about one account goes through the AccountWriter: ChargeLookup, HoldCredits, GrantCredits and so on. It
// decides the commands that wait for an account together and appends their events in one append; package streamwriter
// has the engine and its guarantees. The account's state (account_state.go) adds what only memory holds: reservations,
// and the part that is read without queueing.
//
// Compensations for callers who left reverse a charge or release a hold. A node that answers a repeat
// from a charge first keeps the charge by an event (ChargeKept), and a kept charge is not reversed:
// whichever event is on the stream first decides.
//
// The QuotaWriter counts searches and logos with the same engine; many of them become one event. The
// UsageRecorder sums up usage that needs no decision. Brands are written rarely, so their commands
// load, decide, append and retry without that engine (cold_streams.go).
//
// # After a kill
//
// A kill -9 between the durable append and the answer leaves a charge whose caller got no answer. It
// is in the ledger under its request id, and an operator can reverse it within 24 h. Holds that were
// open are released when they are overdue. Reservations are in memory only and vanish.
package commands
