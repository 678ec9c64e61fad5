package dashboard_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/dashboard/site/sitetest"
	"letterhead/domain/account"
	"letterhead/domain/billing"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

// processor is a stand-in for Stripe. It rejects the price price_gone and the customer cus_gone.
type processor struct{ sessions, portals []url.Values }

func (p *processor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.PostForm.Get("line_items[0][price]") == "price_gone" || r.PostForm.Get("customer") == "cus_gone" {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":{"type":"invalid_request_error","message":"No such price or customer"}}`))
		return
	}
	if r.URL.Path == "/v1/billing_portal/sessions" {
		p.portals = append(p.portals, r.PostForm)
		_, _ = w.Write([]byte(`{"id":"bps_1","object":"billing_portal.session","url":"https://billing.stripe.com/p/session/1?a=1&b=2"}`))
		return
	}
	p.sessions = append(p.sessions, r.PostForm)
	_, _ = w.Write([]byte(`{"id":"cs_1","object":"checkout.session","url":"https://checkout.stripe.com/c/pay/cs_1?a=1&b=2"}`))
}

// selling serves a service that sells through a processor.
func selling(t *testing.T, more string) (*service, *processor) {
	t.Helper()
	p := &processor{}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	catalog := filepath.Join(t.TempDir(), "billing.yaml")
	sold := "plans: [{price: price_growth, plan: growth, credits: 10000}]\npacks: [{price: price_small, name: small, credits: 500}, {price: price_gone, name: gone, credits: 5}]\n" + more
	testmust.Succeed(t, os.WriteFile(catalog, []byte(sold), 0o600))
	return startWith(t, map[string]string{"LETTERHEAD_BASE_URL": baseURL, "LETTERHEAD_BILLING_FILE": catalog, "LETTERHEAD_STRIPE_KEY": "sk_test_1", "LETTERHEAD_STRIPE_URL": server.URL}), p
}

// buys sends the form of the page of credits for a price.
func (c *customer) buys(price string) answer {
	c.t.Helper()
	form := c.get("/dashboard/credits").form("/dashboard/credits")
	form.Set("price", price)
	return c.post("/dashboard/credits", form)
}

func TestCredits_Bought_LeadToThePaymentPage(t *testing.T) {
	s, stripe := selling(t, "")
	c := s.signedIn("Acme", plan.Free)
	rows := c.get("/dashboard/credits").shows(200, "The account has 50 credits", "Buy credits", "Plans").rows()
	if len(rows) != 3 || rows[0][0] != "small" || rows[0][1] != "500" || rows[2][0] != "growth" || rows[2][1] != "10,000" || rows[2][3] != "unlimited" {
		t.Fatalf("the offers are %q", rows)
	}
	page := c.buys("price_small").shows(200, "To the payment page")
	const address = "https://checkout.stripe.com/c/pay/cs_1?a=1&b=2"
	if page.link("Open the payment page") != address || sitetest.Attribute(page.elements("meta")[3], "content") != "0; url="+address {
		t.Errorf("the page leads elsewhere:\n%s", page.body)
	}
	session := stripe.sessions[0]
	if session.Get("client_reference_id") != c.id || session.Get("mode") != "payment" || session.Get("line_items[0][price]") != "price_small" ||
		session.Get("success_url") != baseURL+"/dashboard/credits?payment=made" || session.Get("cancel_url") != baseURL+"/dashboard/credits?payment=cancelled" {
		t.Errorf("the session is %v", session)
	}
	c.buys("price_growth").shows(200, "To the payment page")
	if stripe.sessions[1].Get("mode") != "subscription" {
		t.Errorf("the session is %v", stripe.sessions[1])
	}
	c.get("/dashboard/credits?payment=made").shows(200, "Thank you").lacks("Subscribe")
	c.get("/dashboard/credits?payment=cancelled").shows(200, "Nothing was paid")

	c.buys("price_gone").shows(503, "The payment page could not be opened", "Nothing was paid")
	c.buys("price_other").shows(404, "This is not sold")
	if len(stripe.sessions) != 2 {
		t.Errorf("there are %d sessions", len(stripe.sessions))
	}
}

func TestCredits_PagesOfTheCatalog_AreThoseAfterThePayment(t *testing.T) {
	s, stripe := selling(t, "success_url: https://acme.com/thanks\n")
	s.signedIn("Acme", plan.Free).buys("price_small").shows(200)
	if session := stripe.sessions[0]; session.Get("success_url") != "https://acme.com/thanks" || session.Get("cancel_url") != baseURL+"/dashboard/credits?payment=cancelled" {
		t.Errorf("the session is %v", session)
	}
}

func TestCredits_AccountWithPlan_CannotSubscribeTwice(t *testing.T) {
	s, stripe := selling(t, "")
	c := s.signedIn("Acme", plan.Growth)
	c.get("/dashboard/credits").shows(200, "The account's plan is growth", "ask the operator").lacks("price_growth")
	c.buys("price_growth").shows(409, "The account has a plan or a subscription already")
	c.buys("price_small").shows(200)
	if len(stripe.sessions) != 1 {
		t.Errorf("there are %d sessions", len(stripe.sessions))
	}
}

