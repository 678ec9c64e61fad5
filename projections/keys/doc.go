// Package keys is the read model of API keys. Requests ask its Directory, which lies in memory: whether a
// key is valid, whose it is, and on which plan and in what standing the account is.
//
// The Runner changes the Directory after the rows are committed and before WaitFor returns, so a command
// that waits for its own event (revoke, suspend, a change of plan) is in force for every request that
// begins after it was answered.
//
// Right after the start, or when its tables were lost, the Directory may be behind what was issued and
// revoked before. It then answers projections.ErrNotReady instead of not knowing a key; see Open.
package keys
