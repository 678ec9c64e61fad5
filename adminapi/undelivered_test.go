package adminapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/operator"
	"letterhead/internal/runs"
)

const acmeID = "7c0c2b1e-5a39-5b8d-9a50-0f4a3f1d2c3b"

// A process that ended without a clean shutdown leaves charges that are listed page by page, and reversed once.
func TestUndelivered_ProcessEndedWithoutShutdown_ChargesAreListedAndReversed(t *testing.T) {
	s := start(t)
	a, b := s.open("Acme").Account.ID, s.open("Bolt").Account.ID
	since := s.node.Now()
	run := uuid.NewString()
	table, err := runs.New(t.Context(), s.node.Stores.Database)
	s.must(err)
	s.must(table.Begin(t.Context(), runs.Run{ID: run, Node: "one", Started: since, AnswerWithin: time.Minute}))
	charge := func(account, request string) {
		_, err := s.node.Writers.Accounts.ChargeLookup(t.Context(), commands.ChargeLookup{
			Request: commands.Request{ID: request, Actor: "account:" + account}, AccountID: account, BrandID: acmeID, Domain: "acme.com",
		})
		s.must(err)
	}
	want := map[string]bool{}
	for i := range 5 {
		id := runs.RequestID(run)
		want[id] = true
		charge([]string{a, b}[i%2], id)
	}
	charge(a, uuid.NewString()) // its process is not known, so it may be the one that ended
	charge(a, runs.RequestID(run))
	at := url.QueryEscape(since.Format(time.RFC3339Nano))

	type list struct {
		Charges []struct {
			AccountID string `json:"account_id"`
			RequestID string `json:"request_id"`
			Credits   int64
			Node      string
		}
		NextCursor string `json:"next_cursor"`
	}
	var got, page list
	for next := ""; ; next = "&cursor=" + page.NextCursor {
		page = list{}
		s.send(request{method: "GET", path: "/admin/ledger/undelivered?limit=3&since=" + at + next, token: s.tok[operator.Read]}).want(http.StatusOK, &page)
		got.Charges = append(got.Charges, page.Charges...)
		if page.NextCursor == "" {
			break
		}
	}
	for _, c := range got.Charges {
		delete(want, c.RequestID)
		if c.Credits != 1 || c.Node != "one" {
			t.Errorf("listed %+v", c)
		}
	}
	if len(got.Charges) != 7 || len(want) != 0 {
		t.Errorf("%d charges are listed, want 7; missing: %v", len(got.Charges), want)
	}
	s.get("/admin/ledger/undelivered?account="+b+"&since="+at).want(http.StatusOK, &page)
	if len(page.Charges) != 2 {
		t.Errorf("%d charges of an account are listed, want 2", len(page.Charges))
	}

	reverse, body := "/admin/ledger/undelivered/reverse", fmt.Sprintf(`{"since":%q}`, since.Format(time.RFC3339Nano))
	s.send(request{method: "POST", path: reverse, body: body, token: s.tok[operator.Support]}).rejected(http.StatusForbidden, "finance")
	type reversals struct {
		Reversed, TooOld, Remaining int
		Credits                     int64
		Failed                      []string
	}
	var done, again reversals
	s.send(request{method: "POST", path: reverse, body: body, token: s.tok[operator.Finance]}).want(http.StatusOK, &done)
	if done.Reversed != 7 || done.Credits != 7 || done.Remaining != 0 || len(done.Failed) != 0 {
		t.Errorf("reversed: %+v", done)
	}
	s.post(reverse, body).want(http.StatusOK, &again)
	if again.Reversed != 0 || s.balance(a) != 50 || s.balance(b) != 50 {
		t.Errorf("reversed again: %+v; balances %d and %d, want 50", again, s.balance(a), s.balance(b))
	}

	s.get("/admin/ledger/undelivered").rejected(http.StatusBadRequest, "Send since")
	s.post(reverse, `{}`).rejected(http.StatusBadRequest, "Send since")
	s.post(reverse, `{"since":"yesterday"}`).rejected(http.StatusBadRequest, "The field since")
	s.get("/admin/ledger/undelivered?since="+at+"&account="+uuid.NewString()).rejected(http.StatusNotFound, "There is no account")
	s.get("/admin/ledger/undelivered?since="+at+"&cursor=x").rejected(http.StatusBadRequest, "next_cursor")
}

