// Package brands is the read model of brands: for each registrable domain the JSON that the API
// answers, complete except for the base URL, and the folded state for the next event.
//
// Answers come from a cache with a limit in bytes. The fold invalidates a brand's entry after the
// commit that changed the brand. The cache then rejects a body that was read before that commit.
package brands
