package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/operator"
	"letterhead/eventschemas"
)

func TestAccounts_SpendUseAndCreditsOutstanding_AreAnswered(t *testing.T) {
	s := start(t)
	idle, busy := s.open("Idle").Account.ID, s.open("Busy").Account.ID
	_, err := s.node.Writers.Accounts.ChargeLookup(t.Context(), commands.ChargeLookup{Request: commands.Request{ID: "r", Actor: "account:" + busy}, AccountID: busy, BrandID: "7c0c2b1e-5a39-5b8d-9a50-0f4a3f1d2c3b", Domain: "acme.com"})
	s.must(err)
	for _, order := range []string{"-spend", "-used"} {
		var page struct {
			Accounts []struct {
				Account struct{ ID string }
				Spent   *struct {
					Month   string
					Credits int64
				}
				LastUsedAt time.Time `json:"last_used_at"`
			}
		}
		s.get("/admin/accounts?sort="+order).want(http.StatusOK, &page)
		if len(page.Accounts) != 2 || page.Accounts[0].Account.ID != busy || page.Accounts[1].Account.ID != idle {
			t.Fatalf("sorted by %s: %+v", order, page)
		}
		used, never := page.Accounts[0], page.Accounts[1]
		if used.Spent == nil || used.Spent.Credits != 1 || used.Spent.Month != used.LastUsedAt.Format("2006-01") || never.Spent != nil || !never.LastUsedAt.IsZero() {
			t.Errorf("sorted by %s: %+v, %+v", order, used, never)
		}
	}
	s.post("/admin/accounts/"+idle+"/close", "").want(http.StatusOK, nil)
	if a := s.get("/admin/books/outstanding").want(http.StatusOK, nil); strings.TrimSpace(a.text) !=
		`{"credits":99,"rows":[{"plan":"growth","status":"active","accounts":1,"credits":49},{"plan":"growth","status":"closed","accounts":1,"credits":50}]}` {
		t.Errorf("credits outstanding: %s", a.text)
	}
}

func TestFailures_Pages_AreNewestFirst(t *testing.T) {
	s := start(t)
	for i, outcome := range brand.Failures {
		domain := fmt.Sprintf("brand-%d.com", i)
		crawl, err := s.node.Writers.Brands.RequestCrawl(t.Context(), commands.RequestCrawl{Request: s.node.Operator(), Domain: domain, Cause: brand.CauseOperator, Priority: brand.PriorityLive, Allowed: time.Minute})
		s.must(err)
		s.must(s.node.Writers.Brands.FailCrawl(t.Context(), commands.FailCrawl{Request: s.node.Operator(), Domain: domain, CrawlID: crawl.ID, Outcome: outcome, Detail: "It failed."}))
	}
	type listing struct {
		Failures   []struct{ Domain, Outcome, Detail string }
		NextCursor string `json:"next_cursor"`
	}
	got, cursor := "", ""
	for range brand.Failures {
		var page listing
		s.get("/admin/crawls/failures?limit=2"+cursor).want(http.StatusOK, &page)
		for _, f := range page.Failures {
			got += f.Domain + " " + f.Outcome + ";"
		}
		if page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}
	if want := "brand-4.com no_data;brand-3.com dns;brand-2.com fetch_failed;brand-1.com blocked;brand-0.com timeout;"; got != want {
		t.Errorf("failures %s, want %s", got, want)
	}
	var page listing
	s.get("/admin/crawls/failures?outcome=dns").want(http.StatusOK, &page)
	if len(page.Failures) != 1 || page.Failures[0].Detail != "It failed." {
		t.Errorf("failures with the outcome dns: %+v, want one", page.Failures)
	}
	s.get("/admin/crawls/failures?outcome=none").rejected(http.StatusBadRequest, "outcome")
	s.get("/admin/crawls/failures?cursor=none").rejected(http.StatusBadRequest, "cursor")
}

func TestListings_Pages_HaveEveryRowOnce(t *testing.T) {
	s := start(t)
	for i := range 5 {
		id := s.open(fmt.Sprintf("Account %d", i)).Account.ID
		s.post("/admin/accounts/"+id+"/grants", fmt.Sprintf(`{"credits":%d,"payment_id":"p%d","money":100,"currency":"EUR"}`, 10+i, i)).want(http.StatusOK, nil)
	}
	for _, path := range []string{"/admin/accounts?", "/admin/accounts?sort=-balance&", "/admin/accounts?sort=spend&", "/admin/accounts?sort=-used&", "/admin/payments?sort=credits&"} {
		seen, cursor := map[string]bool{}, ""
		for range 5 {
			var page struct {
				Accounts []account
				Payments []struct {
					PaymentID string `json:"payment_id"`
				}
				NextCursor string `json:"next_cursor"`
			}
			s.get(path+"limit=2"+cursor).want(http.StatusOK, &page)
			for _, a := range page.Accounts {
				seen[a.Account.ID] = true
			}
			for _, p := range page.Payments {
				seen[p.PaymentID] = true
			}
			if page.NextCursor == "" {
				break
			}
			cursor = "&cursor=" + page.NextCursor
		}
		if len(seen) != 5 {
			t.Errorf("%s: %d rows, want 5", path, len(seen))
		}
	}
}

