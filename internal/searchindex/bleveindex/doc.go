// Package bleveindex is the embedded search index: Bleve in one folder, no server.
//
// The folder holds generations side by side and a file CURRENT that names the one that answers; replacing
// that file is the swap at the end of a rebuild. Bleve memory-maps its files, so that a damaged one would
// not end in an error but in a crash. Therefore Close leaves a list of checksums beside the generation, Open
// compares it, and after a crash, when there is no list, Open checks Bleve's own checksum of each file. A
// generation that does not pass is dropped and an empty one begun: everything in it comes from the log and
// is fed again.
//
// Candidates come from exact terms, beginnings (edge n-grams, so that a beginning costs one term whatever
// the number of brands) and Levenshtein automata; searchindex.Rank puts them in order.
package bleveindex