func TestCredits_ClosedAccount_CannotBuy(t *testing.T) {
	s, stripe := selling(t, "")
	c := s.signedIn("Acme", plan.Free)
	form := c.get("/dashboard/credits").form("/dashboard/credits")
	form.Set("price", "price_small")
	_, err := s.node.Writers.Accounts.Close(t.Context(), commands.CloseAccount{Request: operator(), AccountID: c.id, Reason: "test"})
	c.must(err)
	c.get("/dashboard/credits").shows(200).lacks("price_small")
	c.post("/dashboard/credits", form).shows(409, "The account is closed")
	if _, err := s.node.Operations.Billing.Checkout(t.Context(), c.id, "small", ""); !errors.Is(err, account.ErrClosed) {
		t.Errorf("an operator gets a page for a closed account: %v", err)
	}
	if len(stripe.sessions) > 0 {
		t.Errorf("there are %d sessions", len(stripe.sessions))
	}
}

// subscribes appends that a customer of Stripe subscribed to a plan for the account.
func (c *customer) subscribes(customer string) {
	c.t.Helper()
	var events []eventlog.Proposed
	for _, body := range []eventschemas.Event{
		eventschemas.BillingReported{Processor: billing.Stripe, EventID: "evt_" + customer, Type: "customer.subscription.updated", Kind: billing.KindSubscription, Subject: "sub_1", State: "active", Customer: customer, CreatedAt: c.now()},
		eventschemas.BillingSettled{Outcome: billing.Applied, AccountID: c.id},
	} {
		e, err := eventschemas.Encode(body)
		c.must(err)
		events = append(events, eventlog.Proposed{ID: uuid.New(), Type: e.Type, SchemaVersion: e.SchemaVersion, OccurredAt: c.now(), Data: e.Data})
	}
	_, err := c.log.Append(c.t.Context(), billing.Stream(billing.Stripe, "evt_"+customer), eventlog.NoStream(), events)
	c.must(err)
	c.must(c.node.Operations.Reads.CatchUp(c.t.Context()))
}

func TestCredits_Subscription_IsManagedAtTheProcessor(t *testing.T) {
	s, stripe := selling(t, "")
	c := s.signedIn("Acme", plan.Growth)
	manage := func() answer {
		t.Helper()
		return c.post("/dashboard/credits/subscription", c.get("/dashboard/credits").form("/dashboard/credits"))
	}
	manage().shows(409, "The account has no subscription", "ask the operator")
	c.subscribes("cus_1")
	page := c.get("/dashboard/credits").shows(200, "Manage the subscription").lacks("ask the operator")
	page = c.post("/dashboard/credits/subscription", page.form("/dashboard/credits/subscription")).shows(200, "To the subscription")
	const address = "https://billing.stripe.com/p/session/1?a=1&b=2"
	if page.link("Open the page of the subscription") != address || sitetest.Attribute(page.elements("meta")[3], "content") != "0; url="+address {
		t.Errorf("the page leads elsewhere:\n%s", page.body)
	}
	if portal := stripe.portals[0]; portal.Get("customer") != "cus_1" || portal.Get("return_url") != baseURL+"/dashboard/credits" {
		t.Errorf("the session is %v", portal)
	}
	other := s.signedIn("Other", plan.Growth)
	form := other.get("/dashboard/credits").shows(200, "ask the operator").lacks("Manage the subscription").form("/dashboard/credits")
	other.post("/dashboard/credits/subscription", form).shows(409, "The account has no subscription")
	c.buys("price_small").shows(200)
	other.buys("price_small").shows(200)
	if stripe.sessions[0].Get("customer") != "cus_1" || stripe.sessions[1].Has("customer") {
		t.Errorf("the sessions of the payment page are %v", stripe.sessions)
	}
	s.advance(time.Second)
	c.subscribes("cus_gone")
	manage().shows(503, "could not be opened", "The subscription is unchanged")
	if len(stripe.portals) != 1 {
		t.Errorf("there are %d sessions of the portal", len(stripe.portals))
	}
}

func TestCredits_UnpaidSubscription_IsManagedAndNoOtherIsSold(t *testing.T) {
	s, stripe := selling(t, "")
	c := s.signedIn("Acme", plan.Free) // an unpaid subscription gives no plan
	c.subscribes("cus_1")
	c.get("/dashboard/credits").shows(200, "Manage the subscription").lacks("price_growth")
	c.buys("price_growth").shows(409, "The account has a plan or a subscription already")
	if len(stripe.sessions) != 0 {
		t.Errorf("there are %d sessions", len(stripe.sessions))
	}
}

func TestCredits_NothingIsSold_SaysWhoAddsThem(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Free)
	c.get("/dashboard/credits").shows(200, "does not sell credits here").lacks("<button>Buy")
	c.post("/dashboard/credits", url.Values{"price": {"price_small"}}).shows(404, "This is not sold")
}

func TestCredits_FileWithAmounts_ShowsPrices(t *testing.T) {
	s, _ := selling(t, "")
	file := s.node.Config.BillingFile
	packs := "packs: [{price: price_small, name: small, credits: 500}, {price: price_large, name: large, credits: 5000, amount: 39.00 EUR}]\n"
	testmust.Succeed(t, os.WriteFile(file, []byte(packs), 0o600))
	rows := s.signedIn("Acme", plan.Free).get("/dashboard/credits").shows(200, "with tax and discounts").rows()
	if len(rows) != 2 || rows[0][2] != "" || rows[1][0] != "large" || rows[1][2] != "39.00 EUR" {
		t.Errorf("the offers are %q", rows)
	}
	yearly := "plans: [{price: price_growth, plan: growth, credits: 120000, amount: 990.00 EUR, every: year}]\n"
	testmust.Succeed(t, os.WriteFile(file, []byte(yearly), 0o600))
	rows = s.signedIn("Beta", plan.Free).get("/dashboard/credits").rows()
	if len(rows) != 1 || rows[0][1] != "990.00 EUR a year" {
		t.Errorf("the offers are %q", rows)
	}
}