func TestBrandHistory_CrawlsAndOverrides_AreListed(t *testing.T) {
	s := start(t)
	s.get("/admin/brands/acme.com/history").rejected(http.StatusNotFound, "acme.com")
	s.get("/admin/brands/not_a_domain/history").rejected(http.StatusBadRequest, "")
	before, after := "Acme", "Acme Inc."
	evidence := []eventschemas.Evidence{{Field: "name", Source: "https://acme.com/", Method: "og:site_name", Confidence: 0.9}}
	_, err := s.node.Writers.Brands.ImportBrand(t.Context(), commands.ImportBrand{Request: s.node.Operator(), Domain: "acme.com", Source: "catalog 1", Evidence: evidence,
		Record: eventschemas.Record{Name: &before, Company: eventschemas.EmptyCompany(), QualityScore: 0.5}})
	s.must(err)
	var crawl struct {
		CrawlID string `json:"crawl_id"`
	}
	s.post("/admin/brands/acme.com/crawl", "").want(http.StatusAccepted, &crawl)
	s.must(s.node.Writers.Brands.FailCrawl(t.Context(), commands.FailCrawl{Request: s.node.Operator(), Domain: "acme.com", CrawlID: crawl.CrawlID, Outcome: brand.Timeout}))
	s.send(request{method: "PUT", path: "/admin/brands/acme.com/overrides/name", body: `{"value":"` + after + `","reason":"its owner asked"}`}).want(http.StatusOK, nil)
	var history struct {
		Changes []struct {
			Type, Source, Outcome, Cause, Actor, Reason string
			Fields                                      []struct {
				Field         string
				Before, After json.RawMessage
			}
			Evidence []eventschemas.Evidence
		}
	}
	s.get("/admin/brands/www.acme.com/history").want(http.StatusOK, &history)
	var types []string
	for _, c := range history.Changes {
		types = append(types, c.Type)
	}
	if want := []string{"FieldOverridden", "CrawlFailed", "CrawlRequested", "BrandImported"}; !slices.Equal(types, want) {
		t.Fatalf("the events are %v, want %v", types, want)
	}
	set, failed, imported := history.Changes[0], history.Changes[1], history.Changes[3]
	if len(set.Fields) != 1 || set.Fields[0].Field != "name" || string(set.Fields[0].After) != `"Acme Inc."` || set.Reason != "its owner asked" || !strings.HasPrefix(set.Actor, "operator:") {
		t.Errorf("the override is %+v", set)
	}
	if failed.Outcome != brand.Timeout || history.Changes[2].Cause != brand.CauseRefresh {
		t.Errorf("the crawl is %+v, %+v", history.Changes[2], failed)
	}
	if imported.Source != "catalog 1" || !slices.Equal(imported.Evidence, evidence) || !slices.ContainsFunc(imported.Fields, func(f struct {
		Field         string
		Before, After json.RawMessage
	}) bool {
		return f.Field == "name" && len(f.Before) == 0 && string(f.After) == `"Acme"`
	}) {
		t.Errorf("the import is %+v", imported)
	}
	s.post("/admin/brands/acme.com/withdraw", "").want(http.StatusOK, nil)
	s.get("/admin/brands/acme.com/history").rejected(http.StatusNotFound, "taken out")
}

func TestLedger_NewestFirst_PagesLeadToTheFirstEvent(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	var types []string
	path := "/admin/accounts/" + id + "/ledger?order=newest&limit=3"
	for next := path; next != ""; {
		var page struct {
			Entries []struct{ Type string }
			Next    string `json:"next_cursor"`
		}
		s.get(next).want(http.StatusOK, &page)
		for _, e := range page.Entries {
			types = append(types, e.Type)
		}
		if next = ""; page.Next != "" {
			next = path + "&cursor=" + page.Next
		}
	}
	if want := []string{"KeyIssued", "KeyIssued", "CreditsGranted", "AccountOpened"}; !slices.Equal(types, want) {
		t.Errorf("the events are %v, want %v", types, want)
	}
	s.get(path+"&cursor=0").rejected(http.StatusBadRequest, "cursor")
	s.get("/admin/accounts/"+id+"/ledger?order=up").rejected(http.StatusBadRequest, "order")
}

