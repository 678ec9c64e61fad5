package notices_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/domain/notices"
	"letterhead/eventschemas"
	"letterhead/internal/email"
	"letterhead/internal/email/emailtest"
	"letterhead/internal/safehttp"
	"letterhead/internal/testcert"
	"letterhead/internal/testmust"
	"letterhead/internal/webhook"
	worker "letterhead/workers/notices"
)

// resolver resolves every name to one address.
type resolver netip.Addr

func (r resolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.Addr(r)}, nil
}

// hook is a Webhook and its receiver, which has a public address for the Webhook.
type hook struct {
	worker.Webhook
	public ed25519.PublicKey

	mu       sync.Mutex
	statuses []int // of the next answers; 200 after them
	requests []received
}

type received struct {
	header http.Header
	body   string
}

func newHook(s *service) *hook {
	s.Helper()
	authority, err := testcert.NewAuthority()
	testmust.Succeed(s, err)
	h := &hook{}
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{GetCertificate: authority.Certificate}
	server.StartTLS()
	s.Cleanup(server.Close)
	h.Client, err = safehttp.New(safehttp.Config{
		Resolver: resolver(netip.MustParseAddr("93.184.216.34")), RootCAs: authority.Pool(),
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		},
	})
	testmust.Succeed(s, err)
	s.Cleanup(h.Client.Close)
	key, err := webhook.NewKey(rand.Reader)
	testmust.Succeed(s, err)
	if h.public, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(key.Public(), "whpk_")); err != nil {
		s.Fatal(err)
	}
	h.Key, h.Now = func() (webhook.Key, error) { return key, nil }, s.now
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, received{r.Header.Clone(), string(body)})
	status := http.StatusOK
	if len(h.statuses) > 0 {
		status, h.statuses = h.statuses[0], h.statuses[1:]
	}
	if err != nil || r.Method != http.MethodPost || r.URL.RequestURI() != "/letterhead?token=t0ken" {
		status = http.StatusTeapot
	}
	w.Header().Set("Location", "https://hooks.example.com/letterhead?token=t0ken")
	w.WriteHeader(status)
}

// verify verifies a request as the specification says, without package webhook.
func (h *hook) verify(r received) error {
	encoded, ok := strings.CutPrefix(r.header.Get("webhook-signature"), "v1a,")
	signature, err := base64.StdEncoding.DecodeString(encoded)
	signed := r.header.Get("webhook-id") + "." + r.header.Get("webhook-timestamp") + "." + r.body
	if !ok || err != nil || !ed25519.Verify(h.public, []byte(signed), signature) {
		return errors.New("the signature is not valid")
	}
	return nil
}

func TestWebhook_FailuresThenSuccess_IsSignedEachTime(t *testing.T) {
	s := newService(t)
	h := newHook(s)
	h.statuses = []int{500, 302, 429}
	s.raise("a", notices.Webhook)
	w := s.worker(map[string]worker.Sender{notices.Webhook: h})
	for _, reason := range []string{"status_500", "status_302", "status_429"} {
		s.round(w)
		d := s.expect("a", notices.Open, int64(len(h.requests)), reason)
		s.pass(d.NextAt.Sub(s.now()))
	}
	s.round(w)
	s.expect("a", notices.Delivered, 4, "")
	id := notices.ID("a", notices.LowBalance, 2)
	want := `{"type":"account.low_balance","timestamp":"2026-11-21T09:00:00Z","data":{"notice_id":"` + id + `","account_id":"a","balance":37,"threshold":40}}`
	times := map[string]bool{}
	for i, r := range h.requests {
		if err := h.verify(r); err != nil || r.body != want || r.header.Get("webhook-id") != id || r.header.Get("content-type") != "application/json" {
			t.Errorf("request %d: %v; header %v, body %s", i, err, r.header, r.body)
		}
		times[r.header.Get("webhook-timestamp")] = true
		r.body += " "
		if h.verify(r) == nil {
			t.Error("another body has the same signature")
		}
	}
	if len(h.requests) != 4 || len(times) != 4 {
		t.Errorf("%d requests at %d times, want 4", len(h.requests), len(times))
	}
}

// fail records a failed payment of an account.
func (s *service) fail(id string, failed eventschemas.PaymentFailed) {
	s.Helper()
	s.env.Events("notices-"+id, s.now(), failed)
	s.env.CatchUp(s.runner)
}

func TestWebhook_FailedPayment_HasThePayment(t *testing.T) {
	s := newService(t)
	h := newHook(s)
	s.open("a", notices.Webhook)
	s.fail("a", eventschemas.PaymentFailed{PaymentID: "in_1", Attempt: 2, FailedAt: start.Add(-time.Minute), Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}})
	s.round(s.worker(map[string]worker.Sender{notices.Webhook: h}))
	s.expect("a", notices.Delivered, 1, "")
	id := notices.ID("a", notices.PaymentFailed, 1)
	want := `{"type":"account.payment_failed","timestamp":"2026-11-21T09:00:00Z","data":{"notice_id":"` + id + `","account_id":"a","balance":50,"threshold":40,` +
		`"payment":{"payment_id":"in_1","attempt":2,"failed_at":"2026-11-21T08:59:00Z","money":{"minor":4900,"currency":"EUR"}}}}`
	if len(h.requests) != 1 || h.requests[0].body != want || h.verify(h.requests[0]) != nil {
		t.Errorf("requests %+v, want one with %s", h.requests, want)
	}
}

