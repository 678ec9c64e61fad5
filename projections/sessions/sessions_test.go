package sessions_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/domain/signin"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
	"letterhead/projections/sessions"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func hash(session string) [sha256.Size]byte { return sha256.Sum256([]byte(session)) }

func signedIn(session, person string, at time.Time) eventschemas.SignedIn {
	sum := hash(session)
	return eventschemas.SignedIn{SessionID: session, LinkID: "of " + session, Hash: hex.EncodeToString(sum[:]), Person: person, ExpiresAt: at.Add(signin.SessionLifetime)}
}

func TestByHash_Session_IsFoundUntilItEnds(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := sessions.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		open := func(at time.Time, want ...string) {
			t.Helper()
			e.CatchUp(r)
			for _, id := range []string{"s1", "s2", "s3", "other"} {
				found, err := m.ByHash(t.Context(), hash(id), at)
				switch wanted := slices.Contains(want, id); {
				case wanted && (err != nil || found.ID != id):
					t.Errorf("session %s: %+v, %v", id, found, err)
				case !wanted && !errors.Is(err, sessions.ErrNotFound):
					t.Errorf("session %s: %+v, %v, want ErrNotFound", id, found, err)
				}
			}
			var listed []string
			for _, account := range []string{"a", "b"} {
				all := testmust.Get(m.List(t.Context(), account, at))(t)
				for _, s := range all {
					listed = append(listed, s.ID)
				}
			}
			if !slices.Equal(listed, want) {
				t.Errorf("sessions %v, want %v", listed, want)
			}
		}
		a, b := signin.Stream("a"), signin.Stream("b")
		open(start)
		e.Events(a, start, eventschemas.SignInLinkIssued{LinkID: "of s1", Hash: fmt.Sprintf("%064x", 1), Person: "owner", ExpiresAt: start.Add(signin.LinkLifetime)}, signedIn("s1", "owner", start))
		later := start.Add(time.Hour)
		e.Events(b, start, signedIn("other", "owner", start))
		e.Events(a, later, signedIn("s2", "p2", later), signedIn("s3", "p2", later))
		open(later, "s1", "s2", "s3", "other")
		if s, err := m.ByHash(t.Context(), hash("s2"), later); err != nil || *s != (signin.Session{ID: "s2", AccountID: "a", Person: "p2", StartedAt: later, ExpiresAt: later.Add(signin.SessionLifetime)}) {
			t.Errorf("session s2 is %+v, %v", s, err)
		}
		open(start.Add(signin.SessionLifetime), "s2", "s3")
		e.Events(a, later, eventschemas.SignedOut{SessionID: "s2"})
		open(later, "s1", "s3", "other")
		e.Events(a, later, eventschemas.SignedOutEverywhere{Person: "owner"})
		open(later, "s3", "other")
		e.Events(a, later, eventschemas.SignedOutEverywhere{})
		open(later, "other")
	})
}

// Sessions that have expired leave the tables when their account has a later event.
func TestFold_ExpiredSessions_AreDropped(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := sessions.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		e.Events(signin.Stream("a"), start, signedIn("s1", "owner", start))
		e.CatchUp(r)
		later := start.Add(signin.SessionLifetime)
		e.Events(signin.Stream("a"), later, signedIn("s2", "owner", later))
		e.CatchUp(r)
		// The row is gone, so a time before its end does not find it either.
		if all, err := m.List(t.Context(), "a", start); err != nil || len(all) != 1 || all[0].ID != "s2" {
			t.Errorf("sessions %+v, %v, want s2 only", all, err)
		}
	})
}

// Rule 9.
func TestByHash_TablesBehindPosition_IsNotReady(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := sessions.New(e.Store)
		r, stop := e.Start(engine.Config{}, m)
		e.Events(signin.Stream("a"), start, signedIn("s1", "owner", start))
		e.CatchUp(r)
		stop()
		end := e.Events(signin.Stream("a"), start, eventschemas.SignedOut{SessionID: "s1"})
		m.Open(end)
		if s, err := m.ByHash(t.Context(), hash("s1"), start); !errors.Is(err, projections.ErrNotReady) {
			t.Errorf("before the end is folded: %+v, %v, want ErrNotReady", s, err)
		}
		restarted := sessions.New(e.Store)
		restarted.Open(end)
		r, _ = e.Start(engine.Config{}, restarted)
		e.CatchUp(r)
		if s, err := restarted.ByHash(t.Context(), hash("s1"), start); !errors.Is(err, sessions.ErrNotFound) {
			t.Errorf("after it: %+v, %v, want ErrNotFound", s, err)
		}
	})
}

// TestByHash_TablesReplacedByAnotherNode_SeesSignOut reads on a node that never hears of the other tables by itself. Its
// old tables still exist, and are not folded any more.
// Rule 9.
func TestByHash_TablesReplacedByAnotherNode_SeesSignOut(t *testing.T) {
	e := projectionstest.OpenPostgres(t)
	leader := sessions.New(e.Store)
	r, _ := e.Start(engine.Config{}, leader)
	e.Events(signin.Stream("a"), start, signedIn("s1", "owner", start))
	e.CatchUp(r)
	n := e.Node()
	follower := sessions.New(n.Store)
	testmust.Succeed(t, n.New(engine.Config{FollowOnly: true}, follower).Start(t.Context()))
	testmust.Succeed(t, testmust.Err(follower.ByHash(t.Context(), hash("s1"), start)))
	testmust.Succeed(t, r.Rebuild(e.Context(), []string{sessions.Name}, func(engine.Progress) {}))
	e.Events(signin.Stream("a"), start, eventschemas.SignedOut{SessionID: "s1"})
	e.CatchUp(r)
	if s, err := follower.ByHash(t.Context(), hash("s1"), start); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("on the other node: %+v, %v, want ErrNotFound", s, err)
	}
}

// TestSessions_RandomHistory_AreThoseOfTheDomain compares the read model with the state that decides.
func TestSessions_RandomHistory_AreThoseOfTheDomain(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := sessions.New(e.Store)
		r, _ := e.Start(engine.Config{BatchEvents: 37}, m)
		world := projectionstest.NewWorld(11, 5, 3, 10*time.Minute)
		states := map[string]*signin.State{}
		var ids []string
		var last time.Time
		for range 3000 {
			g := world.Next()
			accountID, ok := strings.CutPrefix(g.Stream, eventschemas.SignInsPrefix)
			if !ok {
				continue
			}
			e.Append(g)
			if states[accountID] == nil {
				states[accountID] = signin.New(accountID)
			}
			for _, ev := range g.Events {
				states[accountID].Apply(ev, g.At)
				if in, ok := ev.(eventschemas.SignedIn); ok {
					ids = append(ids, in.SessionID)
				}
			}
			last = g.At
		}
		e.CatchUp(r)
		open := 0
		for accountID, state := range states {
			var want []signin.Session
			for _, id := range ids {
				if s, ok := state.Session(id, last); ok {
					want = append(want, s)
				}
			}
			got, err := m.List(t.Context(), accountID, last)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("account %s has %+v, %v, want %+v", accountID, got, err, want)
			}
			open += len(got)
		}
		if open == 0 {
			t.Error("no session is open at the end of the history")
		}
	})
}