func TestReversals_SameRequestAgain_IsRepeated(t *testing.T) {
	s := start(t)
	id, request := s.open("Acme").Account.ID, uuid.NewString()
	_, err := s.node.Writers.Accounts.ChargeLookup(t.Context(), commands.ChargeLookup{
		Request: commands.Request{ID: request, Actor: "account:" + id}, AccountID: id, BrandID: acmeID, Domain: "acme.com",
	})
	s.must(err)
	for _, again := range []bool{false, true} {
		var got struct {
			Balance, Charges int64
			Repeated         bool
		}
		s.post("/admin/accounts/"+id+"/reversals", fmt.Sprintf(`{"request_id":%q,"reason":"test"}`, request)).want(http.StatusOK, &got)
		if got.Charges != 1 || got.Balance != 50 || got.Repeated != again {
			t.Errorf("reversed: %+v, want one charge, a balance of 50 and repeated = %t", got, again)
		}
	}
}

func TestUndelivered_AfterADay_ChargesStay(t *testing.T) {
	s := start(t)
	a := s.open("Acme").Account.ID
	since := s.node.Now()
	run := uuid.NewString()
	table, err := runs.New(t.Context(), s.node.Stores.Database)
	s.must(err)
	s.must(table.Begin(t.Context(), runs.Run{ID: run, Node: "one", Started: since, AnswerWithin: time.Minute}))
	_, err = s.node.Writers.Accounts.ChargeLookup(t.Context(), commands.ChargeLookup{
		Request: commands.Request{ID: runs.RequestID(run), Actor: "account:" + a}, AccountID: a, BrandID: acmeID, Domain: "acme.com",
	})
	s.must(err)
	s.ahead.Store(int64(25 * time.Hour))
	var done struct {
		Reversed int
		TooOld   int `json:"too_old"`
	}
	s.post("/admin/ledger/undelivered/reverse", fmt.Sprintf(`{"since":%q}`, since.Format(time.RFC3339Nano))).want(http.StatusOK, &done)
	if done.Reversed != 0 || done.TooOld != 1 || s.balance(a) != 49 {
		t.Errorf("reversed: %+v, balance %d; want one charge too old, and 49", done, s.balance(a))
	}
}

func TestRecordFee_Repeated_IsRecordedOnce(t *testing.T) {
	s := start(t)
	a, b := s.open("Acme").Account.ID, s.open("Bolt").Account.ID
	s.post("/admin/accounts/"+a+"/grants", `{"credits":100,"payment_id":"p1","money":1190,"currency":"EUR","tax":190}`).want(http.StatusOK, nil)
	s.post("/admin/accounts/"+a+"/grants", `{"credits":5,"payment_id":"unpaid"}`).want(http.StatusOK, nil)

	type fee struct {
		Account, Currency string
		FeeID             string `json:"fee_id"`
		Money             int64
		Repeated          bool
	}
	var first, again, keyed, payment fee
	fees := "/admin/payments/p1/fees"
	s.send(request{method: "POST", path: fees, body: `{"fee_id":"f1","money":45}`, token: s.tok[operator.Finance]}).want(http.StatusOK, &first)
	s.post(fees, `{"fee_id":"f1","money":45}`).want(http.StatusOK, &again)
	if want := (fee{a, "EUR", "f1", 45, false}); first != want || !again.Repeated {
		t.Errorf("recorded %+v, then %+v; want %+v, then a repeat", first, again, want)
	}
	s.post(fees, `{"money":-5,"currency":"USD"}`).want(http.StatusOK, &keyed)
	if keyed.FeeID == "" || keyed.Currency != "USD" {
		t.Errorf("a fee that the processor returned is %+v", keyed)
	}
	var shown struct{ Fees []fee }
	s.get("/admin/payments/p1").want(http.StatusOK, &shown)
	if len(shown.Fees) != 2 {
		t.Errorf("the payment has %+v", shown.Fees)
	}

	s.post(fees, `{"fee_id":"f1","money":46}`).rejected(http.StatusConflict, "f1")
	s.post("/admin/payments/unpaid/fees", `{"fee_id":"f2","money":1}`).rejected(http.StatusBadRequest, "currency is needed")
	s.post("/admin/payments/p9/fees", `{"fee_id":"f2","money":1}`).rejected(http.StatusNotFound, "There is no payment p9")
	s.post(fees, `{"fee_id":"f2","money":0}`).rejected(http.StatusBadRequest, "The field money")
	s.post(fees, `{"fee_id":"f2","money":1,"currency":"euro"}`).rejected(http.StatusBadRequest, "The field currency")
	s.post(fees, `{"fee_id":"`+strings.Repeat("f", 201)+`","money":1}`).rejected(http.StatusBadRequest, "The field fee_id")
	s.send(request{method: "POST", path: fees, body: `{"money":1}`}).rejected(http.StatusBadRequest, "Idempotency-Key")
	s.send(request{method: "POST", path: fees, body: `{"fee_id":"f2","money":1}`, token: s.tok[operator.Support]}).rejected(http.StatusForbidden, "finance")

	s.post("/admin/accounts/"+b+"/grants", `{"credits":100,"payment_id":"p1","money":500,"currency":"EUR"}`).want(http.StatusOK, nil)
	s.post(fees, `{"fee_id":"f3","money":1}`).rejected(http.StatusConflict, "Send account")
	s.post(fees, `{"account":"`+b+`","fee_id":"f3","money":1}`).want(http.StatusOK, &payment)
	if payment.Account != b {
		t.Errorf("the fee is one of %s, want %s", payment.Account, b)
	}
}

