package stripeapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v82"
	"github.com/stripe/stripe-go/v82/webhook"

	"letterhead/domain/billing"
	"letterhead/internal/stripeapi"
)

func signed(body, secret string, at time.Time) string {
	return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: []byte(body), Secret: secret, Timestamp: at}).Header
}

const body = `{"id":"evt_1","object":"event","api_version":"2020-08-27","created":7,"type":"refund.created","data":{"object":{"id":"re_1"}}}`

func TestVerify_AnySecretAndVersion(t *testing.T) {
	c := stripeapi.New(stripeapi.Config{Secrets: []string{"old", "new"}})
	for _, secret := range []string{"old", "new"} {
		e, err := c.Verify([]byte(body), signed(body, secret, time.Now()))
		if err != nil || e.ID != "evt_1" || e.Type != "refund.created" || e.APIVersion != "2020-08-27" || e.Created != 7 || string(e.Object) != `{"id":"re_1"}` {
			t.Errorf("%s: %+v, %v", secret, e, err)
		}
	}
	for _, c := range []struct {
		secrets         []string
		body, signature string
		want            error
	}{
		{nil, body, signed(body, "old", time.Now()), stripeapi.ErrNoSecret},
		{[]string{"old"}, body, "", stripeapi.ErrSignature},
		{[]string{"old"}, body, signed(body, "new", time.Now()), stripeapi.ErrSignature},
		{[]string{"old"}, body + " ", signed(body, "old", time.Now()), stripeapi.ErrSignature},
		{[]string{"old", "new"}, body, signed(body, "old", time.Now().Add(-time.Hour)), stripeapi.ErrTooOld},
		{[]string{"old", "new"}, body, signed(body, "new", time.Now().Add(time.Hour)), stripeapi.ErrTooNew},
		{[]string{"old", "new"}, body, signed(body, "new", time.Now().Add(stripeapi.Tolerance-time.Minute)), nil},
		{[]string{"old"}, "[]", signed("[]", "old", time.Now()), stripeapi.ErrNotEvent},
		{[]string{"old"}, "{}", signed("{}", "old", time.Now()), stripeapi.ErrNotEvent},
	} {
		if _, err := stripeapi.New(stripeapi.Config{Secrets: c.secrets}).Verify([]byte(c.body), c.signature); !errors.Is(err, c.want) {
			t.Errorf("secrets %v, body %s, signature %q: %v, want %v", c.secrets, c.body, c.signature, err, c.want)
		}
	}
}

func TestCheckHeader_NeedsNoBody(t *testing.T) {
	now, old := time.Now().Unix(), time.Now().Add(-stripeapi.Tolerance-time.Minute).Unix()
	c := stripeapi.New(stripeapi.Config{Secrets: []string{"old", "new"}})
	for header, want := range map[string]error{
		signed(body, "new", time.Now()):            nil,
		signed(body, "other", time.Now()):          nil,
		fmt.Sprintf("t=%d,v0=00,v1=zz,v1=00", now): nil,
		"":                             stripeapi.ErrHeader,
		"x":                            stripeapi.ErrHeader,
		"t=now,v1=00":                  stripeapi.ErrHeader,
		fmt.Sprintf("t=%d", now):       stripeapi.ErrHeader,
		fmt.Sprintf("t=%d,v0=00", now): stripeapi.ErrHeader,
		fmt.Sprintf("t=%d,v1=zz", now): stripeapi.ErrHeader,
		fmt.Sprintf("t=%d,v1=00", old): stripeapi.ErrTooOld,
		signed(body, "new", time.Now().Add(-time.Hour)):                      stripeapi.ErrTooOld,
		signed(body, "new", time.Now().Add(time.Hour)):                       stripeapi.ErrTooNew,
		signed(body, "new", time.Now().Add(stripeapi.Tolerance-time.Minute)): nil,
		"v1=00": stripeapi.ErrTooOld, // without a time
	} {
		if err := c.CheckHeader(header); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", header, err, want)
		}
	}
	if err := stripeapi.New(stripeapi.Config{}).CheckHeader(signed(body, "new", time.Now())); !errors.Is(err, stripeapi.ErrNoSecret) {
		t.Errorf("without a secret: %v", err)
	}
}

