// Package proof is the format of ledger proofs and their verification, without access to a log or a network.
// docs/proofs.md describes it.
//
// A checkpoint of the ledger is a Merkle tree of the heads of all account streams. Its root is a leaf of a second
// Merkle tree, the log of checkpoints, which only grows and whose root is signed. Both are Merkle trees as in RFC 6962,
// and the signed text is a checkpoint as C2SP specifies it (https://c2sp.org/tlog-checkpoint).
//
// A proof leads from the signed root to the events of one account. Except for the first three lines, the signed
// checkpoints, the consistency proof and the number of the leaf, each line is determined by lines above it and by the
// key, so that the first changed line can be named.
package proof
