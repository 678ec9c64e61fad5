package readapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stripe/stripe-go/v82"
	"github.com/stripe/stripe-go/v82/webhook"

	"letterhead/commands"
	domain "letterhead/domain/billing"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/stripeapi"
	"letterhead/internal/testwait"
	"letterhead/readapi"
	"letterhead/workers/billing"
)

const (
	oldSecret = "whsec_old"
	newSecret = "whsec_new"
)

const soldHere = `
plans: [{price: price_growth, plan: growth, credits: 10000}]
packs: [{price: price_small, name: small, credits: 500}]
`

// withStripe configures webhooks and a catalog.
func withStripe(set *setup) {
	set.config.StripeSecrets = []string{oldSecret, newSecret}
	set.deps = func(d *readapi.Deps) {
		catalog, err := domain.ParseCatalog([]byte(soldHere))
		if err != nil {
			panic(err)
		}
		d.Catalog = catalog
	}
}

// applyReports starts the worker that applies webhooks to accounts.
func (s *service) applyReports() {
	s.t.Helper()
	worker, err := billing.New(billing.Config{Catalog: s.deps.Catalog}, s.log, s.writer, s.node.Writers.Notices, s.node.Writers.Billing)
	s.must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Errorf("the worker of billing: %v", err)
		}
	})
}

// stripeBody is an event of Stripe as it is sent.
func stripeBody(id, eventType string, created time.Time, object string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"object":"event","api_version":%q,"created":%d,"type":%q,"livemode":false,"data":{"object":%s}}`, id, stripe.APIVersion, created.Unix(), eventType, object)
}

func signature(body []byte, secret string, at time.Time) string {
	return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: secret, Timestamp: at}).Header
}

func (s *service) postStripe(body []byte, signature string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/billing/stripe", strings.NewReader(string(body)))
	s.must(err)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	if signature != "" {
		r.Header.Set("Stripe-Signature", signature)
	}
	resp, err := s.transport.RoundTrip(r)
	s.must(err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	s.must(err)
	return answer{status: resp.StatusCode, header: resp.Header, body: read}
}

// stripeSends posts an event that is signed now.
func (s *service) stripeSends(body []byte) answer {
	s.t.Helper()
	return s.postStripe(body, signature(body, newSecret, time.Now()))
}

func paidSession(id, accountID string) []byte {
	return stripeBody(id, "checkout.session.completed", time.Unix(1795000000, 0), fmt.Sprintf(`{"id":"cs_%[1]s","object":"checkout.session","mode":"payment",
		"payment_status":"paid","client_reference_id":%[2]q,"customer":"cus_%[1]s","payment_intent":"pi_%[1]s","amount_total":4900,"currency":"eur",
		"total_details":{"amount_tax":782},"metadata":{"price":"price_small","account_id":%[2]q},"customer_details":{"email":"jane@example.com","name":"Jane Roe"}}`, id, accountID))
}

func refundOf(id, payment string, minor int64) []byte {
	return stripeBody(id, "refund.created", time.Unix(1795000001, 0), fmt.Sprintf(`{"id":"re_%s","object":"refund","amount":%d,"currency":"eur","status":"succeeded","payment_intent":%q}`, id, minor, payment))
}

func (s *service) reports() int {
	s.t.Helper()
	page, err := s.log.ReadAll(s.t.Context(), 0, billing.Filter, eventlog.MaxPage)
	s.must(err)
	return len(page.Events)
}

func (c *customer) awaitBalance(want int64) {
	c.s.t.Helper()
	if _, ok := testwait.Until(waitLimit, func() bool { return c.me().Credits.Balance == want }); !ok {
		c.s.t.Fatalf("the balance is %d, want %d", c.me().Credits.Balance, want)
	}
}

func TestStripe_SignedEvent_IsStoredThenApplied(t *testing.T) {
	s := start(t, withStripe)
	s.shows("POST /billing/stripe", 200)
	c := s.account(plan.Free, 50)
	body := paidSession("1", c.id)
	for range 2 {
		if a := s.stripeSends(body); string(a.body) != `{"received":true,"ignored":false}`+"\n" || a.status != 200 || a.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Fatalf("status %d, body %s", a.status, a.body)
		}
		if n := s.reports(); n != 1 {
			t.Fatalf("%d events are stored, want 1", n)
		}
	}
	ignored := stripeBody("evt_2", "charge.succeeded", time.Unix(1795000000, 0), "{}")
	if a := s.stripeSends(ignored); string(a.body) != `{"received":true,"ignored":true}`+"\n" || s.reports() != 1 {
		t.Errorf("body %s, %d events are stored", a.body, s.reports())
	}
	if a := s.postStripe(body, signature(body, oldSecret, time.Now())); a.status != 200 {
		t.Errorf("with the other secret: status %d: %s", a.status, a.body)
	}
	page, err := s.log.ReadAll(t.Context(), 0, billing.Filter, 10)
	s.must(err)
	for _, personal := range []string{"jane", "Jane"} {
		if strings.Contains(string(page.Events[0].Data), personal) {
			t.Errorf("the stored event has personal data: %s", page.Events[0].Data)
		}
	}
	s.applyReports()
	c.awaitBalance(550)
	if a := s.stripeSends(refundOf("evt_3", "pi_1", 490)); a.status != 200 {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	c.awaitBalance(500)
	if strings.Contains(s.logs.all(), oldSecret) || strings.Contains(s.logs.all(), newSecret) {
		t.Error("a secret is in the log")
	}
}

func TestStripe_BadInput_StoresNothing(t *testing.T) {
	s, closed := start(t, withStripe), start(t)
	s.shows("POST /billing/stripe", 400, "invalid_request")
	body := paidSession("1", "a")
	now := time.Now()
	large := append([]byte(`{"padding":"`), strings.Repeat("x", 1<<20)...)
	for _, c := range []struct {
		name      string
		to        *service
		body      []byte
		signature string
		want      string
	}{
		{"no signature", s, body, "", "Stripe-Signature is missing"},
		{"not a signature", s, body, "t=1", "Stripe-Signature is missing"},
		{"another secret", s, body, signature(body, "whsec_other", now), "signature is not that of the body"},
		{"another body", s, append(body, ' '), signature(body, newSecret, now), "signature is not that of the body"},
		{"an old signature", s, body, signature(body, newSecret, now.Add(-10*time.Minute)), "older than 5 minutes"},
		{"too large", s, large, signature(large, newSecret, now), "larger than 1024 KiB"},
		{"empty", s, nil, signature(nil, newSecret, now), "not an event"},
		{"not JSON", s, []byte("hello"), signature([]byte("hello"), newSecret, now), "not an event"},
		{"no object", s, []byte("{}"), signature([]byte("{}"), newSecret, now), "not an event"},
		{"no secret is configured", closed, body, signature(body, newSecret, now), "LETTERHEAD_STRIPE_WEBHOOK_SECRET"},
	} {
		p := c.to.postStripe(c.body, c.signature).rejected(t, http.StatusBadRequest, "invalid_request")
		if !strings.Contains(p.Error.Message, c.want) {
			t.Errorf("%s: %q, want %q in it", c.name, p.Error.Message, c.want)
		}
		if n := c.to.reports(); n != 0 {
			t.Fatalf("%s: %d events are stored", c.name, n)
		}
	}
}

