package adminapi_test

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/books"
	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testwait"
)

func TestCloseMonth_EndedMonth_IsClosedOnce(t *testing.T) {
	s := start(t)
	s.open("Acme")
	month := books.MonthOf(s.node.Now())
	name := func(months int) string { return month.AddDate(0, months, 0).Format(books.MonthLayout) }
	closing := func(months int) string { return "/admin/books/" + name(months) + "/close" }

	s.post(closing(0), "").rejected(http.StatusConflict, name(0)+" was not closed: "+name(0)+" has not ended")
	s.post(closing(-1), "").rejected(http.StatusConflict, "before the first event")
	s.post("/admin/books/november/close", "").rejected(http.StatusBadRequest, "2026-11")
	s.send(request{method: "POST", path: closing(0), token: s.tok[operator.Support]}).rejected(http.StatusForbidden, "finance")

	s.ahead.Store(int64(time.Until(month.AddDate(0, 2, 3)))) // the next month has ended
	s.post(closing(1), "").rejected(http.StatusConflict, name(0)+" must be closed first")
	type period struct {
		Month, State, Digest string
		Repeated             bool
	}
	var first, again period
	s.send(request{method: "POST", path: closing(0), token: s.tok[operator.Finance]}).want(http.StatusOK, &first)
	s.post(closing(0), "").want(http.StatusOK, &again)
	if first.Month != name(0) || first.State != "closed" || first.Digest == "" || first.Repeated || !again.Repeated || again.Digest != first.Digest {
		t.Errorf("closed %+v, then %+v", first, again)
	}
	var listed struct{ Months []period }
	s.get("/admin/books/months").want(http.StatusOK, &listed)
	if len(listed.Months) != 3 || listed.Months[0] != first || listed.Months[1].State != "open" {
		t.Errorf("the months are %+v", listed.Months)
	}

	// A ledger with a fault does not close.
	db, err := sql.Open("sqlite", filepath.Join(s.node.Config.Data, "letterhead.db"))
	s.must(err)
	defer db.Close()
	var table string
	s.must(db.QueryRow("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'accounts%' AND sql LIKE '%balance%' ORDER BY name DESC").Scan(&table))
	_, err = db.Exec("UPDATE " + table + " SET balance = balance + 1")
	s.must(err)
	s.post(closing(1), "").rejected(http.StatusConflict, name(1)+" was not closed: the ledger has 1 fault(s)")
}

// report is a report of the books.
type report struct {
	Rows []struct {
		Month, Account, Plan, Currency string
		Closed, Provisional            bool
		Received, Tax, Recognized      int64
		Opening                        *int64 `json:"opening_deferred"`
		Closing                        *int64 `json:"closing_deferred"`
		PaidGranted                    int64  `json:"paid_granted"`
		PaidUsed                       int64  `json:"paid_used"`
		PromotionalUsed                int64  `json:"promotional_used"`
		Credits, Deferred, Deficit     int64
	}
	NextCursor string `json:"next_cursor"`
}

// report gets a report with a token that may only read.
func (s *service) report(path string) (r report) {
	s.t.Helper()
	s.send(request{method: "GET", path: "/admin/books/" + path, token: s.tok[operator.Read]}).want(http.StatusOK, &r)
	return r
}

