package readapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/projections/brands"
	"letterhead/projections/ledger"
	"letterhead/readapi"
)

// ledgerPage is an answer of GET /v1/ledger.
type ledgerPage struct {
	Entries    []ledger.Entry `json:"entries"`
	NextCursor string         `json:"next_cursor"`
	Balance    *int64         `json:"balance"`

	Provisional bool `json:"provisional"`
}

func (c *customer) ledger(query url.Values) ledgerPage {
	c.s.t.Helper()
	a := c.get("/v1/ledger?" + query.Encode())
	a.ok(c.s.t)
	var page ledgerPage
	c.s.must(json.Unmarshal(a.body, &page))
	return page
}

// paid grants 1000 credits for 49 EUR.
func (c *customer) paid(payment string) {
	c.s.t.Helper()
	_, err := c.s.writer.GrantCredits(c.s.t.Context(), commands.GrantCredits{Request: operator(), AccountID: c.id, Kind: account.KindTopup, Credits: 1000,
		PaymentID: payment, Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}, Tax: 782})
	c.s.must(err)
}

func TestLedger_FeesAndNotes_AreNotShown(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	c.paid("pi_1")
	_, err := s.writer.RecordFee(t.Context(), commands.RecordFee{Request: operator(), AccountID: c.id, FeeID: "txn_1", PaymentID: "pi_1", Money: eventschemas.Money{Minor: 145, Currency: "EUR"}})
	s.must(err)
	_, err = s.writer.Note(t.Context(), commands.NoteAccount{Request: operator(), AccountID: c.id, Text: "Pays late."})
	s.must(err)
	if of := c.ledger(url.Values{"payment_id": {"pi_1"}}); len(of.Entries) != 1 || of.Entries[0].Money != 4900 {
		t.Errorf("the payment has the entries %+v, want only the grant", of.Entries)
	}
	for _, path := range []string{"/v1/ledger", "/v1/statements/" + s.clock.now().Format("2006-01")} {
		if body := string(c.get(path).body); strings.Contains(body, "txn_1") || strings.Contains(body, "PaymentFeeRecorded") || strings.Contains(body, "Noted") || strings.Contains(body, "Pays late.") || !strings.Contains(body, "pi_1") {
			t.Errorf("%s has %s, want the payment without its fee and without the note", path, body)
		}
	}
}

