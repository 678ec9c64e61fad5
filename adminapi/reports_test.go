package adminapi_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	rules "letterhead/domain/account"
	"letterhead/domain/notices"
	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/testwait"
	"letterhead/projections/inbox"
)

// reported sends a report about a payment of an account, of which the other fields are given.
func (s *service) reported(account, format string, args ...any) answer {
	s.t.Helper()
	return s.send(request{method: "POST", path: "/admin/payments", token: s.tok[operator.Finance], body: `{"account":"` + account + `",` + fmt.Sprintf(format, args...) + `}`})
}

// is checks that a report was applied, and the balance after it.
func (a answer) is(balance int64) movement {
	a.t.Helper()
	var m movement
	a.want(http.StatusOK, &m)
	if m.State != "applied" || m.Balance != balance {
		a.t.Errorf("%+v, want applied with a balance of %d", m, balance)
	}
	return m
}

// kept checks that a report was kept in a state.
func (a answer) kept(state string) movement {
	a.t.Helper()
	var m movement
	a.want(http.StatusAccepted, &m)
	if m.State != state || m.Reason == "" {
		a.t.Errorf("%+v, want the state %s with a reason", m, state)
	}
	return m
}

func (s *service) awaitBalance(account string, want int64) {
	s.t.Helper()
	var a struct{ Credits struct{ Balance int64 } }
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		s.get("/admin/accounts/"+account).want(http.StatusOK, &a)
		return a.Credits.Balance == want
	}); !ok {
		s.t.Fatalf("balance %d, want %d", a.Credits.Balance, want)
	}
}

const euros4900 = `"money":4900,"currency":"EUR"`

func TestReports_EachCountsOnce(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	for i := range 2 {
		if m := s.reported(id, `"type":"payment","payment_id":"p1","credits":1000,%s,"tax":782`, euros4900).is(1050); m.Repeated != (i == 1) {
			t.Errorf("payment %d: %+v", i, m)
		}
	}
	s.reported(id, `"type":"payment","payment_id":"p1","credits":999,%s,"tax":782`, euros4900).rejected(http.StatusConflict, "differs")
	// A tenth of the money takes a tenth of the credits.
	for i := range 2 {
		if m := s.reported(id, `"type":"refund","payment_id":"p1","refund_id":"r1","money":490,"currency":"EUR"`).is(950); m.Repeated != (i == 1) {
			t.Errorf("refund %d: %+v", i, m)
		}
	}
	s.reported(id, `"type":"refund","payment_id":"p1","refund_id":"r1","money":491,"currency":"EUR"`).rejected(http.StatusConflict, "other values")
	// A dispute without money takes the rest, and its chargeback nothing more.
	for i, kind := range []string{"dispute", "chargeback"} {
		if m := s.reported(id, `"type":"%s","payment_id":"p1","dispute_id":"d1"`, kind).is(50); m.Repeated != (i == 1) {
			t.Errorf("%s: %+v", kind, m)
		}
	}
	var p struct {
		State           string
		RefundedCredits int64 `json:"refunded_credits"`
		RefundedMoney   int64 `json:"refunded_money"`
		Refunds         []struct{}
	}
	s.get("/admin/payments/p1").want(http.StatusOK, &p)
	if p.State != "refunded" || p.RefundedCredits != 1000 || p.RefundedMoney != 4900 || len(p.Refunds) != 2 {
		t.Errorf("payment: %+v", p)
	}
	s.reported(id, `"type":"dispute_won","payment_id":"p1","dispute_id":"d1"`).is(950)
	s.get("/admin/payments?state=partly_refunded&sort=-paid").want(http.StatusOK, nil)
	s.get("/admin/payments/p9").rejected(http.StatusNotFound, "p9")
}