func TestWebhook_Gone_IsFinal(t *testing.T) {
	s := newService(t)
	h := newHook(s)
	h.statuses = []int{http.StatusGone}
	s.raise("a", notices.Webhook)
	s.round(s.worker(map[string]worker.Sender{notices.Webhook: h}))
	s.expect("a", notices.DeadLettered, 1, "status_410")
}

func TestWebhook_PrivateAddress_IsNotConnected(t *testing.T) {
	s := newService(t)
	h := newHook(s)
	var err error
	h.Client, err = safehttp.New(safehttp.Config{Resolver: resolver(netip.MustParseAddr("10.0.0.1")), Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("connected to a private address")
		return nil, errors.New("not connected")
	}})
	testmust.Succeed(t, err)
	s.raise("a", notices.Webhook)
	s.round(s.worker(map[string]worker.Sender{notices.Webhook: h}))
	s.expect("a", notices.Open, 1, "blocked_address")
}

func TestWebhook_NoKey_IsTriedAgain(t *testing.T) {
	s := newService(t)
	h := newHook(s)
	h.Key = func() (webhook.Key, error) { return webhook.Key{}, errors.New("no key") }
	s.raise("a", notices.Webhook)
	s.round(s.worker(map[string]worker.Sender{notices.Webhook: h}))
	s.expect("a", notices.Open, 1, "not_configured")
}

const billingURL = "https://brands.example.com/billing"

// mail returns the sender of e-mail through a server.
func (s *service) mail(through *emailtest.Server) *worker.Mail {
	s.Helper()
	server, err := email.ParseURL("smtp://" + through.Addr())
	testmust.Succeed(s, err)
	from, err := email.ParseSender("Brands <billing@example.com>")
	testmust.Succeed(s, err)
	return &worker.Mail{Server: server, From: from, BillingURL: billingURL, Now: s.now}
}

func TestMail_ServerFailsOnce_ArrivesOnce(t *testing.T) {
	s := newService(t)
	failures := 1
	mails := emailtest.Start(t, emailtest.Config{Answer: func(command string) string {
		if strings.HasPrefix(command, "MAIL") && failures > 0 {
			failures--
			return "451 later"
		}
		return ""
	}})
	s.raise("a", notices.Email)
	w := s.worker(map[string]worker.Sender{notices.Email: s.mail(mails)})
	s.round(w)
	d := s.expect("a", notices.Open, 1, "mail_server")
	s.pass(d.NextAt.Sub(s.now()))
	s.round(w)
	s.expect("a", notices.Delivered, 2, "")
	s.pass(48 * time.Hour)
	s.round(w)
	all := mails.Messages()
	if len(all) != 1 || all[0].To != address {
		t.Fatalf("messages %+v, want one", all)
	}
	for _, part := range []string{"Message-ID: <" + d.NoticeID + "@example.com>", "Subject: Low balance: 37 credits", billingURL, "21 November 2026 at 09:00 UTC"} {
		if !strings.Contains(all[0].Data, part) {
			t.Errorf("the message lacks %q:\n%s", part, all[0].Data)
		}
	}
}

func TestMail_FailedPayment_NamesWhatFailed(t *testing.T) {
	for _, c := range []struct {
		failed  eventschemas.PaymentFailed
		subject string
		text    string
	}{
		{eventschemas.PaymentFailed{PaymentID: "in_1", Attempt: 2, FailedAt: start.Add(-time.Hour), Money: &eventschemas.Money{Minor: 490000, Currency: "EUR"}}, "A payment failed: 4,900.00 EUR",
			"Attempt 2 to collect payment in_1 (4,900.00 EUR) for account a failed on 21 November 2026 at 08:00 UTC."},
		{eventschemas.PaymentFailed{PaymentID: "pi_1", FailedAt: start, Money: &eventschemas.Money{Minor: 4900, Currency: "JPY"}}, "A payment failed: 4,900 JPY",
			"Payment pi_1 (4,900 JPY) for account a failed on 21 November 2026 at 09:00 UTC."},
		{eventschemas.PaymentFailed{PaymentID: "pi_1", FailedAt: start}, "A payment failed\n", "Payment pi_1 for account a failed on"},
	} {
		s := newService(t)
		mails := emailtest.Start(t, emailtest.Config{})
		s.open("a", notices.Email)
		s.fail("a", c.failed)
		s.round(s.worker(map[string]worker.Sender{notices.Email: s.mail(mails)}))
		all := mails.Messages()
		if len(all) != 1 {
			t.Fatalf("messages %+v, want one", all)
		}
		data := strings.ReplaceAll(all[0].Data, "=\n", "") // soft line breaks of quoted-printable
		for _, part := range []string{"Subject: " + c.subject, c.text, billingURL} {
			if !strings.Contains(data, part) {
				t.Errorf("the message lacks %q:\n%s", part, data)
			}
		}
	}
}

func TestMail_AddressRejected_IsFinal(t *testing.T) {
	s := newService(t)
	mails := emailtest.Start(t, emailtest.Config{Answer: func(command string) string {
		if strings.HasPrefix(command, "RCPT") {
			return "550 no such user"
		}
		return ""
	}})
	s.raise("a", notices.Email)
	s.round(s.worker(map[string]worker.Sender{notices.Email: s.mail(mails)}))
	s.expect("a", notices.DeadLettered, 1, "rejected")
}
