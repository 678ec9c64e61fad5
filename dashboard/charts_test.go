package dashboard_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/html"

	"letterhead/commands"
	"letterhead/dashboard/site/sitetest"
	"letterhead/domain/plan"
	"letterhead/internal/apikey"
	"letterhead/internal/testwait"
	"letterhead/operations"
)

// table returns the texts of the cells of a table's body; nil if there is no such table.
func (a answer) table(id string) (rows [][]string) {
	a.t.Helper()
	for _, t := range a.elements("table") {
		if sitetest.Attribute(t, "id") != id {
			continue
		}
		for n := range t.Descendants() {
			if n.Type != html.ElementNode || n.Data != "tr" || n.Parent.Data != "tbody" {
				continue
			}
			var cells []string
			for cell := range n.ChildNodes() {
				if cell.Type == html.ElementNode {
					cells = append(cells, sitetest.Text(cell))
				}
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// has reports an error unless a table begins with some rows.
func (a answer) has(id string, want ...[]string) {
	a.t.Helper()
	got := a.table(id)
	if len(got) > len(want) {
		got = got[:len(want)]
	}
	if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		a.t.Errorf("%s begins with %q, want %q", id, got, want)
	}
}

// crawl charges a look-up for which credits were held.
func (c *customer) crawl(domain, keyID string) {
	c.t.Helper()
	by := commands.Request{ID: "req_" + uuid.NewString(), Actor: "account:" + c.id}
	hold, err := c.node.Writers.Accounts.HoldCredits(c.t.Context(), commands.HoldCredits{Request: by, AccountID: c.id, Domain: domain, Work: time.Minute})
	c.must(err)
	_, err = c.node.Writers.Accounts.ChargeLookup(c.t.Context(), commands.ChargeLookup{Request: by, AccountID: c.id, BrandID: uuid.NewString(), Domain: domain, HoldID: hold.ID, KeyID: keyID})
	c.must(err)
}

// call sends a request with a key.
func (c *customer) call(path, key string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+path, nil)
	c.must(err)
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := c.client.Do(r)
	c.must(err)
	c.must(response.Body.Close())
	if response.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: status %d", path, response.StatusCode)
	}
}

func (c *customer) newKey(name string) operations.Key {
	c.t.Helper()
	key, err := c.node.Operations.Accounts.IssueKey(c.t.Context(), operator(), c.id, operations.NewKey{Kind: apikey.Secret, Name: name})
	c.must(err)
	return key
}

func TestUsage_Account_HasTablesOfCreditsLookupsAndKeys(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	server, worker := c.newKey("Web <server>"), c.newKey("Worker")
	c.charge("acme.com", server.ID)
	c.crawl("slow.com", worker.ID)
	s.advance(24 * time.Hour)
	c.grant(1200, "pi_1")
	for range 2 {
		c.charge("acme.com", server.ID)
	}
	c.charge("acme.com", "")
	s.advance(24 * time.Hour)
	_, _, err := s.node.Operations.Charges.ReverseRequest(t.Context(), operator(), c.id, c.charge("returned.com", server.ID), "test")
	s.must(err)
	c.call("/v1/search?q=acme", worker.Key)
	c.call("/v1/search?q=bolt", worker.Key)

	other := s.signedIn("Bolt", plan.Growth)
	other.charge("secret.com", "")
	a := c.get("/dashboard/usage").shows(200, "From 21 November 2026, when the account was opened, to 23 November 2026, a day that is not over.",
		"0 at the start, 1,245 at the end. 1,250 were granted, 6 charged, 1 returned for reversed charges.",
		"6 charged: 5 hits, which the index answered, and 1 crawl, for which", "6 credits were charged. The 1 that was returned for reversed charges is not taken off.", "2 searches and 0 logos")
	a.has("credits-table", []string{"2026-11-23", "1,245", "0"}, []string{"2026-11-22", "1,245", "+1,200"}, []string{"2026-11-21", "48", "+50"})
	a.has("lookups-table", []string{"2026-11-23", "1", "0", "1"}, []string{"2026-11-22", "3", "0", "3"}, []string{"2026-11-21", "1", "1", "2"})
	a.has("keys-table", []string{"Web <server>", "4", "4", "66.7 %"}, []string{"No key recorded", "1", "1", "16.7 %"}, []string{"Worker", "1", "1", "16.7 %"})
	a.has("searches-table", []string{"2026-11-23", "2", "0"}, []string{"2026-11-22", "0", "0"}, []string{"2026-11-21", "0", "0"})

	_, err = s.node.Writers.Accounts.RefundPayment(t.Context(), commands.RefundPayment{Request: operator(), AccountID: c.id, PaymentID: "pi_1", RefundID: "re_1"})
	s.must(err)
	if status := c.post("/dashboard/keys/"+server.ID+"/revoke", nil).status; status != http.StatusSeeOther {
		t.Fatalf("status %d", status)
	}
	a = c.get("/dashboard/usage").shows(200, "45 at the end", "Refunds changed the balance by −1,200.")
	a.has("keys-table", []string{"Web <server> revoked", "4", "4", "66.7 %"})
}

func TestUsage_Period_IsThatOfTheURL(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	c.charge("acme.com", "")
	s.advance(35 * 24 * time.Hour) // to 26 December
	c.signIn("owner")
	c.charge("acme.com", "")
	for query, want := range map[string]struct {
		days, lookups string
		rows          int
	}{
		"":            {"From 27 November 2026 to 26 December 2026", "49 at the start, 48 at the end", 30},
		"?period=30d": {"From 27 November 2026 to 26 December 2026", "49 at the start, 48 at the end", 30},
		"?period=90d": {"From 21 November 2026, when the account was opened, to", "0 at the start, 48 at the end", 36},
		"?period=12m": {"From 21 November 2026, when the account was opened, to", "0 at the start, 48 at the end", 36},
	} {
		a := c.get("/dashboard/usage"+query).shows(200, want.days, want.lookups)
		if rows := a.table("credits-table"); len(rows) != want.rows {
			t.Errorf("%s: %d days, want %d", query, len(rows), want.rows)
		}
		current := ""
		for _, n := range a.elements("a") {
			if sitetest.Attribute(n, "aria-current") == "true" {
				current = sitetest.Attribute(n, "href")
			}
		}
		if value := strings.TrimPrefix(query, "?period="); !strings.HasSuffix(current, "/dashboard/usage?period="+value) && query != "" {
			t.Errorf("%s: the current period is %q", query, current)
		}
	}
	s.advance(365 * 24 * time.Hour)
	c.signIn("owner")
	c.get("/dashboard/usage?period=12m").shows(200, "From 27 December 2026 to 26 December 2027", "48 at the start, 48 at the end", "None were charged")
	for _, period := range []string{"1d", "30", "forever", "%ff", "<script>", "12m%20"} {
		a := c.get("/dashboard/usage?period="+period).shows(422, "There is no such period. Choose one of these.").lacks("<script>", "uplot")
		if len(a.elements("table")) != 0 || a.link("90 days") == "" {
			t.Errorf("period %q: %s", period, a.body)
		}
	}
}

func TestUsage_NewAccount_SaysThatThereIsNone(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Free)
	a := c.get("/dashboard/usage").shows(200, "0 at the start, 50 at the end. 50 were granted, 0 charged.", "None were charged in this time", "No credits were charged in this time", "There were none in this time")
	a.has("credits-table", []string{"2026-11-21", "50", "+50"})
	if n := len(a.elements("table")); n != 1 {
		t.Errorf("there are %d tables, want one", n)
	}
}

