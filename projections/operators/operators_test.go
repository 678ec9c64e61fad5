package operators_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/projections"
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
		testmust.Succeed(t, err)
		if token.ID != "a" || token.Scope != operator.Finance || !token.IssuedAt.Equal(at) || !token.Valid(at) || token.Valid(ends) {
			t.Errorf("issued: %+v", token)
		}
		e.Events(eventschemas.OperatorsStream, at.Add(time.Minute), eventschemas.OperatorTokenRevoked{TokenID: "a"})
		e.CatchUp(r)
		if token, err = m.ByHash(t.Context(), hash); err != nil || token.Valid(at) || !token.RevokedAt.Equal(at.Add(time.Minute)) {
			t.Errorf("revoked: %+v, %v", token, err)
		}
	})
}

func TestList_States_ArePagedNewestFirst(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := operators.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		ends := at.Add(time.Hour)
		for i, id := range []string{"e", "d", "c", "b", "a"} { // b and a are issued at the same time
			hash := sha256.Sum256([]byte(id))
			body := eventschemas.OperatorTokenIssued{TokenID: id, Hash: hex.EncodeToString(hash[:]), Last4: "9c0Z", Scope: "read"}
			if id == "c" || id == "d" {
				body.ExpiresAt = &ends
			}
			e.Events(eventschemas.OperatorsStream, at.Add(time.Duration(min(i, 3))*time.Second), body)
		}
		for _, id := range []string{"b", "d"} {
			e.Events(eventschemas.OperatorsStream, at.Add(time.Minute), eventschemas.OperatorTokenRevoked{TokenID: id})
		}
		e.CatchUp(r)
		for _, c := range []struct {
			state operators.State
			at    time.Time
			want  string
		}{
			{"", ends, "bacde"},
			{operators.Active, at, "ace"},
			{operators.Active, ends, "ae"},
			{operators.Expired, at, ""},
			{operators.Expired, ends, "c"},
			{operators.Revoked, at, "bd"},
			{operators.Ended, at, "bd"},
			{operators.Ended, ends, "bcd"},
		} {
			for _, limit := range []int{1, 2, 10} {
				got, before := "", ""
				for {
					page, err := m.List(t.Context(), operators.Selection{State: c.state, At: c.at, Before: before}, limit)
					if err != nil || len(page) > limit {
						t.Fatalf("%d tokens, %v", len(page), err)
					}
					for _, token := range page {
						got += token.ID
						before = token.ID
						if state := token.State(c.at); c.state != "" && c.state != operators.Ended && state != c.state {
							t.Errorf("the state of %s is %s, want %s", token.ID, state, c.state)
						}
					}
					if len(page) < limit {
						break
					}
				}
				if got != c.want {
					t.Errorf("tokens that are %q, %d at a time: %q, want %q", c.state, limit, got, c.want)
				}
			}
		}
		if page, err := m.List(t.Context(), operators.Selection{Before: "unknown"}, 10); !errors.Is(err, operators.ErrNotFound) {
			t.Errorf("before an unknown token: %d, %v, want %v", len(page), err, operators.ErrNotFound)
		}
		if token, found, err := m.Get(t.Context(), "d"); err != nil || !found || token.RevokedAt.IsZero() {
			t.Errorf("get: %+v, %t, %v", token, found, err)
		}
		if _, found, err := m.Get(t.Context(), "unknown"); err != nil || found {
			t.Errorf("get an unknown token: %t, %v", found, err)
		}
	})
}

func issued(id string, hash [sha256.Size]byte) eventschemas.Event {
	return eventschemas.OperatorTokenIssued{TokenID: id, Hash: hex.EncodeToString(hash[:]), Last4: "9c0Z", Scope: "admin"}
}

// TestByHash_TablesReplacedByAnotherNode_SeesRevocation reads on a node that never hears of the other tables by itself. Its
// old tables still exist, and are not folded any more.
// Rule 9.
func TestByHash_TablesReplacedByAnotherNode_SeesRevocation(t *testing.T) {
	e := projectionstest.OpenPostgres(t)
	r, _ := e.Start(engine.Config{}, operators.New(e.Store))
	hash := sha256.Sum256([]byte("token"))
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	e.Events(eventschemas.OperatorsStream, at, issued("a", hash))
	e.CatchUp(r)
	n := e.Node()
	follower := operators.New(n.Store)
	testmust.Succeed(t, n.New(engine.Config{FollowOnly: true}, follower).Start(t.Context()))
	if token, err := follower.ByHash(t.Context(), hash); err != nil || !token.Valid(at) {
		t.Fatalf("%+v, %v", token, err)
	}
	testmust.Succeed(t, r.Rebuild(e.Context(), []string{operators.Name}, func(engine.Progress) {}))
	e.Events(eventschemas.OperatorsStream, at, eventschemas.OperatorTokenRevoked{TokenID: "a"})
	e.CatchUp(r)
	if token, err := follower.ByHash(t.Context(), hash); err != nil || token.Valid(at) {
		t.Errorf("on the other node: %+v, %v, want a revoked token", token, err)
	}
}

// Rule 9.
func TestByHash_TablesBehindPosition_IsNotReady(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := operators.New(e.Store)
		r, stop := e.Start(engine.Config{}, m)
		hash := sha256.Sum256([]byte("token"))
		at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		e.Events(eventschemas.OperatorsStream, at, issued("a", hash))
		e.CatchUp(r)
		stop()
		end := e.Events(eventschemas.OperatorsStream, at, eventschemas.OperatorTokenRevoked{TokenID: "a"})
		m.Open(end)
		if token, err := m.ByHash(t.Context(), hash); !errors.Is(err, projections.ErrNotReady) {
			t.Errorf("before the revocation is folded: %+v, %v, want ErrNotReady", token, err)
		}
		restarted := operators.New(e.Store)
		restarted.Open(end)
		r, _ = e.Start(engine.Config{}, restarted)
		e.CatchUp(r)
		if token, err := restarted.ByHash(t.Context(), hash); err != nil || token.Valid(at) {
			t.Errorf("after it: %+v, %v, want a revoked token", token, err)
		}
	})
}
