package readapi

import "context"

type signedInKey struct{}

// SignedIn returns a context for requests that this process sends to the API for a person who has signed in to the
// account of caller. The API serves them like those with the caller's key, without one. The answer does not go to the
// connection of the request that ctx is from.
func SignedIn(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(context.WithValue(ctx, signedInKey{}, caller), connKey{}, (*answerConn)(nil))
}

// signedIn returns the caller of a request that SignedIn marks.
func signedIn(ctx context.Context) (Caller, bool) {
	caller, ok := ctx.Value(signedInKey{}).(Caller)
	return caller, ok
}
