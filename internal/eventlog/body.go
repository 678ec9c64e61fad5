package eventlog

// Body is the decoded body of an event: a struct of its type, by value. It is an alias, so that schemas can implement
// the functions that read and write bodies without importing this package.
type Body = interface{ EventType() string }

// Encoded is the body of an event in its stored form.
type Encoded = struct {
	Type          string
	SchemaVersion int
	Data          []byte
}
