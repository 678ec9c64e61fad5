package readapi_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/domain/statement"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// ofEvents derives a statement from the account's stream.
func (c *customer) ofEvents(month time.Time, closed bool) *statement.Statement {
	c.s.t.Helper()
	sheet := statement.New(c.id, month)
	all, err := c.s.log.ReadStream(c.s.t.Context(), account.Stream(c.id), 0, eventlog.Forward, 1000)
	c.s.must(err)
	for _, rec := range all {
		ev, err := eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data)
		c.s.must(err)
		sheet.Apply(ev, rec.Revision, rec.OccurredAt, rec.OccurredAt, rec.Metadata.Hash)
	}
	s, err := sheet.Statement(c.s.clock.now(), closed)
	c.s.must(err)
	return s
}

func TestStatement_EachForm_IsThatOfTheEvents(t *testing.T) {
	s := start(t)
	s.shows("GET /v1/statements/{month}", 200)
	c := s.account(plan.Growth, 50)
	s.known("acme.com", record("acme"))
	c.paid("pi_<script>alert(1)</script>")
	for range 3 {
		c.get("/v1/brands/acme.com").ok(t)
	}
	_, err := s.writer.RefundPayment(t.Context(), commands.RefundPayment{Request: operator(), AccountID: c.id, PaymentID: "pi_<script>alert(1)</script>", Credits: 500})
	s.must(err)
	november := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

	want := c.ofEvents(november, false)
	if !want.Provisional || want.ClosingBalance != 547 || want.Money[0].RefundedTax != 391 || want.UsageByKey[0].KeyID != c.secretID {
		t.Fatalf("the statement of the events is %+v", want)
	}
	wantJSON, err := want.JSON()
	s.must(err)
	wantCSV, err := want.CSV()
	s.must(err)
	const path = "/v1/statements/2026-11"
	for _, f := range []struct {
		query, accept, contentType, vary string
		body                             []byte // nil for the page
	}{
		{"", "", "application/json", "Accept", wantJSON},
		{"", "*/*", "application/json", "Accept", wantJSON},
		{"", "text/csv", "text/csv", "Accept", wantCSV},
		{"", "text/html;q=0.5, text/csv;q=0.4", "text/html", "Accept", nil},
		{"", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html", "Accept", nil},
		{"", "text/csv, application/json", "application/json", "Accept", wantJSON},
		{"?format=csv", "text/html", "text/csv", "", wantCSV},
		{"?format=html", "", "text/html", "", nil},
		{"?format=json", "text/csv", "application/json", "", wantJSON},
	} {
		header := bearer(c.secret)
		if f.accept != "" {
			header["Accept"] = []string{f.accept}
		}
		a := s.send(request{path: path + f.query, header: header})
		h := a.ok(t)
		if h.Get("Content-Type") != f.contentType+"; charset=utf-8" || strings.HasPrefix(h.Get("Vary")+",", "Accept,") != (f.vary != "") || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s, Accept %q: headers %v", f.query, f.accept, h)
		}
		if f.body != nil && !bytes.Equal(a.body, f.body) {
			t.Errorf("%s, Accept %q:\n%s\nwant\n%s", f.query, f.accept, a.body, f.body)
		}
		if policy := h.Get("Content-Security-Policy"); (f.body == nil) != strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") {
			t.Errorf("%s, Accept %q: policy %q", f.query, f.accept, policy)
		}
	}
	page := string(c.get(path + "?format=html").body)
	for _, text := range []string{"November 2026", "Provisional", c.id, "49.00 EUR", "24.50 EUR", "pi_&lt;script&gt;", want.Chain.Hash, "2026-11-21", c.secretID} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q:\n%s", text, page)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, " style=") {
		t.Errorf("the page has inline code:\n%s", page)
	}
	if rows, err := csv.NewReader(bytes.NewReader(wantCSV)).ReadAll(); err != nil || len(rows) < 10 {
		t.Errorf("the CSV has %d rows: %v", len(rows), err)
	}

	s.clock.add(30 * 24 * time.Hour) // 21 December
	if _, _, err := s.node.Operations.Books.CloseMonth(t.Context(), s.node.Operator(), november); err != nil {
		t.Fatal(err)
	}
	wantJSON, err = c.ofEvents(november, true).JSON()
	s.must(err)
	if got := c.get(path).body; !bytes.Equal(got, wantJSON) {
		t.Errorf("after the closing: %s, want %s", got, wantJSON)
	}
	if b := c.books(); b.balance() != 1047 { // this sum does not know refunds
		t.Errorf("the balance is %d, want 1047: statements must be free", b.balance())
	}
}

func TestStatement_AsOf_HasWhatHadOccurred(t *testing.T) {
	s := start(t)
	s.shows("GET /v1/ledger/{request_id}", 400, "invalid_request")
	c := s.account(plan.Growth, 50)
	s.known("acme.com", record("acme"))
	before := url.QueryEscape(s.clock.now().Format(time.RFC3339Nano))
	s.clock.add(time.Hour)
	c.paid("pi_1")
	charged := c.get("/v1/brands/acme.com")
	charged.ok(t)
	for asOf, want := range map[string]int64{before: 50, "2026-11": 1049, "2026-11-21": 1049} {
		var got statement.Statement
		s.must(json.Unmarshal(c.get("/v1/statements/2026-11?as_of="+asOf).body, &got))
		if got.ClosingBalance != want || !got.Provisional {
			t.Errorf("as of %s: %+v, want a provisional balance of %d", asOf, got, want)
		}
	}
	s.clock.add(30 * 24 * time.Hour) // 21 December
	for asOf, provisional := range map[string]bool{"2026-11-30T23:59:59Z": true, "2026-11": false, "2026-12-01": false} {
		var got statement.Statement
		s.must(json.Unmarshal(c.get("/v1/statements/2026-11?as_of="+asOf).body, &got))
		if got.ClosingBalance != 1049 || got.Provisional != provisional || got.Closed {
			t.Errorf("in December, as of %s: %+v, want provisional = %t", asOf, got, provisional)
		}
	}
	c.get("/v1/statements/2026-12?as_of=2026-11").rejected(t, 404, "not_found")
	request := "/v1/ledger/" + charged.header.Get("X-Request-Id")
	c.get(request + "?as_of=2026-11-21").ok(t)
	c.get(request+"?as_of="+before).rejected(t, 404, "not_found")
	for _, path := range []string{request, "/v1/statements/2026-11"} {
		for _, bad := range []string{"", "yesterday", "2027-01", "2030-01-01T00:00:00Z"} {
			c.get(path+"?as_of="+bad).rejected(t, 400, "invalid_request")
		}
	}
}

func TestStatement_MonthWithoutOne_IsRejected(t *testing.T) {
	s := start(t)
	s.shows("GET /v1/statements/{month}", 400, "invalid_request")
	s.shows("GET /v1/statements/{month}", 404, "not_found")
	c := s.account(plan.Growth, 50)
	for path, status := range map[string]int{
		"2026-10": 404, "2026-12": 404, "2026-13": 400, "2026-1": 400, "2026-11-21": 400, "november": 400, "2026-11?format=pdf": 400, "2026-11?format=": 400,
	} {
		code := "invalid_request"
		if status == http.StatusNotFound {
			code = "not_found"
		}
		c.get("/v1/statements/"+path).rejected(t, status, code)
	}
}
