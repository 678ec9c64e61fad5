package operators_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/projections/engine"
	"letterhead/projections/operators"
	"letterhead/projections/projectionstest"
)

func TestByHash_Token_IsValidUntilRevokedOrExpired(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := operators.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		hash := sha256.Sum256([]byte("token"))
		at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		ends := at.Add(time.Hour)
		e.CatchUp(r)
		if _, err := m.ByHash(t.Context(), hash); !errors.Is(err, operators.ErrNotFound) {
			t.Errorf("before it is issued: %v, want ErrNotFound", err)
		}
		e.Events(eventschemas.OperatorsStream, at, eventschemas.OperatorTokenIssued{TokenID: "a", Hash: hex.EncodeToString(hash[:]), Last4: "9c0Z", Scope: "finance", ExpiresAt: &ends})
		e.CatchUp(r)
		token, err := m.ByHash(t.Context(), hash)
		if err != nil {
			t.Fatal(err)
		}
		if token.ID != "a" || token.Scope != operator.Finance || !token.IssuedAt.Equal(at) || !token.Valid(at) || token.Valid(ends) {
			t.Errorf("issued: %+v", token)
		}
		e.Events(eventschemas.OperatorsStream, at.Add(time.Minute), eventschemas.OperatorTokenRevoked{TokenID: "a"})
		e.CatchUp(r)
		if token, err = m.ByHash(t.Context(), hash); err != nil || token.Valid(at) || !token.RevokedAt.Equal(at.Add(time.Minute)) {
			t.Errorf("revoked: %+v, %v", token, err)
		}
		if all, err := m.List(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("%d tokens, %v, want 1", len(all), err)
		}
	})
}
