package account

import (
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// This test fails for a new event type with credits until the table contains its effect on the balance.
func TestDelta_EveryEventType_MovesTheBalanceOfTheFold(t *testing.T) {
	want := map[string]int64{
		"CreditsGranted": 7, "CreditsCharged": -7, "ChargeReversed": 7, "PaymentRefunded": -7, "BreakageRecognized": -7, "RefundReversed": 7,
		"CreditsHeld": 0, "HoldReleased": 0, // held credits are still the account's
		"BillingReported": 0, // what was paid for; the grant follows
	}
	for _, name := range eventschemas.Types() {
		with := testmust.Get(eventschemas.Decode(name, eventschemas.Current().Version(name), []byte(`{"credits":7}`)))(t)
		without := testmust.Get(eventschemas.Decode(name, eventschemas.Current().Version(name), []byte(`{}`)))(t)
		moves, known := want[name]
		if hasCredits := !jsonEqual(t, with, without); hasCredits != known {
			t.Errorf("%s: has credits = %t, in the table = %t", name, hasCredits, known)
		}
		if got := Delta(with); got != moves {
			t.Errorf("Delta of %s = %d, want %d", name, got, moves)
		}
		a := New("1d4c1c3e-1a3c-4f6e-9d43-2f6f7c1f9a10")
		a.Apply(with, time.Unix(0, 0))
		if a.Balance() != moves {
			t.Errorf("the balance after %s is %d, want %d", name, a.Balance(), moves)
		}
	}
}

func jsonEqual(t *testing.T, a, b eventschemas.Event) bool {
	t.Helper()
	one := testmust.Get(eventschemas.Encode(a))(t)
	other := testmust.Get(eventschemas.Encode(b))(t)
	return string(one.Data) == string(other.Data)
}
