package adminapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"letterhead/domain/billing"
	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

func (s *service) balance(id string) int64 {
	s.t.Helper()
	var a account
	s.get("/admin/accounts/"+id).want(http.StatusOK, &a)
	return a.Credits.Balance
}

func TestLinks_CustomerAndPayment_TheirEventsApply(t *testing.T) {
	s := start(t)
	id, other := s.open("Acme").Account.ID, s.open("Bolt").Account.ID
	const path = "/admin/billing/links"
	grant := `{"credits":1000,"payment_id":"pi_1","money":4900,"currency":"EUR","kind":"adjustment"}`
	s.post("/admin/accounts/"+id+"/grants", grant).want(http.StatusOK, nil)
	for _, r := range []eventschemas.BillingReported{
		{EventID: "evt_1", Kind: billing.KindPayment, GrantKind: "topup", PaymentID: "pi_2", Credits: 100, Customer: "cus_1"},
		{EventID: "evt_2", Kind: billing.KindRefund, Subject: "re_1", State: "succeeded", PaymentID: "pi_1", Money: &eventschemas.Money{Minor: 490, Currency: "EUR"}},
	} {
		r.Processor, r.Type = billing.Stripe, "test"
		s.must(s.node.Writers.Billing.Record(t.Context(), s.node.Operator(), r))
	}
	s.applyReports()
	open := func(state string) int {
		var l struct{ Total int }
		s.get("/admin/billing/inbox?state="+state).want(http.StatusOK, &l)
		return l.Total
	}
	s.await(func() bool { return open("inbox") == 1 && open("waiting") == 1 })

	var linked struct{ Account, Processor, Customer string }
	customer := request{method: "POST", path: path, body: `{"account":"` + id + `","customer":"cus_1"}`, key: "customer", token: s.tok[operator.Finance]}
	a := s.send(customer).want(http.StatusOK, &linked)
	if linked.Account != id || linked.Processor != "stripe" || linked.Customer != "cus_1" {
		t.Errorf("the link is %+v", linked)
	}
	s.await(func() bool { return s.balance(id) == 1150 && open("inbox") == 0 })
	payment := `{"account":"` + id + `","payment_id":"pi_1","processor":"stripe"}`
	s.post(path, payment).want(http.StatusOK, nil)
	s.await(func() bool { return s.balance(id) == 1050 && open("waiting") == 0 })
	s.post(path, payment).want(http.StatusOK, nil)

	// The link is an event with the operator's token. A late repeat adds none.
	s.forget()
	s.send(customer).want(http.StatusOK, nil)
	events, err := s.node.Stores.Log.ReadStream(t.Context(), billing.Stream(billing.Stripe, "link-"+a.header.Get("X-Request-Id")), 0, eventlog.Forward, 10)
	s.must(err)
	reported := 0
	for _, e := range events {
		if e.Type != "BillingReported" {
			continue
		}
		if reported++; !strings.HasPrefix(e.Metadata.Actor, "operator:") || e.Metadata.Actor == "operator:cli" {
			t.Errorf("the link has the actor %s", e.Metadata.Actor)
		}
	}
	if reported != 1 {
		t.Errorf("the link is %d events, want 1", reported)
	}

	s.post("/admin/accounts/"+other+"/grants", grant).want(http.StatusOK, nil)
	s.post(path, `{"account":"`+other+`","payment_id":"pi_1"}`).rejected(http.StatusConflict, "linked to account "+id+" already")
	s.post(path, `{"account":"`+other+`","payment_id":"pi_9"}`).rejected(http.StatusNotFound, "no payment pi_9")
	s.post(path, `{"account":"none","customer":"cus_1"}`).rejected(http.StatusNotFound, "no account none")
	for body, want := range map[string]string{
		`{"customer":"cus_1"}`:                                          "account and either customer or payment_id",
		`{"account":"` + id + `"}`:                                      "account and either customer or payment_id",
		`{"account":"` + id + `","customer":"c","payment_id":"p"}`:      "account and either customer or payment_id",
		`{"account":"` + id + `","customer":"cus 1"}`:                   "customer is not an id",
		`{"account":"` + id + `","customer":"cus_1","processor":"A B"}`: "lower-case letters",
		`{"account":"` + id + `","client":"cus_1"}`:                     "client",
	} {
		s.post(path, body).rejected(http.StatusBadRequest, want)
	}
	s.send(request{method: "POST", path: path, body: payment, token: s.tok[operator.Support]}).rejected(http.StatusForbidden, "finance")
}