func TestRecognizeBreakage_ClosedAccount_ItsCreditsBecomeRevenue(t *testing.T) {
	s := start(t)
	a := s.open("Acme").Account.ID
	path := "/admin/accounts/" + a
	s.post(path+"/grants", `{"credits":100,"payment_id":"p1","money":1190,"currency":"EUR","tax":190}`).want(http.StatusOK, nil)
	policy := `{"policy":"terms, section 4"}`
	s.post(path+"/breakage", policy).rejected(http.StatusConflict, "Account is not closed")
	s.post(path+"/close", "").want(http.StatusOK, nil)
	s.post(path+"/breakage", `{}`).rejected(http.StatusBadRequest, "The field policy")
	s.post(path+"/breakage", `{"policy":"`+strings.Repeat("p", 5000)+`"}`).rejected(http.StatusBadRequest, "policy")
	s.send(request{method: "POST", path: path + "/breakage", body: policy, token: s.tok[operator.Support]}).rejected(http.StatusForbidden, "finance")
	s.post("/admin/accounts/"+uuid.NewString()+"/breakage", policy).rejected(http.StatusNotFound, "There is no account")

	type rows struct {
		Rows []struct {
			Account, Currency string
			Breakage, Credits int64
		}
	}
	var shown, done, again rows
	s.get("/admin/books/breakage").rejected(http.StatusBadRequest, "closed_before")
	s.get("/admin/books/breakage?closed_before=2100-01").want(http.StatusOK, &shown)
	s.send(request{method: "POST", path: path + "/breakage", body: policy}).rejected(http.StatusBadRequest, "Idempotency-Key")
	recognizing := request{method: "POST", path: path + "/breakage", body: policy, key: "breakage", token: s.tok[operator.Finance]}
	s.send(recognizing).want(http.StatusOK, &done)
	if len(done.Rows) != 2 || done.Rows[0].Currency != "" || done.Rows[0].Credits != 50 || done.Rows[1].Currency != "EUR" || done.Rows[1].Breakage != 1000 || done.Rows[1].Credits != 100 {
		t.Errorf("recognized %+v", done)
	}
	if !slices.Equal(shown.Rows, done.Rows) {
		t.Errorf("the report has %+v, and %+v was recognized", shown, done)
	}
	s.forget()
	s.send(recognizing).want(http.StatusOK, &again)
	if len(again.Rows) != 2 {
		t.Errorf("the repeat has %+v, want the same rows", again)
	}
	s.post(path+"/breakage", policy).want(http.StatusOK, &again)
	if len(again.Rows) != 0 || s.balance(a) != 0 {
		t.Errorf("recognized again %+v; the balance is %d, want 0", again, s.balance(a))
	}
}

func TestUndelivered_MoreThanARequestReverses_RestIsReversedByTheNext(t *testing.T) {
	s := start(t)
	a := s.open("Acme").Account.ID
	s.post("/admin/accounts/"+a+"/grants", `{"credits":1000,"payment_id":"p1"}`).want(http.StatusOK, nil)
	since := s.node.Now()
	run := uuid.NewString()
	table, err := runs.New(t.Context(), s.node.Stores.Database)
	s.must(err)
	s.must(table.Begin(t.Context(), runs.Run{ID: run, Node: "one", Started: since, AnswerWithin: time.Minute}))
	for range 1003 {
		_, err := s.node.Writers.Accounts.ChargeLookup(t.Context(), commands.ChargeLookup{
			Request: commands.Request{ID: runs.RequestID(run), Actor: "account:" + a}, AccountID: a, BrandID: acmeID, Domain: "acme.com",
		})
		s.must(err)
	}
	body := fmt.Sprintf(`{"since":%q}`, since.Format(time.RFC3339Nano))
	for _, want := range [][2]int{{1000, 3}, {3, 0}} {
		var done struct{ Reversed, Remaining int }
		s.post("/admin/ledger/undelivered/reverse", body).want(http.StatusOK, &done)
		if done.Reversed != want[0] || done.Remaining != want[1] {
			t.Errorf("reversed: %+v, want %v", done, want)
		}
	}
	if s.balance(a) != 1050 {
		t.Errorf("the balance is %d, want 1050", s.balance(a))
	}
}
