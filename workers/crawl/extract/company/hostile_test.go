package company_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"letterhead/internal/css"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/company"
	"letterhead/workers/crawl/extract/extracttest"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Neither what visitors cannot see nor what others wrote is a fact.
func TestDecide_HiddenOrOfOthers_IsIgnored(t *testing.T) {
	const facts = `<p>Acme was founded in 1950.</p><p>Acme GmbH<br>Musterstr. 1<br>10115 Berlin</p><p>Acme has 500 employees.</p>`
	for name, text := range map[string]string{
		"attribute":    `<div hidden>` + facts + `</div>`,
		"display":      `<div style="color:red; display: none">` + facts + `</div>`,
		"visibility":   `<div style="visibility:hidden">` + facts + `</div>`,
		"off screen":   `<div style="position:absolute;left:-9999px">` + facts + `</div>`,
		"no size":      `<div style="font-size:0">` + facts + `</div>`,
		"class":        `<div class="d-none">` + facts + `</div>`,
		"template":     `<template>` + facts + `</template>`,
		"comments":     `<section id="comments">` + facts + `</section>`,
		"one comment":  `<ol><li class="comment even">` + facts + `</li></ol>`,
		"review":       `<div itemscope itemtype="https://schema.org/Review">` + facts + `</div>`,
		"testimonials": `<div class="testimonials">` + facts + `</div>`,
		"quotation":    `<blockquote>` + facts + `</blockquote>`,
	} {
		for _, path := range []string{"/about", "/impressum", "/kontakt"} {
			c, evidence := company.Decide(pages("acme.de", acmeTitle+"<footer>"+text+"</footer>", [2]string{path, text}))
			if got := summary(c); got != "- - - nowhere -" || len(evidence) > 0 {
				t.Errorf("%s on %s: %q, %+v", name, path, got, evidence)
			}
		}
	}
	in := pages("acme.de", acmeTitle+`<style>.seo{display:none}</style><footer><div class=seo>`+facts+`</div></footer>`)
	in.Style = css.New(in.Page.Root, in.Page.Base, nil, site.Resolve)
	if c, _ := company.Decide(in); summary(c) != "- - - nowhere -" {
		t.Errorf("hidden by a style sheet: %s", summary(c))
	}
	for _, text := range []string{"Acme, West Harbour, Leeds, United Kingdom", "Acme (NASDAQ: ACME)", "Acme設立　平成元年"} {
		for class, isFact := range map[string]bool{"seo": false, "shown": true} {
			in := pages("acme.com", acmeTitle+`<style>.seo{display:none}</style><footer><div class="`+class+`"><p>`+text+`</p></div></footer>`)
			in.Style = css.New(in.Page.Root, in.Page.Base, nil, site.Resolve)
			if c, _ := company.Decide(in); (summary(c) != "- - - nowhere -") != isFact {
				t.Errorf("%q in class %s: %s", text, class, summary(c))
			}
		}
	}
}

// A shop has more prices than lines whose visibility is computed.
func TestDecide_ManyPricesBeforeFooter_FooterIsRead(t *testing.T) {
	prices := strings.Repeat("<p>Anvil, 12.50</p>", 600)
	for name, x := range map[string]struct{ class, want string }{
		"shown":  {"", "- - PRIVATELY_HELD Berlin - DE -"},
		"hidden": {"seo", "- - - nowhere -"},
	} {
		in := pages("acme.de", acmeTitle+`<style>.seo{display:none}</style>`+prices+`<footer><div class="`+x.class+`"><p>Acme GmbH</p><p>Musterstr. 1</p><p>10115 Berlin</p></div></footer>`)
		in.Style = css.New(in.Page.Root, in.Page.Base, nil, site.Resolve)
		if c, _ := company.Decide(in); summary(c) != x.want {
			t.Errorf("%s: %q, want %q", name, summary(c), x.want)
		}
	}
}

