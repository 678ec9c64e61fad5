package commands

import (
	"errors"
	"sync"
	"testing"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/billing"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

func TestRecordFailedPayment_EachAttemptOnce(t *testing.T) {
	w, n, id := noticesOf(t, eventschemas.Encoder{})
	testmust.Succeed(t, testmust.Err(n.accounts.GrantCredits(t.Context(), GrantCredits{Request: w.request(), AccountID: id, Kind: account.KindTopup, Credits: 5, PaymentID: "paid"})))
	record := func(payment string, attempt, second int64) string {
		t.Helper()
		failed := eventschemas.PaymentFailed{PaymentID: payment, Attempt: attempt, FailedAt: time.Unix(1_795_000_000+second, 0)}
		useless := testmust.Get(n.RecordFailedPayment(t.Context(), RecordFailedPayment{Request: w.request(), AccountID: id, Failed: failed}))(t)
		return useless
	}
	for i, s := range []struct {
		payment         string
		attempt, second int64
		events          int // after it
		useless         string
	}{
		{"in_1", 1, 0, 1, ""}, {"in_1", 1, 9, 1, ""}, {"in_1", 3, 2, 2, ""}, {"in_1", 2, 1, 2, billing.LaterAttempt}, {"in_1", 4, 1, 3, ""}, {"in_2", 1, 0, 4, ""},
		{"pi_1", 0, 5, 5, ""}, {"pi_1", 0, 5, 5, ""}, {"pi_1", 0, 6, 6, ""}, {"pi_1", 0, 4, 6, billing.LaterAttempt}, {"paid", 1, 0, 6, billing.GrantedBefore},
	} {
		if useless := record(s.payment, s.attempt, s.second); useless != s.useless {
			t.Errorf("step %d, attempt %d of %s: %q, want %q", i, s.attempt, s.payment, useless, s.useless)
		}
		if events := onStream(w, id); len(events) != s.events {
			t.Errorf("step %d: %d events, want %d", i, len(events), s.events)
		}
	}
	if _, err := n.RecordFailedPayment(t.Context(), RecordFailedPayment{Request: w.request(), AccountID: "none"}); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("of an account that does not exist: %v, want %v", err, account.ErrNotFound)
	}
	testmust.Succeed(t, testmust.Err(n.accounts.Close(t.Context(), CloseAccount{Request: w.request(), AccountID: id, Reason: "test"})))
	if useless := record("in_3", 1, 0); useless != billing.AccountClosed || len(onStream(w, id)) != 6 {
		t.Errorf("of a closed account: %q, %d events, want no more", useless, len(onStream(w, id)))
	}
}

// Two workers may apply the report of the same attempt at the same time.
func TestRecordFailedPayment_SameAttemptAtTheSameTime_IsRecordedOnce(t *testing.T) {
	w, n, id := noticesOf(t, eventschemas.Encoder{})
	var all sync.WaitGroup
	for range 8 {
		in := RecordFailedPayment{Request: w.request(), AccountID: id, Failed: eventschemas.PaymentFailed{PaymentID: "in_1", Attempt: 1}}
		all.Go(func() {
			if useless, err := n.RecordFailedPayment(t.Context(), in); err != nil || useless != "" {
				t.Errorf("%q, %v", useless, err)
			}
		})
	}
	all.Wait()
	if events := onStream(w, id); len(events) != 1 {
		t.Errorf("events %+v, want one", events)
	}
}
