package dashboard_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/plan"
	"letterhead/domain/proof"
	"letterhead/internal/eventlog"
	"letterhead/operations"
	"letterhead/projections/ledger"
	"letterhead/workers/generate"
)

// what returns the second cell of each row.
func (a answer) what() (all []string) {
	a.t.Helper()
	for _, row := range a.rows() {
		all = append(all, row[1])
	}
	return all
}

func TestLedger_Pages_HaveEveryEntryOnce(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	c.grant(1000, "pi_1")
	var want []string
	for i := range 120 {
		domain := fmt.Sprintf("d%03d.com", i)
		c.charge(domain, "")
		want = append(want, "Look-up of "+domain)
	}
	slices.Reverse(want)
	want = append(want, "Credits bought 49.00 EUR, pi_1", "Free credits")
	path, pages := "/dashboard/ledger", 0
	var got []string
	for {
		a := c.get(path).shows(200)
		got = append(got, a.what()...)
		if pages++; pages > 10 {
			t.Fatal("the pages do not end")
		}
		if strings.Contains(a.text(), "Newest entries") != (pages > 1) {
			t.Errorf("page %d: the link to the newest entries is there: %t", pages, pages == 1)
		}
		if !strings.Contains(a.text(), "Older entries") {
			break
		}
		path = a.link("Older entries")
	}
	if pages != 3 || !slices.Equal(got, want) {
		t.Errorf("%d pages have\n%q, want\n%q", pages, got, want)
	}
}

func TestLedger_Filters_Select(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	first := c.charge("acme.com", "")
	s.advance(24 * time.Hour)
	c.charge("bolt.com", "")
	s.advance(24 * time.Hour)
	c.charge("acme.com", "")
	_, err := s.node.Writers.Accounts.ChangePlan(t.Context(), commands.ChangePlan{Request: operator(), AccountID: c.id, Plan: plan.Starter})
	s.must(err)
	for _, f := range []struct {
		query string
		want  []string
	}{
		{"", []string{"Look-up of acme.com", "Look-up of bolt.com", "Look-up of acme.com", "Free credits"}},
		{"?type=&from=&to=&domain=&request_id=", []string{"Look-up of acme.com", "Look-up of bolt.com", "Look-up of acme.com", "Free credits"}},
		{"?type=CreditsCharged&domain=acme.com", []string{"Look-up of acme.com", "Look-up of acme.com"}},
		{"?domain=Olt", []string{"Look-up of bolt.com"}},
		{"?domain=https%3A%2F%2Fwww.bolt.com%2Fabout", []string{"Look-up of bolt.com"}},
		{"?from=2026-11-22", []string{"Look-up of acme.com", "Look-up of bolt.com"}},
		{"?to=2026-11-22", []string{"Look-up of bolt.com", "Look-up of acme.com", "Free credits"}},
		{"?from=2026-11-22&to=2026-11-22", []string{"Look-up of bolt.com"}},
		{"?request_id=" + first, []string{"Look-up of acme.com"}},
		{"?type=PlanChanged", []string{"Plan changed to starter"}},
		{"?type=all&from=2026-11-23", []string{"Plan changed to starter", "Look-up of acme.com"}},
	} {
		if got := c.get("/dashboard/ledger" + f.query).shows(200).what(); !slices.Equal(got, f.want) {
			t.Errorf("%s shows %q, want %q", f.query, got, f.want)
		}
	}
	for _, query := range []string{"?domain=zenith.com", "?request_id=nothing", "?from=2030-01-01"} {
		c.get("/dashboard/ledger"+query).shows(200, "No entry matches")
	}
	for _, typ := range ledger.CustomerTypes() {
		c.get("/dashboard/ledger?type=" + typ).shows(200)
	}
}