func TestReports_PaymentFailed_RaisesANoticeForEachAttempt(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	path := "/admin/accounts/" + id + "/notices"
	s.send(request{method: "PUT", path: path, body: `{"email":"billing@example.com"}`}).want(http.StatusOK, nil)
	var got struct {
		Notices []struct {
			Kind, State string
			Payment     notices.Payment
		}
	}
	for i, attempt := range []int64{1, 1, 2} {
		m := s.reported(id, `"type":"payment_failed","payment_id":"p1","attempt":%d,"occurred_at":"2026-01-0%dT12:00:00Z",%s`, attempt, attempt, euros4900).is(50)
		if m.Repeated != (i == 1) || m.Reason != "" {
			t.Errorf("report %d: %+v", i, m)
		}
	}
	s.reported(id, `"type":"payment_failed","payment_id":"p1","attempt":2,"money":4901,"currency":"EUR"`).rejected(http.StatusConflict, "The failed payment was reported before with other values")
	s.get(path).want(http.StatusOK, &got)
	want := notices.Payment{ID: "p1", Attempt: 2, FailedAt: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}}
	if n := got.Notices; len(n) != 2 || n[0].Kind != "payment_failed" || n[0].State != "open" || !reflect.DeepEqual(n[0].Payment, want) || n[1].State != "outdated" {
		t.Fatalf("notices %+v, want one of each attempt, and the first outdated", got.Notices)
	}
	s.reported(id, `"type":"payment","payment_id":"p1","credits":1000,%s`, euros4900).is(1050)
	s.post("/admin/accounts/"+id+"/grants", `{"credits":1,"payment_id":"p2"}`).want(http.StatusOK, nil)
	for _, payment := range []string{"p1", "p2"} { // with a report, and by hand
		if m := s.reported(id, `"type":"payment_failed","payment_id":%q,"attempt":3`, payment).is(1051); !strings.Contains(m.Reason, "granted before") {
			t.Errorf("the reason of the failure of a paid %s: %q", payment, m.Reason)
		}
	}
	if s.get(path).want(http.StatusOK, &got); len(got.Notices) != 2 || got.Notices[0].State != "outdated" {
		t.Errorf("notices after the payments %+v, want no other, and none open", got.Notices)
	}
	other := s.open("Other").Account.ID
	s.reported(other, `"type":"payment_failed","payment_id":"p1","attempt":4`).rejected(http.StatusConflict, "another account")
	s.reported(id, `"type":"payment_failed","payment_id":"p3","attempt":1`).is(1051)
	s.reported(other, `"type":"payment_failed","payment_id":"p3","attempt":1`).rejected(http.StatusConflict, "another account")
}

// A processor that does not count attempts reports each with its time.
func TestReports_PaymentFailedWithoutAttempt_RaisesANoticeForEachTime(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	path := "/admin/accounts/" + id + "/notices"
	s.send(request{method: "PUT", path: path, body: `{"email":"billing@example.com"}`}).want(http.StatusOK, nil)
	for i, of := range []struct{ at, reason string }{
		{"2026-01-02T12:00:00Z", ""}, {"2026-01-02T12:00:00Z", ""}, {"2026-01-03T12:00:00Z", ""}, {"2026-01-01T12:00:00Z", "a later attempt to pay was reported before"},
	} {
		if m := s.reported(id, `"type":"payment_failed","payment_id":"p1","occurred_at":%q`, of.at).is(50); m.Repeated != (i == 1) || m.Reason != of.reason {
			t.Errorf("report %d: %+v, want the reason %q", i, m, of.reason)
		}
	}
	var got struct{ Notices []struct{ State string } }
	if s.get(path).want(http.StatusOK, &got); len(got.Notices) != 2 {
		t.Errorf("notices %+v, want 2", got.Notices)
	}
}

