package readapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/internal/apikey"
	"letterhead/internal/testwait"
)

// issueWith issues a key with terms.
func (c *customer) issueWith(kind apikey.Kind, terms account.KeyTerms) string {
	c.s.t.Helper()
	key, parsed := newKey(c.s.t, kind)
	done, err := c.s.writer.IssueKey(c.s.t.Context(), commands.IssueKey{Request: operator(), AccountID: c.id, KeyID: uuid.NewString(), Key: parsed, Terms: terms})
	c.s.must(err)
	c.s.inForce(done)
	return key
}

// Rule 9.
func TestKey_Expired_IsRejectedFromThatMoment(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.plain()
	c := s.account(plan.Growth, 50)
	terms := account.KeyTerms{ExpiresAt: s.clock.now().Add(time.Hour)}
	secret, publishable := c.issueWith(apikey.Secret, terms), c.issueWith(apikey.Publishable, terms)
	requests := []request{
		{path: "/v1/brands/plain.com", header: bearer(secret)},
		{path: "/v1/me", header: bearer(secret)},
		{path: "/v1/search?q=plain", header: bearer(publishable)},
		{path: "/v2/search/plain?c=" + publishable},
	}
	s.clock.add(time.Hour - time.Microsecond)
	for _, r := range requests {
		s.send(r).ok(t)
	}
	s.send(request{path: logoPath + "?key=" + publishable}).logo(t, "")
	s.clock.add(time.Microsecond)
	for _, r := range requests {
		a := s.send(r)
		if a.status != http.StatusUnauthorized || !strings.Contains(string(a.body), "The API key expired at 2026-11-21T13:00:01Z. Issue a new one.") {
			t.Errorf("%s: status %d: %s", r.path, a.status, a.body)
		}
		if a.header.Get("X-RateLimit-Limit") != "" {
			t.Errorf("%s: a unit of the minute window was taken", r.path)
		}
	}
	s.send(request{path: "/v2/search/plain?c=" + publishable, header: bearer(c.secret)}).rejectedV2(t, http.StatusUnauthorized, "unauthorized")
	s.send(request{path: logoPath + "?key=" + publishable}).logo(t, "invalid")
	a, err := s.tryMCP(t.Context(), bearer(secret), ping)
	s.must(err)
	a.one(t, http.StatusUnauthorized)
}

// Rule 9.
func TestNodes_KeyExpires_EveryNodeRejectsIt(t *testing.T) {
	t.Parallel()
	s := startSite(t, 3)
	c := s.nodes[0].account(plan.Growth, 100)
	terms := account.KeyTerms{ExpiresAt: s.nodes[0].node.Now().Add(3 * time.Second)}
	key := c.issueWith(apikey.Secret, terms)
	for _, n := range s.nodes {
		at := &customer{s: n, secret: key}
		if _, ok := testwait.Until(waitLimit, func() bool {
			over := !n.node.Now().Before(terms.ExpiresAt)
			a := at.get("/v1/me")
			if over {
				a.rejected(t, http.StatusUnauthorized, "unauthorized")
				return true
			}
			if n.node.Now().Before(terms.ExpiresAt) {
				a.ok(t)
			}
			return false
		}); !ok {
			t.Fatalf("waited %s for the expiry", waitLimit)
		}
	}
}

// page is a request from a page.
func page(key, origin, referer string) http.Header {
	h := http.Header{"X-Api-Key": {key}}
	if origin != "" {
		h["Origin"] = []string{origin}
	}
	if referer != "" {
		h["Referer"] = []string{referer}
	}
	return h
}

