// Package elastic is the search index that several nodes share: an Elasticsearch cluster, version 8.
//
// # Names
//
// With the alias "brands" and mapping version 1 there are, in the cluster:
//
//	brands_v1              alias    the generation that answers; every read goes through it
//	brands_v1_g000007_…    index    one generation; the very first has no random end
//	brands_v1_g…_b_…       alias    of a generation that is being built
//	brands_v1_g…_w_…       alias    of a generation that takes writes; every write goes through it
//	brands_v1_g…_f_…       alias    of a frozen generation, in place of the former
//	brands_v1              template what all generations have in common
//
// Writes require that their name is an alias, so that no write ever makes an index: neither under the alias's
// name nor under that of a generation that was dropped a moment ago. The random end of an alias tells one
// time that a generation takes writes from the next; that of an index keeps a late request for one that is
// gone from meaning another. Nodes of another mapping version have an alias and
// generations of their own beside these, so that two releases run side by side; the indices of a version
// that nobody runs any more are for the operator to delete.
//
// # Writing
//
// A document's external version is its log position; a conflict means that the index holds a newer one, and
// is a success. The checkpoint is a document of its own with itself as external version: it only grows, is
// written after its documents were refreshed, and always to the generation that got these documents. So any
// number of writers, a former leader among them, keep one promise in each generation: what the log said of
// brands up to the checkpoint is in, and found. A brand that was withdrawn leaves a tombstone, because
// Elasticsearch forgets the version of a deleted document after index.gc_deletes.
//
// # Rebuilding
//
// Freeze takes the write alias from the generation that answers, in one step, and then sets a write block,
// whose answer means that all writes under way have ended. Its checkpoint is then final. Publish moves the
// reading alias, and only if the generation is still frozen by the same rebuild. In the same step it takes the
// alias of those that are being built from its own. Whoever wants to delete a generation that is being built,
// because its rebuild is over or void, takes this alias first, and spares the generation when it is not there:
// so of a Publish and a Discard that race, and of two rebuilds, one loses and does nothing. A writer that finds a
// generation frozen for longer than half a minute thaws it; the rebuild, should it still live, then fails.
//
// # Searching
//
// What a brand is found by is computed in Go, by the parent package, for both adapters alike, letter folding
// and parts of domains included; the index's analyzer makes the edge n-grams. Candidates come from term and
// fuzzy queries without scores, and searchindex.Rank puts them in order.
package elastic