func TestLedger_Entries_PagesAndFilters(t *testing.T) {
	s := start(t)
	s.shows("GET /v1/ledger", 200)
	c, other := s.account(plan.Growth, 50), s.account(plan.Growth, 50)
	s.known("acme.com", record("acme"))
	c.paid("pi_1")
	request := c.get("/v1/brands/acme.com").ok(t).Get("X-Request-Id")
	other.get("/v1/brands/acme.com").ok(t)
	s.clock.add(time.Hour)
	later := s.clock.now()
	charge := c.get("/v1/brands/acme.com").ok(t).Get("X-Request-Id")

	all := c.ledger(nil)
	if all.NextCursor != "" || all.Balance != nil || len(all.Entries) < 5 {
		t.Fatalf("got %+v", all)
	}
	for i, e := range all.Entries {
		if e.AccountID != c.id || e.Revision != uint64(i) || len(e.Hash) != 64 || e.Position == 0 {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	if last := all.Entries[len(all.Entries)-1]; last.RequestID != charge || last.Balance != 1048 || last.KeyID != c.secretID {
		t.Errorf("the last entry is %+v, want the charge of %s", last, charge)
	}
	var paged []ledger.Entry
	for query := (url.Values{"limit": {"2"}}); ; {
		page := c.ledger(query)
		paged = append(paged, page.Entries...)
		if page.NextCursor == "" {
			break
		}
		if len(page.Entries) != 2 {
			t.Fatalf("a page of %d entries, want 2", len(page.Entries))
		}
		query.Set("cursor", page.NextCursor)
	}
	if !slices.Equal(paged, all.Entries) {
		t.Errorf("pages have %+v, want %+v", paged, all.Entries)
	}

	entry := func(id string) uint64 {
		i := slices.IndexFunc(all.Entries, func(e ledger.Entry) bool { return e.RequestID == id || e.PaymentID == id })
		return all.Entries[i].Revision
	}
	for _, f := range []struct {
		query string
		want  []uint64
	}{
		{"request_id=" + request, []uint64{entry(request)}},
		{"payment_id=pi_1", []uint64{entry("pi_1")}},
		{"type=CreditsCharged", []uint64{entry(request), entry(charge)}},
		{"type=CreditsCharged&key=" + c.secretID + "&to=" + testDay.Format(time.RFC3339), []uint64{entry(request)}},
		{"from=" + later.Format(time.RFC3339), []uint64{entry(charge)}},
		{"from=2026-12", nil}, {"to=2026-10", nil}, {"key=none", nil},
	} {
		values, err := url.ParseQuery(f.query)
		s.must(err)
		var got []uint64
		for _, e := range c.ledger(values).Entries {
			got = append(got, e.Revision)
		}
		if !slices.Equal(got, f.want) {
			t.Errorf("%s selects %v, want %v", f.query, got, f.want)
		}
	}
	for asOf, want := range map[string]int64{"2026-10": 0, testDay.Format(time.RFC3339): 1049, "2026-11-21": 1048, "2026-11": 1048} {
		if page := c.ledger(url.Values{"as_of": {asOf}, "limit": {"1"}}); page.Balance == nil || *page.Balance != want {
			t.Errorf("as of %s: %+v, want a balance of %d", asOf, page, want)
		} else if running := asOf == "2026-11" || asOf == "2026-11-21"; page.Provisional != running {
			t.Errorf("as of %s: provisional = %t, want %t", asOf, page.Provisional, running)
		}
	}
	if got := c.books().balance(); got != 1048 {
		t.Errorf("the balance is %d; reading the ledger must be free", got)
	}
}

func TestLedger_BadParameter_Is400(t *testing.T) {
	s := start(t)
	s.shows("GET /v1/ledger", 400, "invalid_request")
	c := s.account(plan.Growth, 50)
	for _, bad := range []string{
		"limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=-1", "type=Charge", "from=yesterday", "to=2026-13", "as_of=2026-02-30",
		"to=2026-11&as_of=2026-11", "from=", "type=", "cursor=", "key=", "request_id=", "payment_id=", "from=2026-11&from=2026-10", "key=%FF%", "key=%FF", "key=a%00b",
		"type=PeriodClosed", "type=PaymentFeeRecorded", "type=AccountNoted", "from=2026-12&to=2026-11", "as_of=1969", "as_of=2026-12", "to=0000-12",
	} {
		c.get("/v1/ledger?"+bad).rejected(t, 400, "invalid_request")
	}
}

// A third request of an account, while two are running, is rejected; another account is served.
func TestLedger_TooManyOfOneAccount_Is503(t *testing.T) {
	var blocked atomic.Bool
	running, release := make(chan struct{}), make(chan struct{})
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.LedgerCaughtUp = func(context.Context) error {
				if blocked.Load() {
					running <- struct{}{}
					<-release
				}
				return nil
			}
		}
	})
	c, other := s.account(plan.Growth, 50), s.account(plan.Growth, 50)
	s.catchUp() // requests do not wait for the read model here
	blocked.Store(true)
	var answers sync.WaitGroup
	for _, path := range []string{"/v1/ledger", "/v1/statements/2026-11"} {
		answers.Go(func() {
			if a, err := s.do(t.Context(), request{path: path, header: bearer(c.secret)}); err != nil || a.status != 200 {
				t.Errorf("%s: %v, status %d: %s", path, err, a.status, a.body)
			}
		})
		<-running
	}
	blocked.Store(false)
	for _, path := range []string{"/v1/ledger", "/v1/ledger/x", "/v1/statements/2026-11"} {
		c.get(path).rejected(t, 503, "upstream_failed")
	}
	other.get("/v1/ledger").ok(t)
	close(release)
	answers.Wait()
	c.get("/v1/ledger").ok(t)
}

// explained is an answer of GET /v1/ledger/{request_id}.
type explained struct {
	RequestID string `json:"request_id"`
	Charged   int64  `json:"charged"`
	Entries   []struct {
		ledger.Entry
		Meaning string `json:"meaning"`
	} `json:"entries"`
	Crawls []struct {
		brands.Crawl
		Meaning string `json:"meaning"`
	} `json:"crawls"`
}

// explained returns the explanation of a request, and its text.
func (c *customer) explained(request, query string) (explained, string) {
	c.s.t.Helper()
	a := c.get("/v1/ledger/" + request + query)
	a.ok(c.s.t)
	var got explained
	c.s.must(json.Unmarshal(a.body, &got))
	return got, string(a.body)
}

