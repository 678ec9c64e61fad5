package operations_test

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
	"letterhead/internal/testmust"
	"letterhead/node"
	"letterhead/operations"
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
	n := openNodeOf(t, node.Parts{Log: func(l eventlog.Log) eventlog.Log { log.Log, log.Prober = l, eventlog.Probe(l); return log }})
	testmust.Succeed(t, n.Runner.CatchUp(t.Context()))
	opening, issuing, byToken := n.Operator(), n.Operator(), n.Operator()
	account := operations.DerivedID(opening, "account")
	named := map[string]struct {
		id     string
		repeat func(context.Context) error
	}{
		"Jane Doe": {operations.DerivedID(opening, "holder"), func(ctx context.Context) error {
			_, err := n.Operations.Accounts.Create(ctx, opening, "Jane Doe", plan.Free)
			return err
		}},
		"Jane's key": {operations.DerivedID(issuing, "key/secret"), func(ctx context.Context) error {
			_, err := n.Operations.Accounts.IssueKey(ctx, issuing, account, operations.NewKey{Kind: apikey.Secret, Name: "Jane's key"})
			return err
		}},
		"Jane's token": {operations.DerivedID(byToken, "token"), func(ctx context.Context) error {
			_, err := n.Operations.Tokens.Issue(ctx, byToken, "Jane's token", operator.Read, time.Time{})
			return err
		}},
	}
	stored := func(name string) string {
		t.Helper()
		names := testmust.Get(n.Stores.Names.Names(t.Context(), named[name].id))(t)
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
	testmust.Succeed(t, n.Runner.CatchUp(t.Context()))
	testmust.Succeed(t, testmust.Err(n.Operations.Accounts.Close(t.Context(), n.Operator(), account)))
	token := named["Jane's token"].id
	testmust.Succeed(t, testmust.Err(n.Operations.Tokens.Revoke(t.Context(), n.Operator(), token)))
	testmust.Succeed(t, n.Stores.Names.Erase(t.Context(), token))
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
	n := openNodeOf(t, node.Parts{Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	testmust.Succeed(t, n.Runner.CatchUp(t.Context()))
	opening, issuing, byToken := n.Operator(), n.Operator(), n.Operator()
	request := func() {
		t.Helper()
		created := testmust.Get(n.Operations.Accounts.Create(t.Context(), opening, "Jane Doe", plan.Free))(t)
		testmust.Succeed(t, testmust.Err(n.Operations.Accounts.IssueKey(t.Context(), issuing, created.Account.ID, operations.NewKey{Kind: apikey.Secret, Name: "Jane's key"})))
		testmust.Succeed(t, testmust.Err(n.Operations.Tokens.Issue(t.Context(), byToken, "Jane's token", operator.Read, time.Time{})))
	}
	ids := []string{operations.DerivedID(opening, "holder"), operations.DerivedID(issuing, "key/secret"), operations.DerivedID(byToken, "token")}
	stored := func() map[string]string {
		t.Helper()
		names := testmust.Get(n.Stores.Names.Names(t.Context(), ids...))(t)
		return names
	}
	request()
	if names := stored(); len(names) != len(ids) {
		t.Fatalf("names %v, want %d", names, len(ids))
	}
	for _, id := range ids {
		testmust.Succeed(t, n.Stores.Names.Erase(t.Context(), id))
	}
	later.Add(int64(repeats.Window + time.Second))
	request()
	if names := stored(); len(names) > 0 {
		t.Errorf("a late repeat stored %v", names)
	}
}