func TestLedger_LongHistory_IsSearchedInParts(t *testing.T) {
	s := start(t, baseURL)
	o := generate.Defaults()
	o.Accounts, o.Events = 1, 30_000
	_, err := generate.History(t.Context(), s.log.(eventlog.Importer), o, func(int) {})
	s.must(err)
	s.must(s.node.Operations.Reads.CatchUp(t.Context()))
	all, err := s.node.Models.Accounts.List(t.Context(), "", 1)
	s.must(err)
	c := &customer{service: s, id: all[0].ID, client: browser(t)}
	c.signIn("owner")
	latest := c.get("/dashboard/ledger?domain=nothing.com").shows(200, "No entry matches among the latest")
	c.get(latest.link("Search older entries")).shows(200, "No entry matches. Show the newest entries").lacks("Search older entries")
	opened := c.get(c.get("/dashboard/ledger?type=KeyIssued").link("Search older entries")).shows(200, "Key issued")
	if rows := opened.rows(); len(rows) == 0 {
		t.Error("the keys of the first day are not found")
	}
}

func TestLedger_WrongField_KeepsWhatWasTyped(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	for _, f := range []struct{ field, value, problem string }{
		{"type", "PaymentFeeRecorded", "no entries of this kind"},
		{"type", "x", "no entries of this kind"},
		{"from", "yesterday", "is not a day"},
		{"from", "2026-11", "is not a day"},
		{"to", "2026-02-30", "is not a day"},
		{"to", "1960-01-01", "is not a day"},
		{"domain", "<script>", "domain"},
		{"domain", uuid.NewString(), "not ids of brands"},
		{"request_id", strings.Repeat("a", 301), "longer than 300 bytes"},
	} {
		a := c.get("/dashboard/ledger?"+url.Values{f.field: {f.value}}.Encode()).shows(422, "Nothing is shown").lacks("<script>")
		if p := a.problemOf(f.field); !strings.Contains(p, f.problem) {
			t.Errorf("%s=%s: the sentence is %q", f.field, f.value, p)
		}
		if kept := a.form("/dashboard/ledger").Get(f.field); f.field != "type" && kept != f.value {
			t.Errorf("%s=%s is kept as %q", f.field, f.value, kept)
		}
	}
	if p := c.get("/dashboard/ledger?from=2026-11-20&to=2026-11-19").shows(422).problemOf("to"); !strings.Contains(p, "before the first one") {
		t.Errorf("the sentence is %q", p)
	}
	for _, before := range []string{"x", "-1", "0", "99999999999999999999", "1e3"} {
		c.get("/dashboard/ledger?before="+before).shows(422, "not one that the dashboard made")
	}
	c.get("/dashboard/ledger?domain=%ff").shows(422)
}

func TestRequest_Charge_IsExplained(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	hit := c.charge("acme.com", "")
	c.get("/dashboard/ledger/"+hit).shows(200, "Why was I charged?", "1 credit for this request", hit, "The index had the brand of acme.com, with a logo. 1 credit was charged.")

	by := commands.Request{ID: "req/with slash", Actor: "account:" + c.id}
	hold, err := s.node.Writers.Accounts.HoldCredits(t.Context(), commands.HoldCredits{Request: by, AccountID: c.id, Domain: "slow.com", Work: time.Minute})
	s.must(err)
	s.must(s.node.Writers.Accounts.ReleaseHold(t.Context(), commands.ReleaseHold{Request: by, AccountID: c.id, HoldID: hold.ID}))
	page := c.get("/dashboard/ledger?type=all")
	path := page.link("Held for the look-up of slow.com")
	c.get(path).shows(200, "Why was I not charged?", "0 credits for this request", "was to be crawled", "released")

	charge := commands.ChargeLookup{Request: commands.Request{ID: uuid.NewString(), Actor: "account:" + c.id}, AccountID: c.id, BrandID: uuid.NewString(), Domain: "gone.com"}
	receipt, err := s.node.Writers.Accounts.ChargeLookup(t.Context(), charge)
	s.must(err)
	_, err = s.node.Writers.Accounts.ReverseCharge(t.Context(), commands.ReverseCharge{Request: operator(), AccountID: c.id, ChargeID: receipt.ChargeID, Revision: receipt.Revision, Reason: "client_gone"})
	s.must(err)
	c.get("/dashboard/ledger/"+charge.Request.ID).shows(200, "Why was I not charged?", "disconnected before the answer. 1 credit was returned.")

	c.get("/dashboard/ledger?type=CreditsGranted").shows(200, "Free credits")
	c.get(c.get("/dashboard/ledger?type=CreditsGranted").link("Free credits")).shows(200, "What this request did", "Account opened").lacks("for this request")
	for _, id := range []string{"nothing", "%00", "%ff", "a%2Fb"} {
		c.get("/dashboard/ledger/"+id).shows(404, "no entries of this request")
	}
}

