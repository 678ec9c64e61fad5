// Package bleveindex is the embedded search index: Bleve in one folder, without a server.
//
// The folder holds generations and a file CURRENT that names the live one; replacing that file is the swap at the end
// of a rebuild. Bleve memory-maps its files, so a damaged one would cause a crash instead of an error. Therefore Close
// writes a list of checksums next to the generation and Open verifies it. After a crash, when there is no list, Open
// checks Bleve's own checksum of each file. A generation that fails the check is dropped and an empty one started:
// everything in it comes from the log and is fed again.
//
// Candidates come from exact terms, prefixes (edge n-grams, so that a prefix costs one term whatever
// the number of brands) and Levenshtein automata; searchindex.Rank orders them.
package bleveindex
