package account

import (
	"strings"
	"testing"

	"letterhead/eventschemas"
)

// Events cannot be erased, so no text of an operator may name a person by an address.
// Rule 13.
func TestTextsOfOperators_EmailAddress_IsRefused(t *testing.T) {
	const address = "asked by ann@example.com"
	closed := eventschemas.AccountClosed{Reason: "operator"}
	for name, c := range map[string]struct {
		field string
		given []eventschemas.Event
		do    command
	}{
		"note":    {"text", nil, deciding(func(a *Account) (Outcome, error) { return a.Note("n1", address) })},
		"suspend": {"reason", nil, deciding(func(a *Account) (Outcome, error) { return a.Suspend(address) })},
		"close":   {"reason", nil, deciding(func(a *Account) (Outcome, error) { return a.Close(address) })},
		"grant": {"reason", nil, deciding(func(a *Account) (Outcome, error) {
			return a.Grant(Grant{GrantID: "g1", Kind: KindAdjustment, Credits: 1, Reason: address})
		})},
		"breakage": {"policy", []eventschemas.Event{granted(1), closed}, breakage(address)},
	} {
		t.Run(name, func(t *testing.T) {
			s := given(t, append([]eventschemas.Event{opened}, c.given...)...).when(c.do).rejected(ErrInvalid)
			want := c.field + " holds an e-mail address. Events are permanent"
			if !strings.Contains(s.err.Error(), want) {
				t.Errorf("the error is %q, want %q in it", s.err, want)
			}
		})
	}
}

// Texts that earlier releases accepted are folded, and repeating the command changes nothing.
func TestTextsOfOperators_RecordedEmailAddress_IsRepeated(t *testing.T) {
	const address = "asked by ann@example.com"
	given(t, opened, eventschemas.AccountNoted{NoteID: "n1", Text: address}).
		when(deciding(func(a *Account) (Outcome, error) { return a.Note("n1", address) })).isRepeated()
	given(t, opened, eventschemas.AccountSuspended{Reason: address}).
		when(deciding(func(a *Account) (Outcome, error) { return a.Suspend(address) })).isRepeated()
	given(t, opened, eventschemas.AccountClosed{Reason: address}).
		when(deciding(func(a *Account) (Outcome, error) { return a.Close(address) })).isRepeated()
	given(t, opened, eventschemas.CreditsGranted{GrantID: "g1", Kind: KindAdjustment, Credits: 1, Reason: address}).
		when(deciding(func(a *Account) (Outcome, error) {
			return a.Grant(Grant{GrantID: "g1", Kind: KindAdjustment, Credits: 1, Reason: address})
		})).isRepeated().balance(1, 0)
}

func deciding(decide func(*Account) (Outcome, error)) command {
	return func(s *scene) { s.out, s.err = decide(s.account) }
}
