// Package elastic is the search index that several nodes share: an Elasticsearch cluster, version 8.
//
// # Names
//
// With the alias "brands" and mapping version 1 the cluster contains:
//
//	brands_v1              alias    the live generation; every read goes through it
//	brands_v1_g000007_…    index    one generation; the very first has no random suffix
//	brands_v1_g…_b_…       alias    of a generation that is being built
//	brands_v1_g…_w_…       alias    of a writable generation; every write goes through it
//	brands_v1_g…_f_…       alias    of a frozen generation, in place of the write alias
//	brands_v1              template common settings of all generations
//
// Writes require that their name is an alias, so that no write ever creates an index: neither under the alias's name
// nor under the name of a generation that was just dropped. The random suffix of an alias distinguishes the periods in
// which a generation is writable; the random suffix of an index prevents a late request for a dropped generation from
// affecting another. Nodes of another mapping version use a different alias and different generations, so that two
// releases can run at the same time; the operator deletes the indices of versions that are no longer used.
//
// # Writing
//
// A document's external version is its log position; a conflict means that the index holds a newer one, and counts as
// success. The checkpoint is a separate document with its value as external version: it only grows, is written after
// its documents were refreshed, and always to the generation that received these documents. So any number of writers,
// including a former leader, maintain one invariant in each generation: all changes of brands in the log up to the
// checkpoint are in the index and searchable. A withdrawn brand leaves a tombstone, because Elasticsearch forgets the
// version of a deleted document after index.gc_deletes.
//
// # The log of an index
//
// The document ~log names the log of a generation. A rebuild writes it first, and it never changes: a writer reads it
// when it binds to the generation, and each search asks for it in the same request. The checkpoint's document names an
// event before it. The mapping's _meta has neither, because nodes of release 0.1.0 reject one that they do not know.
//
// # Rebuilding
//
// Freeze atomically removes the write alias from the live generation and then sets a write block, whose response means
// that all running writes have ended. Its checkpoint is then final. Publish moves the read alias, but only if the
// generation is still frozen by the same rebuild. In the same step it removes the build alias from its own generation.
// To delete a generation that is being built, because its rebuild is over or void, a node first removes this alias, and
// spares the generation if the alias is missing: so when a Publish and a Discard, or two rebuilds, race, one loses and
// does nothing. A writer that finds a generation frozen for longer than half a minute thaws it; the rebuild, if it is
// still alive, then fails.
//
// # Searching
//
// The search terms of a brand are computed in Go, by the parent package, for both adapters alike,
// including letter folding and parts of domains; the index's analyzer only creates the edge n-grams.
// Candidates come from term and fuzzy queries without scores, and searchindex.Rank orders them.
package elastic
