// Package usage counts what an account uses in a calendar month (UTC) and costs no credit, against the
// plan's allowance.
//
// A Counter is folded from one stream, usage-<account>-<YYYYMM>. Its only decision, Count, returns the
// event to append or a refusal and never changes the Counter. Nothing here reads a clock or touches a
// disk. Logos and the last use of keys are recorded on node streams without a decision, because they never
// refuse a request on their own.
package usage
