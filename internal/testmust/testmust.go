// Package testmust ends tests whose preparation fails.
package testmust

// T is a test: *testing.T, *testing.B, testing.TB or *rapid.T.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Succeed ends the test if err is not nil.
func Succeed(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Err returns the error of a call whose value is not needed.
func Err[V any](_ V, err error) error { return err }

// Get returns a function that returns v, and ends the test if err is not nil: testmust.Get(os.ReadFile(name))(t).
func Get[V any](v V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		Succeed(t, err)
		return v
	}
}
