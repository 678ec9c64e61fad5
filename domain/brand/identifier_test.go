package brand_test

import (
	"errors"
	"strings"
	"testing"

	"letterhead/domain/brand"
)

const someID = "e47e08be-bc9e-5ca0-8646-c9f699b4b754"

func TestParseIdentifier_Domain_IsRead(t *testing.T) {
	for _, c := range []struct{ in, domain string }{
		// plain
		{"acme.com", "acme.com"},
		{"ACME.Com", "acme.com"},
		{"acme.com.", "acme.com"},
		{"www.shop.acme.co.uk", "acme.co.uk"},
		{" acme.com ", "acme.com"},
		{"1e100.net", "1e100.net"},
		{"acme.com:8080", "acme.com"},
		{"acme.com/about", "acme.com"},
		{"acme.com?x=y", "acme.com"},
		{"acme.com/@joe", "acme.com"},
		// URL
		{"https://www.acme.com", "acme.com"},
		{"HTTP://www.acme.com:8443/a%20b?c=d@e#f", "acme.com"},
		{"https://acme.com/https://other.com", "acme.com"},
		{"https://acme.com./", "acme.com"},
		{"https:/acme.com", "acme.com"}, // as browsers do, and proxies that clean paths
		{"https:acme.com", "acme.com"},
		{"https:///acme.com", "acme.com"},
		{"//acme.com/x", "acme.com"},
		{"<https://acme.com>", "acme.com"},
		{"acme.com:", "acme.com"},
		{"https://acme.com:/", "acme.com"},
		// e-mail
		{"joe@acme.com", "acme.com"},
		{"mailto:joe@acme.com", "acme.com"},
		{"MAILTO:joe@acme.com?subject=a@b", "acme.com"},
		{`"Doe, Joe" <joe@acme.com>`, "acme.com"},
		{"Joe <joe+x@mail.acme.com>", "acme.com"},
		// underscores, in labels that are dropped
		{"_dmarc.acme.com", "acme.com"},
		{"_443._tcp.www.acme.co.uk", "acme.co.uk"},
		{"x_y.bücher.de", "xn--bcher-kva.de"},
		{"my_shop.acme.co.uk", "acme.co.uk"},
		// characters that IDNA removes
		{"ac\u00adme.com", "acme.com"},
		{"acme\u200b.com", "acme.com"},
		{"joe+tag@mail.acme.co.uk", "acme.co.uk"},
		// public suffix list
		{"alice.github.io", "alice.github.io"},
		{"x.alice.github.io", "alice.github.io"},
		{"github.io", "github.io"},
		{"myshopify.com", "myshopify.com"},
		{"vercel.app", "vercel.app"},
		{"blogspot.co.uk", "blogspot.co.uk"},
		{"s3.amazonaws.com", "amazonaws.com"},
		{"www.gov.uk", "www.gov.uk"},
		{"www.nhs.uk", "www.nhs.uk"},
		{"www.ck", "www.ck"},
		{"city.kawasaki.jp", "city.kawasaki.jp"},
		{"acme.notdelegated", "acme.notdelegated"},
		// IDNA
		{"bücher.de", "xn--bcher-kva.de"},
		{"BÜCHER.de", "xn--bcher-kva.de"},
		{"xn--bcher-kva.de", "xn--bcher-kva.de"},
		{"XN--BCHER-KVA.de", "xn--bcher-kva.de"},
		{"straße.de", "xn--strae-oqa.de"},
		{"ａｃｍｅ．ｃｏｍ", "acme.com"},
		{"acme。com", "acme.com"},
		{"例え.テスト例", "xn--r8jz45g.xn--zckzah4162a"},
		{"аррӏе.com", "xn--80ak6aa92e.com"}, // Cyrillic letters that look like apple: another domain
		{"💩.la", "xn--ls8h.la"},
		// maximum lengths
		{strings.Repeat("a", 63) + ".com", strings.Repeat("a", 63) + ".com"},
		{strings.Repeat("a.", 125) + "com", "a.com"},
	} {
		got, err := brand.ParseIdentifier(c.in)
		if err != nil || got.Kind != brand.Domain || got.Domain != c.domain {
			t.Errorf("%q: got %+v, %v; want %s", c.in, got, err, c.domain)
		}
	}
}

func TestParseIdentifier_BrandID_IsRead(t *testing.T) {
	for _, in := range []string{
		someID, strings.ToUpper(someID), "urn:letterhead:brand:" + someID, "URN:Letterhead:BRAND:" + someID,
	} {
		got, err := brand.ParseIdentifier(in)
		if err != nil || got.Kind != brand.BrandID || got.BrandID.String() != someID || got.Domain != "" {
			t.Errorf("%q: got %+v, %v", in, got, err)
		}
	}
}

