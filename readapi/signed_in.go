package readapi

import "context"

type signedInKey struct{}

// SignedIn returns a context for requests that this process sends to the API for a person who has signed in to the account of
// caller. The API serves them like those with the caller's key, without one.
func SignedIn(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, signedInKey{}, caller)
}

// signedIn returns the caller of a request that SignedIn marks.
func signedIn(ctx context.Context) (Caller, bool) {
	caller, ok := ctx.Value(signedInKey{}).(Caller)
	return caller, ok
}
