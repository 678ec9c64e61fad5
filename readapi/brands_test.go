package readapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

func TestLookup_KnownBrandWithLogo_CostsOneCredit(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	id := s.known("acme.com", record("acme"))
	a := c.get("/v1/brands/acme.com")
	h := a.ok(t)
	for name, want := range map[string]string{
		"Content-Type": "application/json; charset=utf-8", "X-Cache": "HIT", "X-Credits-Remaining": "49",
		"X-Ratelimit-Limit": "60", "X-Ratelimit-Remaining": "59", "X-Ratelimit-Reset": "1795262460",
		"X-Content-Type-Options": "nosniff", "Retry-After": "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	got := decodeBrand(t, a.body)
	if got.ID != id || got.Domain != "acme.com" || *got.Name != "acme" || got.URN != "urn:letterhead:brand:"+id || got.Status != "partial" {
		t.Errorf("brand %+v", got)
	}
	if want := baseURL + "/cdn/" + strings.Repeat("ab", 32) + ".svg"; got.Logos[0].Formats[0].Src != want {
		t.Errorf("logo is at %q, want %q", got.Logos[0].Formats[0].Src, want)
	}
	b := c.books()
	if b.balance() != 49 || len(b.charges) != 1 {
		t.Fatalf("balance %d, %d charges; want 49 and 1", b.balance(), len(b.charges))
	}
	if charge := b.charges[0]; charge.RequestID != h.Get("X-Request-Id") || charge.BrandID != id || charge.Domain != "acme.com" || charge.HoldID != "" {
		t.Errorf("charge %+v", charge)
	}
	// Without an idempotency key the same request is charged again.
	if got := c.get("/v1/brands/acme.com").ok(t).Get("X-Credits-Remaining"); got != "48" {
		t.Errorf("X-Credits-Remaining after the second look-up: %s, want %q", got, "48")
	}
}

func TestLookup_RecordWithoutLogo_IsFree(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	s.known("plain.com", plainRecord("plain"))
	h := c.get("/v1/brands/plain.com").ok(t)
	if h.Get("X-Cache") != "HIT" || h.Get("X-Credits-Remaining") != "50" {
		t.Errorf("headers %v", h)
	}
	if b := c.books(); len(b.charges) != 0 || b.holds != 0 {
		t.Errorf("%d charges, %d holds; want 0 and 0", len(b.charges), b.holds)
	}
}

func TestLookup_RestrictedBrand_IsFreeWithoutCompany(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	r := eventschemas.Record{NSFW: true, Restriction: &eventschemas.Restriction{Code: "nsfw", Message: "The site is adult content."}}
	s.known("adult.com", r)
	a := c.get("/v1/brands/adult.com")
	if h := a.ok(t); h.Get("X-Credits-Remaining") != "50" {
		t.Errorf("headers %v", h)
	}
	if got := decodeBrand(t, a.body); got.Company != nil || got.Restriction == nil || got.Restriction.Code != "nsfw" || !got.IsNSFW {
		t.Errorf("brand %+v", got)
	}
}

func TestLookup_EveryFormOfIdentifier_FindsTheBrand(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	id := s.known("acme.com", record("acme"))
	books := s.known("xn--bcher-kva.de", record("bücher"))
	forms := []string{
		"acme.com", "ACME.com", "www.acme.com", "shop.eu.acme.com", "acme.com.", "acme.com:8443",
		"https%3A%2F%2Facme.com", "https%3a%2f%2fwww.acme.com%2Fabout%3Fx%3D1%23top", "http%3A%2F%2Facme.com%3A80%2F",
		"acme.com%2Fabout", "jane%40acme.com", "jane.doe+tag%40mail.acme.com", "jane@acme.com",
		id, strings.ToUpper(id), "urn:letterhead:brand:" + id, "urn%3Aletterhead%3Abrand%3A" + id, "%61cme.com", "%20acme.com%20",
	}
	for _, form := range forms {
		a := c.get("/v1/brands/" + form)
		if a.status != http.StatusOK {
			t.Errorf("%s: status %d, body %s; want %d", form, a.status, a.body, http.StatusOK)
			continue
		}
		if got := decodeBrand(t, a.body); got.ID != id {
			t.Errorf("%s: brand %s of %s; want %v", form, got.ID, got.Domain, id)
		}
	}
	for _, form := range []string{"xn--bcher-kva.de", "b%C3%BCcher.de", "B%C3%9CCHER.de", "https%3A%2F%2Fwww.b%C3%BCcher.de%2F"} {
		if got := decodeBrand(t, c.get("/v1/brands/"+form).body); got.ID != books {
			t.Errorf("%s: brand %s of %s; want %v", form, got.ID, got.Domain, books)
		}
	}
	if b := c.books(); len(b.charges) != len(forms)+4 {
		t.Errorf("%d charges for %d look-ups", len(b.charges), len(forms)+4)
	}
}

func TestLookup_BadIdentifier_Is400AndFree(t *testing.T) {
	s, c := startWith(t, plan.Custom, 50)
	for _, bad := range []string{
		"co.uk", "com", "localhost", "acme", "127.0.0.1", "2130706433", "0x7f.1", "%5B%3A%3A1%5D", "https%3A%2F%2F%5B%3A%3A1%5D%2F",
		"10.0.0.1%3A8080", "a%40b%40c", "a@b@c.com", "%40acme.com", "jane%40", "jane%40localhost",
		strings.Repeat("a.", 125) + "acme.com", // a host of 258 characters
		strings.Repeat("a", 250) + ".com",      // 254 characters, and a label of more than 63
		strings.Repeat("a", 64) + ".com",       // one label of more than 63
		"ac%00me.com", "acme.com%00", "%00", "acme.com%0d%0aX-Evil%3A%201", "ac%20me.com",
		"https%253A%252F%252Facme.com", "acme%252ecom", "%25", "javascript%3Aalert(1)", "javascript:alert(1)", "data%3Atext%2Fhtml%2Cx",
		"file%3A%2F%2F%2Fetc%2Fpasswd", "ftp%3A%2F%2Facme.com", "..", "%2e%2e", "..%2f..%2fetc", "acme..com", ".acme.com", "-acme.com",
		"acme_%E2%80%AE.com", "%FF%FE.com", "%ef%bc%8e%ef%bc%8e", "https%3A%5Cacme.com", "acme.com%5C%40evil.com", "user%3Apass%40acme.com%2Fx",
		"Batch", "batches", "urn%3Aletterhead%3Abrand%3Anobody", strings.Repeat("a", 5000) + ".com",
	} {
		a := c.get("/v1/brands/" + bad)
		p := a.rejected(t, http.StatusBadRequest, "invalid_domain")
		if got := a.header.Get("X-Credits-Remaining"); got != "50" {
			t.Errorf("%s: X-Credits-Remaining %q with the error %s; want %q", bad, got, p.Error.Message, "50")
		}
	}
	for _, bad := range []string{"acme.com%zz", "%"} {
		// Not even a URL: it is rejected before any handler.
		if status := s.rawStatus("GET /v1/brands/" + bad + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + c.secret + "\r\nConnection: close\r\n\r\n"); status != http.StatusBadRequest {
			t.Errorf("%s: %d, want %d", bad, status, http.StatusBadRequest)
		}
	}
	// A homograph is a different domain from the one that it resembles.
	s.known("acme.com", record("acme"))
	s.crawler.fails("xn--cme-5cd.com", brand.DNS)
	c.get("/v1/brands/%D0%B0cme.com").rejected(t, http.StatusNotFound, "domain_not_found")
	if b := c.books(); len(b.charges) != 0 || b.balance() != 50 || len(b.openHolds) != 0 {
		t.Errorf("charges %d, balance %d, open holds %d; want 0, 50 and 0", len(b.charges), b.balance(), len(b.openHolds))
	}
}

func TestLookup_WithdrawnBrand_Is404(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.known("acme.com", record("acme"))
	s.must(s.brands.WithdrawBrand(t.Context(), commands.WithdrawBrand{Request: operator(), Domain: "acme.com", Reason: "owner asked"}))
	s.catchUp()
	for _, path := range []string{"/v1/brands/acme.com", "/v1/brands/acme.com?refresh=true"} {
		a := c.get(path)
		a.rejected(t, http.StatusNotFound, "no_brand_data")
		if a.header.Get("X-Credits-Remaining") != "50" {
			t.Errorf("headers %v", a.header)
		}
	}
	c.get("/v1/brands/"+brand.ID("acme.com").String()).rejected(t, http.StatusNotFound, "not_found")
	if b := c.books(); b.holds != 0 || b.balance() != 50 {
		t.Errorf("%d holds, balance %d; want 0 and 50", b.holds, b.balance())
	}
}

func TestHead_AnyDomain_NeitherChargesNorCrawls(t *testing.T) {
	s := start(t)
	c, broke := s.account(plan.Growth, 50), s.account(plan.Growth, 0)
	id := s.known("acme.com", record("acme"))
	got := c.get("/v1/brands/acme.com")
	for _, who := range []*customer{c, broke} {
		for _, path := range []string{"/v1/brands/acme.com", "/v1/brands/" + id, "/v1/brands/acme.com?refresh=true"} {
			a := who.head(path)
			h := a.ok(t)
			if len(a.body) != 0 || h.Get("Content-Length") != got.header.Get("Content-Length") || h.Get("X-Cache") != "HIT" || h.Get("Content-Type") != got.header.Get("Content-Type") {
				t.Errorf("HEAD %s: %v, %d bytes; GET had %v", path, h, len(a.body), got.header)
			}
		}
	}
	for path, want := range map[string]int{
		"/v1/brands/unknown.com": 404, "/v1/brands/unknown.com?refresh=true": 404, "/v1/brands/" + uuid.NewString(): 404, "/v1/brands/co.uk": 400,
	} {
		if a := c.head(path); a.status != want || len(a.body) != 0 || a.header.Get("X-Credits-Remaining") != "49" || a.header.Get("X-Cache") != "" {
			t.Errorf("HEAD %s: status %d, headers %v", path, a.status, a.header)
		}
	}
	if b := c.books(); len(b.charges) != 1 || b.holds != 0 {
		t.Errorf("%d charges, %d holds; want 1 and 0", len(b.charges), b.holds)
	}
	if n := len(s.crawler.of("unknown.com")) + len(s.crawler.of("acme.com")); n != 0 {
		t.Errorf("HEAD led to %d crawls, want 0", n)
	}
}

func TestLookup_NoCredits_Is402BeforeTheIndexIsRead(t *testing.T) {
	s, c := startWith(t, plan.Free, 0)
	s.known("acme.com", record("acme"))
	s.known("plain.com", plainRecord("plain"))
	for _, path := range []string{"acme.com", "plain.com", "never-crawled.com", uuid.NewString()} {
		a := c.get("/v1/brands/" + path)
		p := a.rejected(t, http.StatusPaymentRequired, "insufficient_credits")
		d := p.Error.Details
		if d == nil || d.Balance == nil || *d.Balance != 0 || d.Required == nil || *d.Required != 1 || d.BillingURL == nil || *d.BillingURL != baseURL+"/billing" || d.RetryAfter != nil || d.Limit != nil {
			t.Errorf("%s: details in %s", path, a.body)
		}
		if a.header.Get("X-Credits-Remaining") != "0" {
			t.Errorf("%s: headers %v", path, a.header)
		}
	}
	if n := len(s.crawler.of("never-crawled.com")); n != 0 {
		t.Errorf("%d crawls without a credit, want 0", n)
	}
}

func TestBalance_RefundOfSpentCredits_IsNegative(t *testing.T) {
	s, c := startWith(t, plan.Free, 0)
	payment := uuid.NewString()
	_, err := s.writer.GrantCredits(t.Context(), commands.GrantCredits{Request: operator(), AccountID: c.id, Kind: "topup", Credits: 2, PaymentID: payment})
	s.must(err)
	s.known("acme.com", record("acme"))
	c.get("/v1/brands/acme.com").ok(t)
	_, err = s.writer.RefundPayment(t.Context(), commands.RefundPayment{Request: operator(), AccountID: c.id, PaymentID: payment, Credits: 2})
	s.must(err)
	a := c.get("/v1/brands/acme.com")
	p := a.rejected(t, http.StatusPaymentRequired, "insufficient_credits")
	if *p.Error.Details.Balance != -1 || a.header.Get("X-Credits-Remaining") != "0" {
		t.Errorf("balance %d, header %q; want -1 and %q", *p.Error.Details.Balance, a.header.Get("X-Credits-Remaining"), "0")
	}
	a = c.get("/v1/me")
	if me := decodeAccount(t, a.body); me.Credits.Balance != -1 || me.Credits.Remaining != 0 || a.header.Get("X-Credits-Remaining") != "0" {
		t.Errorf("account %+v, header %q", me.Credits, a.header.Get("X-Credits-Remaining"))
	}
}

func TestLookup_NoCredits_ReportsUnreservedBalance(t *testing.T) {
	s, c := startWith(t, plan.Free, 1)
	release := make(chan struct{})
	s.crawler.does("slow.com", waitThen(release, ending{outcome: brand.NoData}))
	first := make(chan answer, 1)
	go func() {
		a, _ := s.do(t.Context(), request{path: "/v1/brands/slow.com", header: bearer(c.secret)})
		first <- a
	}()
	s.crawler.sees("slow.com") // its credit is held by now
	a := c.get("/v1/brands/acme.com")
	p := a.rejected(t, http.StatusPaymentRequired, "insufficient_credits")
	if *p.Error.Details.Balance != 0 || a.header.Get("X-Credits-Remaining") != "0" {
		t.Errorf("balance %d, header %q while the only credit is on hold; want 0 and %q", *p.Error.Details.Balance, a.header.Get("X-Credits-Remaining"), "0")
	}
	if a := c.get("/v1/me"); a.header.Get("X-Credits-Remaining") != "1" {
		t.Errorf("/v1/me with open holds: %s, want the full balance", a.header.Get("X-Credits-Remaining"))
	}
	close(release)
	(<-first).rejected(t, http.StatusNotFound, "no_brand_data")
	s.known("acme.com", record("acme"))
	c.get("/v1/brands/acme.com").ok(t)
}