// TestStripe_WithheldBodies_LeavePlaces withholds the rest of many bodies, and sends a webhook meanwhile.
func TestStripe_WithheldBodies_LeavePlaces(t *testing.T) {
	t.Parallel()
	withhold := func(s *service, signature string) (answers chan *http.Response) {
		answers = make(chan *http.Response, readapi.MaxWebhooks)
		for range readapi.MaxWebhooks {
			conn, err := s.pipes.dial()
			s.must(err)
			s.t.Cleanup(func() { conn.Close() })
			go io.WriteString(conn, "POST /billing/stripe HTTP/1.1\r\nHost: x\r\n"+signature+"Content-Length: 1000000\r\n\r\n"+strings.Repeat("x", 300_000))
			go func() {
				if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
					answers <- resp
				}
			}()
		}
		synctest.Wait()
		return answers
	}
	rejected := func(s *service, answers chan *http.Response, want int) {
		s.t.Helper()
		if len(answers) != want {
			s.t.Fatalf("%d webhooks are answered, want %d", len(answers), want)
		}
		for range want {
			if resp := <-answers; resp.StatusCode != http.StatusBadRequest {
				s.t.Fatalf("status %d, want 400", resp.StatusCode)
			}
		}
	}
	inBubble(t, func(s *service) {
		for _, c := range []struct{ name, header string }{
			{"no signature", ""},
			{"no time", "Stripe-Signature: t=now,v1=00\r\n"},
			{"no signature in the header", fmt.Sprintf("Stripe-Signature: t=%d\r\n", time.Now().Unix())},
			{"an old signature", fmt.Sprintf("Stripe-Signature: t=%d,v1=00\r\n", time.Now().Add(-stripeapi.Tolerance-time.Minute).Unix())},
		} {
			answers := withhold(s, c.header)
			if a := s.stripeSends(paidSession("1", "a")); a.status != http.StatusOK {
				s.t.Fatalf("%s: a signed webhook gets status %d", c.name, a.status)
			}
			rejected(s, answers, readapi.MaxWebhooks)
		}
		// A header that looks right takes a place, which the client that has held it longest loses to the next webhook. The others
		// hold theirs for a limited time, however fast the body was until then.
		answers := withhold(s, fmt.Sprintf("Stripe-Signature: t=%d,v1=00\r\n", time.Now().Unix()))
		if a := s.stripeSends(paidSession("1", "a")); a.status != http.StatusOK {
			s.t.Fatalf("while all places are taken: status %d, want 200", a.status)
		}
		if resp := <-answers; resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			s.t.Fatalf("the webhook that lost its place gets status %d, want 503 with Retry-After", resp.StatusCode)
		}
		if synctest.Wait(); len(answers) != 0 {
			s.t.Fatalf("%d more webhooks lost their places, want none", len(answers))
		}
		s.clock.add(readapi.WebhookWithin)
		synctest.Wait()
		if a := s.stripeSends(paidSession("1", "a")); a.status != http.StatusOK {
			s.t.Fatalf("after %s: status %d", readapi.WebhookWithin, a.status)
		}
		rejected(s, answers, readapi.MaxWebhooks-1)
	}, withStripe)
	inBubble(t, func(s *service) {
		rejected(s, withhold(s, fmt.Sprintf("Stripe-Signature: t=%d,v1=00\r\n", time.Now().Unix())), readapi.MaxWebhooks)
	}) // without a secret
}

