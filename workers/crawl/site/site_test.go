package site_test

import (
	"fmt"
	"net/url"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/site"
)

func TestNew_Domain_HasLabel(t *testing.T) {
	for domain, want := range map[string]string{
		"acme.com": "acme", "acme.co.uk": "acme", "ACME.com.": "acme", "github.io": "github", "foo.github.io": "foo",
		"xn--bcher-kva.de": "bücher", "gov.uk": "gov", "localhost": "localhost",
	} {
		if got := site.New(domain).Label; got != want {
			t.Errorf("%s: label %q, want %q", domain, got, want)
		}
	}
}

func TestSite_Hosts_AreRecognized(t *testing.T) {
	at := func(s string) *url.URL {
		u := testmust.Get(url.Parse(s))(t)
		return u
	}
	s := site.New("acme.com").Redirected(at("https://www.acme.com/")).Redirected(at("https://shop.buyer.co.uk/acme"))
	if fmt.Sprint(s.Others) != "[buyer.co.uk]" || fmt.Sprint(s.Labels()) != "[acme buyer]" {
		t.Errorf("others %v, labels %v", s.Others, s.Labels())
	}
	for address, want := range map[string]bool{
		"https://acme.com/": true, "https://cdn.ACME.com/x": true, "https://acme.com./": true, "https://buyer.co.uk/": true, "https://x.buyer.co.uk": true,
		"https://notacme.com/": false, "https://acme.com.evil.example/": false, "https://co.uk/": false, "/relative": false,
	} {
		if got := s.Own(at(address)); got != want {
			t.Errorf("%s: %t, want %t", address, got, want)
		}
	}
	if s.Own(nil) {
		t.Error("a nil URL belongs to the site")
	}
}

func TestReference_Backslashes_AreSlashes(t *testing.T) {
	for ref, want := range map[string]string{
		`img\logo.png`:               "img/logo.png",
		`\img\logo.png`:              "/img/logo.png",
		`https:\\acme.com\logo.png`:  "https://acme.com/logo.png",
		`\\cdn.acme.com\a.png?b=c\d`: `//cdn.acme.com/a.png?b=c\d`,
		`data:image/svg+xml,a\b`:     `data:image/svg+xml,a\b`,
	} {
		if got := site.Reference(ref); got != want {
			t.Errorf("%s is %s, want %s", ref, got, want)
		}
	}
}