func TestStripeVersion_IsThatOfTheLibrary(t *testing.T) {
	if billing.StripeVersion != stripe.APIVersion {
		t.Errorf("domain/billing reads the version %s, Stripe's library has %s", billing.StripeVersion, stripe.APIVersion)
	}
}

// FuzzVerify checks that no body is accepted without its signature.
func FuzzVerify(f *testing.F) {
	f.Add([]byte(body), "t=1,v1=00", true)
	f.Add([]byte("{"), "t=,v1", false)
	f.Fuzz(func(t *testing.T, body []byte, signature string, sign bool) {
		c := stripeapi.New(stripeapi.Config{Secrets: []string{"secret"}})
		_, err := c.Verify(body, signature)
		if c.CheckHeader(signature) != nil && !errors.Is(err, stripeapi.ErrSignature) && !errors.Is(err, stripeapi.ErrTooOld) {
			t.Errorf("%q: the header %q is wrong: %v", body, signature, err)
		}
		if err == nil {
			t.Errorf("%q is accepted with the signature %q", body, signature)
		}
		if sign {
			header := signed(string(body), "secret", time.Now())
			if err := c.CheckHeader(header); err != nil {
				t.Errorf("the header %q of a signed body: %v", header, err)
			}
			if e, err := c.Verify(body, header); err == nil && !json.Valid(body) {
				t.Errorf("%q becomes %+v", body, e)
			}
		}
	})
}

var order = stripeapi.Checkout{
	Price: "price_1", AccountID: "acc", Metadata: map[string]string{"account_id": "acc", "price": "price_1"}, SuccessURL: "https://example.com/thanks", CancelURL: "https://example.com/",
}

var wholePage = stripeapi.Page{AutomaticTax: true, TaxIDs: true, Address: true, PromotionCodes: true, Invoices: true}

// standIn answers requests of one path as Stripe does.
type standIn struct {
	status int
	answer string
	got    url.Values // the last form
}