func TestLedgerRequest_EachOutcome_IsExplained(t *testing.T) {
	s := start(t)
	s.shows("GET /v1/ledger/{request_id}", 200)
	s.shows("GET /v1/ledger/{request_id}", 404, "not_found")
	c, other := s.account(plan.Growth, 50), s.account(plan.Growth, 50)
	s.known("acme.com", record("acme"))
	s.crawler.finds("new.com", record("new"))
	s.crawler.fails("gone.com", brand.DNS)
	known := c.get("/v1/brands/acme.com").ok(t).Get("X-Request-Id")
	crawled := c.get("/v1/brands/new.com").ok(t).Get("X-Request-Id")
	failed := c.get("/v1/brands/gone.com").header.Get("X-Request-Id")
	reversed := c.get("/v1/brands/acme.com").ok(t).Get("X-Request-Id")
	s.catchUp()
	for e, err := range s.node.Models.Ledger.Entries(t.Context(), c.id, ledger.Filter{RequestID: reversed}) {
		s.must(err)
		_, err := s.writer.ReverseCharge(t.Context(), commands.ReverseCharge{Request: operator(), AccountID: c.id, ChargeID: e.ChargeID, Revision: e.Revision, Reason: account.ReasonOperator})
		s.must(err)
	}
	for _, r := range []struct {
		id       string
		charged  int64
		meanings []string // beginnings
	}{
		{known, 1, []string{"CreditsCharged The index had the brand of acme.com"}},
		{crawled, 1, []string{"CreditsHeld 1 credit was held while the site of new.com", "CreditsCharged 1 credit was charged for the brand of new.com"}},
		{failed, 0, []string{"CreditsHeld 1 credit was held", "HoldReleased 1 credit was released"}},
		{reversed, 0, []string{"CreditsCharged The index had", "ChargeReversed The operator reversed the charge. 1 credit was returned."}},
	} {
		a := c.get("/v1/ledger/" + r.id)
		a.ok(t)
		var got explained
		s.must(json.Unmarshal(a.body, &got))
		if got.RequestID != r.id || got.Charged != r.charged || len(got.Entries) != len(r.meanings) {
			t.Errorf("got %s, want %d credits and %q", a.body, r.charged, r.meanings)
			continue
		}
		for i, e := range got.Entries {
			if have := fmt.Sprint(e.Type, " ", e.Meaning); !strings.HasPrefix(have, r.meanings[i]) || e.Hash == "" || e.Position == 0 {
				t.Errorf("entry %d is %+v, want %q", i, e, r.meanings[i])
			}
		}
		other.get("/v1/ledger/"+r.id).rejected(t, 404, "not_found")
	}
	c.get("/v1/ledger/none").rejected(t, 404, "not_found")
	for _, odd := range []string{"a%2Fb", "a%00b", "%FF"} {
		c.get("/v1/ledger/"+odd).rejected(t, 404, "not_found")
	}
}

// A read model that cannot be folded any more is unavailable, not an error of the request.
func TestLedger_ReadModelBehind_Is503(t *testing.T) {
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.LedgerCaughtUp = func(context.Context) error { return errors.New("the read model is quarantined") }
		}
	})
	c := s.account(plan.Growth, 50)
	for _, path := range []string{"/v1/ledger", "/v1/ledger/x", "/v1/statements/2026-11"} {
		c.get(path).rejected(t, 503, "upstream_failed")
	}
}

