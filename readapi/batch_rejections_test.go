package readapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
)

func TestBatch_Invalid_CostsNothing(t *testing.T) {
	s, c := startWith(t, plan.Starter, 100)
	s.known("acme.com", record("acme"))
	large := `{"identifiers":["acme.com"],"x":"` + strings.Repeat("x", 256<<10) + `"}`
	fifty := make([]string, 51)
	for i := range fifty {
		fifty[i] = fmt.Sprintf("domain-%d.com", i)
	}
	for name, body := range map[string]string{
		"no body": "", "a form": "identifiers=acme.com", "a list": `["acme.com"]`, "no list": `{"identifiers":"acme.com"}`, "too large": large,
		"one domain too many": batchOf(t, fifty), "a hundred and one": batchOf(t, make([]string, 101)), "a number": `{"identifiers":["acme.com",1]}`,
	} {
		a, err := s.post(t.Context(), batchPath, body, bearer(c.secret))
		s.must(err)
		if a.rejected(t, http.StatusBadRequest, "invalid_request"); a.header.Get("X-Credits-Remaining") != "100" {
			t.Errorf("%s: headers %v", name, a.header)
		}
	}
	if b := c.books(); len(b.charges) != 0 || b.holds != 0 {
		t.Errorf("%d charges, %d holds; want 0 and 0", len(b.charges), b.holds)
	}
	// The client's content type does not matter.
	for _, contentType := range []string{"application/json", "application/json; charset=UTF-8", "text/plain", "application/vnd.api+json", "multipart/form-data", "*/*", ""} {
		h := bearer(c.secret)
		h["Content-Type"] = []string{contentType}
		a, err := s.post(t.Context(), batchPath, `{"identifiers":["acme.com"]}`, h)
		s.must(err)
		a.items(t, []string{"acme.com"})
	}
}

func TestBatch_BodyDoesNotArrive_LooksNothingUp(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	s.known("acme.com", record("acme"))
	head := "POST /v1/brands/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + c.secret + "\r\n"
	if status := s.rawStatus(head + "Transfer-Encoding: chunked\r\n\r\n1c\r\n{\"identifiers\":[\"acme.com\"]}\r\nnot a length\r\n\r\n"); status != http.StatusBadRequest {
		t.Errorf("broken chunks: %d, want %d", status, http.StatusBadRequest)
	}
	// A client that closes its side early has left, even if its body could be parsed.
	conn := s.dial(head + "Content-Length: 100\r\n\r\n{\"identifiers\":[\"acme.com\"]}")
	defer conn.Close()
	s.must(conn.(*net.TCPConn).CloseWrite())
	if read, err := io.ReadAll(conn); err != nil || len(read) != 0 {
		t.Errorf("read %[2]q, %[1]v; want no answer", err, read)
	}
	if b := c.books(); len(b.charges) != 0 || b.holds != 0 {
		t.Errorf("%d charges, %d holds; want 0 and 0", len(b.charges), b.holds)
	}
}

// A batch without look-ups reserves a credit only to check that there is one.
func TestBatch_NoValidDomain_KeepsNoCredit(t *testing.T) {
	_, c := startWith(t, plan.Free, 1)
	for range 3 {
		items, h := c.batch("co.uk", uuid.NewString())
		if got := said(items); !slices.Equal(got, []string{"400 invalid_domain", "404 not_found"}) || h.Get("X-Credits-Remaining") != "1" {
			t.Errorf("%q, %s remaining", got, h.Get("X-Credits-Remaining"))
		}
	}
}