// failingReports cannot store an event.
type failingReports struct{ err error }

func (f failingReports) Record(context.Context, commands.Request, eventschemas.BillingReported) error {
	return f.err
}

func TestStripe_LogUnavailable_Is503(t *testing.T) {
	for _, err := range []error{eventlog.ErrUnavailable, eventlog.ErrAmbiguous, eventschemas.ErrNotYet, commands.ErrBusy} {
		s := start(t, func(set *setup) {
			withStripe(set)
			configure := set.deps
			set.deps = func(d *readapi.Deps) { configure(d); d.Reports = failingReports{err} }
		})
		s.shows("POST /billing/stripe", 503, "upstream_failed")
		a := s.stripeSends(paidSession("1", "a"))
		a.rejected(t, http.StatusServiceUnavailable, "upstream_failed")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%v: no Retry-After", err)
		}
	}
}

// TestStripe_AnyOrder_EndsInSameAccount sends the webhooks of three customers, each twice and in random order, over HTTP.
func TestStripe_AnyOrder_EndsInSameAccount(t *testing.T) {
	s := start(t, withStripe)
	s.applyReports()
	var customers []*customer
	var bodies [][]byte
	for i := range 3 {
		c := s.account(plan.Free, 50)
		customers = append(customers, c)
		id := fmt.Sprint(i)
		subscription := func(event, status string, at int64) []byte {
			return stripeBody("evt_sub_"+event+id, "customer.subscription."+event, time.Unix(1795000000+at, 0),
				fmt.Sprintf(`{"id":"sub_%s","status":%q,"customer":"cus_%s","metadata":{},"items":{"data":[{"price":{"id":"price_growth"}}]}}`, id, status, id))
		}
		bodies = append(bodies, paidSession(id, c.id), refundOf("evt_refund"+id, "pi_"+id, 2450),
			subscription("created", "incomplete", 0), subscription("updated", "active", 0),
			stripeBody("evt_invoice"+id, "invoice.paid", time.Unix(1795000002, 0), fmt.Sprintf(`{"id":"in_%s","customer":"cus_%s","billing_reason":"subscription_create",
				"amount_paid":9900,"total":9900,"currency":"eur","lines":{"data":[{"amount":9900,"quantity":1,"pricing":{"price_details":{"price":"price_growth"}}}]}}`, id, id)))
	}
	bodies = slices.Concat(bodies, bodies)
	rand.Shuffle(len(bodies), func(i, j int) { bodies[i], bodies[j] = bodies[j], bodies[i] })
	for _, body := range bodies {
		if a := s.stripeSends(body); a.status != 200 {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
	}
	for _, c := range customers {
		c.awaitBalance(50 + 500 - 250 + 10000)
		if _, ok := testwait.Until(waitLimit, func() bool { return c.me().Plan == "growth" }); !ok {
			t.Errorf("the plan is %s", c.me().Plan)
		}
	}
}

// checkouts is a payment processor that creates sessions.
type checkouts struct {
	readapi.Stripe
	asked stripeapi.Checkout
	err   error
}

func (c *checkouts) Checkout(_ context.Context, in stripeapi.Checkout) (stripeapi.Session, error) {
	c.asked = in
	return stripeapi.Session{ID: "cs_1", URL: "https://checkout.stripe.com/c/pay/cs_1"}, c.err
}

func (c *customer) checkout(body string) answer {
	c.s.t.Helper()
	r, err := http.NewRequestWithContext(c.s.t.Context(), http.MethodPost, c.s.url+"/v1/billing/checkout", strings.NewReader(body))
	c.s.must(err)
	r.Header = bearer(c.secret)
	resp, err := c.s.transport.RoundTrip(r)
	c.s.must(err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	c.s.must(err)
	return answer{status: resp.StatusCode, header: resp.Header, body: read}
}

func TestCheckout_ReturnsPageToPayOn(t *testing.T) {
	processor := &checkouts{}
	s := start(t, func(set *setup) {
		withStripe(set)
		configure := set.deps
		set.deps = func(d *readapi.Deps) { configure(d); d.Stripe = processor }
	})
	s.shows("POST /v1/billing/checkout", 200)
	s.shows("POST /v1/billing/checkout", 400, "invalid_request")
	c := s.account(plan.Free, 50)
	for body, want := range map[string]stripeapi.Checkout{
		`{"pack":"small"}`:         {Price: "price_small"},
		`{"price":"price_small"}`:  {Price: "price_small"},
		`{"price":"price_growth"}`: {Price: "price_growth", Subscription: true},
	} {
		a := c.checkout(body)
		a.ok(t)
		var got struct{ ID, URL string }
		s.must(json.Unmarshal(a.body, &got))
		if got.ID != "cs_1" || got.URL != "https://checkout.stripe.com/c/pay/cs_1" || a.header.Get("X-Credits-Remaining") != "" {
			t.Errorf("%s: %s", body, a.body)
		}
		in := processor.asked
		if in.Price != want.Price || in.Subscription != want.Subscription || in.AccountID != c.id || in.Metadata["account_id"] != c.id || in.Metadata["price"] != want.Price || in.SuccessURL != baseURL+"/" || (in.Metadata["granted_by"] == "") != want.Subscription || !in.Page.TaxIDs || !in.Page.PromotionCodes || in.Page.AutomaticTax {
			t.Errorf("%s: the processor was asked for %+v", body, in)
		}
	}
	for _, body := range []string{"", "[]", "{}", `{"pack":1}`, `{"pack":"small","price":"price_small"}`, `{"pack":"small","colour":"red"}`, `{"pack":"` + strings.Repeat("x", 5000) + `"}`} {
		c.checkout(body).rejected(t, http.StatusBadRequest, "invalid_request")
	}
	for _, body := range []string{`{"pack":"large"}`, `{"price":"price_9"}`} {
		c.checkout(body).rejected(t, http.StatusNotFound, "not_found")
	}
	if got := c.me().Credits.Balance; got != 50 {
		t.Errorf("the balance is %d, want 50", got)
	}
	processor.err = errors.New("the processor is away")
	c.checkout(`{"pack":"small"}`).rejected(t, http.StatusServiceUnavailable, "upstream_failed")
}

func TestCheckout_NoKey_Is404(t *testing.T) {
	s := start(t, withStripe)
	s.shows("POST /v1/billing/checkout", 404, "not_found")
	s.account(plan.Free, 50).checkout(`{"pack":"small"}`).rejected(t, http.StatusNotFound, "not_found")
}

// BenchmarkStripeWebhook measures a webhook over HTTP from the signed request to the durable answer, one after the other,
// while the worker applies them to 100 accounts.
func BenchmarkStripeWebhook(b *testing.B) {
	s := start(b, withStripe)
	s.applyReports()
	var customers []*customer
	for range 100 {
		customers = append(customers, s.account(plan.Free, 50))
	}
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		body := paidSession(fmt.Sprint(n), customers[n%len(customers)].id)
		header := signature(body, newSecret, time.Now())
		began := time.Now()
		if a := s.postStripe(body, header); a.status != 200 {
			b.Fatalf("status %d: %s", a.status, a.body)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	milliseconds := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1000 }
	b.ReportMetric(milliseconds(0.5), "p50-ms")
	b.ReportMetric(milliseconds(0.99), "p99-ms")
}