// Data that no visitor reads yields to what the pages state.
func TestDecide_DeclarationContradictsPages_IsIgnored(t *testing.T) {
	injected := extracttest.Organization(`"url":"/","name":"Acme","legalName":"Acme e.V.","foundingDate":"1840","numberOfEmployees":9000,"address":{"addressLocality":"Las Vegas","addressRegion":"NV","postalCode":"89101","addressCountry":"US"}`)
	about := [2]string{"/about", "<p>Acme was founded in 1998.</p><p>Acme has 20 employees.</p>"}
	imprint := [2]string{"/impressum", "<p>Acme GmbH<br>Musterstr. 1<br>10115 Berlin</p>"}
	for name, x := range map[string]struct {
		in   extract.Input
		want string
	}{
		"contradicted":    {pages("acme.com", acmeTitle+injected, about, imprint), "1998 11 PRIVATELY_HELD Berlin - DE -"},
		"not mentioned":   {pages("acme.com", acmeTitle+injected), "1840 5001 NON_PROFIT Las Vegas Nevada US -"},
		"shown elsewhere": {pages("acme.com", acmeTitle+injected+"<p>Our office in Las Vegas, built in 1840</p>", about, imprint), "1840 11 PRIVATELY_HELD Las Vegas Nevada US -"},
	} {
		if c, _ := company.Decide(x.in); summary(c) != x.want {
			t.Errorf("%s: %q, want %q", name, summary(c), x.want)
		}
	}
}

// Events are stored for ever: facts and their evidence must not hold the name,
// the street, the mail address or the telephone number of a person.
func TestDecide_PersonalData_IsNotInRecord(t *testing.T) {
	secrets := []string{"Pagel", "pagel", "Moorweg", "038229", "doreen", "Doreen", "@"}
	const imprint = `<h1>Impressum</h1><p>Acme<br>Inhaberin: Doreen Pagel<br>Moorweg 2<br>18334 Bad Sülze</p><p>Tel. 038229 000 2, doreen.pagel@acme.de</p><p>Amtsgericht Stralsund, HRA 0417</p>`
	declared := func(address string) string {
		return extracttest.Organization(`"url":"/","name":"Acme","founder":"Doreen Pagel","telephone":"038229","address":` + address)
	}
	at := func(raw, body string) *page.Page {
		u := testmust.Get(url.Parse(raw))(t)
		return page.Parse([]byte(body), "text/html", u, site.New("acme.de"))
	}
	for name, in := range map[string]extract.Input{
		"imprint":              {Page: at("https://acme.de/", acmeTitle), More: []*page.Page{at("https://acme.de/impressum", imprint)}},
		"name in the path":     {Page: at("https://acme.de/", acmeTitle), More: []*page.Page{at("https://acme.de/doreen-pagel/impressum", imprint)}},
		"name in the query":    {Page: at("https://acme.de/?of=Pagel", acmeTitle+"<footer>"+imprint+"</footer>"), More: []*page.Page{at("https://acme.de/kontakt?mail=doreen@acme.de", imprint)}},
		"name as the page":     {Page: at("https://acme.de/", acmeTitle), More: []*page.Page{at("https://acme.de/pagel.html", imprint)}},
		"street as the city":   {Page: at("https://acme.de/", acmeTitle+declared(`{"addressLocality":"Moorweg 2","addressRegion":"Moorstraße","addressCountry":"DE"}`))},
		"mail as the city":     {Page: at("https://acme.de/", acmeTitle+declared(`{"addressLocality":"doreen.pagel@acme.de"}`))},
		"number as the city":   {Page: at("https://acme.de/", acmeTitle+declared(`{"addressLocality":"038229 000 2","addressCountry":"Doreen Pagel"}`))},
		"everything in a text": {Page: at("https://acme.de/", acmeTitle+declared(`"Doreen Pagel, Moorweg 2\n18334 Bad Sülze\n038229 000 2"`))},
	} {
		in.Site = site.New("acme.de")
		c, evidence := company.Decide(in)
		stored := testmust.Get(json.Marshal(map[string]any{"company": c, "evidence": evidence}))(t)
		for _, s := range secrets {
			if strings.Contains(string(stored), s) {
				t.Errorf("%s: %q is in %s", name, s, stored)
			}
		}
	}
}