func TestBatch_DifferentDomains_CountAgainstPlan(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	var identifiers []string
	for i := range 25 {
		domain := fmt.Sprintf("known-%d.com", i)
		_, err := s.brands.ImportBrand(t.Context(), commands.ImportBrand{Request: operator(), Domain: domain, Source: "test 1", Record: record("known")})
		s.must(err)
		identifiers = append(identifiers, domain, "www."+domain, brand.ID(domain).String())
	}
	s.catchUp()
	identifiers = append(identifiers, "co.uk", "not a domain", uuid.NewString()) // not domains, so they do not count
	items, h := c.batch(identifiers...)
	for i, item := range items[:75] {
		if item.Status != http.StatusOK {
			t.Errorf("%s: %s", identifiers[i], item.said())
		}
	}
	if h.Get("X-Credits-Remaining") != "25" || len(c.books().charges) != 25 {
		t.Errorf("%s remaining after %d charges; want %q and 25", h.Get("X-Credits-Remaining"), len(c.books().charges), "25")
	}
	p := c.asks(append(identifiers, "one-more.com")...).rejected(t, http.StatusBadRequest, "invalid_request")
	if !strings.Contains(p.Error.Message, "26 different domains") || !strings.Contains(p.Error.Message, "at most 25") {
		t.Errorf("message %q, want text that contains %q and %q", p.Error.Message, "26 different domains", "at most 25")
	}
	if n := len(c.books().charges); n != 25 {
		t.Errorf("%d charges, want 25", n)
	}
}

func TestBatch_SeveralErrors_FirstInOrderAnswers(t *testing.T) {
	s := start(t)
	for _, endpoint := range []string{"POST /v1/brands/batch", "POST /v2/brands/batch"} {
		s.shows(endpoint, 400, "invalid_request")
		s.shows(endpoint, 402, "insufficient_credits")
	}
	s.known("acme.com", record("acme"))
	const good, bad = `{"identifiers":["acme.com"]}`, `{"identifiers":[]}`
	secret := func(c *customer) string { return c.secret }
	publishable := func(c *customer) string { return c.publishable }
	mistyped := func(c *customer) string { return c.secret[:len(c.secret)-1] + "!" }
	for _, c := range []struct {
		name    string
		credits int64
		given   func(*customer)
		key     func(*customer) string
		body    string
		status  int
		code    string
	}{
		{"401 before 400", 0, nil, mistyped, bad, 401, "unauthorized"},
		{"403 of the key before 400", 0, (*customer).useUp, publishable, bad, 403, "forbidden"},
		{"403 of the account before 429", 0, func(c *customer) { c.useUp(); c.suspend() }, secret, bad, 403, "forbidden"},
		{"429 before 400", 0, (*customer).useUp, secret, bad, 429, "rate_limited"},
		{"400 before 402", 0, nil, secret, bad, 400, "invalid_request"},
		{"400 for size before 402", 0, nil, secret, batchOf(t, numbered("d-%d.com", 26)), 400, "invalid_request"},
		{"402 before items", 0, nil, secret, `{"identifiers":["co.uk"]}`, 402, "insufficient_credits"},
		{"402", 0, nil, secret, good, 402, "insufficient_credits"},
	} {
		paths := []string{batchPath}
		if c.given == nil { // the others need hundreds of requests of preparation
			paths = append(paths, "/v2/brands/batch")
		}
		for _, path := range paths {
			t.Run(c.name+" "+path, func(t *testing.T) {
				customer := s.account(plan.Free, c.credits)
				if c.given != nil {
					c.given(customer)
				}
				a, err := s.post(t.Context(), path, c.body, bearer(c.key(customer)))
				s.must(err)
				var top struct{ Message string }
				s.must(json.Unmarshal(a.body, &top))
				if v2 := path != batchPath; (top.Message != "") != v2 {
					t.Errorf("message %q at the top on %s", top.Message, path)
				}
				a.body = bytes.Replace(a.body, []byte(`,"message":`+quoted(top.Message)+`}`), []byte("}"), 1)
				p := a.rejected(t, c.status, c.code)
				if d := p.Error.Details; c.status == 402 && (*d.Balance != 0 || *d.Required != 1 || *d.BillingURL == "" || a.header.Get("X-Credits-Remaining") != "0") {
					t.Errorf("body %s, headers %v", a.body, a.header)
				}
				if (a.header.Get("X-RateLimit-Limit") != "") != (c.status != 401) {
					t.Errorf("headers %v", a.header)
				}
			})
		}
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // strings always encode
	return string(b)
}

func numbered(format string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return all
}