func TestReports_BadInput_NamesTheChange(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	for _, c := range []struct {
		fields, part string
		status       int
	}{
		{`"type":"refund","payment_id":"p2","refund_id":"r3"`, "money", 404},
		{`"type":"dispute_won","payment_id":"p2","dispute_id":"d3"`, "money", 404},
		{`"type":"refund","payment_id":"p1"`, "refund_id", 400},
		{`"type":"chargeback","payment_id":"p1","money":1,"currency":"EUR"`, "dispute_id", 400},
		{`"type":"dispute_won","payment_id":"p1","dispute_id":"d1","credits":1`, "credits", 400},
		{`"type":"refund_failed","payment_id":"p1","refund_id":"r1","dispute_id":"d1"`, "dispute_id", 400},
		{`"type":"payout","payment_id":"p1"`, "type", 400},
		{`"type":"payment_failed","payment_id":"p1","refund_id":"r1"`, "refund_id", 400},
		{`"type":"payment_failed","payment_id":"p1","credits":5`, "credits", 400},
		{`"type":"payment_failed","payment_id":"p1","attempt":-1`, "attempt", 400},
		{`"type":"payment_failed","payment_id":"p1","kind":"adjustment"`, "kind", 400},
		{`"type":"payment_failed","payment_id":"p1","money":5,"currency":"EUX"`, "currency", 400},
		{`"type":"payment","payment_id":"p1","credits":1,"attempt":1`, "attempt", 400},
		{`"type":"payment","payment_id":"p 1","credits":1`, "payment_id", 400},
		{`"type":"payment","payment_id":"p1","credits":1,"money":5,"currency":"eur"`, "urrency", 400},
		{`"type":"payment","payment_id":"p1","credits":1,"tax":5`, "ax", 400},
		{`"type":"refund","payment_id":"p1","refund_id":"r1","money":-1,"currency":"EUR"`, "oney", 400},
		{`"type":"refund","payment_id":"p1","refund_id":"r1","money":1,"currency":"EURO"`, "currency", 400},
		{`"type":"dispute","payment_id":"p1","dispute_id":"d1","money":1,"currency":"EUX"`, "currency", 400},
		{`"type":"dispute_won","payment_id":"p1","dispute_id":"d1","money":0,"currency":"E"`, "currency", 400},
	} {
		s.reported(id, "%s", c.fields).rejected(c.status, c.part)
	}
	s.reported("missing", `"type":"payment","payment_id":"p","credits":1`).rejected(http.StatusNotFound, "missing")
	s.awaitBalance(id, 50)
}

func TestReports_DisputeOfMoreThanIsLeft_TakesTheRestAndReturnsItWhenWon(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	s.reported(id, `"type":"payment","payment_id":"p1","credits":1000,%s`, euros4900).is(1050)
	s.reported(id, `"type":"refund","payment_id":"p1","refund_id":"r1","money":490,"currency":"EUR"`).is(950)
	s.reported(id, `"type":"dispute","payment_id":"p1","dispute_id":"d1",%s`, euros4900).is(50)
	if m := s.reported(id, `"type":"chargeback","payment_id":"p1","dispute_id":"d1","money":5900,"currency":"EUR"`).is(50); !strings.HasPrefix(m.Reason, "it exceeds what was left of the payment by 14.90 EUR") {
		t.Errorf("the reason of a chargeback of more than is left: %q, want the difference", m.Reason)
	}
	s.reported(id, `"type":"dispute_won","payment_id":"p1","dispute_id":"d1",%s`, euros4900).is(950)
	s.reported(id, `"type":"refund_failed","payment_id":"p1","refund_id":"r1","money":490,"currency":"EUR"`).is(1050)
}

func TestReports_BeforeTheirPayment_WaitForIt(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	refund := `"type":"refund","payment_id":"p1","refund_id":"r1","money":490,"currency":"EUR"`
	s.reported(id, "%s", refund).kept("waiting")
	s.reported(id, `"type":"payment","payment_id":"p1","credits":1000,%s`, euros4900).want(http.StatusOK, nil)
	s.awaitBalance(id, 950)
	s.reported(id, "%s", refund).is(950)
}

