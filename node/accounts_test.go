package node

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/domain/operator"
	"letterhead/domain/plan"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
	"letterhead/internal/repeats"
)

// leaving is a log whose next append is stored, but its caller leaves and does not get the outcome.
type leaving struct {
	eventlog.Log
	eventlog.Prober
	leave atomic.Pointer[context.CancelFunc]
}

func (l *leaving) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	appended, err := l.Log.Append(ctx, stream, expected, events)
	if leave := l.leave.Swap(nil); leave != nil && err == nil {
		(*leave)()
		return eventlog.Appended{}, eventlog.ErrAmbiguous
	}
	return appended, err
}

// The repeat of a request whose outcome was unknown stores its name, but never one that was erased.
func TestNames_OutcomeUnknown_RepeatStoresThemUntilTheyAreErased(t *testing.T) {
	log := &leaving{}
	n := openNodeOf(t, Parts{Log: func(l eventlog.Log) eventlog.Log { log.Log, log.Prober = l, eventlog.Probe(l); return log }})
	if err := n.Runner.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	opening, issuing, byToken := n.Operator(), n.Operator(), n.Operator()
	account := derivedID(opening, "account")
	named := map[string]struct {
		id     string
		repeat func(context.Context) error
	}{
		"Jane Doe": {derivedID(opening, "holder"), func(ctx context.Context) error {
			_, err := n.CreateAccount(ctx, opening, "Jane Doe", plan.Free)
			return err
		}},
		"Jane's key": {derivedID(issuing, "key/secret"), func(ctx context.Context) error {
			_, err := n.IssueKey(ctx, issuing, account, NewKey{Kind: apikey.Secret, Name: "Jane's key"})
			return err
		}},
		"Jane's token": {derivedID(byToken, "token"), func(ctx context.Context) error {
			_, err := n.IssueToken(ctx, byToken, "Jane's token", operator.Read, time.Time{})
			return err
		}},
	}
	stored := func(name string) string {
		t.Helper()
		names, err := n.Names.Names(t.Context(), named[name].id)
		if err != nil {
			t.Fatal(err)
		}
		return names[named[name].id]
	}
	for _, name := range []string{"Jane Doe", "Jane's key", "Jane's token"} {
		ctx, leave := context.WithCancel(t.Context())
		log.leave.Store(&leave)
		if err := named[name].repeat(ctx); err == nil || stored(name) != "" {
			t.Fatalf("%s: error %v and name %q although the caller has left", name, err, stored(name))
		}
		for range 2 {
			if err := named[name].repeat(t.Context()); err != nil || stored(name) != name {
				t.Errorf("%s: after a repeat: error %v, name %q", name, err, stored(name))
			}
		}
	}
	if err := n.Runner.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.CloseAccount(t.Context(), n.Operator(), account); err != nil {
		t.Fatal(err)
	}
	token := named["Jane's token"].id
	if _, err := n.RevokeToken(t.Context(), n.Operator(), token); err != nil {
		t.Fatal(err)
	}
	if err := n.Names.Erase(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	for name, of := range named {
		err := of.repeat(t.Context())
		if got := stored(name); got != "" {
			t.Errorf("%s: the repeat (%v) stored the name %q that was erased", name, err, got)
		}
	}
}

// A backup that is restored without erased names may have accounts, keys and tokens that are still in use. The repeat of
// a request stores no name once its answer is no longer remembered.
func TestNames_ErasedFromWhatIsInUse_LateRepeatDoesNotStoreThem(t *testing.T) {
	var later atomic.Int64
	n := openNodeOf(t, Parts{Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	if err := n.Runner.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	opening, issuing, byToken := n.Operator(), n.Operator(), n.Operator()
	request := func() {
		t.Helper()
		created, err := n.CreateAccount(t.Context(), opening, "Jane Doe", plan.Free)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.IssueKey(t.Context(), issuing, created.Account.ID, NewKey{Kind: apikey.Secret, Name: "Jane's key"}); err != nil {
			t.Fatal(err)
		}
		if _, err := n.IssueToken(t.Context(), byToken, "Jane's token", operator.Read, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	ids := []string{derivedID(opening, "holder"), derivedID(issuing, "key/secret"), derivedID(byToken, "token")}
	stored := func() map[string]string {
		t.Helper()
		names, err := n.Names.Names(t.Context(), ids...)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	request()
	if names := stored(); len(names) != len(ids) {
		t.Fatalf("names %v, want %d", names, len(ids))
	}
	for _, id := range ids {
		if err := n.Names.Erase(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	later.Add(int64(repeats.Window + time.Second))
	request()
	if names := stored(); len(names) > 0 {
		t.Errorf("a late repeat stored %v", names)
	}
}
