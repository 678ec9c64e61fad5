// Package brand decides what Letterhead knows about one company's brand: when its site may be crawled,
// which record is answered, what hands have changed, and how long a failure is remembered.
//
// A Brand is folded from its stream, brand-<registrable domain>, and from nothing else. Its decisions
// return the events to append, no event for a repeat, or a refusal; they never change the Brand, only
// Apply does. Nothing here reads a clock, draws a random number or touches a disk.
//
// The package also says what a brand is called: ParseIdentifier and RegistrableDomain turn what callers
// send into the domain that a stream is named after.
package brand