func TestReports_TwoMonths_AddUp(t *testing.T) {
	s := start(t)
	month := books.MonthOf(s.node.Now()).AddDate(0, 1, 0)
	name := func(months int) string { return month.AddDate(0, months, 0).Format(books.MonthLayout) }
	at := func(t time.Time) { s.ahead.Store(int64(time.Until(t))) }

	at(month.AddDate(0, 0, 9))
	a, b := s.open("Acme").Account.ID, s.open("Bolt").Account.ID
	s.post("/admin/accounts/"+a+"/grants", `{"credits":100,"payment_id":"p1","money":1190,"currency":"EUR","tax":190}`).want(http.StatusOK, nil)
	for i := range 60 { // the promotional credits and ten more
		_, err := s.node.Writers.Accounts.ChargeLookup(t.Context(), commands.ChargeLookup{
			Request: commands.Request{ID: fmt.Sprintf("r%d", i), Actor: "account:" + a}, AccountID: a, BrandID: "7c0c2b1e-5a39-5b8d-9a50-0f4a3f1d2c3b", Domain: "acme.com",
		})
		s.must(err)
	}
	at(month.AddDate(0, 1, 9))
	s.post("/admin/accounts/"+b+"/grants", `{"credits":10,"payment_id":"p2","money":500,"currency":"USD"}`).want(http.StatusOK, nil)

	r := s.report("revenue")
	if len(r.Rows) != 4 || r.NextCursor != "" {
		t.Fatalf("the revenue of two months is %+v", r)
	}
	if first := r.Rows[0]; first.Month != name(0) || first.Currency != "EUR" || first.Received != 1000 || first.Tax != 190 || first.Recognized != 100 || *first.Opening != 0 || *first.Closing != 900 || first.Provisional {
		t.Errorf("the first month is %+v", first)
	}
	if next := r.Rows[2]; next.Month != name(1) || next.Currency != "EUR" || next.Received != 0 || *next.Opening != 900 || *next.Closing != 900 || !next.Provisional {
		t.Errorf("the running month is %+v", next)
	}
	if last := r.Rows[3]; last.Currency != "USD" || last.Received != 500 || *last.Closing != 500 {
		t.Errorf("the second currency of the running month is %+v", last)
	}
	if r := s.report("revenue?by=account&from=" + name(1)); len(r.Rows) != 2 || r.Rows[0].Account+r.Rows[1].Account != min(a, b)+max(a, b) {
		t.Errorf("the revenue by account is %+v", r)
	}
	if r := s.report("revenue?by=plan&to=" + name(0)); len(r.Rows) != 1 || r.Rows[0].Plan != "growth" || r.Rows[0].Received != 1000 || r.Rows[0].Opening != nil || r.Rows[0].Closing != nil {
		t.Errorf("the revenue by plan is %+v", r)
	}
	day := month.AddDate(0, 0, 9).Format(time.DateOnly)
	moment := url.QueryEscape(month.AddDate(0, 1, 8).Format(time.RFC3339))
	if r := s.report("usage?from=" + day + "&to=" + moment); len(r.Rows) != 2 || r.Rows[0].PaidGranted != 100 || r.Rows[0].PaidUsed != 10 || r.Rows[0].PromotionalUsed != 50 || r.Rows[1].PaidGranted != 0 {
		t.Errorf("the usage before the second payment is %+v", r)
	}
	if r := s.report("deferred?at=" + name(0)); len(r.Rows) != 2 {
		t.Errorf("at the end of the first month the accounts have %+v", r)
	}

	// Pages have the rows of the whole report.
	whole, pages, next := s.report("deferred"), report{}, ""
	for range whole.Rows {
		page := s.report("deferred?limit=1" + next)
		pages.Rows, pages.NextCursor, next = append(pages.Rows, page.Rows...), page.NextCursor, "&cursor="+page.NextCursor
	}
	if len(whole.Rows) != 3 || fmt.Sprint(pages) != fmt.Sprint(whole) {
		t.Errorf("the pages are %+v, want %+v", pages, whole)
	}
	for _, row := range whole.Rows {
		if row.Account == a && (row.Currency != "EUR" || row.Credits != 90 || row.Deferred != 900 || row.Closed || row.Plan != "growth") {
			t.Errorf("%s has %+v", a, row)
		}
	}

	cursor := s.report("deferred?limit=1").NextCursor
	for path, want := range map[string]string{
		"revenue?by=week":                             "month, plan, account",
		"revenue?from=november":                       "2026-11-30T15:04:05Z",
		"usage?from=" + name(1) + "&to=" + name(0):    "from is after",
		"usage?at=" + name(0):                         "by, from, to, limit, cursor",
		"revenue?limit=10001":                         "from 1 to 10000",
		"deferred?at=1969-12":                         "before 1970",
		"deferred?cursor=x":                           "next_cursor",
		"revenue?by=account&limit=1&cursor=" + cursor: "another report",
	} {
		s.get("/admin/books/"+path).rejected(http.StatusBadRequest, want)
	}
}