func TestParseIdentifier_Invalid_Fails(t *testing.T) {
	for _, c := range []struct{ in, says string }{
		{"", "empty"},
		{"   ", "empty"},
		{"acme.com\x00", "NUL"},
		{"ac\x00me.com", "NUL"},
		{"acme.com\n", "control character U+000A"},
		{"acme\u0085.com", "control character U+0085"},
		{"ac me.com", "space"},
		{"acme.com other.com", "space"},
		{"acme\u00a0.com", "space"},
		{"acme.com\xff", "UTF-8"},
		{strings.Repeat("a", 4097), "4097 bytes"},
		// percent signs
		{"acme.com%00", "percent"},
		{"acme%2ecom", "percent"},
		{"https%3A%2F%2Facme.com", "percent"},
		{"https%253A%252F%252Facme.com", "percent"},
		// schemes
		{"javascript:alert(1)", "not a web address"},
		{"javascript://acme.com/%0aalert(1)", "scheme"},
		{"data:text/html,acme.com", "not a web address"},
		{"file:///etc/passwd", "scheme"},
		{"ftp://acme.com", "scheme"},
		{"https://", "no host"},
		{"/acme.com", "no host"},
		{"\\\\acme.com", "backslash"},
		{"https://acme.com\\@evil.com", "backslash"},
		// userinfo and e-mail
		{"https://joe@acme.com", "user name"},
		{"https://joe:secret@acme.com/", "user name"},
		{"joe@acme.com/path", "user name"},
		{"joe:secret@acme.com", "user name"},
		{"a.b:secret@acme.com", "user name"},
		{"a@b@c", "more than one @"},
		{"a@b@acme.com", "more than one @"},
		{"@acme.com", "e-mail"},
		{"mailto:acme.com", "e-mail"},
		{"mailto:a@acme.com,b@other.com", "more than one @"},
		{"evil.com <acme.com>", "angle brackets"},
		{"Joe\x00 <joe@acme.com>", "NUL"},
		{"joe@", "e-mail"},
		{"joe@acme.com:25", `contains ':'`},
		{strings.Repeat("j", 65) + "@acme.com", "64 characters"},
		{"joe@127.0.0.1", "IP address"},
		// ports
		{"acme.com:x", "not a web address"},
		{"acme.com:65536", "port"},
		{"acme.com:8o", "port"},
		{"acme.com:80:80", "IP address"},
		// IP addresses in every spelling
		{"127.0.0.1", "IP address"},
		{"127.0.0.1:8080", "IP address"},
		{"127.0.0.1.", "IP address"},
		{"127.1", "IP address"},
		{"2130706433", "IP address"},
		{"0177.0.0.1", "IP address"},
		{"0x7f.0.0.1", "IP address"},
		{"0x7F000001", "IP address"},
		{"127.0.0.0x1", "IP address"},
		{"1.2.3.4.5", "IP address"},
		{"256.256.256.256", "IP address"},
		{"１２７.0.0.1", "IP address"},
		{"①②⑦.⓪.⓪.①", "IP address"},
		{"::1", "IP address"},
		{"[::1]", "IP address"},
		{"[::1]:80", "IP address"},
		{"http://[::ffff:127.0.0.1]/", "IP address"},
		{"fe80::1", "IP address"},
		{"fe80::1%25eth0", "IP address"},
		{"http://169.254.169.254/latest/meta-data", "IP address"},
		// names that are not public
		{"localhost", "private or special"},
		{"localhost.", "private or special"},
		{"a.localhost", "private or special"},
		{"printer.local", "private or special"},
		{"metadata.google.internal", "private or special"},
		{"expyuzz4wqqyqhjn.onion", "private or special"},
		{"stats.i2p", "private or special"},
		{"acme.test", "private or special"},
		{"acme.example", "private or special"},
		{"acme.invalid", "private or special"},
		{"router.lan", "private or special"},
		{"nas.home.arpa", "private or special"},
		{"1.0.0.127.in-addr.arpa", "private or special"},
		{"ACME.LOCAL", "private or special"},
		// too short for a domain
		{"acme", "single label"},
		{"com", "public suffix"},
		{"com.", "public suffix"},
		{"co.uk", "public suffix"},
		{"gov.uk", "public suffix"},
		{"foo.ck", "public suffix"},
		{"рф", "public suffix"},
		// labels
		{"acme..com", "empty label"},
		{".acme.com", "empty label"},
		{"acme.com..", "empty label"},
		{".", "empty label"},
		{"-acme.com", "IDNA"},
		{"acme-.com", "IDNA"},
		{"my_shop.com", "underscore"},
		{"my_shop.github.io", "underscore"},
		{"a_\u202e.acme.com", "IDNA"},
		{"a_-.acme.com", "IDNA"},
		{"ac!me.com", "no domain has"},
		{"acme.com,", "no domain has"},
		{"(acme.com)", "no domain has"},
		{"xn--a.com", "IDNA"},
		{"acme\u202e.com", "IDNA"}, // right-to-left override
		{"אa.com", "IDNA"},         // a label of both directions
		{strings.Repeat("a", 64) + ".com", "label of 64"},
		{strings.Repeat("a.", 125) + "info", "254 characters"},
		{strings.Repeat("ü", 60) + ".com", "label of"},
		{strings.Repeat("a.", 600) + "com", "1203 bytes"},
		// brand ids
		{"urn:letterhead:brand:", "urn of a brand"},
		{"urn:letterhead:brand:acme.com", "urn of a brand"},
		{"urn:letterhead:brand:{" + someID + "}", "urn of a brand"},
		{"urn:uuid:" + someID, "another form"},
		{"{" + someID + "}", "another form"},
		{strings.ReplaceAll(someID, "-", ""), "another form"},
	} {
		got, err := brand.ParseIdentifier(c.in)
		if !errors.Is(err, brand.ErrInvalidDomain) {
			t.Errorf("%q: got %+v, %v; want ErrInvalidDomain", c.in, got, err)
			continue
		}
		if got != (brand.Identifier{}) {
			t.Errorf("%q: got the identifier %+v with an error", c.in, got)
		}
		if !strings.Contains(err.Error(), c.says) || !strings.HasSuffix(err.Error(), ".") {
			t.Errorf("%q: the error %q is not a sentence that contains %q", c.in, err, c.says)
		}
		if len(err.Error()) > 1000 {
			t.Errorf("%q: the error has %d bytes", c.in, len(err.Error()))
		}
	}
}