// startStandIn starts a stand-in that answers 200, and returns a client of it.
func startStandIn(t *testing.T, path, answer string) (*standIn, *stripeapi.Client) {
	t.Helper()
	s := &standIn{status: http.StatusOK, answer: answer}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.URL.Path != path || r.Header.Get("Authorization") != "Bearer sk_test_1" || r.Header.Get("Idempotency-Key") == "" {
			t.Errorf("%s %s, header %v, %v", r.Method, r.URL, r.Header, err)
		}
		s.got = r.PostForm
		w.WriteHeader(s.status)
		if _, err := w.Write([]byte(s.answer)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return s, stripeapi.New(stripeapi.Config{Key: "sk_test_1", URL: server.URL})
}

func TestCheckout_SendsForm(t *testing.T) {
	stripe, c := startStandIn(t, "/v1/checkout/sessions", `{"id":"cs_1","object":"checkout.session","url":"https://checkout.stripe.com/c/pay/cs_1"}`)
	s, err := c.Checkout(t.Context(), order)
	if err != nil || s != (stripeapi.Session{ID: "cs_1", URL: "https://checkout.stripe.com/c/pay/cs_1"}) {
		t.Fatalf("%+v, %v", s, err)
	}
	want := map[string]string{
		"mode": "payment", "client_reference_id": "acc", "line_items[0][price]": "price_1", "line_items[0][quantity]": "1", "metadata[account_id]": "acc",
		"metadata[price]": "price_1", "payment_intent_data[metadata][account_id]": "acc", "success_url": "https://example.com/thanks", "cancel_url": "https://example.com/",
	}
	for name, value := range want {
		if stripe.got.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, stripe.got.Get(name), value)
		}
	}
	plan := order
	plan.Subscription = true
	if _, err := c.Checkout(t.Context(), plan); err != nil || stripe.got.Get("mode") != "subscription" || stripe.got.Get("subscription_data[metadata][account_id]") != "acc" || stripe.got.Has("payment_intent_data[metadata][account_id]") {
		t.Errorf("a subscription: %v, %v", stripe.got, err)
	}
	for name, off := range map[string]string{"automatic_tax[enabled]": "", "tax_id_collection[enabled]": "", "allow_promotion_codes": "",
		"billing_address_collection": "", "invoice_creation[enabled]": "", "customer_update[name]": "", "customer_update[address]": ""} {
		if stripe.got.Get(name) != off {
			t.Errorf("%s is %q, want %q", name, stripe.got.Get(name), off)
		}
	}
	full := order
	full.Page = wholePage
	if _, err := c.Checkout(t.Context(), full); err != nil {
		t.Error(err)
	}
	for name, on := range map[string]string{"automatic_tax[enabled]": "true", "tax_id_collection[enabled]": "true", "allow_promotion_codes": "true",
		"billing_address_collection": "required", "invoice_creation[enabled]": "true", "invoice_creation[invoice_data][metadata][account_id]": "acc",
		"customer": "", "customer_update[name]": "", "customer_update[address]": ""} {
		if stripe.got.Get(name) != on {
			t.Errorf("%s is %q, want %q", name, stripe.got.Get(name), on)
		}
	}
	full.Customer = "cus_1"
	if _, err := c.Checkout(t.Context(), full); err != nil || stripe.got.Get("customer") != "cus_1" || stripe.got.Get("customer_update[address]") != "auto" ||
		stripe.got.Has("customer_update[name]") || stripe.got.Has("tax_id_collection[enabled]") {
		t.Errorf("a customer that exists: %v, %v", stripe.got, err)
	}
	full.Page = stripeapi.Page{TaxIDs: true}
	if _, err := c.Checkout(t.Context(), full); err != nil || stripe.got.Has("customer_update[address]") || stripe.got.Has("automatic_tax[enabled]") {
		t.Errorf("a customer that exists, without automatic tax: %v, %v", stripe.got, err)
	}
	full.Page = wholePage
	full.Subscription = true
	if _, err := c.Checkout(t.Context(), full); err != nil || stripe.got.Has("invoice_creation[enabled]") {
		t.Errorf("a subscription, which always has invoices: %v, %v", stripe.got, err)
	}
	stripe.status, stripe.answer = http.StatusBadRequest, `{"error":{"type":"invalid_request_error","message":"No such price: 'price_1'"}}`
	if _, err := c.Checkout(t.Context(), order); err == nil || !strings.Contains(err.Error(), "No such price") || strings.Contains(err.Error(), "sk_test_1") {
		t.Errorf("a price that Stripe does not know: %v", err)
	}
	if _, err := stripeapi.New(stripeapi.Config{}).Checkout(context.Background(), order); !errors.Is(err, stripeapi.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
}