func TestReports_PaymentIDOfAnotherAccount_MoveNoCredits(t *testing.T) {
	s := start(t)
	s.applyReports()
	id, other := s.open("Acme").Account.ID, s.open("Other").Account.ID
	waiting := `"type":"refund","payment_id":"p1","refund_id":"r1","money":490,"currency":"EUR"`
	s.reported(other, "%s", waiting).kept("waiting")
	s.reported(id, `"type":"payment","payment_id":"p1","credits":1000,%s`, euros4900).is(1050)
	for _, of := range []string{
		waiting, `"type":"payment","payment_id":"p1","credits":1000,` + euros4900, `"type":"dispute","payment_id":"p1","dispute_id":"d1"`,
		`"type":"dispute","payment_id":"p1","dispute_id":"d1",` + euros4900, `"type":"dispute_won","payment_id":"p1","dispute_id":"d1"`,
	} {
		s.reported(other, "%s", of).rejected(http.StatusConflict, "another account")
	}
	// The refund that the other account waits for is not one of this payment.
	s.reported(id, `"type":"refund","payment_id":"p1","refund_id":"r2","money":490,"currency":"EUR"`).is(950)
	s.awaitBalance(other, 50)
	s.awaitBalance(id, 950)
}

func TestReports_PaymentGrantedByHand_IsKnown(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	s.post("/admin/accounts/"+id+"/grants", `{"credits":1000,"payment_id":"p1",`+euros4900+`,"tax":782,"reason":"by hand"}`).want(http.StatusOK, nil)
	s.reported(id, `"type":"dispute","payment_id":"p1","dispute_id":"d1",%s`, euros4900).is(50)
	s.post("/admin/accounts/"+id+"/grants", `{"credits":20,"payment_id":"p2"}`).want(http.StatusOK, nil)
	if m := s.reported(id, `"type":"payment","payment_id":"p2","credits":20`).is(70); !m.Repeated {
		t.Errorf("the payment that was granted: %+v", m)
	}
	s.reported(id, `"type":"refund","payment_id":"p2","refund_id":"r2","credits":5`).is(65)
	// Of a closed account, too.
	s.post("/admin/accounts/"+id+"/grants", `{"credits":10,"payment_id":"p3","money":100,"currency":"EUR"}`).want(http.StatusOK, nil)
	s.post("/admin/accounts/"+id+"/close", "").want(http.StatusOK, nil)
	s.reported(id, `"type":"refund","payment_id":"p3","refund_id":"r3","money":100,"currency":"EUR"`).is(65)
	s.reported(id, `"type":"payment","payment_id":"p4","credits":5`).kept("inbox")
}

// openReports returns the reports that were not applied.
func (s *service) openReports() []inbox.Report {
	s.t.Helper()
	s.must(s.node.Operations.Reads.Folded(s.t.Context(), inbox.Name))
	all, _, err := s.node.Models.Inbox.List(s.t.Context(), inbox.Selection{}, 1000)
	s.must(err)
	return all
}

func (s *service) dismissReports() {
	s.t.Helper()
	for _, e := range s.openReports() {
		s.must(s.node.Writers.Billing.Dismiss(s.t.Context(), s.node.Operator(), e.Stream(), "test"))
	}
}

