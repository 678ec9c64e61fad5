// Package usage counts what an account uses in a calendar month (UTC) and costs no credit, against the
// plan's allowance.
//
// A Counter is folded from one stream, usage-<account>-<YYYYMM>. Its decisions, Count for
// searches and AllotLogos, return the event to append or a refusal and never change the Counter. Nothing here reads
// a clock or touches a disk. How many logos were asked for, and the last use of keys, are recorded on node streams
// without a decision.
package usage