func TestUsage_Logos_AreCounted(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	c.call("/logo/acme.com", c.newKey("ci").Key)
	if _, counted := testwait.Until(testwait.Timeout, func() bool {
		rows := c.get("/dashboard/usage").table("searches-table")
		return len(rows) == 1 && slices.Equal(rows[0], []string{"2026-11-21", "0", "1"})
	}); !counted {
		t.Errorf("the page is\n%s", c.get("/dashboard/usage").text())
	}
}

func TestUsage_EventLogAway_ShowsWhatThereIs(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	c.charge("acme.com", "")
	c.get("/dashboard/usage").shows(200, "49 at the end")
	s.down.Store(true)
	c.get("/dashboard/usage").shows(200, "The event log cannot be reached. What happened in the last moments may be missing.", "49 at the end")
}

// The page loads files of the dashboard only, and its data is in the tables, so the policy needs no exception.
func TestUsage_Charts_AreDrawnByFilesOfTheServer(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	c.charge("acme.com", "")
	a := c.get("/dashboard/usage").shows(200).lacks(" style=", "<style")
	files := 0
	for _, n := range append(a.elements("script"), a.elements("link")...) {
		path := sitetest.Attribute(n, "src") + sitetest.Attribute(n, "href")
		if n.FirstChild != nil {
			t.Errorf("a script is in the page: %s", sitetest.Text(n))
		}
		if strings.Contains(path, "/static/dashboard/uplot-") || strings.Contains(path, "/static/dashboard/charts-") {
			files++
			if got := c.get(path[strings.Index(path, "/static"):]); got.status != 200 || got.header.Get("Cache-Control") != "public, max-age=31536000, immutable" || len(got.body) < 1000 {
				t.Errorf("%s: status %d, %v", path, got.status, got.header)
			}
		}
	}
	if files != 3 {
		t.Errorf("the page refers to %d files for charts, want 3", files)
	}
}
