// Package brand decides everything about one company's brand: when its site may be crawled, which
// record is answered, which fields are overridden, and how long a failure is remembered.
//
// A Brand is folded only from its stream, brand-<registrable domain>. Its decisions return the events
// to append, no event for a repeat, or an error; only Apply changes the Brand. The package does not
// read a clock, draw random numbers or access a disk.
//
// The package also identifies brands: ParseIdentifier and RegistrableDomain convert a caller's input
// into the domain that a stream is named after.
package brand
