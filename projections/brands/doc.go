// Package brands is the read model of brands: for each registrable domain the JSON that the API answers,
// ready but for the base URL, with the folded state that the next event changes.
//
// Answers come from a cache that is bounded by bytes. The fold invalidates a brand in it after the commit
// that changed it; a body that was read from the tables before, and put into the cache after, is refused.
package brands
