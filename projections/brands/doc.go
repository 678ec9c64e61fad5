// Package brands is the read model of brands: for each registrable domain the JSON that the API
// answers, complete except for the base URL, and the folded state for the next event.
//
// Answers come from a cache with a limit in bytes. The fold invalidates a brand in it after the commit
// that changed it; a body that was read from the tables before and is put into the cache afterwards is
// refused.
package brands
