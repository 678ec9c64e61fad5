// Package account decides everything about an account: its credits, holds, keys, plan and status.
//
// An Account is the fold of one account stream. Decisions look at it and return the events they lead to,
// or a typed refusal; they change nothing. Apply folds an event that was stored, or that is about to be:
// between Begin and Commit or Rollback the account keeps a journal, so that a group of events whose append
// failed is undone exactly. There is no clock and no randomness here: times and ids come in as values.
//
// README.md says what the words mean and which rules hold. An Account is for one goroutine.
package account
