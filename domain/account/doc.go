// Package account decides everything about an account: its credits, holds, keys, plan and status.
//
// An Account is the fold of one account stream. Decisions read it and return the resulting events, or
// a typed error; they change nothing. Apply folds an event that was stored or is about to be. Between
// Begin and Commit or Rollback the account keeps a journal, so that a group of events whose append
// failed is undone exactly. The package uses no clock and no randomness: times and ids are parameters.
//
// README.md defines the terms and the invariants. An Account is not safe for concurrent use.
package account
