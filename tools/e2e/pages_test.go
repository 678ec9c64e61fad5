package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"letterhead/internal/testmust"
)

// scriptTimeout is the time limit of a script, after which it is run again.
const scriptTimeout = 10 * time.Second

// visitor is a person with cookies of their own in Chromium.
type visitor struct {
	t   *testing.T
	ctx context.Context
}

func newVisitor(t *testing.T, browser context.Context) *visitor {
	t.Helper()
	ctx, closeWindow := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(closeWindow)
	// A deadline of the first call would end the window.
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("open a window: %v", err)
	}
	return &visitor{t, ctx}
}

// open opens a page.
func (v *visitor) open(url string) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, browserTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		v.t.Fatalf("open %s: %v", url, err)
	}
}

// run runs a script until it returns something but null. It fails while a page is replaced by the next one.
func (v *visitor) run(what, script string) string {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, browserTimeout)
	defer cancel()
	for {
		result, err := evaluate[*string](ctx, script)
		if err == nil && result != nil {
			return *result
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			v.t.Fatalf("%s: %v; the page is\n%s", what, err, v.content())
		}
	}
}

// evaluate runs a script once. While a page is replaced, the browser may not answer.
func evaluate[T any](ctx context.Context, script string) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](script))
}

// content returns the address and the text of the page, for a message.
func (v *visitor) content() string {
	text, err := evaluate[string](v.ctx, `document.URL + "\n" + document.body.innerText`)
	if err != nil {
		return err.Error()
	}
	return text
}

// sees waits until the page has a text.
func (v *visitor) sees(text string) {
	v.t.Helper()
	v.run("wait for "+text, fmt.Sprintf(`document.querySelector("main").innerText.includes(%s) ? "" : null`, quoted(text)))
}

// finds opens a page until it has a text. A page shows what the read models have, which may be behind on a busy machine.
func (v *visitor) finds(url, text string) {
	v.t.Helper()
	for ended := time.Now().Add(browserTimeout); ; {
		v.open(url)
		content := v.content()
		if strings.Contains(content, text) {
			return
		}
		if time.Now().After(ended) {
			v.t.Fatalf("%s does not have %q:\n%s", url, text, content)
		}
	}
}

// press presses the button, or follows the link, whose text begins so.
func (v *visitor) press(text string) {
	v.t.Helper()
	v.run("press "+text, fmt.Sprintf(`(() => {
	const found = [...document.querySelectorAll("main button, main a, header button, header a")].find(e => e.innerText.replace(/\s+/g, " ").trim().startsWith(%s));
	if (!found) return null;
	setTimeout(() => found.click()); // after this script has returned, because the next page ends it
	return "";
})()`, quoted(text)))
}

// fill fills in a field of a form of the page, found by the address to which the form leads.
func (v *visitor) fill(action, name, value string) {
	v.t.Helper()
	v.run("fill in "+name, fmt.Sprintf(`(() => {
	const form = [...document.querySelectorAll("form[method=post]")].find(f => new URL(f.action).pathname.endsWith(%s));
	if (!form) return null;
	form.elements[%s].value = %s;
	return "";
})()`, quoted(action), quoted(name), quoted(value)))
}

func quoted(text string) string {
	q, _ := json.Marshal(text) // a text can always be encoded
	return string(q)
}

// lookUp looks a brand up with a key, and returns the status.
func (n *node) lookUp(key string) int {
	n.t.Helper()
	a, err := n.get("/v1/brands/github.com", key)
	testmust.Succeed(n.t, err)
	return a.status
}

// A customer signs in, issues a key, uses it, replays what it cost and revokes it, while an operator grants credits and
// rebuilds a read model. Other people's links and pages of other sites are rejected.
func TestPages_InBrowser_CustomerAndOperator(t *testing.T) {
	browser := openChromium(t)
	data := folder(t)
	n := start(t, data)
	n.t = t
	created, _ := account(t, data, "growth")
	id := created.Account.ID
	link := strings.TrimSpace(ok(t, data, "account", "login-link", "--account", id))

	customer := newVisitor(t, browser)
	customer.open(link)
	customer.press("Sign in to the dashboard")
	customer.sees("Balance")
	customer.press("Keys")
	customer.sees("Issue a key")
	customer.fill("/dashboard/keys", "name", "Build server")
	customer.press("Issue the key")
	key := customer.run("read the key", `document.getElementById("key")?.value || null`)
	if status := n.lookUp(key); status != http.StatusOK {
		t.Fatalf("a look-up with the new key %q answers %d, want %d", key, status, http.StatusOK)
	}
	customer.finds(n.url+"/dashboard/ledger", "Look-up of github.com")
	customer.finds(n.url+"/dashboard/replay", "Replayed = stored, chain verified to revision")
	before := customer.run("move the slider back", `(() => {
	const slider = document.getElementById("slider");
	if (!slider || slider.value !== slider.max) return null;
	slider.value = slider.max - 1;
	slider.dispatchEvent(new Event("change", {bubbles: true}));
	return String(slider.value);
})()`)
	customer.run("wait for the position in the address", fmt.Sprintf(`location.search === "?at=%s" ? "" : null`, before))
	customer.sees("50 credits")

	thief := newVisitor(t, browser)
	thief.open(link)
	thief.press("Sign in to the dashboard")
	thief.sees("This link was used before")

	// A page of another site, with whose requests the browser sends the cookie.
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<main><form method="post" action="`+n.url+`/dashboard/keys"><input name="name" value="stolen"><input name="kind" value="secret"><button>Win a prize</button></form></main>`)
	}))
	defer other.Close()
	customer.open(other.URL)
	customer.press("Win a prize")
	customer.sees("The form comes from another site")

	operator := newVisitor(t, browser)
	operator.open(strings.TrimSpace(ok(t, data, "admin", "login-link", "--operator", "Jane", "--scope", "admin")))
	operator.press("Sign in as an operator")
	operator.sees("The service is ready")
	operator.press("Rebuild")
	operator.sees("The rebuild has begun.")
	operator.press("Accounts")
	operator.press(created.Account.Name)
	operator.sees("Use by day")
	operator.run("open the tab with the forms", `(() => {
	const tab = document.querySelector("nav[aria-label=Account] a[href$='/actions']");
	if (!tab) return null;
	setTimeout(() => tab.click());
	return "";
})()`)
	operator.sees("Grant credits")
	operator.fill("/grant", "credits", "1000")
	operator.press("Grant the credits")
	operator.sees("The balance becomes")
	operator.press("Yes, do it")
	operator.sees("The field reason is needed")
	operator.fill("/grant", "reason", "a gift")
	operator.press("Grant the credits")
	operator.sees("The balance becomes")
	operator.press("Yes, do it")
	operator.sees("The credits are granted.")
	operator.press("Actions")
	operator.sees("Credits granted")

	customer.finds(n.url+"/dashboard", "1,049")
	customer.press("Keys")
	customer.press("Revoke Build server")
	customer.press("Revoke the key")
	customer.sees("Revoked and expired keys")
	if status := n.lookUp(key); status != http.StatusUnauthorized {
		t.Errorf("a look-up with the revoked key answers %d, want %d", status, http.StatusUnauthorized)
	}
	operator.press("Sign out")
	operator.sees("You have signed out")
}