// A buyer, who has an account, pays with the account id of another person in the URL of a payment link.
func TestLinks_CustomerOfAnotherAccount_MovesOnlyByAnOperator(t *testing.T) {
	s := start(t)
	id, other := s.open("Acme").Account.ID, s.open("Bolt").Account.ID
	for n, e := range []struct{ eventType, object string }{
		{"customer.subscription.created", `{"id":"sub_1","status":"incomplete","customer":"cus_1","metadata":{"account_id":"` + id + `"}}`},
		{"checkout.session.completed", `{"id":"cs_1","mode":"subscription","payment_status":"paid","client_reference_id":"` + other + `","customer":"cus_1"}`},
		{"checkout.session.completed", `{"id":"cs_2","mode":"subscription","payment_status":"paid","client_reference_id":"` + other + `","customer":"cus_1","metadata":{"account_id":"` + other + `"}}`},
	} {
		r, ok := billing.FromStripe(billing.StripeEvent{ID: "evt_" + strconv.Itoa(n), Type: e.eventType, APIVersion: billing.StripeVersion, Created: 1795000000 + int64(n), Object: []byte(e.object)})
		if !ok {
			t.Fatal(e)
		}
		s.must(s.node.Writers.Billing.Record(t.Context(), s.node.Operator(), r))
	}
	s.applyReports()
	type report struct {
		ID, Reason, Customer string
		Account              string `json:"account_id"`
		Asks                 bool   `json:"asks_to_link"`
	}
	inbox := func() (all []report) {
		var l struct{ Reports []report }
		s.get("/admin/billing/inbox?state=inbox").want(http.StatusOK, &l)
		return l.Reports
	}
	customer := func(of string) string {
		got, err := s.node.Models.Inbox.SubscriberOf(t.Context(), billing.Stripe, of)
		s.must(err)
		return got
	}
	s.await(func() bool { return len(inbox()) == 2 && customer(id) == "cus_1" })
	for n, want := range []report{
		{"stripe:evt_1", "the event cannot be used: only its client_reference_id", "cus_1", other, true}, {"stripe:evt_2", billing.LinkStays, "cus_1", other, true},
	} {
		got := inbox()[n]
		reason := got.Reason
		if got.Reason = want.Reason; got != want || !strings.HasPrefix(reason, want.Reason) {
			t.Errorf("the report is %+v with the reason %q, want %+v", got, reason, want)
		}
	}
	s.post("/admin/billing/inbox/stripe:evt_1/replay", "").want(http.StatusOK, nil)
	s.post("/admin/billing/inbox/stripe:evt_2/replay", "").want(http.StatusOK, nil)
	s.await(func() bool { return len(inbox()) == 2 })
	if customer(id) != "cus_1" || customer(other) != "" {
		t.Errorf("the accounts have the customers %q and %q, want cus_1 and none", customer(id), customer(other))
	}
	s.post("/admin/billing/links", `{"account":"`+other+`","customer":"cus_1"}`).want(http.StatusOK, nil)
	s.await(func() bool { return len(inbox()) == 0 })
	if customer(id) != "" {
		t.Errorf("the account whose customer was moved has the customer %q", customer(id))
	}
}

// processor is a stand-in for Stripe that counts sessions, and rejects the price price_gone.
type processor struct {
	sessions int
	last     url.Values
}