func TestStatements_Months_AreListedAndServed(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	c.grant(1000, "pi_1")
	c.charge("acme.com", "")
	s.advance(30 * 24 * time.Hour) // to 21 December
	c.signIn("owner")
	c.charge("bolt.com", "")
	c.charge("bolt.com", "")

	list := c.get("/dashboard/statements")
	rows := list.rows()
	if len(rows) != 2 || !slices.Equal(rows[0][:5], []string{"December 2026", "provisional the month is not over", "2", "0", "0"}) || !slices.Equal(rows[1][:5], []string{"November 2026", "not closed yet", "1", "0", "0"}) {
		t.Fatalf("the months are %q", rows)
	}
	page := c.get(list.link("Print the statement of November 2026"))
	if page.status != 200 || !strings.Contains(page.body, "Statement") || !strings.Contains(page.body, "<td>1,049</td>") || !strings.Contains(page.body, "pi_1") {
		t.Errorf("status %d, page\n%s", page.status, page.body)
	}
	if a := c.get("/dashboard/statements/2026-12"); a.status != 200 || !strings.Contains(a.body, "Provisional: the month is not over") {
		t.Errorf("status %d, page\n%s", a.status, a.body)
	}
	for format, f := range map[string]struct{ contentType, want string }{
		"csv": {"text/csv; charset=utf-8", "closing_balance,,,,,,,1049,"}, "json": {"application/json; charset=utf-8", `"closing_balance":1049`},
	} {
		a := c.get("/dashboard/statements/2026-11?format=" + format)
		if a.status != 200 || a.header.Get("Content-Type") != f.contentType || a.header.Get("Content-Disposition") != `attachment; filename="statement-2026-11.`+format+`"` || !strings.Contains(a.body, f.want) {
			t.Errorf("%s: status %d, header %v\n%s", format, a.status, a.header, a.body)
		}
	}
	for path, text := range map[string]string{"2026-10": "opened after", "2027-01": "not begun", "2026": "like 2026-11", "x": "like 2026-11", "2026-11?format=xml": "csv or json"} {
		c.get("/dashboard/statements/"+path).shows(404, "no such statement", text)
	}

	_, _, err := s.node.Operations.Books.CloseMonth(t.Context(), operator(), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	s.must(err)
	if rows := c.get("/dashboard/statements").rows(); rows[1][1] != "closed" {
		t.Errorf("the closed month is %q", rows[1])
	}
}

func TestProof_CustomersOwnMonth_IsDownloaded(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	c.charge("acme.com", "")
	c.get("/dashboard/statements/2026-11/proof").shows(409, "no checkpoint yet")
	s.checkpoint()
	link := c.get("/dashboard/statements").link("Proof of November 2026")
	a := c.get(link)
	if a.status != 200 || a.header.Get("Content-Disposition") != `attachment; filename="proof-2026-11.txt"` {
		t.Fatalf("status %d, header %v\n%s", a.status, a.header, a.body)
	}
	text, err := operations.PublicLedgerKeys(s.node.Config)
	s.must(err)
	keys, err := proof.ParseKeys(text)
	s.must(err)
	if report, err := proof.Check(strings.NewReader(a.body), keys, nil); err != nil || report.AccountID != c.id || !report.Provisional {
		t.Errorf("the proof shows %+v, %v; want one of %s", report, err, c.id)
	}
	s.signedIn("Bolt", plan.Growth).get("/dashboard/statements/2026-11/proof").shows(409, "last checkpoint of the ledger is older")
	for path, text := range map[string]string{"2026-10": "opened after", "2027-01": "not begun", "x": "like 2026-11"} {
		c.get("/dashboard/statements/"+path+"/proof").shows(404, "no such statement", text)
	}
	s.advance(20 * 24 * time.Hour) // to 11 December
	c.signIn("owner")
	c.get("/dashboard/statements/2026-12/proof").shows(409, "last checkpoint of the ledger is older")
}

func (s *service) checkpoint() {
	_, err := s.node.Operations.Checkpoints.Make(s.t.Context(), operator(), time.Time{}, "")
	s.must(err)
}
