// Package adminapi is the HTTP API of operators: what the command line does, on an address of its own. openapi.yaml
// describes it. Callers send a token; the scope of the token decides which operations it may call (see scopes.go).
// Actions are commands of package commands, whose events name the token as their actor.
package adminapi
