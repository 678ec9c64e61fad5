//go:build tour

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"letterhead/internal/testmust"
)

// TestAccessibility_Pages_HaveNoViolation checks the pages with axe (WCAG 2.2, levels A and AA) on a phone and on a
// desk, light and dark.
func TestAccessibility_Pages_HaveNoViolation(t *testing.T) {
	path := os.Getenv("LETTERHEAD_TEST_AXE")
	if path == "" {
		t.Skip("LETTERHEAD_TEST_AXE does not name axe.min.js; make pages fetches it")
	}
	axe, err := os.ReadFile(path)
	testmust.Succeed(t, err)
	sold := filepath.Join(t.TempDir(), "billing.yaml")
	if err := os.WriteFile(sold, []byte("packs:\n  - {price: price_small, name: small, credits: 500}\nplans:\n  - {price: price_growth, plan: growth, credits: 10000}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	on := openTour(t, "LETTERHEAD_BILLING_FILE="+sold, "LETTERHEAD_STRIPE_KEY=sk_test_1", "LETTERHEAD_STRIPE_URL=http://127.0.0.1:9", "LETTERHEAD_STRIPE_WEBHOOK_SECRET="+webhookSecret)
	var charge struct {
		RequestID string `json:"request_id"`
		At        time.Time
	}
	if err := json.Unmarshal([]byte(ok(t, on.n.data, "ledger", "show", "--account", on.account, "--type", "CreditsCharged", "--last", "1", "--json")), &charge); err != nil {
		t.Fatal(err)
	}
	charged, month := charge.RequestID, charge.At.Format("2006-01")
	account := "/accounts/" + on.account
	var payment struct {
		ID string `json:"payment_id"`
	}
	if err := json.NewDecoder(strings.NewReader(ok(t, on.n.data, "payment", "list", "--json"))).Decode(&payment); err != nil {
		t.Fatal(err)
	}
	on.operator.open(on.admin)
	on.operator.press("Rebuild accounts")
	on.operator.sees("Rebuild of accounts")
	on.operator.finds(on.admin+"/projections/accounts", "The new tables agree")
	sendStripe(t, on.n.url, "evt_1", "customer.subscription.updated", map[string]any{"id": "sub_1", "object": "subscription", "status": "active", "customer": "cus_1", "items": map[string]any{"data": []any{}}})
	sendStripe(t, on.n.url, "evt_2", "customer.subscription.updated", map[string]any{"id": "sub_2", "object": "subscription", "status": "active", "customer": "cus_2",
		"metadata": map[string]any{"account_id": on.account}, "items": map[string]any{"data": []any{map[string]any{"price": "price_growth", "quantity": 1}}}})
	on.customer.finds(on.n.url+"/dashboard/credits", "Manage the subscription")
	on.operator.finds(on.admin+"/inbox", "1 in all")
	const rejected = `[aria-invalid="true"]`
	for _, who := range []struct {
		name  string
		v     *visitor
		base  string
		paths []string
		forms []form
	}{
		{"guest", on.guest, on.n.url, []string{"/", "/?q=git", "/brands/spotify.com", "/brands/unknown.example", "/brands/localhost", "/docs", "/docs?q=logo", "/docs?q=xyzzy", "/docs/brands", "/docs/schemas", "/docs/errors", "/docs/logos", "/bot", "/missing", "/dashboard", "/dashboard/sign-in?account=a&token=t", "/dashboard/sign-in?sent=1"}, nil},
		{"guest of the operators", on.guest, on.admin, []string{"/", "/sign-in?token=t"}, nil},
		{"customer", on.customer, on.n.url, []string{"/dashboard", "/dashboard/usage", "/dashboard/keys", "/dashboard/ledger", "/dashboard/ledger?domain=%00", "/dashboard/ledger/" + charged,
			"/dashboard/replay", "/dashboard/replay?at=x", "/dashboard/replay?at=2000-01-01", "/dashboard/statements", "/dashboard/statements/" + month, "/dashboard/playground", "/dashboard/playground?identifier=figma.com", "/dashboard/credits", "/dashboard/notices", "/dashboard/sign-out", "/dashboard/missing"},
			[]form{{"/dashboard/playground", "/dashboard/playground", "identifier", "figma.com", "Look it up", "#answer"}, {"/dashboard/keys", "/dashboard/keys", "name", "Tests", "Issue the key", "#key"}, {"/dashboard/keys", "/dashboard/keys", "name", "", "Issue the key", rejected}}},
		{"operator", on.operator, on.admin, []string{"/", "/projections/accounts", "/accounts", account, account + "/ledger", account + "/ledger?domain=github", account + "/payments", account + "/people", account + "/actions", "/search?q=acme", "/search?q=x", account + "/replay", account + "/requests/" + charged, account + "/statements/" + month, "/payments", "/payments/" + payment.ID, "/inbox", "/inbox?state=waiting", "/books", "/books/revenue", "/brands", "/brands/github.com", "/crawls", "/operators", "/actions", "/missing"},
			[]form{{"/operators", "/operators", "name", "Tests", "Issue the token", "#secret0"}, {"/operators", "/operators", "name", "", "Issue the token", rejected}, {account + "/actions", "/grant", "credits", "5", "Grant the credits", `[name="confirmed"]`}, {account + "/actions", "/grant", "credits", "five", "Grant the credits", rejected}, {"/inbox", "/inbox", "customer", "", "Link the customer", rejected}}},
	} {
		for _, width := range []int64{375, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%s/%d/%s", who.name, width, scheme), func(t *testing.T) {
					who.v.t = t
					who.v.emulate(width, scheme)
					for _, path := range who.paths {
						who.v.open(who.base + path)
						if found := who.v.violations(string(axe)); len(found) > 0 {
							t.Errorf("%s:\n%s", path, strings.Join(found, "\n"))
						}
					}
					for _, f := range who.forms {
						who.v.open(who.base + f.path)
						who.v.fill(f.action, f.field, f.value)
						who.v.press(f.button)
						who.v.run("see the answer", fmt.Sprintf(`document.querySelector(%s) ? "" : null`, quoted(f.answer)))
						if found := who.v.violations(string(axe)); len(found) > 0 {
							t.Errorf("%s after %q with %s %q:\n%s", f.path, f.button, f.field, f.value, strings.Join(found, "\n"))
						}
					}
				})
			}
		}
	}
}

