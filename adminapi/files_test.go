package adminapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"letterhead/commands"
	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/projections/accounts"
	"letterhead/projections/brands"
)

// A file has all rows, also those beyond the largest page of its read model.
func TestFile_MoreRowsThanAPage_HasAll(t *testing.T) {
	s := start(t)
	name := "Acme"
	record := eventschemas.Record{Name: &name, Company: eventschemas.EmptyCompany(), QualityScore: 0.5, Complete: true}
	for i := range brands.MaxPage + 1 {
		_, err := s.node.Writers.Brands.ImportBrand(t.Context(), commands.ImportBrand{Request: s.node.Operator(), Domain: fmt.Sprintf("acme%d.com", i), Source: "set@1", Record: record})
		s.must(err)
	}
	a := s.get("/admin/brands?format=csv")
	if rows := strings.Count(a.text, "\n") - 1; a.status != http.StatusOK || rows != brands.MaxPage+1 {
		t.Errorf("the file has %d rows (status %d), want %d", rows, a.status, brands.MaxPage+1)
	}
	for filter, want := range map[string]int{"acme7.com": 1, "+ACME7.com": 1, "https://www.acme7.com/about": 1, "acme99": 11, "me7.": 1} {
		if rows := strings.Count(s.get("/admin/brands?format=csv&domain="+filter).text, "\n") - 1; rows != want {
			t.Errorf("%d brands of %s, want %d", rows, filter, want)
		}
	}
	for _, path := range []string{"/admin/brands", "/admin/crawls/failures"} {
		s.get(path+"?domain=+").rejected(http.StatusBadRequest, "domain is blank")
	}
}

// These lists have no further pages.
func TestFile_ListIsCut_IsRefused(t *testing.T) {
	s := start(t)
	const most = 500
	for i := range most + 1 {
		s.must(s.node.Writers.Billing.Record(t.Context(), s.node.Operator(), eventschemas.BillingReported{
			Processor: "stripe", EventID: fmt.Sprint("evt_", i), Type: "customer.subscription.created", Kind: "subscription", Subject: "sub_1", State: "active", Customer: "cus_1",
		}))
	}
	s.get("/admin/billing/inbox?format=csv").rejected(http.StatusBadRequest, "at most 500 rows")
	if a := s.get("/admin/billing/inbox?format=csv&to=2020-01-01"); a.status != http.StatusOK || strings.Count(a.text, "\n") != 1 {
		t.Errorf("an empty file: %d %s", a.status, a.text)
	}

	var others []accountnames.Entry
	for i := range 10_001 {
		others = append(others, accountnames.Entry{ID: fmt.Sprintf("0%07d", i), Name: fmt.Sprint("Nordwind ", i)})
	}
	for part := range slices.Chunk(others, 1000) {
		s.must(s.node.Stores.Names.PutAll(t.Context(), part))
	}
	s.get("/admin/accounts?q=nordwind&format=csv").rejected(http.StatusBadRequest, "at most 500 rows")
}

func TestFile_WrongQuery_IsRejected(t *testing.T) {
	s := start(t)
	s.open("Acme")
	for query, want := range map[string]string{"status=%zz": "not encoded", "plan=a;b": "not encoded", "limit=0": "limit", "limit=x": "limit", "limit=501": "limit", "status=odd": "status", "format=csv": "format"} {
		s.get("/admin/accounts?format=csv&"+query).rejected(http.StatusBadRequest, want)
	}
}

// Lists have names of accounts only for people.
func TestLists_AccountsAreNotReady_AreAnsweredWithoutNames(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	s.post("/admin/accounts/"+id+"/grants", `{"kind":"topup","credits":5,"payment_id":"pi_1"}`).want(http.StatusOK, nil)
	cfg, deps := s.fixed()
	deps.Accounts = accounts.New(s.node.Stores.Database)
	s.listen(cfg, deps)
	for path, want := range map[string]string{"/admin/payments": "pi_1", "/admin/actions": "AccountOpened", "/admin/billing/inbox": "reports"} {
		if a := s.get(path).want(http.StatusOK, nil); !strings.Contains(a.text, want) || strings.Contains(a.text, "Acme") {
			t.Errorf("%s: %s", path, a.text)
		}
	}
}