func TestRegistrableDomain_TakesHostsOnly(t *testing.T) {
	for _, in := range []string{"https://acme.com", "acme.com:80", "joe@acme.com", "acme.com/", someID} {
		if got, err := brand.RegistrableDomain(in); !errors.Is(err, brand.ErrInvalidDomain) {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
}

func TestID_IsFixed(t *testing.T) {
	// The UUIDv5 of the domain in the namespace UUIDv5(URL, "urn:letterhead:brand"), computed by another program.
	if got, want := brand.ID("acme.com").String(), "12864c63-ac45-5d92-8400-971f92fe7d18"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzParseIdentifier(f *testing.F) {
	for _, s := range []string{
		"acme.com", "https://www.acme.co.uk:8080/a?b#c", "joe@acme.com", someID, "urn:letterhead:brand:" + someID,
		"github.io", "x.y.github.io", "www.gov.uk", "bücher.de", "xn--bcher-kva.de", "ａｃｍｅ。ｃｏｍ", "127.0.0.1", "0x7f.1",
		"[::1]", "localhost.", "a@b@c", "javascript:alert(1)", "acme.com%00", "a\x00b", "ß.de", "💩.la", "אב.com",
		"a.b.compute.amazonaws.com", "city.kawasaki.jp", "xn--.com", "xn--a-.com", "1.2.3.4.5", "a\u200dbc.com",
		"mailto:joe@acme.com?cc=a@b.c", `"Joe" <joe@acme.com>`, "//acme.com", "https:acme.com", "_dmarc.acme.com", "＿x.acme.com",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := brand.ParseIdentifier(s)
		if err != nil {
			if !errors.Is(err, brand.ErrInvalidDomain) || id != (brand.Identifier{}) {
				t.Fatalf("%q: %+v, %v", s, id, err)
			}
			return
		}
		if id.Kind == brand.BrandID {
			again, err := brand.ParseIdentifier(id.BrandID.String())
			if err != nil || again != id {
				t.Fatalf("%q: %+v, then %+v, %v", s, id, again, err)
			}
			return
		}
		again, err := brand.RegistrableDomain(id.Domain)
		if err != nil || again != id.Domain {
			t.Fatalf("%q: %s, then %q, %v", s, id.Domain, again, err)
		}
		if whole, err := brand.ParseIdentifier(id.Domain); err != nil || whole != id {
			t.Fatalf("%q: %+v, then %+v, %v", s, id, whole, err)
		}
		for _, c := range []byte(id.Domain) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
				t.Fatalf("%q: the domain %q contains %q", s, id.Domain, c)
			}
		}
		if len(id.Domain) > 253 || !strings.Contains(id.Domain, ".") {
			t.Fatalf("%q: %q", s, id.Domain)
		}
	})
}