// form is a form that a page has, one of its fields, and a selector of what only the page that answers it has.
type form struct{ path, action, field, value, button, answer string }

// emulate sets the width of the window and the color scheme that the person prefers.
func (v *visitor) emulate(width int64, scheme string) {
	v.t.Helper()
	testmust.Succeed(v.t, chromedp.Do(v.ctx, chromedp.EmulateViewport(width, 900)))
	_, err := chromedp.Run(v.ctx, func(ctx context.Context, target *chromedp.Target) (cdp.Empty, error) {
		return cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	})
	testmust.Succeed(v.t, err)
}

// violations returns what axe finds on the page, and whether the page is wider than the window.
func (v *visitor) violations(axe string) (found []string) {
	v.t.Helper()
	v.run("load axe", "(() => {"+axe+`; window.found = null; axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}).then(r => {
	window.found = JSON.stringify(r.violations.map(x => x.id + ": " + x.help + ": " + x.nodes.slice(0, 3).map(n => n.target.join(" ")).join(", ")));
}, e => { window.found = JSON.stringify(["axe: " + e]); }); return ""; })()`)
	text := v.run("wait for axe", `window.found ?? null`)
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		v.t.Fatalf("%v: %s", err, text)
	}
	if v.run("measure the page", `String(document.documentElement.scrollWidth > innerWidth)`) == "true" {
		found = append(found, "the page is wider than the window")
	}
	return found
}
