// Package eventschemas holds every event that Letterhead has ever written: the Go struct of the
// current version, the JSON Schema of every version, and the upcasters between them.
//
// table.go lists the types. Encode and Decode go between a struct and the bytes a log stores, Check proves
// at start that nothing is missing, and ValidateJSON holds bytes against their schema, for tests, imports
// and audits. ChainLink is the hash chain that runs through every account stream.
//
// Events are facts and are never rewritten. A change of shape is a new version: a new schema file
// under schemas/, a Change with an upcaster from the version before, and a golden file that is kept for ever.
// No event holds personal data (names and e-mail addresses live in internal/holders) and no event
// holds a map, so that encoding a value twice gives the same bytes.
package eventschemas
