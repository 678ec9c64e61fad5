// Package eventschemas holds every event that Letterhead has ever written: the Go struct of the
// current version, the JSON Schema of every version, and the upcasters between them.
//
// table.go lists the types. Encode and Decode convert between a struct and the stored bytes, Check
// verifies at startup that nothing is missing, and ValidateJSON validates bytes against their schema,
// for tests, imports and audits. ChainLink is the hash chain of every account stream.
//
// Stored events are never rewritten. To change the fields of a type, add a new version: a schema file
// under schemas/, a Change with an upcaster from the previous version, and a golden file that is kept
// forever. Events contain no personal data (names and e-mail addresses are in internal/accountnames).
// They contain no maps, so that encoding a value twice gives the same bytes.
package eventschemas
