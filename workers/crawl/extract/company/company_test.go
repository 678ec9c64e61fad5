package company_test

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/company"
	"letterhead/workers/crawl/extract/extracttest"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// pages returns the input for a home page and further pages of a domain, each given as path and body.
func pages(domain, home string, more ...[2]string) extract.Input {
	s := site.New(domain)
	at := func(path string) *url.URL { return &url.URL{Scheme: "https", Host: domain, Path: path} }
	in := extract.Input{Site: s, Page: page.Parse([]byte(home), "text/html; charset=utf-8", at("/"), s)}
	for _, m := range more {
		in.More = append(in.More, page.Parse([]byte(m[1]), "text/html; charset=utf-8", at(m[0]), s))
	}
	return in
}

// summary summarizes a company: founded, employees, kind, city, state, country code, ticker.
func summary(c *eventschemas.Company) string {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	number := func(n *int) string {
		if n == nil {
			return "-"
		}
		return strconv.Itoa(*n)
	}
	out := []string{number(c.FoundedYear), number(c.Employees), text(c.Kind)}
	if l := c.Location; l != nil {
		out = append(out, text(l.City), text(l.State), text(l.CountryCode))
	} else {
		out = append(out, "nowhere")
	}
	return strings.Join(append(out, text(c.Ticker)), " ")
}

const acmeTitle = `<title>Acme</title><meta property="og:site_name" content="Acme">`