func TestPortal_LeadsBack(t *testing.T) {
	stripe, c := startStandIn(t, "/v1/billing_portal/sessions", `{"id":"bps_1","object":"billing_portal.session","url":"https://billing.stripe.com/p/session/1"}`)
	address, err := c.Portal(t.Context(), "cus_1", "https://example.com/back")
	if err != nil || address != "https://billing.stripe.com/p/session/1" || stripe.got.Get("customer") != "cus_1" || stripe.got.Get("return_url") != "https://example.com/back" {
		t.Errorf("%q, %v, the request is %v", address, err, stripe.got)
	}
	stripe.status, stripe.answer = http.StatusBadRequest, `{"error":{"type":"invalid_request_error","message":"No configuration provided"}}`
	if address, err := c.Portal(t.Context(), "cus_1", "https://example.com/back"); err == nil || address != "" || !strings.Contains(err.Error(), "No configuration provided") {
		t.Errorf("a portal that is not set up: %q, %v", address, err)
	}
	if _, err := stripeapi.New(stripeapi.Config{}).Portal(t.Context(), "cus_1", "https://example.com/back"); !errors.Is(err, stripeapi.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
}

// TestSessions_StripeMock_AcceptsRequests runs against a server of github.com/stripe/stripe-mock, which validates requests against Stripe's
// own description:
//
//	go run github.com/stripe/stripe-mock@v0.203.0 -http-addr 127.0.0.1:12111
//	LETTERHEAD_TEST_STRIPE=http://127.0.0.1:12111 go test ./internal/stripeapi
func TestSessions_StripeMock_AcceptsRequests(t *testing.T) {
	address := os.Getenv("LETTERHEAD_TEST_STRIPE")
	if address == "" {
		t.Skip("LETTERHEAD_TEST_STRIPE names no stripe-mock")
	}
	c := stripeapi.New(stripeapi.Config{Key: "sk_test_1", URL: address})
	for _, page := range []stripeapi.Page{{}, wholePage} {
		for _, subscription := range []bool{false, true} {
			for _, customer := range []string{"", "cus_1"} {
				in := order
				in.Subscription, in.Customer, in.Page = subscription, customer, page
				if s, err := c.Checkout(t.Context(), in); err != nil || s.ID == "" {
					t.Errorf("subscription %t, customer %q, page %+v: %+v, %v", subscription, customer, page, s, err)
				}
			}
		}
	}
	if address, err := c.Portal(t.Context(), "cus_1", "https://example.com/back"); err != nil || address == "" {
		t.Errorf("the customer portal: %q, %v", address, err)
	}
	for _, every := range []string{"", "month", "year"} {
		// Any lookup key has a price there, so nothing is created.
		if id, made, err := c.MakePrice(t.Context(), stripeapi.Price{Key: "k", Name: "Credits", Amount: 900, Currency: "eur", Every: every}); err != nil || made || id == "" {
			t.Errorf("price each %q: %q, %t, %v", every, id, made, err)
		}
	}
	if _, err := c.MakeEndpoint(t.Context(), "https://example.com/billing/stripe", stripeapi.Endpoint{APIVersion: billing.StripeVersion, Types: billing.EndpointTypes()}); err != nil {
		t.Errorf("the webhook endpoint: %v", err)
	}
}

func TestEndpoints_OfTheService_AreListed(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/v1/webhook_endpoints" || r.Header.Get("Authorization") != "Bearer rk_test_1" {
			t.Errorf("%s %s, header %v", r.Method, r.URL, r.Header)
		}
		w.WriteHeader(status)
		if status != http.StatusOK {
			fmt.Fprint(w, `{"error":{"type":"invalid_request_error","message":"The provided key does not have the required permissions"}}`)
			return
		}
		fmt.Fprint(w, `{"object":"list","has_more":false,"data":[
			{"id":"we_1","url":"https://shop.example.com/hook","status":"enabled","api_version":"2026-10-28.endive","enabled_events":["*"]},
			{"id":"we_2","url":"https://brands.example.com/billing/stripe","status":"enabled","api_version":"2026-10-28.endive","enabled_events":["invoice.paid"]},
			{"id":"we_3","url":"https://brands.example.com/billing/stripe","status":"disabled","api_version":null,"enabled_events":["*"]}]}`)
	}))
	defer server.Close()
	c := stripeapi.New(stripeapi.Config{Key: "rk_test_1", URL: server.URL})
	got, err := c.Endpoints(t.Context(), "https://brands.example.com/billing/stripe")
	want := []stripeapi.Endpoint{{Enabled: true, APIVersion: "2026-10-28.endive", Types: []string{"invoice.paid"}}, {Types: []string{"*"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("endpoints %+v, %v, want %+v", got, err, want)
	}
	status = http.StatusForbidden
	if _, err := c.Endpoints(t.Context(), "https://brands.example.com/billing/stripe"); !errors.Is(err, stripeapi.ErrNotAllowed) {
		t.Errorf("a key without the permission: %v", err)
	}
	if _, err := stripeapi.New(stripeapi.Config{}).Endpoints(t.Context(), ""); !errors.Is(err, stripeapi.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
}