func TestLedgerRequest_HeldCredit_ShowsTheCrawl(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.known("acme.com", record("acme"))
	s.crawler.finds("new.com", record("new"))
	s.crawler.fails("gone.com", brand.DNS)
	const restriction = "The site is adult content."
	s.crawler.finds("restricted.com", eventschemas.Record{NSFW: true, Restriction: &eventschemas.Restriction{Code: "nsfw", Message: restriction}})
	s.crawler.finds("withdrawn.com", record("withdrawn"))
	id := func(path string) string { return c.get(path).header.Get("X-Request-Id") }
	known, crawled, confirmed := id("/v1/brands/acme.com"), id("/v1/brands/new.com"), id("/v1/brands/new.com?refresh=true")
	failed, hidden, withdrawn := id("/v1/brands/gone.com"), id("/v1/brands/restricted.com"), id("/v1/brands/withdrawn.com")
	s.must(s.brands.WithdrawBrand(t.Context(), commands.WithdrawBrand{Request: operator(), Domain: "withdrawn.com", Reason: "the owner asked"}))
	for _, r := range []struct{ id, domain, cause, outcome, meaning string }{
		{known, "", "", "", ""},
		{crawled, "new.com", brand.CauseLookup, brand.Succeeded, "The site of new.com was crawled for this request. The crawl succeeded."},
		{confirmed, "new.com", brand.CauseRefresh, brand.Confirmed, "The site of new.com was crawled for this request. The crawl confirmed the data that was known."},
		{failed, "gone.com", brand.CauseLookup, brand.DNS, "The site of gone.com was crawled for this request. The domain does not exist."},
		{hidden, "restricted.com", brand.CauseLookup, brand.Succeeded, "The site of restricted.com was crawled for this request. The crawl succeeded."},
		{withdrawn, "", "", "", ""},
	} {
		got, body := c.explained(r.id, "")
		if strings.Contains(body, "as the script says") || strings.Contains(body, "nsfw") || strings.Contains(body, restriction) {
			t.Errorf("the answer has the detail of a failure, or content of a record: %s", body)
		}
		if r.domain == "" {
			if len(got.Crawls) != 0 || !strings.Contains(body, `"crawls":[]`) {
				t.Errorf("got %s, want no crawls", body)
			}
			continue
		}
		if len(got.Crawls) != 1 || len(got.Entries) != 2 {
			t.Errorf("got %s, want one crawl between two entries", body)
			continue
		}
		crawl, held, closed := got.Crawls[0], got.Entries[0].Position, got.Entries[1].Position
		if crawl.Domain != r.domain || crawl.CrawlID == "" || crawl.Joined || crawl.Cause != r.cause || crawl.Outcome != r.outcome || crawl.Meaning != r.meaning {
			t.Errorf("crawl %+v, want %+v", crawl, r)
		}
		if at := crawl.Requested; at.Position <= held || crawl.Ended.Position <= at.Position || crawl.Ended.Position >= closed || crawl.Ended.Revision <= at.Revision || at.At.IsZero() || crawl.Ended.At.Before(at.At) {
			t.Errorf("held at %d, crawl %+v, closed at %d", held, crawl, closed)
		}
	}
}

func TestLedgerRequest_CrawlOfAnotherAccount_IsJoined(t *testing.T) {
	s := start(t)
	first, second := s.account(plan.Growth, 50), s.account(plan.Growth, 50)
	finish := make(chan struct{})
	s.crawler.does("new.com", func(context.Context, eventschemas.CrawlRequested) ending {
		<-finish
		r := record("new")
		return ending{record: &r}
	})
	ids := map[*customer]string{}
	var mu sync.Mutex
	var answers sync.WaitGroup
	for _, c := range []*customer{first, second} {
		answers.Go(func() {
			a, err := s.do(t.Context(), request{path: "/v1/brands/new.com", header: bearer(c.secret)})
			if err != nil || a.status != 200 {
				t.Errorf("%v, status %d: %s", err, a.status, a.body)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[c] = a.header.Get("X-Request-Id")
		})
		s.crawler.sees("new.com")
		c.until("the credit is held", func(b books) bool { return len(b.openHolds) == 1 })
	}
	during := s.clock.now()
	s.clock.add(time.Minute)
	close(finish)
	answers.Wait()
	own, _ := first.explained(ids[first], "")
	joined, body := second.explained(ids[second], "")
	if len(own.Crawls) != 1 || len(joined.Crawls) != 1 || own.Crawls[0].Joined || !joined.Crawls[0].Joined {
		t.Fatalf("got %+v and %+v, want one crawl, which the second joined", own, joined)
	}
	a, b := own.Crawls[0].Crawl, joined.Crawls[0].Crawl
	if b.Joined = false; a != b || b.Outcome != brand.Succeeded || b.Requested.Position >= joined.Entries[0].Position {
		t.Errorf("the crawl is %+v for one and %+v for the other", a, b)
	}
	if strings.Contains(body, ids[first]) || strings.Contains(body, first.id) {
		t.Errorf("the answer identifies the other request or account: %s", body)
	}
	if then, text := second.explained(ids[second], "?as_of="+url.QueryEscape(during.Format(time.RFC3339Nano))); len(then.Entries) != 1 || len(then.Crawls) != 1 || then.Crawls[0].Outcome != brands.Running || strings.Contains(text, `"ended"`) {
		t.Errorf("before the crawl ended: %s", text)
	}
}

func TestLedgerRequest_Batch_ShowsTheCrawlOfEachHold(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.known("acme.com", record("acme"))
	s.crawler.finds("new.com", record("new"))
	s.crawler.fails("gone.com", brand.NoData)
	_, header := c.batch("acme.com", "new.com", "gone.com")
	got, body := c.explained(header.Get("X-Request-Id"), "")
	outcomes := map[string]string{}
	for _, crawl := range got.Crawls {
		outcomes[crawl.Domain] = crawl.Outcome
	}
	if want := map[string]string{"new.com": brand.Succeeded, "gone.com": brand.NoData}; !maps.Equal(outcomes, want) || got.Charged != 2 {
		t.Errorf("got %s, want %v", body, want)
	}
}
