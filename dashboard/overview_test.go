package dashboard_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/dashboard/site/sitetest"
	"letterhead/domain/plan"
)

func TestOverview_Account_ShowsCreditsUsageAndBurnRate(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme & Söhne", plan.Free)
	c.get("/dashboard").shows(200, "Send a request", baseURL+"/v1/brands/github.com", "50 credits", "All of them can be spent", "No credits were used in the last 30 days", "free", "Free credits")

	c.grant(1_200_000, "pi_1")
	s.advance(10 * 24 * time.Hour) // to 1 December
	c.signIn("owner")
	for range 4 {
		c.charge("acme.com", "")
	}
	kept := c.charge("bolt.com", "")
	returned := c.charge("returned.com", "")
	for _, again := range []bool{false, true} {
		charges, repeated, err := s.node.Operations.Charges.ReverseRequest(t.Context(), operator(), c.id, returned, "test")
		if err != nil || charges != 1 || repeated != again {
			t.Fatalf("%d charges, repeated = %t, %v; want 1 and %t", charges, repeated, err, again)
		}
	}
	by := commands.Request{ID: uuid.NewString(), Actor: "account:" + c.id}
	_, err := s.node.Writers.Accounts.HoldCredits(t.Context(), commands.HoldCredits{Request: by, AccountID: c.id, Domain: "slow.com", Work: time.Minute})
	s.must(err)

	a := c.get("/dashboard").shows(200, "1,200,045 credits", "1 credit is held by running look-ups; 1,200,044 can be spent",
		"0.5 credits a day", "more than ten years", "5 ÷ 10", "Usage in December 2026", "60 requests a minute").lacks("Send a request")
	rows := a.rows()
	if len(rows) != 3+8 {
		t.Fatalf("the rows are %q", rows)
	}
	for _, want := range [][]string{
		{"Look-ups charged", "5", "1 credit each", ""}, {"Searches", "0", "250,000", "0 %"}, {"Logos", "0", "500,000", "0 %"},
		{"2026-12-01 12:00 UTC", "Charge returned by the operator", "+1", "1,200,045"},
		{"2026-12-01 12:00 UTC", "Look-up of bolt.com", "−1", "1,200,045"},
		{"2026-11-21 12:00 UTC", "Credits bought 49.00 EUR, pi_1", "+1,200,000", "1,200,050"},
	} {
		if !slices.ContainsFunc(rows, func(row []string) bool { return slices.Equal(row, want) }) {
			t.Errorf("no row is %q:\n%q", want, rows)
		}
	}
	if a.link("Look-up of bolt.com") != "/dashboard/ledger/"+kept {
		t.Errorf("the entry leads to %s", a.link("Look-up of bolt.com"))
	}

	s.advance(31 * 24 * time.Hour)
	c.signIn("owner")
	c.get("/dashboard").shows(200, "0 credits a day", "No credits were used")
}

func TestOverview_CreditsRunOut_ShowsWhen(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	for range 20 {
		c.charge("acme.com", "")
	}
	// 20 in the first day, and 30 are left.
	c.get("/dashboard").shows(200, "30 credits", "20 credits a day", "run out on 23 November 2026", "unlimited")
	for range 30 {
		c.charge("acme.com", "")
	}
	c.get("/dashboard").shows(200, "0 credits", "No credits are left to spend")
	c.grant(10, "pi_1")
	_, err := s.node.Writers.Accounts.RefundPayment(t.Context(), commands.RefundPayment{Request: operator(), AccountID: c.id, PaymentID: "pi_1", RefundID: "re_1"})
	s.must(err)
	c.get("/dashboard").shows(200, "Payment refunded 49.00 EUR, pi_1")
}

func TestOverview_NoNameAndOtherAccounts_StayApart(t *testing.T) {
	s := start(t, baseURL)
	c, other := s.signedIn("Acme", plan.Growth), s.signedIn("Bolt", plan.Growth)
	request := other.charge("secret-plans.com", "")
	for _, path := range []string{"/dashboard", "/dashboard/ledger?type=all", "/dashboard/keys", "/dashboard/statements", "/dashboard/ledger?request_id=" + request} {
		c.get(path).shows(200).lacks("secret-plans.com", "Bolt", other.id)
	}
	c.get("/dashboard/ledger/"+request).shows(404, "no entries of this request")
	s.must(s.node.Stores.Names.Erase(t.Context(), holderOf(c)))
	if a := c.get("/dashboard"); sitetest.Text(a.elements("header")[0]) == "" || a.shows(200).status != 200 {
		t.Error("an account without a name has no page")
	}
}

func holderOf(c *customer) string {
	c.t.Helper()
	row, err := c.node.Models.Accounts.Get(c.t.Context(), c.id)
	c.must(err)
	return row.Holder
}
