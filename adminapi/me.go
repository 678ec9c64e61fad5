package adminapi

import (
	"net/http"

	"letterhead/operations"
	"letterhead/projections/operators"
)

func (x *exchange) getOwnToken() error {
	names, err := x.api.Names.Names(x.ctx, x.token.ID)
	if err != nil {
		return err
	}
	own := operations.Token{ID: x.token.ID, Name: names[x.token.ID], Scope: x.token.Scope, Last4: x.token.Last4,
		State: operators.Active, IssuedAt: x.token.IssuedAt, ExpiresAt: x.token.ExpiresAt}
	return x.answer(http.StatusOK, map[string]any{"token": own, "permissions": granted[x.token.Scope]})
}

func (x *exchange) revokeOwnToken() error { return x.revoke(x.token.ID, false) }
