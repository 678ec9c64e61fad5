package adminapi

import (
	"slices"
	"strings"

	"letterhead/domain/operator"
)

// permission is what an operation requires. Each operation has one, in the table of routes.
type permission string

const (
	reading    permission = "read"    // GET, revoking the token of the request
	supporting permission = "support" // keys, login links, notices, suspension, crawls, overrides
	// grants, refunds, payments, reversals, plans, closing months, checkpoints, links, checkouts
	finances   permission = "finance"
	everything permission = "admin" // opening and closing accounts, withdrawals, rebuilds, tokens of others
)

var granted = map[operator.Scope][]permission{
	operator.Read:    {reading},
	operator.Support: {reading, supporting},
	operator.Finance: {reading, finances},
	operator.Admin:   {reading, supporting, finances, everything},
}

// allows reports whether a token with a scope may call an operation with a permission.
func allows(scope operator.Scope, p permission) bool { return slices.Contains(granted[scope], p) }

// scopesWith names the scopes that have a permission.
func scopesWith(p permission) string {
	var with []string
	for _, scope := range operator.Scopes {
		if allows(scope, p) {
			with = append(with, string(scope))
		}
	}
	return strings.Join(with, " or ")
}