func TestReports_WrongPaymentFirst_DoesNotBlockTheRightOne(t *testing.T) {
	s := start(t)
	s.applyReports()
	id, other := s.open("Acme").Account.ID, s.open("Other").Account.ID
	s.post("/admin/accounts/"+other+"/close", "").want(http.StatusOK, nil)
	const payment = `"type":"payment","payment_id":"%s","credits":%d,%s`
	s.reported(other, payment, "p1", 1000, euros4900).kept("inbox")
	s.reported(id, payment, "p1", rules.MaxCredits, euros4900).kept("inbox")
	for i := range 2 {
		if m := s.reported(id, payment, "p1", 1000, euros4900).is(1050); m.Repeated != (i == 1) {
			t.Errorf("payment %d: %+v", i, m)
		}
	}
	s.reported(id, payment, "p1", 999, euros4900).rejected(http.StatusConflict, "differs")
	s.reported(id, `"type":"refund","payment_id":"p1","refund_id":"r1","money":490,"currency":"EUR"`).is(950)
	// So it is with a payment that is granted by hand.
	s.reported(other, payment, "p2", 10, euros4900).kept("inbox")
	s.post("/admin/accounts/"+id+"/grants", `{"credits":10,"payment_id":"p2",`+euros4900+`}`).want(http.StatusOK, nil)
	s.reported(id, `"type":"refund","payment_id":"p2","refund_id":"r2",%s`, euros4900).is(950)
	// The wrong reports grant nothing when they are decided again.
	for _, e := range s.openReports() {
		s.must(s.node.Writers.Billing.Reopen(t.Context(), s.node.Operator(), e.Stream()))
	}
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		open := s.openReports()
		for _, e := range open {
			if e.AccountID != other || !strings.Contains(e.Reason, "another account, "+id) {
				return false
			}
		}
		return len(open) == 2
	}); !ok {
		t.Error("the reports of the other account are not in the inbox")
	}
	s.awaitBalance(id, 950)
}

func TestReports_WrongClaimFirst_DoesNotBlockTheRightOne(t *testing.T) {
	s := start(t)
	s.applyReports()
	id, other := s.open("Acme").Account.ID, s.open("Other").Account.ID
	const refund = `"type":"refund","payment_id":"p1","refund_id":"r1","money":%d,"currency":"EUR"`
	const dispute = `"type":"dispute","payment_id":"p1","dispute_id":"d1",` + euros4900
	s.reported(other, refund, 490).kept("waiting")
	s.reported(other, "%s", dispute).kept("waiting")
	s.reported(id, refund, 4900).kept("waiting")
	s.reported(id, refund, 490).kept("waiting")
	s.reported(id, `"type":"payment","payment_id":"p1","credits":1000,%s`, euros4900).want(http.StatusOK, nil)
	s.awaitBalance(id, 950)
	if m := s.reported(id, refund, 490).is(950); !m.Repeated {
		t.Errorf("the refund again: %+v", m)
	}
	s.reported(id, refund, 491).rejected(http.StatusConflict, "other values")
	s.reported(id, "%s", dispute).is(50)
	s.awaitBalance(other, 50)
}

func TestReports_Dismissed_MayBeSentAgain(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	s.post("/admin/accounts/"+id+"/grants", fmt.Sprintf(`{"credits":%d,"payment_id":"p0"}`, rules.MaxCredits-100)).want(http.StatusOK, nil)
	payment := `"type":"payment","payment_id":"p1","credits":1000,` + euros4900
	s.reported(id, "%s", payment).kept("inbox")
	refund := `"type":"refund","payment_id":"p1","refund_id":"r1","money":490,"currency":"EUR"`
	s.reported(id, "%s", refund).kept("waiting")
	s.dismissReports()
	s.post("/admin/accounts/"+id+"/refunds", `{"payment_id":"p0","refund_id":"r0"}`).want(http.StatusOK, nil)
	for i := range 2 {
		if m := s.reported(id, "%s", payment).is(1050); m.Repeated != (i == 1) {
			t.Errorf("payment %d: %+v", i, m)
		}
	}
	for i := range 2 {
		if m := s.reported(id, "%s", refund).is(950); m.Repeated != (i == 1) {
			t.Errorf("refund %d: %+v", i, m)
		}
	}
}

