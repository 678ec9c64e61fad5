package commands

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

// operatorToken returns a new token.
func operatorToken(t *testing.T) (text string, key apikey.Key) {
	t.Helper()
	text, err := apikey.Generate(apikey.Operator, rand.Reader)
	testmust.Succeed(t, err)
	if key, err = apikey.Parse(text); err != nil {
		t.Fatal(err)
	}
	return text, key
}

func operatorLink(w *world, o *Operators, scope operator.Scope) OperatorLink {
	w.Helper()
	link := testmust.Get(o.IssueLink(w.Context(), w.request(), scope))(w)
	return link
}

// Rule 13.
func TestOperatorLink_SignsInOnce(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	w := newWorld(t)
	o := NewOperators(w.log, eventschemas.Encoder{}, func() time.Time { return now })
	link := operatorLink(w, o, operator.Finance)
	if len(link.Token) != 43 || !link.ExpiresAt.Equal(now.Add(operator.LinkLifetime)) || len(link.Lapsed) > 0 {
		t.Fatalf("IssueLink: a token of %d characters until %s, lapsed %v", len(link.Token), link.ExpiresAt, link.Lapsed)
	}
	text, key := operatorToken(t)
	begun, err := o.Enter(t.Context(), "request-1", link.Token, key)
	want := OperatorSession{TokenID: link.ID, Scope: operator.Finance, ExpiresAt: now.Add(operator.SessionLifetime), Position: begun.Position}
	if err != nil || begun != want || begun.Position == 0 {
		t.Fatalf("Enter = %+v, %v; want %+v", begun, err, want)
	}
	_, other := operatorToken(t)
	if _, err := o.Enter(t.Context(), "request-2", link.Token, other); !errors.Is(err, operator.ErrLinkUsed) {
		t.Errorf("the link again: %v, want %v", err, operator.ErrLinkUsed)
	}
	events := eventsWithout(w, eventschemas.OperatorsStream, link.Token, text)
	if len(events) != 2 {
		t.Fatalf("events %+v, want two", events)
	}
	if in, ok := events[0].(eventschemas.OperatorLinkIssued); !ok || in.LinkID != link.ID || in.Hash != hashHex(link.Token) {
		t.Errorf("events %+v", events)
	}
	if in, ok := events[1].(eventschemas.OperatorTokenIssued); !ok || in.TokenID != link.ID || in.Hash != hashHex(text) {
		t.Errorf("events %+v", events)
	}
	recorded, err := w.log.ReadStream(t.Context(), eventschemas.OperatorsStream, 1, eventlog.Forward, 1)
	if err != nil || len(recorded) != 1 || recorded[0].Metadata.Actor != "operator:"+link.ID || recorded[0].Metadata.RequestID != "request-1" {
		t.Errorf("the token was issued by %+v, %v", recorded, err)
	}
	if done, err := o.RevokeToken(t.Context(), w.request(), begun.TokenID); err != nil || done.Repeated {
		t.Errorf("revoke: %+v, %v", done, err)
	}
}

func TestOperatorLink_BadInput_IsRejected(t *testing.T) {
	var ahead atomic.Int64
	w := newWorld(t)
	o := NewOperators(w.log, eventschemas.Encoder{}, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	link := operatorLink(w, o, operator.Read)
	_, key := operatorToken(t)
	for name, token := range map[string]string{"another token": strings.Repeat("A", 43), "no token": "", "a longer token": link.Token + "AA", "no base64": link.Token[1:] + "+"} {
		if _, err := o.Enter(t.Context(), "r", token, key); !errors.Is(err, operator.ErrUnknownLink) {
			t.Errorf("%s: %v, want %v", name, err, operator.ErrUnknownLink)
		}
	}
	w.fails(operator.ErrInvalid)(o.IssueLink(t.Context(), w.request(), "owner"))
	ahead.Add(int64(operator.LinkLifetime))
	if _, err := o.Enter(t.Context(), "r", link.Token, key); !errors.Is(err, operator.ErrLinkExpired) {
		t.Errorf("a late use: %v, want %v", err, operator.ErrLinkExpired)
	}
	if next := operatorLink(w, o, operator.Read); !slices.Equal(next.Lapsed, []string{link.ID}) {
		t.Errorf("lapsed %v, want %s", next.Lapsed, link.ID)
	}
	if events := eventsWithout(w, eventschemas.OperatorsStream); len(events) != 2 {
		t.Errorf("events %+v, want two links", events)
	}
}

// TestOperatorLink_ConcurrentUses_OneWins uses a link many times at once, on two nodes.
func TestOperatorLink_ConcurrentUses_OneWins(t *testing.T) {
	w := newWorld(t)
	nodes := []*Operators{NewOperators(w.log, eventschemas.Encoder{}, time.Now), NewOperators(w.log, eventschemas.Encoder{}, time.Now)}
	link := operatorLink(w, nodes[0], operator.Admin)
	results := make(chan error, 16)
	for i := range cap(results) {
		_, key := operatorToken(t)
		go func() {
			_, err := nodes[i%2].Enter(t.Context(), "r", link.Token, key)
			results <- err
		}()
	}
	won := 0
	for range cap(results) {
		if err := <-results; err == nil {
			won++
		} else if !errors.Is(err, operator.ErrLinkUsed) {
			t.Error(err)
		}
	}
	if events := eventsWithout(w, eventschemas.OperatorsStream); won != 1 || len(events) != 2 {
		t.Errorf("%d of %d signed in; events %+v", won, cap(results), events)
	}
}

func TestOperatorLink_OutcomeUnknown_IssuesOneToken(t *testing.T) {
	w := newWorld(t)
	o := NewOperators(w.log, eventschemas.Encoder{}, time.Now)
	var lost atomic.Bool
	w.log.set(func(f *faults) {
		f.after = func(_ sentAppend, err error) error {
			if lost.CompareAndSwap(false, true) {
				return ambiguous()
			}
			return err
		}
	})
	link := operatorLink(w, o, operator.Admin)
	if !lost.Swap(false) || link.ExpiresAt.IsZero() {
		t.Fatalf("the link expires at %s", link.ExpiresAt)
	}
	text, key := operatorToken(t)
	begun, err := o.Enter(t.Context(), "r", link.Token, key)
	events := eventsWithout(w, eventschemas.OperatorsStream)
	if err != nil || len(events) != 2 || begun.Position == 0 || begun.Scope != operator.Admin {
		t.Fatalf("Enter: %+v, %v; events %+v", begun, err, events)
	}
	if in := events[1].(eventschemas.OperatorTokenIssued); in.Hash != hashHex(text) || !begun.ExpiresAt.Equal(*in.ExpiresAt) {
		t.Errorf("the event is %+v, Enter returned %+v", in, begun)
	}
}
