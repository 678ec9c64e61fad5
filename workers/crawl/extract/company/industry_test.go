package company_test

import (
	"net/url"
	"strings"
	"testing"

	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/company"
	"letterhead/workers/crawl/extract/extracttest"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

func TestIndustries_Page_IsClassified(t *testing.T) {
	described := func(text string) string { return acmeTitle + `<meta name="description" content="` + text + `">` }
	for name, x := range map[string]struct {
		in     extract.Input
		first  string // class of the first, "" for none
		method string
		least  float64
	}{
		"declared type":        {pages("acme.com", acmeTitle+extracttest.Organization(`"@type":"Hotel","url":"/","name":"Acme"`)), "Hotels & Lodging", "json-ld type", 0.9},
		"microdata type":       {pages("acme.com", acmeTitle+`<div itemscope itemtype="http://schema.org/Dentist"><b itemprop=name>Acme</b></div>`), "Dental Care", "microdata type", 0.9},
		"declared in words":    {pages("acme.com", acmeTitle+extracttest.Organization(`"url":"/","name":"Acme","industry":"Dental Care"`)), "Dental Care", "json-ld industry", 0.85},
		"declared, and others": {pages("acme.com", described("Our hotel: rooms, resort, hotel booking and a hotel bar.")+extracttest.Organization(`"@type":"Dentist","url":"/","name":"Acme"`)), "Dental Care", "json-ld type", 0.9},
		"government domain":    {pages("ferries.gov", described("Ferry routes, ports, vessels and shipping lanes.")), "Government Agencies", "domain ending", 0.7},
		"weak guess":           {pages("acme.com", described("Fibre and gadgets that we like to write about every week, for everyone who reads along.")), "", "", 0},
		"another's type":       {pages("acme.com", acmeTitle+extracttest.Organization(`"@type":"Hotel","url":"https://other.example","name":"Other"`)), "", "", 0},
		"data set":             {pages("delta.com", `<title>Delta</title>`), "Airlines", "GICS sub-industry", 0.95},
		"description":          {pages("acme.com", described("Ihre Versicherung: Haftpflicht, Hausrat und Krankenversicherung online abschließen.")), "Insurance", "words", 0.5},
		"menu":                 {pages("acme.com", acmeTitle+`<nav><a href=/a>Girokonto</a><a href=/b>Kredite</a><a href=/c>Online-Banking</a><a href=/d>Sparen</a></nav>`), "Banking", "words", 0.3},
		"about page":           {pages("acme.com", acmeTitle, [2]string{"/about", "<p>Acme is a law firm. Our attorneys and lawyers handle litigation.</p>"}), "Legal Services", "words", 0.5},
		"imprint is no source": {pages("acme.com", acmeTitle, [2]string{"/impressum", "<p>Unser Rechtsanwalt, Kanzlei Weber. Haftpflichtversicherung: Allgemeine.</p>"}), "", "", 0},
		"nothing":              {pages("acme.com", described("We believe in people, passion and possibilities.")), "", "", 0},
		"a program":            {pages("acme.com", acmeTitle+`<script type="application/ld+json">{"@type":"SoftwareApplication","name":"Acme"}</script>`), "Software", "json-ld type", 0.6},
	} {
		c, evidence := company.Decide(x.in)
		if x.first == "" {
			if len(c.Industries) != 0 {
				t.Errorf("%s: %+v, want none", name, c.Industries)
			}
			continue
		}
		if len(c.Industries) == 0 || c.Industries[0].Name != x.first || c.Industries[0].Score < x.least {
			t.Errorf("%s: %+v, want %s", name, c.Industries, x.first)
			continue
		}
		found := false
		for _, e := range evidence {
			found = found || e.Field == "company.industries" && e.Method == x.method && e.Confidence == c.Industries[0].Score
		}
		if !found {
			t.Errorf("%s: evidence %+v", name, evidence)
		}
	}
}

// A newspaper writes about airlines, hotels and banks all day.
func TestIndustries_Publisher_IsNotItsTopic(t *testing.T) {
	story := `<h2>Airline cancels flights after strike</h2><h2>Low-cost carrier orders new aircraft</h2><p>The airline said that flights from the airport would resume. Passengers of the airline wait.</p>`
	front := `<title>The Acme Herald - news, sport and opinion</title><meta name="description" content="News, politics and opinion from our reporters.">
		<nav><a href=/p>Politics</a><a href=/s>Sport</a><a href=/o>Opinion</a></nav>` + strings.Repeat(story, 10)
	c, _ := company.Decide(pages("acmeherald.com", front))
	if len(c.Industries) == 0 || c.Industries[0].Name != "News & Publishing" {
		t.Errorf("front page: %+v, want News & Publishing first", c.Industries)
	}
	s := site.New("acmeherald.com")
	article := page.Parse([]byte(`<title>Airline cancels flights</title><meta property="og:type" content="article"><meta property="og:description" content="The airline cancels all flights.">
		<h1>Airline cancels flights</h1>`+story+`<script type="application/ld+json">{"@type":"NewsArticle","headline":"Airline cancels flights"}</script>`), "text/html", &url.URL{Scheme: "https", Host: "acmeherald.com", Path: "/2024/strike"}, s)
	c, _ = company.Decide(extract.Input{Site: s, Page: article})
	if len(c.Industries) != 1 || c.Industries[0].Name != "News & Publishing" {
		t.Errorf("article: %+v, want only News & Publishing", c.Industries)
	}
}

func TestWeighed_Industries_WinnerFirst(t *testing.T) {
	in := pages("acme.com", acmeTitle+extracttest.Organization(`"@type":"Restaurant","url":"/","name":"Acme"`)+`<meta name="description" content="Our hotel and restaurant by the sea, with rooms, a menu of fish and wine from our own winery.">`)
	weighed := company.IndustriesWeighed(in)
	if len(weighed) < 2 || weighed[0].Value != "Restaurants & Cafés" || weighed[0].Score != 0.9 || weighed[0].Note != "Restaurant" {
		t.Fatalf("IndustriesWeighed = %+v, want restaurants first", weighed)
	}
	c, _ := company.Decide(in)
	won := 0
	for i, w := range weighed {
		if w.Field != "industries" || w.Source == "" || w.Method == "" || w.Note == "" || i > 0 && w.Score > weighed[i-1].Score || w.Score > 0.5 && i > 0 {
			t.Errorf("candidate %d is incomplete or out of order: %+v", i, w)
		}
		if w.Won {
			if c.Industries[won].Name != w.Value {
				t.Errorf("the record has %s for %s", c.Industries[won].Name, w.Value)
			}
			won++
		}
	}
	if won != len(c.Industries) {
		t.Errorf("%d won, the record has %d", won, len(c.Industries))
	}
}

// An inner page is about its topic, and part of a brand's name is weak evidence.
func TestIndustries_InnerPageAndPartialName_AreWeak(t *testing.T) {
	about := `<title>Acme - Hotels</title><meta name="description" content="Our hotel and resort by the sea, with hotel rooms."><h1>The hotel</h1>`
	s := site.New("acme.com")
	at := func(path, html string) extract.Input {
		return extract.Input{Site: s, Page: page.Parse([]byte(html), "text/html; charset=utf-8", &url.URL{Scheme: "https", Host: "acme.com", Path: path}, s)}
	}
	score := func(in extract.Input) float64 {
		c, _ := company.Decide(in)
		if len(c.Industries) == 0 {
			return 0
		}
		return c.Industries[0].Score
	}
	if front := score(at("/", about)); front < 0.5 {
		t.Errorf("front page: %v", front)
	}
	if inner := score(at("/stories/summer", about)); inner >= 0.5 {
		t.Errorf("inner page: %v", inner)
	}
	if both := score(at("/stories/summer", about+`<nav><a href=/h>Hotels</a><a href=/r>Resorts</a></nav>`)); both < 0.5 {
		t.Errorf("inner page and menu: %v", both)
	}
	in := pages("cybercook.com", `<title>CyberCook</title><meta property="og:site_name" content="CyberCook"><meta name="description" content="CyberCook: bolos e sobremesas">`)
	for _, w := range company.IndustriesWeighed(in) {
		if w.Value == "Cybersecurity" {
			t.Errorf("part of the name counts as a term: %+v", w)
		}
	}
	in = pages("garden-magazin.de", `<title>Garden Magazin</title><meta property="og:site_name" content="Garden Magazin">`)
	if c, _ := company.Decide(in); len(c.Industries) == 0 || c.Industries[0].Name != "News & Publishing" {
		t.Errorf("a magazine: %+v, want News & Publishing first", c.Industries)
	}
	in = pages("shirts.de", `<title>Shirts Magazin</title><meta property="og:site_name" content="Shirts Magazin">`)
	if c, _ := company.Decide(in); len(c.Industries) > 0 && c.Industries[0].Score >= 0.5 {
		t.Errorf("a shop's magazine: %+v, want a score below 0.5", c.Industries)
	}
}
