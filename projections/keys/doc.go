// Package keys is the read model of API keys. Requests ask its Directory whether a key is valid, whose it is, and on
// which plan and in what standing the account is. In one process it lies in memory.
//
// The Runner changes the Directory after the rows are committed and before WaitFor returns, so a command
// that waits for its own event (revoke, suspend, a change of plan) is in force for every request that
// begins after it was answered.
//
// Where nodes share the database, each remembers the keys that it has read, while it holds a lease that proves them
// current; otherwise it reads the row. A command then waits for all leases too (AwaitNodes).
//
// Right after the start, or when its tables were lost, the Directory may be behind what was issued and
// revoked before. It then answers projections.ErrNotReady instead of not knowing a key; see Open.
package keys
