// Package keys is the read model of API keys. Requests ask its Directory whether a key is valid, which
// account it belongs to, its terms, and that account's plan and status. It reads a row when it is first needed and
// remembers some.
//
// In a single process, the Runner makes the Directory forget a changed key after the rows are committed and before
// WaitFor returns, so a command that waits for its own event (revoke, suspend, change of plan) applies to every request
// that begins after it was answered.
//
// If nodes share the database, each remembers the keys that it has read while it holds a lease that proves them
// current; otherwise it reads the row. A command then waits for all leases, too (AwaitNodes).
//
// Right after the start, or if its tables were lost, the Directory may be behind earlier issues and revocations. It
// then answers projections.ErrNotReady instead of reporting a key as unknown; see Open.
package keys