func TestOverview_MonthsInEachCurrency_AreThoseOfTheReports(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	s.post("/admin/accounts/"+id+"/grants", `{"credits":100,"payment_id":"p1","money":1190,"currency":"EUR","tax":190}`).want(http.StatusOK, nil)
	s.post("/admin/accounts/"+id+"/grants", `{"credits":10,"payment_id":"p2","money":500,"currency":"USD"}`).want(http.StatusOK, nil)
	type row struct {
		Month, State, Currency     string
		Revenue, Deferred, Credits int64
		Received, Refunded         *int64
	}
	var got struct {
		Complete bool
		Rows     []row
	}
	overview := func() []row {
		t.Helper()
		if _, ok := testwait.Until(testwait.Timeout, func() bool {
			s.send(request{method: "GET", path: "/admin/books/overview", token: s.tok[operator.Read]}).want(http.StatusOK, &got)
			return got.Complete
		}); !ok {
			t.Fatal("the sums are not complete")
		}
		return got.Rows
	}
	month := s.node.Now().UTC().Format(books.MonthLayout)
	if rows := overview(); len(rows) != 3 || rows[0].Currency != "" || rows[0].Credits != 50 || rows[1].Currency != "EUR" || rows[1].Deferred != 1000 || *rows[1].Received != 1000 || rows[1].Credits != 100 || rows[1].State != "running" || rows[1].Month != month || rows[2].Currency != "USD" {
		t.Errorf("the overview is %+v", rows)
	}
	s.post("/admin/accounts/"+id+"/refunds", `{"payment_id":"p1","credits":50}`).want(http.StatusOK, nil)
	if rows := overview(); *rows[1].Refunded != 500 || rows[1].Deferred != 500 || rows[1].Credits != 50 {
		t.Errorf("after a refund, the overview is %+v", rows)
	}
	if r := s.report("revenue?currency=USD"); len(r.Rows) != 1 || r.Rows[0].Currency != "USD" || r.Rows[0].Received != 500 {
		t.Errorf("the revenue in USD is %+v", r)
	}
	s.get("/admin/books/revenue?currency=dollars").rejected(http.StatusBadRequest, "ISO 4217")
	s.get("/admin/books/usage?currency=USD").rejected(http.StatusBadRequest, "currency")
}

// slowLog is a log that cannot be read in time.
type slowLog struct{ eventlog.Log }

func (slowLog) ReadAll(context.Context, eventlog.Position, eventlog.Filter, int) (eventlog.Page, error) {
	return eventlog.Page{}, context.DeadlineExceeded
}

func (slowLog) ReadStream(context.Context, string, uint64, eventlog.Direction, int) ([]eventlog.Recorded, error) {
	return nil, context.DeadlineExceeded
}

func TestCloseMonth_OutOfTime_NamesTheCommand(t *testing.T) {
	s := start(t)
	cfg, deps := s.fixed()
	slow, books := *s.node.Operations, *s.node.Operations.Books
	books.Log, slow.Books = slowLog{books.Log}, &books
	deps.Operations = &slow
	s.listen(cfg, deps)
	s.post("/admin/books/2026-10/close", "").rejected(http.StatusServiceUnavailable, "letterhead books close 2026-10")
}

// Earlier releases did not limit the sums of money.
func TestTrialBalance_SumBeyondInt64_IsAConflictThatNamesTheAccount(t *testing.T) {
	s := start(t)
	encoder := eventschemas.NewEncoder(s.node.Runner.Format)
	var granted []eventlog.Proposed
	for i := range 3 {
		ev, err := encoder.Encode(eventschemas.CreditsGranted{GrantID: fmt.Sprint(i), PaymentID: fmt.Sprint(i), Kind: "topup", Credits: 1, Money: &eventschemas.Money{Minor: math.MaxInt64 / 2, Currency: "EUR"}})
		s.must(err)
		granted = append(granted, eventlog.Proposed{ID: uuid.New(), Type: ev.Type, SchemaVersion: ev.SchemaVersion, OccurredAt: s.node.Now(), Data: ev.Data})
	}
	_, err := s.node.Stores.Log.Append(t.Context(), "account-a1", eventlog.NoStream(), granted)
	s.must(err)
	s.get("/admin/books/trial-balance").rejected(http.StatusConflict, "EUR, at revision 1 of account a1: the amounts are too large")
}