func TestReports_PaymentGrantedByHand_LeavesTheInbox(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	s.post("/admin/accounts/"+id+"/grants", fmt.Sprintf(`{"credits":%d,"payment_id":"p0"}`, rules.MaxCredits-100)).want(http.StatusOK, nil)
	const payment = `"type":"payment","payment_id":"p1","kind":"%s","credits":1000,` + euros4900
	s.reported(id, payment, "topup").kept("inbox")
	s.post("/admin/accounts/"+id+"/refunds", `{"payment_id":"p0","refund_id":"r0"}`).want(http.StatusOK, nil)
	s.post("/admin/accounts/"+id+"/grants", `{"credits":1000,"payment_id":"p1",`+euros4900+`}`).want(http.StatusOK, nil)
	s.reported(id, `"type":"refund","payment_id":"p1","refund_id":"r1","money":490,"currency":"EUR"`).is(950)
	if m := s.reported(id, payment, "topup").is(950); !m.Repeated || len(s.openReports()) > 0 {
		t.Errorf("the payment again: %+v, open: %+v", m, s.openReports())
	}
	s.reported(id, payment, "subscription").rejected(http.StatusConflict, "topup")
}

func TestReports_PaymentGrantedAsAdjustment_IsRefunded(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	s.post("/admin/accounts/"+id+"/grants", `{"kind":"adjustment","credits":1000,"payment_id":"p1",`+euros4900+`}`).want(http.StatusOK, nil)
	s.reported(id, `"type":"refund","payment_id":"p1","refund_id":"r1","money":490,"currency":"EUR"`).is(950)
}

func TestReports_Waiting_IsLookedUpAgainWithTheSameKey(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	refund := request{
		method: "POST", path: "/admin/payments", key: "refund",
		body: `{"account":"` + id + `","type":"refund","payment_id":"p1","refund_id":"r1","money":490,"currency":"EUR"}`,
	}
	s.send(refund).kept("waiting")
	s.reported(id, `"type":"payment","payment_id":"p1","credits":1000,%s`, euros4900).want(http.StatusOK, nil)
	s.awaitBalance(id, 950)
	again := s.send(refund)
	if m := again.is(950); !m.Repeated || again.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("the report again: %+v", m)
	}
	last := s.send(refund)
	if last.is(950); last.header.Get("Idempotency-Replayed") != "true" {
		t.Error("the last answer was not remembered")
	}
}

func TestReports_DisputeOfMoreCreditsThanAreLeft_TakesTheRestOnce(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	s.reported(id, `"type":"payment","payment_id":"p1","credits":1000,%s`, euros4900).is(1050)
	s.reported(id, `"type":"refund","payment_id":"p1","refund_id":"r1","money":4410,"currency":"EUR"`).is(150)
	s.reported(id, `"type":"refund","payment_id":"p1","refund_id":"r2","credits":500`).rejected(http.StatusConflict, "100 of its 1000 credits are left")
	const of500 = `"type":"%s","payment_id":"p1","dispute_id":"d1","credits":500`
	for i, kind := range []string{"dispute", "dispute", "chargeback"} {
		m := s.reported(id, of500, kind).is(50)
		if m.Repeated != (i > 0) || m.Refund == nil || m.Refund.Credits != 100 || m.Refund.Money == nil || m.Refund.Money.Minor != 490 {
			t.Errorf("%s %d: %+v", kind, i, m)
		}
	}
	// Nothing is left for another one.
	if m := s.reported(id, `"type":"dispute","payment_id":"p1","dispute_id":"d2","credits":5`).is(50); !m.Repeated || m.Refund != nil {
		t.Errorf("a dispute of a payment that was refunded: %+v", m)
	}
	// The repeat takes nothing of what returned meanwhile.
	s.reported(id, `"type":"refund_failed","payment_id":"p1","refund_id":"r1"`).is(950)
	s.reported(id, of500, "dispute").is(950)
	s.reported(id, `"type":"dispute","payment_id":"p1","dispute_id":"d1","credits":99`).rejected(http.StatusConflict, "differs")
	s.reported(id, `"type":"dispute_won","payment_id":"p1","dispute_id":"d1"`).is(1050)
	s.reported(id, of500, "dispute").is(1050)
}