func TestOrigins_EveryRequest_SearchRejectsAndLogoIgnoresTheKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.plain()
	c := s.account(plan.Growth, 50)
	key := c.issueWith(apikey.Publishable, account.KeyTerms{Origins: []string{"https://acme.com", "https://*.shop.example"}})
	const missing, other = "neither Origin nor Referer", "is not for pages of the origin"
	for name, r := range map[string]struct {
		origin, referer string
		search          string // part of the reason why a search is rejected; "" if it is answered
		logo            string // X-Api-Key-Status
	}{
		"allowed origin":                       {"https://acme.com", "", "", ""},
		"allowed origin, other referer":        {"https://acme.com", "https://evil.example/", "", ""},
		"host below a wildcard":                {"https://de.shop.example", "", "", ""},
		"allowed referer":                      {"", "https://acme.com/page?q=https://evil.example", "", ""},
		"other origin":                         {"https://evil.example", "", other, "invalid"},
		"other origin, allowed referer":        {"https://evil.example", "https://acme.com/", other, "invalid"},
		"other referer":                        {"", "https://evil.example/?https://acme.com", other, "invalid"},
		"allowed host, other scheme":           {"http://acme.com", "", other, "invalid"},
		"opaque origin":                        {"null", "", other, "invalid"},
		"opaque origin, allowed referer":       {"null", "https://acme.com/", other, "invalid"},
		"several origins":                      {"https://acme.com https://evil.example", "", other, "invalid"},
		"referer that is no URL":               {"", "acme.com", other, "invalid"},
		"long origin with a host of its own":   {"https://" + strings.Repeat("a.", 400) + "example", "", other, "invalid"},
		"neither, as a server or a page sends": {"", "", missing, ""},
	} {
		h := page(key, r.origin, r.referer)
		for _, path := range []string{"/v1/search?q=plain", "/v2/search/plain"} {
			a := s.send(request{path: path, header: h})
			if r.search == "" {
				a.ok(t)
			} else if a.status != http.StatusForbidden || !strings.Contains(string(a.body), r.search) || len(a.body) > 2000 {
				t.Errorf("%s: %s answers %d: %s", name, path, a.status, a.body)
			}
			if a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("Set-Cookie") != "" {
				t.Errorf("%s: %s has headers %v, want CORS open to every origin and no cookie", name, path, a.header)
			}
		}
		t.Log(name)
		s.send(request{path: logoPath, header: h}).logo(t, r.logo)
		delete(h, "X-Api-Key")
		s.send(request{path: logoPath + "?key=" + key, header: h}).logo(t, r.logo)
	}
	// Two headers are no origin.
	two := http.Header{"X-Api-Key": {key}, "Origin": {"https://acme.com", "https://evil.example"}}
	s.send(request{path: "/v1/search?q=plain", header: two}).rejected(t, http.StatusForbidden, "forbidden")
	// The key in a header decides, and a key without origins may be used anywhere.
	h := page(c.publishable, "https://evil.example", "")
	s.send(request{path: "/v2/search/plain?c=" + key, header: h}).ok(t)
	s.send(request{path: "/v1/search?q=plain", header: h}).ok(t)
	preflight := s.send(request{method: http.MethodOptions, path: "/v1/search?q=plain", header: http.Header{
		"Origin": {"https://evil.example"}, "Access-Control-Request-Method": {"GET"}, "Access-Control-Request-Headers": {"x-api-key"},
	}})
	if preflight.status != http.StatusNoContent || preflight.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("preflight of another origin: %d, %v", preflight.status, preflight.header)
	}
}

func TestScopes_OtherUse_SearchRejectsAndLogoIgnoresTheKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.plain()
	c := s.account(plan.Growth, 50)
	for _, k := range []struct {
		scopes []string
		search bool
		logo   string
	}{
		{[]string{account.ScopeLogos}, false, ""},
		{[]string{account.ScopeSearch}, true, "invalid"},
		{[]string{account.ScopeLogos, account.ScopeSearch}, true, ""},
	} {
		key := c.issueWith(apikey.Publishable, account.KeyTerms{Scopes: k.scopes})
		for _, r := range []request{{path: "/v1/search?q=plain", header: bearer(key)}, {path: "/v2/search/plain?c=" + key}} {
			a := s.send(r)
			if k.search {
				a.ok(t)
			} else if a.status != http.StatusForbidden || !strings.Contains(string(a.body), "is for logos only. To search, send a key with the scope search.") {
				t.Errorf("scopes %s: %s answers %d: %s", k.scopes, r.path, a.status, a.body)
			} else if a.header.Get("X-RateLimit-Limit") == "" {
				t.Errorf("%s: no unit of the minute window was taken", r.path)
			}
		}
		s.send(request{path: logoPath + "?key=" + key}).logo(t, k.logo)
		s.send(request{path: "/v1/brands/plain.com", header: bearer(key)}).rejected(t, http.StatusForbidden, "forbidden")
	}
}

// A logo whose key is ignored counts for no account.
func TestLogo_KeyOfOtherTerms_IsNotCounted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		s.plain()
		c := s.account(plan.Growth, 50)
		elsewhere := c.issueWith(apikey.Publishable, account.KeyTerms{Origins: []string{"https://acme.com"}})
		search := c.issueWith(apikey.Publishable, account.KeyTerms{Scopes: []string{account.ScopeSearch}})
		s.send(request{path: logoPath, header: page(elsewhere, "", "https://evil.example/")}).logo(s.t, "invalid")
		s.send(request{path: logoPath, header: page(search, "", "")}).logo(s.t, "invalid")
		s.send(request{path: logoPath, header: page(elsewhere, "", "https://acme.com/")}).logo(s.t, "")
		s.send(request{path: logoPath, header: page(elsewhere, "", "")}).logo(s.t, "")
		if got := c.reportedLogos(); got != 2 {
			s.t.Errorf("%d logos reported, want 2", got)
		}
	})
}
