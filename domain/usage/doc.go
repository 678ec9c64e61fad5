// Package usage counts an account's usage that costs no credits in a calendar month (UTC), against the
// plan's allowance.
//
// A Counter is folded from one stream, usage-<account>-<YYYYMM>. Its decisions, CheckSearch and
// CheckLogo, never change the Counter. The package does not read a clock or access a disk. The number
// of logo requests and the last use of keys are recorded on node streams without a decision.
package usage