func TestReports_DisputeOfMoreMoneyThanIsLeft_RepeatAfterAFailedRefundIsTheSame(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	s.reported(id, `"type":"payment","payment_id":"p1","credits":1000,%s`, euros4900).is(1050)
	s.reported(id, `"type":"refund","payment_id":"p1","refund_id":"r1","money":4410,"currency":"EUR"`).is(150)
	const dispute = `"type":"dispute","payment_id":"p1","dispute_id":"d1","credits":1000,%s`
	s.reported(id, dispute, euros4900).is(50)
	s.reported(id, `"type":"refund_failed","payment_id":"p1","refund_id":"r1"`).is(950)
	if m := s.reported(id, dispute, euros4900).is(950); !m.Repeated || m.Refund == nil || m.Refund.Money.Minor != 490 {
		t.Errorf("the repeat: %+v", m)
	}
}

func TestReports_DisputeOfSpentCredits_TakesTheBalanceBelowZero(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	s.reported(id, `"type":"payment","payment_id":"p1","credits":1000,%s`, euros4900).is(1050)
	for i := range 60 { // a credit each
		_, err := s.node.Writers.Accounts.ChargeLookup(t.Context(), commands.ChargeLookup{
			Request: commands.Request{ID: fmt.Sprint("r", i), Actor: "account:" + id}, AccountID: id, BrandID: "7c0c2b1e-5a39-5b8d-9a50-0f4a3f1d2c3b", Domain: "acme.com",
		})
		s.must(err)
	}
	for range 2 {
		s.reported(id, `"type":"dispute","payment_id":"p1","dispute_id":"d1","credits":2000,%s`, euros4900).is(-10)
	}
}

func TestReports_WonOrFailedFirst_ClaimWithoutMoneyTakesNothing(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	s.reported(id, `"type":"payment","payment_id":"p1","credits":1000,%s`, euros4900).is(1050)
	s.reported(id, `"type":"dispute_won","payment_id":"p1","dispute_id":"d1"`).is(1050)
	s.reported(id, `"type":"dispute","payment_id":"p1","dispute_id":"d1"`).is(1050)
	s.reported(id, `"type":"dispute","payment_id":"p1","dispute_id":"d1","credits":10`).is(1050)
	s.reported(id, `"type":"refund_failed","payment_id":"p1","refund_id":"r1"`).is(1050)
	s.reported(id, `"type":"refund","payment_id":"p1","refund_id":"r1"`).is(1050)
	s.reported(id, `"type":"dispute","payment_id":"p1","dispute_id":"d2"`).is(50)
}

func TestReports_WonAndLost_TheLaterCounts(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	now := s.node.Now()
	ago := func(hours int) string {
		return `"occurred_at":"` + now.Add(-time.Duration(hours)*time.Hour).Format(time.RFC3339) + `"`
	}
	const of = `"type":"%s","payment_id":"p1","dispute_id":"%s",%s`
	s.reported(id, `"type":"payment","payment_id":"p1","credits":1000,%s`, euros4900).is(1050)
	for i := range 2 {
		if m := s.reported(id, of, "dispute_won", "d1", ago(1)).is(1050); m.Repeated != (i == 1) {
			t.Errorf("dispute_won %d: %+v", i, m)
		}
	}
	s.reported(id, of, "chargeback", "d1", ago(2)).is(1050)
	s.reported(id, of, "chargeback", "d1", ago(2)+","+euros4900).is(1050)
	s.reported(id, of, "chargeback", "d1", ago(0)).rejected(http.StatusConflict, "send money")
	s.reported(id, `"type":"chargeback","payment_id":"p1","dispute_id":"d1"`).rejected(http.StatusConflict, "send money")
	s.reported(id, of, "dispute_won", "d1", ago(3)).rejected(http.StatusConflict, "other values")
	s.reported(id, of, "chargeback", "d2", ago(1)+","+euros4900).is(50)
	s.reported(id, of, "dispute_won", "d2", ago(2)).is(50)
	// Without occurred_at the order of arrival counts.
	s.reported(id, `"type":"payment","payment_id":"p2","credits":1000,%s`, euros4900).is(1050)
	s.reported(id, `"type":"dispute_won","payment_id":"p2","dispute_id":"d3"`).is(1050)
	s.reported(id, `"type":"chargeback","payment_id":"p2","dispute_id":"d3",%s`, euros4900).is(50)
	s.reported(id, of, "dispute_won", "d2", ago(-1)).rejected(http.StatusBadRequest, "occurred_at")
	s.reported(id, of, "dispute_won", "d3", `"occurred_at":"yesterday"`).rejected(http.StatusBadRequest, "yesterday")
}

