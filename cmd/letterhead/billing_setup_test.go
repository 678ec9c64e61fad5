package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	domain "letterhead/domain/billing"
	"letterhead/internal/testmust"
)

// stripeStandIn keeps prices and webhook endpoints as Stripe does. It fails the request with the number failing.
type stripeStandIn struct {
	t                 *testing.T
	prices, endpoints []string // JSON
	posts, failing    int
}

func (s *stripeStandIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.Header.Get("Authorization") != "Bearer sk_test_1" {
		s.t.Errorf("%s %s, %v, %v", r.Method, r.URL, r.Header, err)
	}
	if r.Method == http.MethodPost {
		if s.posts++; s.posts == s.failing {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":{"type":"invalid_request_error","message":"Invalid currency: eur"}}`)
			return
		}
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/prices":
		if r.Form.Get("active") != "true" {
			s.t.Error("archived prices are asked for, too")
		}
		var found []string
		for _, price := range s.prices {
			if strings.Contains(price, fmt.Sprintf("%q", r.Form.Get("lookup_keys[0]"))) {
				found = append(found, price)
			}
		}
		fmt.Fprintf(w, `{"object":"list","data":[%s]}`, strings.Join(found, ","))
	case "POST /v1/prices":
		if r.Form.Get("product_data[name]") == "" || r.Form.Get("transfer_lookup_key") != "true" {
			s.t.Errorf("a price of no product, or that fails if an archived one has its lookup key: %v", r.Form)
		}
		price := fmt.Sprintf(`{"id":"price_%d","lookup_key":%q,"amount":"%s %s %s"}`, len(s.prices)+1, r.Form.Get("lookup_key"),
			r.Form.Get("unit_amount"), r.Form.Get("currency"), r.Form.Get("recurring[interval]"))
		s.prices = append(s.prices, price)
		fmt.Fprint(w, price)
	case "GET /v1/webhook_endpoints":
		fmt.Fprintf(w, `{"object":"list","data":[%s]}`, strings.Join(s.endpoints, ","))
	case "POST /v1/webhook_endpoints":
		var types []string
		for i := 0; r.Form.Has(fmt.Sprintf("enabled_events[%d]", i)); i++ {
			types = append(types, r.Form.Get(fmt.Sprintf("enabled_events[%d]", i)))
		}
		if err := domain.CheckEndpoint(r.Form.Get("api_version"), types); err != nil {
			s.t.Errorf("the new endpoint does not suffice: %v", err)
		}
		s.endpoints = append(s.endpoints, fmt.Sprintf(`{"id":"we_1","url":%q,"status":"enabled"}`, r.Form.Get("url")))
		fmt.Fprint(w, `{"id":"we_1","secret":"whsec_1"}`)
	default:
		s.t.Errorf("%s %s", r.Method, r.URL)
	}
}

func TestBillingSetup_StoppedAndRepeated_CreatesNothingTwice(t *testing.T) {
	stripe := &stripeStandIn{t: t, failing: 2}
	server := httptest.NewServer(stripe)
	defer server.Close()
	for name, value := range map[string]string{"LETTERHEAD_STRIPE_KEY": "sk_test_1", "LETTERHEAD_STRIPE_URL": server.URL,
		"LETTERHEAD_BASE_URL": "https://brands.example.com"} {
		t.Setenv(name, value)
	}
	file := filepath.Join(t.TempDir(), "billing.yaml")
	draft := "plans:\n  - {plan: growth, credits: 10000, amount: 99.00 EUR, every: month} # most of you\npacks:\n  - {name: small, credits: 500, amount: 9.00 EUR}\n"
	testmust.Succeed(t, os.WriteFile(file, []byte(draft), 0o640))
	code, stdout, stderr := commandLine(t.Context(), "billing", "setup", file)
	if text := string(testmust.Get(os.ReadFile(file))(t)); code == exitOK || !strings.Contains(stderr, "Invalid currency") || text != draft {
		t.Fatalf("a rejected price: %d, %s%s, and the file is\n%s", code, stdout, stderr, text)
	}
	code, stdout, stderr = commandLine(t.Context(), "billing", "setup", file)
	if code != exitOK || !strings.Contains(stdout, "price_1 (growth: 10000 credits) was there") || !strings.Contains(stdout, "price_2 (small: 500 credits) is created") ||
		!strings.Contains(stdout, "https://brands.example.com/billing/stripe is created") || !strings.HasSuffix(stdout, "\nLETTERHEAD_STRIPE_WEBHOOK_SECRET=whsec_1\n") {
		t.Fatalf("%d: %s%s", code, stdout, stderr)
	}
	if got := strings.Join(stripe.prices, "\n"); !strings.Contains(got, `"9900 eur month"`) || !strings.Contains(got, `"900 eur "`) {
		t.Errorf("the prices are\n%s", got)
	}
	text := testmust.Get(os.ReadFile(file))(t)
	catalog := testmust.Get(domain.ParseCatalog(text))(t)
	if catalog.Plans[0].Price != "price_1" || catalog.Packs[0].Price != "price_2" || !strings.Contains(string(text), "# most of you") {
		t.Errorf("the file is\n%s", text)
	}
	if info := testmust.Get(os.Stat(file))(t); info.Mode().Perm() != 0o640 {
		t.Errorf("the mode of the file is %v", info.Mode())
	}
	if text := testmust.Get(os.ReadFile(file + ".before"))(t); string(text) != draft {
		t.Errorf("the copy is\n%s", text)
	}
	posts := stripe.posts
	code, stdout, stderr = commandLine(t.Context(), "billing", "setup", file)
	if code != exitOK || stripe.posts != posts || !strings.Contains(stdout, "was there: its secret is in Stripe's dashboard") || strings.Contains(stdout, "whsec") {
		t.Errorf("the repeat: %d: %s%s, %d requests", code, stdout, stderr, stripe.posts-posts)
	}
}

func TestBillingSetup_NotPossible_SaysWhatIsMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "billing.yaml")
	testmust.Succeed(t, os.WriteFile(file, []byte("packs: [{name: small, credits: 500, amount: 9 EUR}]"), 0o600))
	fails := func(file, want string) {
		t.Helper()
		if code, _, stderr := commandLine(t.Context(), "billing", "setup", file); code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%d, %q, want %q", code, stderr, want)
		}
	}
	fails(file, "LETTERHEAD_BASE_URL http://127.0.0.1:8080: Stripe sends events to an https URL only")
	t.Setenv("LETTERHEAD_BASE_URL", "https://brands.example.com")
	fails(file, "LETTERHEAD_STRIPE_KEY")
	fails(file+".missing", "no such file")
}