func (p *processor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.URL.Path != "/v1/checkout/sessions" || r.PostForm.Get("line_items[0][price]") == "price_gone" {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":{"type":"invalid_request_error","message":"No such price"}}`))
		return
	}
	p.sessions++
	p.last = r.PostForm
	_, _ = w.Write([]byte(`{"id":"cs_1","object":"checkout.session","url":"https://checkout.stripe.com/c/pay/cs_1"}`))
}

func TestCheckouts_SoldOffers_GetAPage(t *testing.T) {
	stripe := &processor{}
	server := httptest.NewServer(stripe)
	defer server.Close()
	catalog := filepath.Join(t.TempDir(), "billing.yaml")
	sold := "plans: [{price: price_growth, plan: growth, credits: 10000}]\npacks: [{price: price_small, name: small, credits: 500}, {price: price_gone, name: gone, credits: 5}]\n"
	testmust.Succeed(t, os.WriteFile(catalog, []byte(sold), 0o600))
	s := startWith(t, map[string]string{"LETTERHEAD_BILLING_FILE": catalog, "LETTERHEAD_STRIPE_KEY": "sk_test_1", "LETTERHEAD_STRIPE_URL": server.URL})
	id := s.open("Acme").Account.ID
	const path = "/admin/billing/checkouts"

	var page struct{ ID, URL string }
	pack := request{method: "POST", path: path, body: `{"account":"` + id + `","pack":"small"}`, key: "pack", token: s.tok[operator.Finance]}
	s.send(pack).want(http.StatusOK, &page)
	if page.ID != "cs_1" || page.URL != "https://checkout.stripe.com/c/pay/cs_1" || stripe.last.Get("client_reference_id") != id || stripe.last.Get("mode") != "payment" {
		t.Errorf("the page is %+v, of %v", page, stripe.last)
	}
	if a := s.send(pack).want(http.StatusOK, nil); a.header.Get("Idempotency-Replayed") != "true" || stripe.sessions != 1 {
		t.Errorf("the repeat made another page: %d", stripe.sessions)
	}
	s.post(path, `{"account":"`+id+`","price":"price_growth"}`).want(http.StatusOK, nil)
	if stripe.last.Get("mode") != "subscription" || stripe.last.Get("line_items[0][price]") != "price_growth" {
		t.Errorf("the second page is one of %v", stripe.last)
	}

	s.post(path, `{"account":"`+id+`","pack":"large"}`).rejected(http.StatusNotFound, "does not sell large; it sells the pack small (price_small)")
	s.post(path, `{"account":"none","pack":"small"}`).rejected(http.StatusNotFound, "no account none")
	s.post(path, `{"account":"`+id+`","pack":"gone"}`).rejected(http.StatusServiceUnavailable, "did not create a page")
	for _, body := range []string{`{"pack":"small"}`, `{"account":"` + id + `"}`, `{"account":"` + id + `","pack":"small","price":"price_small"}`} {
		s.post(path, body).rejected(http.StatusBadRequest, "account and either pack or price")
	}
	s.post(path, "").rejected(http.StatusBadRequest, "body is missing")
	s.send(request{method: "POST", path: path, body: pack.body, token: s.tok[operator.Support]}).rejected(http.StatusForbidden, "finance")
}

func TestCheckouts_NoKeyOfStripe_NamesTheSetting(t *testing.T) {
	catalog := filepath.Join(t.TempDir(), "billing.yaml")
	testmust.Succeed(t, os.WriteFile(catalog, []byte("packs: [{price: price_small, name: small, credits: 500}]\n"), 0o600))
	s := startWith(t, map[string]string{"LETTERHEAD_BILLING_FILE": catalog})
	id := s.open("Acme").Account.ID
	s.post("/admin/billing/checkouts", `{"account":"`+id+`","pack":"small"}`).rejected(http.StatusConflict, "LETTERHEAD_STRIPE_KEY")
}
