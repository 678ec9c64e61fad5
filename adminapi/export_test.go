package adminapi

// Operation is an operation of the table, for tests.
type Operation struct{ Method, Path, Name string }

// AllOperations returns the table.
func AllOperations() []Operation {
	var all []Operation
	for _, o := range table() {
		all = append(all, Operation{o.method, o.path, o.name})
	}
	return all
}