func TestReports_WaitingRefundOfPaymentGrantedByHand_IsAppliedWhenRepeated(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	refund := `"type":"refund","payment_id":"p1","refund_id":"r1","money":490,"currency":"EUR"`
	s.reported(id, "%s", refund).kept("waiting")
	s.post("/admin/accounts/"+id+"/grants", `{"credits":1000,"payment_id":"p1",`+euros4900+`}`).want(http.StatusOK, nil)
	s.reported(id, "%s", refund).is(950)
}

// Operators refunded all credits for less money than was paid. A payment processor then returns more of it.
func TestReports_MoneyButNoCreditsLeft_IsRecorded(t *testing.T) {
	s := start(t)
	s.applyReports()
	id := s.open("Acme").Account.ID
	returned := func(want int64) {
		t.Helper()
		var p struct {
			RefundedCredits int64 `json:"refunded_credits"`
			RefundedMoney   int64 `json:"refunded_money"`
		}
		s.get("/admin/payments/p1").want(http.StatusOK, &p)
		if p.RefundedCredits != 1000 || p.RefundedMoney != want {
			t.Errorf("payment %+v, want 1000 credits and %d minor units returned", p, want)
		}
	}
	s.reported(id, `"type":"payment","payment_id":"p1","credits":1000,%s`, euros4900).is(1050)
	s.post("/admin/accounts/"+id+"/refunds", `{"payment_id":"p1","refund_id":"hand","credits":1000,"money":1000,"currency":"EUR"}`).want(http.StatusOK, nil)
	s.reported(id, `"type":"refund","payment_id":"p1","refund_id":"r1","credits":1,"money":100,"currency":"EUR"`).rejected(http.StatusConflict, "name only the money")
	s.post("/admin/accounts/"+id+"/refunds", `{"payment_id":"p1","refund_id":"r2","money":100,"currency":"EUR"}`).want(http.StatusOK, nil)
	returned(1100)
	s.reported(id, `"type":"refund","payment_id":"p1","refund_id":"r3","money":200,"currency":"EUR"`).is(50)
	returned(1300)
	for i := range 2 {
		m := s.reported(id, `"type":"dispute","payment_id":"p1","dispute_id":"d1","credits":1000,%s`, euros4900).is(50)
		if m.Repeated != (i == 1) || m.Refund == nil || m.Refund.Credits != 1 || m.Refund.Money.Minor != 3600 {
			t.Errorf("dispute %d: %+v", i, m)
		}
	}
	_, err := s.node.Writers.Accounts.RecordFee(t.Context(), commands.RecordFee{Request: s.node.Operator(), AccountID: id, PaymentID: "p1", Money: eventschemas.Money{Minor: 145, Currency: "EUR"}})
	s.must(err)
	returned(4900)
	s.reported(id, `"type":"dispute_won","payment_id":"p1","dispute_id":"d1"`).is(50) // r3 had less than its share of the credits
	returned(1300)
}