func TestFounded_Prose_IsRead(t *testing.T) {
	for text, want := range map[string]string{
		"Acme was founded in 1998 by two students.":                    "1998",
		"Acme, founded in Lisbon in 1998, makes anvils.":               "1998",
		"Founded in 1998, Acme makes anvils.":                          "1998",
		"We started our company in a garage. We were founded in 2001.": "2001",
		"Acme wurde 1954 in Köln gegründet.":                           "1954",
		"Die Acme GmbH, gegründet 1954, baut Maschinen.":               "1954",
		"Seit 1954":                                                      "1954",
		"Acme a été fondée en 1987 à Lyon.":                              "1987",
		"Acme fue fundada en 1975 en Sevilla.":                           "1975",
		"Acme è stata fondata nel 1962.":                                 "1962",
		"Acme werd in 1990 opgericht in Gent.":                           "1990",
		"Founded: 1998":                                                  "1998",
		"Est. 1889":                                                      "1889",
		"© 2024 Acme":                                                    "-",
		"Copyright 2015 Acme. All rights reserved.":                      "-",
		"© 2009–2024 Acme":                                               "-", // the age of the site
		"© 2009–2024 Other Media":                                        "-",
		"The Acme Foundation was founded in 1999.":                       "-",
		"Our customer Beta was founded in 1950.":                         "-",
		"Beta Corp was founded in 1950.":                                 "-",
		"Since 2015 more than 10,000 people have visited the exhibition": "-",
		"ISO certified since 2008":                                       "-",
		"In 1998 the Olympic Games were held in Nagano.":                 "-",
		"Acme was founded long ago. In 1998 we moved to Porto.":          "-",
	} {
		c, _ := company.Decide(pages("acme.com", acmeTitle, [2]string{"/about", "<p>" + text + "</p>"}))
		if got := shown(c.FoundedYear); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	// The home page also mentions others: there the brand must be named.
	for text, want := range map[string]string{
		"<p>Acme was founded in 1998.</p>": "1998", "<p>We were founded in 1998.</p>": "1998", "<p>And so, she said, we were founded in 1998.</p>": "-",
		`<meta name="description" content="Acme makes anvils. Established in Leeds in 1902.">`: "1902", "<p>创立于2002年</p>": "2002", "<p>Est. 1898</p>": "1898", "<article>Beta was founded in 1998, Acme reports.</article>": "-", "<header>Since 1898</header>": "1898",
	} {
		c, _ := company.Decide(pages("acme.com", acmeTitle+text))
		if got := shown(c.FoundedYear); got != want {
			t.Errorf("home, %q: %s, want %s", text, got, want)
		}
	}
}

// shown returns a number as text, or "-" if there is none.
func shown(number *int) string {
	if number == nil {
		return "-"
	}
	return strconv.Itoa(*number)
}

func TestEmployees_AboutPage_IsRead(t *testing.T) {
	for text, want := range map[string]string{
		"Acme has over 500 employees in 12 countries.":                       "201",
		"Our team: 1,200+ employees":                                         "1001",
		"Wir beschäftigen mehr als 1.500 Mitarbeiterinnen und Mitarbeiter.":  "1001",
		"Nous sommes 45 collaborateurs.":                                     "11",
		"Somos más de 12.000 empleados.":                                     "10001",
		"La nostra azienda conta 80 dipendenti.":                             "51",
		"Acme employs 30k employees":                                         "10001",
		"We help companies with 500 employees grow.":                         "-",
		"Our software is for teams of up to 50 employees.":                   "-",
		"Für Unternehmen mit 200 Mitarbeitern":                               "-",
		"The airline laid off 500 employees in the pandemic, reports say.":   "-",
		"In 2024 employees of the ministry went on strike for two long days": "-",
		"<table><tr><th>従業員数</th><td>24名（パート含む）</td></tr></table>":           "11",
		"Acme现有员工120余人，占地面积12000平方米。":                                        "51",
		"임직원 수 68명":                                                          "51",
		"我们的客户有员工5000人。":                                                     "-",
		"Bugün 75 çalışanımız var.":                                          "51",
		"Zatrudniamy 32 pracowników.":                                        "11",
		"Heute arbeiten 7 Mitarbeitende in der Werkstatt.":                   "2",
		"60 people visited us last year.":                                    "-",
		"We are a team of 4 people.":                                         "2",
		"Call 0800 123 456":                                                  "-",
	} {
		c, _ := company.Decide(pages("acme.com", acmeTitle, [2]string{"/about-us", "<p>" + text + "</p>"}))
		if got := shown(c.Employees); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if c, _ := company.Decide(pages("acme.com", acmeTitle+`<p>Acme has 500 employees.</p>`)); c.Employees != nil {
		t.Error("read the employees of others on a home page")
	}
}

func TestKind_LegalForm_Decides(t *testing.T) {
	for _, x := range []struct{ domain, path, text, want string }{
		{"acme.de", "/impressum", "Acme GmbH", "PRIVATELY_HELD"},
		{"acme.de", "/impressum", "Acme GmbH & Co. KG", "PRIVATELY_HELD"},
		{"acme.de", "/impressum", "Acme gGmbH", "NON_PROFIT"},
		{"acme.de", "/impressum", "Acme e.V.", "NON_PROFIT"},
		{"acme.de", "/impressum", "Acme AG", "-"},
		{"acme.de", "/impressum", "Acme SE", "-"},
		{"acme.de", "/impressum", "Acme GbR", "PARTNERSHIP"},
		{"acme.de", "/impressum", "Acme e.K.", "SELF_EMPLOYED"},
		{"acme.de", "/impressum", "Webdesign: Beta GmbH", "-"},
		{"acme.com", "/legal", "Acme, LLC", "PRIVATELY_HELD"},
		{"acme.com", "/legal", "Acme Inc.", "-"},
		{"acme.com", "/legal", "Acme Ltd", "-"},
		{"acme.co.uk", "/legal", "Acme Ltd is registered in England", "PRIVATELY_HELD"},
		{"acme.co.uk", "/legal", "Acme plc", "-"},
		{"acme.it", "/note-legali", "Acme S.r.l.", "PRIVATELY_HELD"},
		{"acme.org", "/about", "Acme is a 501(c)(3) nonprofit organization.", "NON_PROFIT"},
		{"acme.org", "/about", "Acme is a small charity in Leeds.", "NON_PROFIT"},
		{"acme.org", "/about", "We are a non-profit organization.", "NON_PROFIT"},
		{"acme.de", "/impressum", "Acme ist ein gemeinnütziger Verein.", "NON_PROFIT"},
		{"acme.com", "/about", "Beta, which we love, is a charity.", "-"},
		{"acme.com", "/about", "Our software is built for non-profit teams.", "-"},
		{"acme.org", "/about", "We donate to a 501(c)(3) organization.", "-"},
		{"acme.org.uk", "/legal", "Registered charity number 123456", "NON_PROFIT"},
		{"acme.fr", "/mentions-legales", "Jean Dupont, entreprise individuelle", "SELF_EMPLOYED"},
		{"acme.ru", "/kontakty", "ООО «Acme»", "PRIVATELY_HELD"},
		{"acme.ru", "/kontakty", "Наш партнёр ООО «Globex»", "-"},
		{"acme.co.id", "/kontak", "PT Acme Sejahtera", "PRIVATELY_HELD"},
		{"acme.cn", "/lianxi", "Acme（上海）有限公司", "PRIVATELY_HELD"},
		{"acme.cn", "/lianxi", "Acme股份有限公司", "-"},
		{"acme.jp", "/gaiyo", "合同会社Acme", "PRIVATELY_HELD"},
		{"acme.jp", "/gaiyo", "株式会社Acme", "-"},
		{"acme.it", "/note-legali", "Acme S.n.c. di Rossi & C.", "PARTNERSHIP"},
		{"acme.fr", "/mentions-legales", "Acme SAS, hébergeur : Globex", "PRIVATELY_HELD"},
		{"acme.mx", "/aviso-legal", "Acme, S. de R.L. de C.V.", "PRIVATELY_HELD"},
		{"acme.mx", "/aviso-legal", "Acme, S.A. de C.V.", "-"},
		{"acme.at", "/impressum", "Acme e.U.", "SELF_EMPLOYED"},
		{"acme.de", "/impressum", "Inhaberin: Jane Doe", "SELF_EMPLOYED"},
		{"acme.de", "/impressum", "Acme AG</p><p>Inhaber: Jane Doe", "-"},
		{"acme.de", "/impressum", "Inhaber: Max Schmidt</p><p>Kölner Str. 1", "SELF_EMPLOYED"},
		{"acme.de", "/impressum", "Inhaber: Schmidt Gastro GmbH", "-"},
		{"acme.de", "/impressum", "Inhaber: Max Schmidt</p><p>Globex GmbH", "-"},
		{"acme.de", "/impressum", "Inhaber: Anna und Max Schmidt", "-"},
		{"acme.de", "/impressum", "Inhaber: Anna & Max Schmidt", "-"},
		{"acme.de", "/impressum", "Inhaber: Anna Schmidt / Max Roth", "-"},
		{"acme.de", "/impressum", "Inhaber: Anna Schmidt, Max Roth", "-"},
		{"acme.com", "/legal", "PT Acme Sejahtera", "PRIVATELY_HELD"},
		{"acme.com", "/legal", "Mon–Fri 9–5 PT. Call Acme today", "-"},
		{"acme.com", "/legal", "Mon–Fri 9–5 PT. Acme is closed on Sundays", "-"},
		{"acme.com", "/legal", "All times are PT. Call Acme today", "-"},
		{"acme.co.id", "/kontak", "Jl. Sudirman 1: PT Sinar Acme", "PRIVATELY_HELD"},
		{"acme.com", "/about", "Acme is a family-owned business.", "PRIVATELY_HELD"},
		{"acme.com", "/about", "Globex is a family-owned business.", "-"},
		{"acme.com", "/about", "Acme Inc. (Nasdaq: ACME) makes anvils.", "PUBLIC_COMPANY"},
		{"acme.com", "/about", "Our partner Beta Inc. (NASDAQ: BETA) makes anvils.", "-"},
	} {
		c, _ := company.Decide(pages(x.domain, acmeTitle, [2]string{x.path, "<p>" + x.text + "</p>"}))
		got := "-"
		if c.Kind != nil {
			got = *c.Kind
		}
		if got != x.want {
			t.Errorf("%s, %q: %s, want %s", x.domain, x.text, got, x.want)
		}
	}
}

func TestLocation_ImprintAndFooter_AreRead(t *testing.T) {
	for name, x := range map[string]struct {
		in   extract.Input
		want string
	}{
		"imprint":                     {pages("acme.de", acmeTitle, [2]string{"/impressum", `<h1>Impressum</h1><p>Acme GmbH<br>Musterstr. 1<br>10115 Berlin</p>`}), "Berlin - DE"},
		"the host's":                  {pages("acme.fr", acmeTitle, [2]string{"/mentions-legales", `<p>Éditeur : Acme<br>12 rue de la Paix<br>69002 Lyon</p><p>Hébergeur : Host SAS<br>2 rue Kellermann<br>59100 Roubaix</p>`}), "Lyon - FR"},
		"only the host's":             {pages("acme.fr", acmeTitle, [2]string{"/mentions-legales", `<p>Hébergeur : Host SAS<br>2 rue Kellermann<br>59100 Roubaix</p>`}), "nowhere"},
		"a trade like an agency's":    {pages("acme.de", acmeTitle, [2]string{"/impressum", `<p>Acme Gartengestaltung<br>Musterstr. 1<br>10115 Berlin</p>`}), "Berlin - DE"},
		"a word like an agency's":     {pages("acme.fr", acmeTitle, [2]string{"/mentions-legales", `<p>Acme, préconceptions et jouets<br>12 rue de la Paix<br>69002 Lyon</p>`}), "Lyon - FR"},
		"the agency's":                {pages("acme.de", acmeTitle, [2]string{"/impressum", `<p>Webseitengestaltung: Globex<br>Musterstr. 1<br>10115 Berlin</p>`}), "nowhere"},
		"service for customers":       {pages("acme.cn", acmeTitle, [2]string{"/contact", `<p>客户服务</p><p>广东省深圳市南山区科技路1号</p>`}), "深圳 广东省 CN"},
		"a customer's":                {pages("acme.cn", acmeTitle, [2]string{"/contact", `<p>客户案例</p><p>广东省深圳市南山区科技路1号</p>`}), "nowhere"},
		"address element":             {pages("acme.com", acmeTitle+`<address>Acme<br>548 Market St<br>San Francisco, CA 94104</address>`), "San Francisco California US"},
		"footer":                      {pages("acme.co.uk", acmeTitle+`<footer><p>Acme Ltd, 1 High Street, London, EC1A 1BB</p></footer>`), "London - GB"},
		"the publisher's in a footer": {pages("acme.com", acmeTitle+`<footer><p>Beta Media, Inc.</p><p>1 Wide Street</p><p>New York, NY 10036</p></footer>`), "nowhere"},
		"in an article":               {pages("acme.com", acmeTitle+`<p>Beta moved to 1 Wide Street, New York, NY 10036.</p>`), "nowhere"},
		"headquarters":                {pages("acme.com", acmeTitle, [2]string{"/about", `<p>Acme is headquartered in Austin, Texas, with offices in Berlin.</p>`}), "Austin Texas US"},
		"another's headquarters":      {pages("acme.com", acmeTitle, [2]string{"/about", `<p>Beta is headquartered in Austin, Texas.</p>`}), "nowhere"},
		"microdata":                   {pages("acme.com", acmeTitle+`<div itemscope itemtype="https://schema.org/LocalBusiness"><b itemprop=name>Acme</b><p itemprop=address itemscope itemtype="https://schema.org/PostalAddress"><i itemprop=addressLocality>Wien</i><i itemprop=addressCountry>Österreich</i></p></div>`), "Wien - AT"},
		"declared before read":        {pages("acme.de", acmeTitle+extracttest.Organization(`"url":"/","name":"Acme","address":{"addressLocality":"Hamburg","addressCountry":"DE"}`), [2]string{"/impressum", `<p>Musterstr. 1<br>10115 Berlin</p><p>Hauptsitz: Hamburg</p>`}), "Hamburg - DE"},
		"declared, and contradicted":  {pages("acme.de", acmeTitle+extracttest.Organization(`"url":"/","name":"Acme","address":{"addressLocality":"Hamburg","addressCountry":"DE"}`), [2]string{"/impressum", `<p>Musterstr. 1<br>10115 Berlin</p>`}), "Berlin - DE"},
		"a state and its code":        {pages("acme.com", acmeTitle+extracttest.Organization(`"url":"/","name":"Acme","address":{"addressLocality":"Salem","addressRegion":"OR","postalCode":"97301"}`)), "Salem Oregon US"},
		"address in one text":         {pages("acme.com", acmeTitle+extracttest.Organization(`"url":"/","name":"Acme","address":"1 High Street, London SW1A 2AA"`)), "London - GB"},
	} {
		c, _ := company.Decide(x.in)
		got := "nowhere"
		if l := c.Location; l != nil {
			got = strings.Join(strings.Fields(summary(c))[3:], " ")
			got = strings.TrimSuffix(got, " -")
			if l.Region == nil || l.Subregion == nil {
				t.Errorf("%s: no region", name)
			}
		}
		if got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

func TestDecide_DataSetAndSite_AreJoined(t *testing.T) {
	c, evidence := company.Decide(pages("nvidia.com", `<title>NVIDIA</title>`))
	if got, want := summary(c), "1993 - PUBLIC_COMPANY Santa Clara California US NASDAQ:NVDA"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if *c.Location.Region != "Americas" || *c.Location.Subregion != "Northern America" || len(c.Tickers) != 1 || c.Tickers[0] != "NVDA" {
		t.Errorf("%+v, %v, want Northern America in the Americas and NVDA", c.Location, c.Tickers)
	}
	for _, e := range evidence {
		if !strings.Contains(e.Source, "S&P 500") {
			t.Errorf("evidence %+v, want the S&P 500 as source", e)
		}
	}
	if len(c.Industries) == 0 || c.Industries[0].Slug != "semiconductors" || c.Industries[0].Score != 0.95 {
		t.Errorf("industries %+v, want semiconductors with score 0.95", c.Industries)
	}
	// The site's declarations go before the data set, and the data set before prose.
	c, _ = company.Decide(pages("nvidia.com", `<title>NVIDIA</title>`+extracttest.Organization(`"url":"/","name":"NVIDIA","foundingDate":"1992"`)))
	if *c.FoundedYear != 1992 {
		t.Errorf("founded %d", *c.FoundedYear)
	}
	c, _ = company.Decide(pages("nvidia.com", `<title>NVIDIA</title>`, [2]string{"/about", "<p>NVIDIA was founded in 1990.</p>"}))
	if *c.FoundedYear != 1993 {
		t.Errorf("founded %d", *c.FoundedYear)
	}
}

func TestDecide_Ticker_IsQualified(t *testing.T) {
	for declared, want := range map[string]string{
		"NASDAQ:AAPL": "NASDAQ:AAPL", "NasdaqGS: AAPL": "NASDAQ:AAPL", "XNYS:IBM": "NYSE:IBM", "NYSE:BRK.B": "NYSE:BRK.B", "AAPL": "",
		"XNAS AAPL": "NASDAQ:AAPL", "NYSE American: IMO": "NYSEAMERICAN:IMO", "STO:VOLV B": "STO:VOLV-B", "NSE: M&amp;M": "NSE:M&M", "N/A": "", "NYSE: on request": "", "see investor relations": "", "": "",
	} {
		c, _ := company.Decide(pages("acme.com", acmeTitle+extracttest.Organization(`"url":"/","name":"Acme","tickerSymbol":"`+declared+`"`)))
		got := ""
		if c.Ticker != nil {
			got = *c.Ticker
		}
		if got != want {
			t.Errorf("%q: %q, want %q", declared, got, want)
		}
	}
}

func TestDecide_SeveralListings_GiveEachSymbolOnce(t *testing.T) {
	c, _ := company.Decide(pages("acme.com", acmeTitle+extracttest.Organization(`"url":"/","name":"Acme","tickerSymbol":["ACM","NYSE:ACM","FRA:ACM1","LSE: ACM"]`)))
	if c.Ticker == nil || *c.Ticker != "NYSE:ACM" || !slices.Equal(c.Tickers, []string{"ACM", "ACM1"}) {
		t.Errorf("ticker %v, symbols %v, want NYSE:ACM, and ACM and ACM1", c.Ticker, c.Tickers)
	}
}

func TestDecide_NoEvidence_IsEmpty(t *testing.T) {
	c, evidence := company.Decide(pages("acme.com", acmeTitle+`<p>Welcome to Acme, where 500 people in 1998 met at 12 Main Street.</p>`))
	if got := summary(c); got != "- - - nowhere -" || len(evidence) != 0 || len(c.Industries) != 0 {
		t.Errorf("%q, %v, %v", got, evidence, c.Industries)
	}
	if c, evidence := company.Decide(extract.Input{Site: site.New("acme.com"), Page: &page.Page{}}); summary(c) != "- - - nowhere -" || len(evidence) != 0 {
		t.Errorf("%+v", c)
	}
}

func FuzzCompany(f *testing.F) {
	for _, seed := range []string{
		"<p>Acme was founded in Lisbon in 1998. Est. 1889</p>", "<p>1954 von Acme gegründet", "Acme GmbH & Co. KG<br>Musterstr. 1<br>10115 Berlin", "<footer>© 1998–2024 Acme, LLC (NASDAQ: ACME)",
		"Acme has 1.500+ employees. headquartered in Austin, Texas", "<address>M1 2AB<address>", `<div itemscope itemtype="http://schema.org/Hotel" itemref=a><p id=a itemprop=address>`,
	} {
		f.Add(seed, "/about")
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		in := pages("acme.com", acmeTitle+text, [2]string{path, text})
		c, evidence := company.Decide(in)
		for _, e := range evidence {
			if e.Confidence <= 0 || e.Confidence > 1 || e.Method == "" {
				t.Errorf("%+v", e)
			}
		}
		if c.FoundedYear != nil && (*c.FoundedYear < 1000 || *c.FoundedYear > 2026) || c.Employees != nil && *c.Employees < 1 || len(c.Industries) > 3 {
			t.Errorf("%s", summary(c))
		}
	})
}

func BenchmarkCompany(b *testing.B) {
	text := strings.Repeat("<p>Acme sold 12345 Things to people in 2024 and more. Our team of partners works since 2001.</p><footer>Acme Inc.<br>Some Street 12<br>10115 Berlin</footer>", 15)
	in := pages("acme.com", acmeTitle+text, [2]string{"/about", text})
	for b.Loop() {
		company.Decide(in)
	}
}

func TestDecide_Page_GivesCompany(t *testing.T) {
	full := extracttest.Organization(`"url":"https://acme.com","name":"Acme","foundingDate":"2011-05-01","numberOfEmployees":{"@type":"QuantitativeValue","minValue":"1,200"},
		"address":{"@type":"PostalAddress","addressLocality":"Lisbon","addressRegion":"Lisboa","addressCountry":"PT"},"tickerSymbol":"NASDAQ: ACME"`)
	c, evidence := company.Decide(extracttest.Read("acme.com", full))
	if c.FoundedYear == nil || *c.FoundedYear != 2011 || c.Employees == nil || *c.Employees != 1001 {
		t.Errorf("founded %v, employees %v", c.FoundedYear, c.Employees)
	}
	if c.Location == nil || *c.Location.City != "Lisbon" || *c.Location.Country != "Portugal" || *c.Location.CountryCode != "PT" {
		t.Errorf("location %+v, want Lisbon in Portugal", c.Location)
	}
	if c.Ticker == nil || *c.Ticker != "NASDAQ:ACME" || len(c.Tickers) != 1 || c.Tickers[0] != "ACME" || *c.Kind != "PUBLIC_COMPANY" {
		t.Errorf("ticker %v, tickers %v, kind %v", c.Ticker, c.Tickers, c.Kind)
	}
	if len(evidence) != 5 {
		t.Errorf("evidence %+v, want 5 pieces", evidence)
	}
	for name, x := range map[string]struct{ domain, fields, want string }{
		"nothing declared":        {"acme.com", ``, ""},
		"another's facts":         {"acme.com", extracttest.Organization(`"url":"https://other.example","name":"Other","foundingDate":"1999"`), ""},
		"government":              {"acme.gov.uk", ``, "GOVERNMENT_AGENCY"},
		"school":                  {"acme.edu", ``, "EDUCATIONAL"},
		"university":              {"acme.ac.uk", ``, "EDUCATIONAL"},
		"a company named gov":     {"gov.com", ``, ""},
		"charity":                 {"acme.org", `<script type="application/ld+json">{"@type":"NGO","name":"Acme","url":"/"}</script>`, "NON_PROFIT"},
		"employees, not a number": {"acme.com", extracttest.Organization(`"url":"https://acme.com","name":"Acme","numberOfEmployees":"many","foundingDate":"long ago","address":"Somewhere 5"`), ""},
	} {
		c, _ := company.Decide(extracttest.Read(x.domain, x.fields))
		kind := ""
		if c.Kind != nil {
			kind = *c.Kind
		}
		if kind != x.want || c.FoundedYear != nil || c.Employees != nil || c.Industries == nil || c.Tickers == nil {
			t.Errorf("%s: %+v, kind %q, want %q", name, c, kind, x.want)
		}
	}
	for country, code := range map[string]string{"DE": "DE", "Deutschland": "DE", "Germany": "DE", "usa": "US", "United Kingdom": "GB", "UK": "GB", "Narnia": "", "DEU": "DE"} {
		c, _ := company.Decide(extracttest.Read("acme.com", extracttest.Organization(`"url":"/","name":"Acme","address":{"addressLocality":"X","addressCountry":"`+country+`"}`)))
		got := ""
		if c.Location != nil && c.Location.CountryCode != nil {
			got = *c.Location.CountryCode
		}
		if got != code {
			t.Errorf("country %s: code %q, want %q", country, got, code)
		}
	}
}
