package operator_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func issue(id, hash string) operator.Issue {
	return operator.Issue{TokenID: id, Hash: strings.Repeat(hash, 64), Last4: "9c0Z", Scope: operator.Support, Now: now}
}

// apply applies the events of a decision that must succeed, and returns how many there were.
func apply(t *testing.T, tokens *operator.Tokens, events []eventschemas.Event, err error) int {
	t.Helper()
	testmust.Succeed(t, err)
	for _, ev := range events {
		tokens.Apply(ev)
	}
	return len(events)
}

func TestTokens_Repeats_HaveNoEvents(t *testing.T) {
	tokens := operator.New()
	for i, want := range []int{1, 0} {
		events, err := tokens.Issue(issue("a", "1"))
		if got := apply(t, tokens, events, err); got != want {
			t.Errorf("issue %d: %d events, want %d", i, got, want)
		}
	}
	for i, want := range []int{1, 0} {
		events, err := tokens.Revoke("a")
		if got := apply(t, tokens, events, err); got != want {
			t.Errorf("revocation %d: %d events, want %d", i, got, want)
		}
	}
	if tokens.Events() != 2 {
		t.Errorf("%d events, want 2", tokens.Events())
	}
}

func TestTokens_BadCommand_IsRejected(t *testing.T) {
	tokens := operator.New()
	events, err := tokens.Issue(issue("a", "1"))
	apply(t, tokens, events, err)
	expired, badScope := issue("b", "2"), issue("b", "2")
	expired.ExpiresAt, badScope.Scope = now, "owner"
	for name, c := range map[string]struct {
		in   operator.Issue
		want error
	}{
		"another hash": {issue("a", "2"), operator.ErrTokenExists}, "no id": {issue("", "2"), operator.ErrInvalid},
		"expired": {expired, operator.ErrInvalid}, "scope": {badScope, operator.ErrInvalid},
	} {
		if events, err := tokens.Issue(c.in); !errors.Is(err, c.want) || len(events) > 0 {
			t.Errorf("%s: %v and %d events, want %v", name, err, len(events), c.want)
		}
	}
	if _, err := tokens.Revoke("x"); !errors.Is(err, operator.ErrUnknownToken) {
		t.Errorf("revoke an unknown token: %v", err)
	}
}

func TestTokens_Limit_DoesNotCountRevoked(t *testing.T) {
	tokens := operator.New()
	for i := range operator.MaxTokens {
		in := issue(time.Duration(i).String(), "1")
		events, err := tokens.Issue(in)
		apply(t, tokens, events, err)
	}
	if _, err := tokens.Issue(issue("more", "1")); !errors.Is(err, operator.ErrTooManyTokens) {
		t.Fatalf("one more: %v", err)
	}
	events, err := tokens.Revoke("0s")
	apply(t, tokens, events, err)
	if _, err := tokens.Issue(issue("more", "1")); err != nil {
		t.Errorf("after a revocation: %v", err)
	}
}