func TestActions_OfOperators_ArePaged(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	s.post("/admin/accounts/"+id+"/suspend", `{"reason":"fraud"}`).want(http.StatusOK, nil)
	type page struct {
		Actions []struct {
			Type, Actor, Stream string
			Name                string `json:"actor_name"`
			RequestID           string `json:"request_id"`
		}
		Next string `json:"next_cursor"`
	}
	var first, second, none, unnamed page
	s.get("/admin/actions?stream=account-"+id+"&limit=1").want(http.StatusOK, &first)
	if len(first.Actions) != 1 || first.Actions[0].Type != "AccountSuspended" || !strings.HasPrefix(first.Actions[0].Actor, "operator:") || first.Actions[0].RequestID == "" || first.Actions[0].Name == "" || first.Next == "" {
		t.Fatalf("the newest action is %+v", first)
	}
	s.get("/admin/actions?stream=account-"+id+"&limit=1&cursor="+first.Next).want(http.StatusOK, &second)
	if len(second.Actions) != 1 || second.Actions[0].Type == "AccountSuspended" {
		t.Errorf("the second page is %+v", second)
	}
	s.send(request{method: "GET", path: "/admin/actions?limit=1", token: s.tok[operator.Finance]}).want(http.StatusOK, &unnamed)
	if unnamed.Actions[0].Name != "" {
		t.Errorf("a token of the scope finance gets the name %q", unnamed.Actions[0].Name)
	}
	if s.get("/admin/actions?actor=operator:unknown").want(http.StatusOK, &none); len(none.Actions) != 0 {
		t.Errorf("an unknown actor has done %+v", none)
	}
	s.get("/admin/actions?cursor=0").rejected(http.StatusBadRequest, "cursor")
}

func TestReads_OfBooksAndModels(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	s.get("/admin/books/months").want(http.StatusOK, nil)
	var balances struct {
		Balances []struct {
			Currency      string
			Debit, Credit int64
		}
		Provisional bool
	}
	var deferred struct{ Rows []struct{ Provisional bool } }
	for at, provisional := range map[string]bool{"?at=2020-01": false, "?at=" + s.node.Now().Format("2006-01"): true, "": true} {
		balances.Provisional = false // it is left out of an answer that is final
		s.get("/admin/books/trial-balance"+at).want(http.StatusOK, &balances)
		s.get("/admin/books/deferred"+at).want(http.StatusOK, &deferred)
		if balances.Provisional != provisional || len(deferred.Rows) == 0 == provisional || provisional && !deferred.Rows[0].Provisional {
			t.Errorf("%q: provisional = %t and %+v, want %t", at, balances.Provisional, deferred, provisional)
		}
	}
	s.get("/admin/books/trial-balance?at=2030-01").rejected(http.StatusBadRequest, "future")
	s.get("/admin/books/deferred?at=2030-01").rejected(http.StatusBadRequest, "future")
	s.get("/admin/books/trial-balance").want(http.StatusOK, &balances)
	sums := map[string]int64{}
	for _, b := range balances.Balances {
		sums[b.Currency] += b.Debit - b.Credit
	}
	if len(sums) == 0 || sums["CREDIT"] != 0 {
		t.Errorf("balances: %+v", balances)
	}
	var models struct{ Projections []struct{ Name string } }
	s.get("/admin/projections").want(http.StatusOK, &models)
	found := false
	for _, m := range models.Projections {
		found = found || m.Name == "operators"
	}
	if !found {
		t.Errorf("read models: %+v", models)
	}
	s.get("/admin/projections/operators/rebuild").rejected(http.StatusNotFound, "has begun a rebuild")
	s.post("/admin/projections/operators/rebuild", "").want(http.StatusAccepted, nil)
	s.post("/admin/projections/missing/rebuild", "").rejected(http.StatusNotFound, "missing")
	var health struct{ Events, Position uint64 }
	if s.get("/admin/health").want(http.StatusOK, &health); health.Events == 0 || health.Events != health.Position {
		t.Errorf("%+v, want the number of events", health)
	}
	s.get("/admin/accounts/"+id+"?as_of=2030-01").rejected(http.StatusBadRequest, "future")
	s.get("/admin/accounts/"+id+"?as_of=2020-01").rejected(http.StatusNotFound, "opened later")
	month := s.node.Now().Format("2006-01")
	var past struct {
		Provisional bool
		Lots        []struct{ Credits int64 }
	}
	s.get("/admin/accounts/"+id+"?as_of="+month).want(http.StatusOK, &past)
	if !past.Provisional || len(past.Lots) != 1 || past.Lots[0].Credits != 50 {
		t.Errorf("as of this month: %+v", past)
	}
	s.get("/admin/accounts/"+id+"/statements/"+month).want(http.StatusOK, nil)
	if csv := s.get("/admin/accounts/" + id + "/statements/" + month + "?format=csv"); csv.status != http.StatusOK || json.Valid([]byte(csv.text)) {
		t.Errorf("CSV: %d %s", csv.status, csv.text)
	}
}
