//go:build tour

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v82"
	"github.com/stripe/stripe-go/v82/webhook"
)

// processor is a payment processor: stripe-mock, which validates requests, keeps no state and has no page to pay on, behind
// a server that has such a page and sends the event of a payment.
type processor struct {
	t       *testing.T
	url     string
	mock    string // URL of stripe-mock
	service string // URL of the server under test

	mu    sync.Mutex
	asked url.Values // for the last checkout session
}

const webhookSecret = "whsec_checkout"

func startProcessor(t *testing.T) *processor {
	t.Helper()
	program := os.Getenv("LETTERHEAD_TEST_STRIPE_MOCK")
	if program == "" {
		t.Skip("LETTERHEAD_TEST_STRIPE_MOCK does not name the program stripe-mock; make pages fetches it")
	}
	mock := &node{t: t, out: newOutput(), cmd: exec.Command(program, "-http-addr", anyPort, "-https-addr", anyPort)}
	mock.cmd.Stdout, mock.cmd.Stderr = mock.out, mock.out
	mock.run()
	p := &processor{t: t, mock: "http://" + mock.out.waitFor(t, `HTTP at address: (\S+)`, mock.done)[1]}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/checkout/sessions", p.create)
	mux.HandleFunc("GET /pay", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<main><h1>Pay 49.00 EUR</h1><form method="post" action="/pay"><button>Pay now</button></form></main>`)
	})
	mux.HandleFunc("POST /pay", p.pay)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// create passes a request to stripe-mock, and answers with its session, which leads to the page to pay on.
func (p *processor) create(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
		return
	}
	asked, err := url.ParseQuery(string(body))
	if err != nil {
		p.t.Error(err)
	}
	p.mu.Lock()
	p.asked = asked
	p.mu.Unlock()
	out, err := http.NewRequestWithContext(r.Context(), r.Method, p.mock+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		p.t.Error(err)
		return
	}
	out.Header = r.Header.Clone()
	resp, err := http.DefaultClient.Do(out)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer resp.Body.Close()
	var session map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&session); err != nil || resp.StatusCode != http.StatusOK {
		p.t.Errorf("stripe-mock answered %d: %v, %v", resp.StatusCode, err, session)
	}
	session["url"] = p.url + "/pay"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(resp.StatusCode)
	_ = json.NewEncoder(w).Encode(session)
}

// pay sends the event of the payment, and leads the customer back.
func (p *processor) pay(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	asked := p.asked
	p.mu.Unlock()
	metadata := map[string]string{}
	for name, values := range asked {
		if key, ok := strings.CutPrefix(name, "metadata["); ok {
			metadata[strings.TrimSuffix(key, "]")] = values[0]
		}
	}
	sendStripe(p.t, p.service, "evt_1", "checkout.session.completed", map[string]any{
		"id": "cs_1", "object": "checkout.session", "mode": asked.Get("mode"), "payment_status": "paid", "payment_intent": "pi_1", "client_reference_id": asked.Get("client_reference_id"),
		"amount_total": 4900, "currency": "eur", "total_details": map[string]any{"amount_tax": 782}, "metadata": metadata,
	})
	back, err := url.Parse(asked.Get("success_url"))
	if err != nil {
		p.t.Error(err)
		return
	}
	http.Redirect(w, r, p.service+back.RequestURI(), http.StatusSeeOther)
}

// sendStripe sends a signed event of Stripe to a service.
func sendStripe(t *testing.T, service, id, eventType string, object map[string]any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"id": id, "object": "event", "api_version": stripe.APIVersion, "created": time.Now().Unix(), "type": eventType, "livemode": false, "data": map[string]any{"object": object},
	})
	if err != nil {
		t.Error(err)
		return
	}
	signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: webhookSecret, Timestamp: time.Now()})
	event, err := http.NewRequestWithContext(t.Context(), http.MethodPost, service+"/billing/stripe", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	event.Header.Set("Content-Type", "application/json")
	event.Header.Set("Stripe-Signature", signed.Header)
	resp, err := http.DefaultClient.Do(event)
	if err != nil {
		t.Error(err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the event %s was answered with %d", id, resp.StatusCode)
	}
}

func TestCheckout_InBrowser_CreditsAreGranted(t *testing.T) {
	p := startProcessor(t)
	browser := openChromium(t)
	sold := filepath.Join(t.TempDir(), "billing.yaml")
	if err := os.WriteFile(sold, []byte("packs:\n  - {price: price_small, name: small, credits: 500}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := folder(t)
	n := start(t, data, "LETTERHEAD_BILLING_FILE="+sold, "LETTERHEAD_STRIPE_KEY=sk_test_1", "LETTERHEAD_STRIPE_URL="+p.url, "LETTERHEAD_STRIPE_WEBHOOK_SECRET="+webhookSecret)
	n.t, p.service = t, n.url
	created, _ := account(t, data, "growth")
	customer := newVisitor(t, browser)
	customer.open(strings.TrimSpace(ok(t, data, "account", "login-link", "--account", created.Account.ID)))
	customer.press("Sign in to the dashboard")
	customer.sees("Balance")
	customer.press("Credits")
	customer.sees("Buy credits")
	customer.press("Buy")
	customer.run("wait for the page to pay on", `document.querySelector("h1")?.innerText === "Pay 49.00 EUR" ? "" : null`)
	customer.press("Pay now")
	customer.sees("Thank you")
	customer.finds(n.url+"/dashboard", "550")
	customer.finds(n.url+"/dashboard/ledger", fmt.Sprintf("+%d", 500))
	var payment struct {
		AccountID string `json:"account_id"`
		Money     int64
		Tax       int64
	}
	if err := json.Unmarshal([]byte(ok(t, data, "payment", "show", "pi_1", "--json")), &payment); err != nil || payment.AccountID != created.Account.ID || payment.Money != 4900 || payment.Tax != 782 {
		t.Errorf("the payment is %+v, %v", payment, err)
	}
}
