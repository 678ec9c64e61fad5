package readapi_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/internal/testmust"
)

// doors are the interfaces that take an identifier. Each returns the domain that it read, or the sentence with which it
// refused.
func doors(t *testing.T, s *service, c *customer) map[string]func(identifier string) (domain, refusal string) {
	t.Helper()
	brandAt := func(prefix string) func(string) (string, string) {
		return func(identifier string) (string, string) {
			a := c.get(prefix + url.PathEscape(identifier))
			if a.status == http.StatusOK {
				return decodeField(t, a.body, "domain"), ""
			}
			return "", a.sentence(t)
		}
	}
	tool := func(name, argument string) func(string) (string, string) {
		return func(identifier string) (string, string) {
			arguments, err := json.Marshal(map[string]string{argument: identifier})
			s.must(err)
			r := c.agent(toolCall(1, name, string(arguments))).one(t, 200)
			if r.Error != nil {
				return "", r.Error.Message
			}
			return decodeField(t, r.found(t), "domain"), ""
		}
	}
	return map[string]func(string) (string, string){
		"v1": brandAt("/v1/brands/"), "v2": brandAt("/v2/brands/"),
		"batch": func(identifier string) (string, string) {
			items, _ := c.batch(identifier)
			if items[0].Error != nil {
				return "", items[0].Error.Message
			}
			return items[0].Brand.Domain, ""
		},
		"get_brand": tool("get_brand", "identifier"), "get_logo_url": tool("get_logo_url", "domain"),
		"logo host": func(identifier string) (string, string) {
			a := s.sendTo(logoHostName, http.MethodGet, "/"+url.PathEscape(identifier), nil)
			if a.status != http.StatusOK {
				return "", a.sentence(t)
			}
			return s.loggedDomain(t, a), ""
		},
	}
}

// sentence returns the message of an error answer; logos have only that.
func (a answer) sentence(t testing.TB) string {
	t.Helper()
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		return strings.TrimSpace(string(a.body))
	}
	var p problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	return p.Error.Message
}

func decodeField(t testing.TB, body []byte, field string) string {
	t.Helper()
	var fields map[string]any
	testmust.Succeed(t, json.Unmarshal(body, &fields))
	value, _ := fields[field].(string)
	return value
}

// loggedDomain returns the domain in the log line of a request.
func (s *service) loggedDomain(t testing.TB, a answer) string {
	t.Helper()
	for _, line := range s.logs.of(a.header.Get("X-Request-Id")) {
		if domain, ok := line["domain"].(string); ok {
			return domain
		}
	}
	return ""
}

