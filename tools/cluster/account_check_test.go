//go:build services

package cluster

import (
	"errors"
	"net/http"
	"testing"
)

// All other tests rely on disagreements, so it must report every kind of difference.
func TestDisagreements_EachKind_IsReported(t *testing.T) {
	answered := func(status int, id string) answer {
		return answer{status: status, header: http.Header{"X-Request-Id": {id}}}
	}
	charged := func(id string) line { return line{Type: "CreditsCharged", Amount: -1, RequestID: id} }
	reversed := func(id string) line { return line{Type: "ChargeReversed", Amount: 1, RequestID: id} }
	for _, c := range []struct {
		name   string
		ledger []line
		silent int
		wrong  int
	}{
		{"one paid, one rejected", []line{charged("paid")}, 0, 0},
		{"nothing charged", nil, 0, 1},
		{"charged twice", []line{charged("paid"), charged("paid")}, 0, 2},
		{"charged and reversed although answered", []line{charged("paid"), reversed("paid")}, 0, 1},
		{"rejected and charged", []line{charged("paid"), charged("rejected")}, 0, 1},
		{"rejected, charged and reversed", []line{charged("paid"), charged("rejected"), reversed("rejected")}, 0, 0},
		{"reversed without a charge", []line{charged("paid"), reversed("rejected")}, 0, 2},
		{"charge of an unanswered request", []line{charged("paid"), charged("silent")}, 1, 0},
		{"charge without any request", []line{charged("paid"), charged("silent"), charged("another")}, 1, 1},
	} {
		seen := newTally()
		seen.lookup(answered(http.StatusOK, "paid"), nil)
		seen.lookup(answered(http.StatusPaymentRequired, "rejected"), nil)
		for range c.silent {
			seen.lookup(answer{}, errors.New("reset"))
		}
		if got := disagreements(charges(c.ledger), seen); len(got) != c.wrong {
			t.Errorf("%s: %d disagreements, want %d: %q", c.name, len(got), c.wrong, got)
		}
	}
	seen := newTally()
	seen.lookup(answered(http.StatusOK, "paid"), nil)
	seen.lookup(answered(http.StatusOK, "paid"), nil)
	if len(seen.wrong) != 1 {
		t.Errorf("a repeated request ID was not reported: %q", seen.wrong)
	}
}
