package main

import (
	"encoding/json"
	"testing"
)

func TestCreditsRefund_MoneyButNoCreditsLeft_IsRecorded(t *testing.T) {
	folder, id := openAccount(t)
	output(t, folder, "credits", "grant", "--account", id, "--amount", "10", "--payment-id", "p1", "--money", "1000", "--currency", "EUR")
	refund := func(flags ...string) (r struct {
		Balance  int64
		Repeated bool
		Refund   struct {
			ID    string `json:"refund_id"`
			Money struct{ Minor int64 }
		}
	}) {
		t.Helper()
		printed := output(t, folder, append([]string{"credits", "refund", "--account", id, "--payment-id", "p1", "--currency", "EUR", "--json"}, flags...)...)
		if err := json.Unmarshal([]byte(printed), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	all := refund("--refund-id", "f1", "--money", "900")
	for _, repeated := range []bool{false, true} {
		r := refund("--refund-id", "f2", "--money", "100")
		if r.Balance != all.Balance || r.Repeated != repeated || r.Refund.ID != "f2" || r.Refund.Money.Minor != 100 {
			t.Errorf("the refund of the other money printed %+v, want repeated = %t", r, repeated)
		}
	}
	var p struct {
		Credits int64 `json:"refunded_credits"`
		Money   int64 `json:"refunded_money"`
	}
	if err := json.Unmarshal([]byte(output(t, folder, "payment", "show", "p1", "--json")), &p); err != nil || p.Credits != 10 || p.Money != 1000 {
		t.Errorf("payment show printed %+v, %v, want 10 credits and 1000 minor units", p, err)
	}
}