// TestIdentifier_EveryDoor_ReadsTheSame compares what look-ups, batches, tools and the logo host make of an identifier,
// and that a search finds the brand that they find.
func TestIdentifier_EveryDoor_ReadsTheSame(t *testing.T) {
	t.Parallel()
	s := start(t, onLogoHost)
	acme := s.known("acme.com", s.withLogo("acme", "png", inked(t, 64)))
	s.known("xn--bcher-kva.de", s.withLogo("bücher", "png", inked(t, 64)))
	for identifier, want := range map[string]string{
		// Read as browsers do (URL Standard), RFC 6068, RFC 5322 and RFC 8141.
		"acme.com": "acme.com", "ACME.Com": "acme.com", "acme.com.": "acme.com", " acme.com ": "acme.com", "acme.com:8443": "acme.com", "acme.com:": "acme.com",
		"www.shop.acme.com": "acme.com", "_dmarc.acme.com": "acme.com", "acme.com/about?x=a@b#c": "acme.com", "acme.com?x=y": "acme.com", "acme.com#top": "acme.com",
		"https://acme.com": "acme.com", "HTTP://www.Acme.com:8080/a%20b": "acme.com", "//acme.com": "acme.com", "http:/acme.com": "acme.com", "https:acme.com": "acme.com",
		"https:///acme.com": "acme.com", "joe@acme.com": "acme.com", "joe+x@mail.acme.com": "acme.com", "mailto:joe@acme.com": "acme.com", "mailto:joe@acme.com?subject=a": "acme.com",
		`"Doe, Joe" <joe@acme.com>`: "acme.com", "Joe <joe@acme.com>": "acme.com", "<https://acme.com/>": "acme.com",
		"bücher.de": "xn--bcher-kva.de", "BÜCHER.de": "xn--bcher-kva.de", "xn--bcher-kva.de": "xn--bcher-kva.de", "bu\u0308cher.de": "xn--bcher-kva.de",
		"ａｃｍｅ．ｃｏｍ": "acme.com", "acme。com": "acme.com", "ac\u00adme.com": "acme.com", "acme\u200b.com": "acme.com",
		acme: "acme.com", strings.ToUpper(acme): "acme.com", brand.URNPrefix + acme: "acme.com", "URN:Letterhead:Brand:" + strings.ToUpper(acme): "acme.com",
		// Refused.
		"acme": "", "com": "", "co.uk": "", "localhost": "", "acme.test": "", "127.0.0.1": "", "2130706433": "", "0x7f.1": "", "[::1]": "", "::1": "", "http://[::1]/": "",
		"my_shop.com": "", "acme.com,": "", "(acme.com)": "", "acme.com)": "", "acme..com": "", ".acme.com": "", "-acme.com": "", "acme com": "", "acme.com acme.org": "",
		"acme%2Ecom": "", "https%3A%2F%2Facme.com": "", `acme.com\x`: "", `https:\\acme.com`: "", `https://acme.com\@evil.com`: "",
		"https://acme.com@evil.com": "", "https://joe:secret@acme.com": "", "joe:secret@acme.com": "", "joe@acme.com/path": "", "a@b@acme.com": "", "@acme.com": "", "joe@": "",
		"ftp://acme.com": "", "javascript:alert(1)": "", "mailto:acme.com": "", "evil.com <acme.com>": "", "acme.com:65536": "", "acme.com:8o": "",
		"{" + acme + "}": "", strings.ReplaceAll(acme, "-", ""): "", "urn:uuid:" + acme: "", brand.URNPrefix + "acme.com": "",
		strings.Repeat("a", 64) + ".com": "", strings.Repeat("a.", 125) + "info": "", "acme\u202e.com": "", "acme.com\x00": "", "acme.com\n": "",
	} {
		c := s.account(plan.Growth, 100) // each has its own minute limit
		all := doors(t, s, c)
		domain, refusal := all["v1"](identifier)
		if domain != want || (refusal == "") != (want != "") {
			t.Errorf("%q: v1 reads %q, %q; want %q", identifier, domain, refusal, want)
			continue
		}
		for name, door := range all {
			wanted := refusal
			if name == "logo host" && slices.Contains([]string{"127.0.0.1", "[::1]", "http://[::1]/", "localhost", "acme", "com", "2130706433", strings.ReplaceAll(acme, "-", "")}, identifier) {
				wanted = "" // caches keep the fallback, where each page would repeat a request with an error
			}
			if gotDomain, gotRefusal := door(identifier); gotDomain != domain || gotRefusal != wanted {
				t.Errorf("%q: %s reads %q, %q; want %q, %q", identifier, name, gotDomain, gotRefusal, domain, wanted)
			}
		}
		// What names no brand is text to a search, which may be part of a name.
		if a := c.get("/v1/search?q=" + url.QueryEscape(identifier)); want != "" && !strings.Contains(string(a.body), `"domain":"`+want+`"`) {
			t.Errorf("%q: a search answers %d %s, want a result for %q", identifier, a.status, a.body, want)
		}
		bare := c.get("/v2/brands/domain/" + url.PathEscape(identifier))
		if bare.status == http.StatusOK && decodeField(t, bare.body, "domain") != domain || refusal != "" && bare.sentence(t) != refusal {
			t.Errorf("%q: /v2/brands/domain answers %d %s, v1 reads %q, %q", identifier, bare.status, bare.body, domain, refusal)
		}
		strict := s.sendTo("brands.example.com", http.MethodGet, "/logo/"+url.PathEscape(identifier), nil)
		if strict.status == http.StatusOK && s.loggedDomain(t, strict) != domain || refusal != "" && strict.sentence(t) != refusal {
			t.Errorf("%q: /logo answers %d, v1 reads %q, %q", identifier, strict.status, domain, refusal)
		}
	}
}

// Advice must not lead to a domain that was not meant: an error neither composes one from the input nor advises to
// remove what separates two.
func TestIdentifier_Refused_AdviceNamesNoOtherDomain(t *testing.T) {
	t.Parallel()
	for _, identifier := range []string{"nike", "co.uk", "https://acme.com@evil.com", "my_shop.com", "nike.com,adidas.com", "joe@acme.com/path"} {
		_, err := brand.ParseIdentifier(identifier)
		if err == nil {
			t.Errorf("%q is accepted", identifier)
			continue
		}
		advice := strings.ReplaceAll(err.Error(), identifier, "")
		for _, other := range []string{"nike.com", ".co.uk", "evil.com", "myshop.com", "without it"} {
			if strings.Contains(advice, other) {
				t.Errorf("%q: the error %q advises %q", identifier, err, other)
			}
		}
	}
}
