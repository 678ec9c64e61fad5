// Package checkpoint makes checkpoints of the ledger, and proofs from them. docs/proofs.md and decision 26 describe
// both; package domain/proof has the trees and the format of a proof.
package checkpoint
