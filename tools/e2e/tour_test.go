//go:build tour

package e2e

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"letterhead/internal/testmust"
)

// maxTour limits the screenshots of the tour together, in bytes.
const maxTour = 1 << 20

// drawn is a script that waits until every image of the page in view is decoded, and every chart has its canvas.
const drawn = `(() => {
	const inView = i => i.getBoundingClientRect().top < innerHeight;
	const images = [...document.images].filter(inView).every(i => i.complete && i.naturalWidth > 0);
	const charts = [...document.querySelectorAll("[data-chart]")].every(c => c.querySelector("canvas"));
	return images && charts ? "" : null;
})()`

// picture stores the visible part of the page as an image.
func (v *visitor) picture(name string) (size int) {
	v.t.Helper()
	quality := int64(60)
	v.run("draw the page", drawn)
	shot, err := chromedp.Run(v.ctx, func(ctx context.Context, target *chromedp.Target) ([]byte, error) {
		r, err := cdp.Call(ctx, target, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: &quality})
		if err != nil {
			return nil, err
		}
		return r.Data, nil
	})
	if err != nil {
		v.t.Fatalf("picture %s: %v", name, err)
	}
	folder := filepath.Join("..", "..", "docs", "tour")
	testmust.Succeed(v.t, os.MkdirAll(folder, 0o755))
	testmust.Succeed(v.t, os.WriteFile(filepath.Join(folder, name+".webp"), shot, 0o644))
	return len(shot)
}

// tour is a server with generated accounts and the starter index, and three people in front of it.
type tour struct {
	n                         *node
	admin                     string // URL of the operators' pages
	account                   string // id of the one with the highest balance
	guest, customer, operator *visitor
}

func openTour(t *testing.T, more ...string) tour {
	t.Helper()
	browser := openChromium(t)
	data := filepath.Join(t.TempDir(), "data")
	ok(t, data, "dev", "generate", "--accounts", "12", "--events", "40000", "--months", "6", "--hot", "0.3", "--until", time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly))
	n := start(t, data, append(more, "LETTERHEAD_SMTP_URL=smtp://127.0.0.1:9", "LETTERHEAD_MAIL_FROM=brands@example.com")...) // no message is sent
	n.t = t
	var busiest struct{ Account struct{ ID string } }
	accounts := ok(t, data, "account", "list", "--sort", "-balance", "--status", "active", "--json")
	testmust.Succeed(t, json.NewDecoder(strings.NewReader(accounts)).Decode(&busiest))
	on := tour{n: n, account: busiest.Account.ID, guest: newVisitor(t, browser), customer: newVisitor(t, browser), operator: newVisitor(t, browser)}
	on.customer.open(strings.TrimSpace(ok(t, data, "account", "login-link", "--account", on.account)))
	on.customer.press("Sign in to the dashboard")
	on.customer.sees("Balance")
	link := strings.TrimSpace(ok(t, data, "admin", "login-link", "--operator", "Jane", "--scope", "admin"))
	on.operator.open(link)
	on.operator.press("Sign in as an operator")
	on.operator.sees("The service is ready")
	u, err := url.Parse(link)
	testmust.Succeed(t, err)
	on.admin = "http://" + u.Host
	return on
}

// tourOfDemo is a demonstration, and three people in front of it.
func tourOfDemo(t *testing.T) tour {
	t.Helper()
	browser := openChromium(t)
	d := startDemo(t)
	on := tour{n: d.node, guest: newVisitor(t, browser), customer: newVisitor(t, browser), operator: newVisitor(t, browser)}
	link := testmust.Get(url.Parse(d.customer))(t)
	on.account = link.Query().Get("account")
	on.customer.open(d.customer)
	on.customer.press("Sign in to the dashboard")
	on.customer.sees("Balance")
	on.operator.open(d.operator)
	on.operator.press("Sign in as an operator")
	on.operator.sees("The service is ready")
	on.admin = "http://" + testmust.Get(url.Parse(d.operator))(t).Host
	return on
}

// TestTour_Pages_AreDrawn makes the screenshots of docs/tour.md.
func TestTour_Pages_AreDrawn(t *testing.T) {
	on := tourOfDemo(t)
	n, admin, id, guest, customer, operator := on.n, on.admin, on.account, on.guest, on.customer, on.operator
	for _, v := range []*visitor{guest, customer, operator} {
		testmust.Succeed(t, chromedp.Do(v.ctx, chromedp.EmulateViewport(1280, 800)))
	}
	total := 0
	for _, p := range []struct {
		v                *visitor
		name, path, sees string
	}{
		{guest, "01-first-page", n.url + "/", ""},
		{guest, "01-brand", n.url + "/brands/spotify.com", "Show it"},
		{customer, "02-overview", n.url + "/dashboard", "Balance"},
		{customer, "03-usage", n.url + "/dashboard/usage?period=90d", "Credits"},
		{customer, "04-keys", n.url + "/dashboard/keys", "Issue a key"},
		{customer, "05-replay", n.url + "/dashboard/replay", "Replayed = stored"},
		{customer, "06-playground", n.url + "/dashboard/playground", "Look it up"},
		{operator, "07-health", admin + "/", "Read models"},
		{operator, "08-account", admin + "/accounts/" + id, "Use by day"},
		{operator, "09-brand", admin + "/brands/github.com", "History"},
		{operator, "10-revenue", admin + "/books/revenue", "Recognized"},
	} {
		p.v.open(p.path)
		if p.sees != "" {
			p.v.sees(p.sees)
		}
		if p.name == "06-playground" {
			p.v.fill("/dashboard/playground", "identifier", "figma.com")
			p.v.press("Look it up")
			p.v.sees("Answer")
		}
		total += p.v.picture(p.name)
	}
	t.Logf("%d KiB together", total>>10)
	if total > maxTour {
		t.Errorf("the screenshots have %d bytes together, want at most %d", total, maxTour)
	}
}
