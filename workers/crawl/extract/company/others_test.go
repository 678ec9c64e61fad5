package company_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/company"
	"letterhead/workers/crawl/extract/extracttest"
)

// foundedOf returns the founding year on a page other than the home page, or "-" for none.
func foundedOf(domain, title, path, text string) string {
	c, _ := company.Decide(pages(domain, title, [2]string{path, "<p>" + text + "</p>"}))
	if c.FoundedYear == nil {
		return "-"
	}
	return strconv.Itoa(*c.FoundedYear)
}

func TestFounded_Event_IsIgnored(t *testing.T) {
	for text, want := range map[string]string{
		"Acme opened its flagship store in 2019.":                                   "-",
		"Acme started shipping in 2021.":                                            "-",
		"The Acme Prize, established in 2004, honors smiths.":                       "-",
		"Acme Stadium, opened 2012, seats 900.":                                     "-",
		"Notre collection créée en 2023 est là.":                                    "-",
		"Acme hat 2021 mit Globex ein Joint Venture gegründet.":                     "-",
		"Jane started with us in 2015.":                                             "-",
		"Our CEO Jane founded Globex in 2009.":                                      "-",
		"Jane began his career in 1987.":                                            "-",
		"We opened our second shop in 2019.":                                        "-",
		"We opened our second shop in 2019. Acme was founded in 1998.":              "1998",
		"A subsidiary of Acme was founded in 2009.":                                 "-",
		"Globex, which we bought, was founded in 1950.":                             "-",
		"Founded in 2009, Globex is now a part of Acme.":                            "-",
		"Im Jahr 2009 wurde die Tochter Globex von Acme gegründet.":                 "-",
		"In Jahren wie 1990 gegründet zu werden ist schwer.":                        "-",
		"Acme's first plant was established in 1960.":                               "-",
		"Acme started in 1998.":                                                     "1998",
		"Jane Doe founded Acme in 1998.":                                            "1998",
		"1954 wurde die Acme GmbH in Köln gegründet.":                               "1954",
		"Acme makes anvils and was founded in 1998.":                                "1998",
		"Acme, a maker of anvils, was founded in 1998.":                             "1998",
		"Founded in 1898 as a mill, Acme has made anvils ever since.":               "1898",
		"Gegründet 1958. 84 Mitarbeiter.":                                           "1958",
		"Maison fondée en 1976.":                                                    "1976",
		"Acme was founded in 1998. In Leeds, Acme was founded in 1990, others say.": "1990",
		"公司成立于2002年，位于洛阳。":                                                          "2002",
		"我们的子公司成立于2002年。":                                                           "-",
		"<table><tr><th>Founded</th><td>1998</td></tr></table>":                     "1998",
		"<dl><dt>設立</dt><dd>昭和43年4月</dd></dl>":                                      "1968",
		"<dl><dt>創業</dt><dd>明治20年（1887年）</dd></dl>":                                 "1887",
		"<dl><dt>設立</dt><dd>平成元年</dd></dl>":                                         "1989",
		"Acme创建于2010年，是一家工厂。":                                                       "2010",
		"회사는 2013년에 설립되었습니다.":                                                       "2013",
		"Acme 1994 yılında kurulmuştur.":                                            "1994",
		"Acme didirikan pada tahun 1969 oleh Ibu Sulastri.":                         "1969",
		"Gegründet wurde die Acme GmbH im Frühling 2008 von Freunden.":              "2008",
		"Somos una empresa familiar fundada en 1978.":                               "1978",
		"La nostra cantina è stata fondata nel 1931.":                               "1931",
		"Our city was founded in 1200.":                                             "-",
		"<p>Founded: 1998</p><p>Founded: 2009</p>":                                  "-", // two companies
	} {
		if got := foundedOf("acme.com", acmeTitle, "/about", text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestFounded_Since_NeedsCompanyAsSubject(t *testing.T) {
	for text, want := range map[string]string{
		"<p>Happy user since 2017</p>": "-", "<p>Prices unchanged since 2020</p>": "-", "<p>Seit 2021 klimaneutral</p>": "-", "<p>Das Museum ist klimaneutral seit 2021</p>": "-",
		"<p>12:00 EST 2023</p>": "-", "<p>EST 2023</p>": "-", "<h2>Mayor in office since 2017</h2>": "-", "<p>Acme customer since 2017</p>": "-", "<p>We have used Acme since 2017.</p>": "-",
		"<p>Seit 2000 verleihen wir einen Preis</p>": "-", "<p>Anno 1800</p>": "-", "<p>Alle Kanzler seit 1945</p>": "-",
		"<p>Acme has made anvils since 1898.</p>": "1898", "<p>Acme – seit 1898</p>": "1898", "<p>We have made anvils since 1898.</p>": "1898", "<footer><p>Independent since 1898</p></footer>": "1898",
		"<header><b>Fine anvils since 1898</b></header>": "1898", "<p>Since 1898</p>": "1898", "<p>The service has existed since 1998.</p>": "1998",
	} {
		c, _ := company.Decide(pages("acme.com", acmeTitle+text))
		if got := shown(c.FoundedYear); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestFounded_Brand_IsWholeWord(t *testing.T) {
	const title = `<title>ING</title><meta property="og:site_name" content="ING">`
	for text, want := range map[string]string{
		"Marketing house Globex was founded in 1999.": "-",
		"Nothing was founded in 1999.":                "-",
		"ING was founded in 1991.":                    "1991",
	} {
		if got := foundedOf("ing.com", title, "/about", text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	in := pages("ing.com", title, [2]string{"/about", "<p>The trading house Globex (NASDAQ: GLBX) is headquartered in Austin, Texas.</p><p>Our marketing partner has 500 employees.</p><p>The housing trust is a charity.</p>"})
	if c, _ := company.Decide(in); summary(c) != "- - - nowhere -" {
		t.Errorf("%s", summary(c))
	}
}

func TestFounded_FutureYear_IsIgnored(t *testing.T) {
	for _, x := range []struct {
		now  time.Time
		text string
		want string
	}{
		{time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), "Acme was founded in 2027.", "-"},
		{time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), "Acme was founded in 2026.", "2026"},
		{time.Date(2030, 5, 1, 0, 0, 0, 0, time.UTC), "Acme was founded in 2028.", "2028"},
		{time.Time{}, "Acme was founded in 2091.", "-"},
		{time.Time{}, `Acme` + extracttest.Organization(`"url":"/","name":"Acme","foundingDate":"2091-01-01"`), "-"},
	} {
		in := pages("acme.com", acmeTitle+"<p>"+x.text+"</p>")
		in.Now = x.now
		c, _ := company.Decide(in)
		got := "-"
		if c.FoundedYear != nil {
			got = strconv.Itoa(*c.FoundedYear)
		}
		if got != x.want {
			t.Errorf("%q at %v: %s, want %s", x.text, x.now, got, x.want)
		}
	}
}

// Facts on a page about partners, customers, hosts and authorities are not the brand's.
func TestDecide_FactsAboutOthers_AreIgnored(t *testing.T) {
	partner := `<div itemscope itemtype="https://schema.org/Organization"><b itemprop=name>Globex</b>%s<p itemprop=address itemscope itemtype="https://schema.org/PostalAddress"><i itemprop=addressLocality>Wien</i><i itemprop=addressCountry>AT</i></p><i itemprop=foundingDate>1950</i></div>`
	for name, x := range map[string]struct {
		in   extract.Input
		want string
	}{
		"a lone organization in microdata": {pages("acme.com", acmeTitle+`<h2>Our partner</h2>`+strings.Replace(partner, "%s", "", 1)), "- - - nowhere -"},
		"an entry of a directory":          {pages("acme.com", acmeTitle+strings.Replace(partner, "%s", `<a itemprop=url href="/stores/globex">x</a>`, 1)), "- - - nowhere -"},
		"the front's own":                  {pages("acme.com", acmeTitle+strings.Replace(partner, "%s", `<a itemprop=url href="/">x</a>`, 1)), "1950 - - Wien - AT -"},
		"employees of a customer":          {pages("acme.com", acmeTitle, [2]string{"/about", "<p>Our customer Globex has 500 employees.</p>"}), "- - - nowhere -"},
		"employees of whom we advise":      {pages("acme.com", acmeTitle, [2]string{"/about", "<p>Wir beraten die Globex AG mit ihren 500 Mitarbeitern.</p>"}), "- - - nowhere -"},
		"employees, a fraction":            {pages("acme.com", acmeTitle+extracttest.Organization(`"url":"/","name":"Acme","numberOfEmployees":"250.5"`)), "- 201 - nowhere -"},
		"employees, millions":              {pages("acme.com", acmeTitle+extracttest.Organization(`"url":"/","name":"Acme","numberOfEmployees":"1,5 Mio"`)), "- 10001 - nowhere -"},
		"employees, a range":               {pages("acme.com", acmeTitle+extracttest.Organization(`"url":"/","name":"Acme","numberOfEmployees":"51-200"`)), "- 51 - nowhere -"},
		"another's seat":                   {pages("acme.com", acmeTitle, [2]string{"/about", "<p>Acme works with Globex, headquartered in Austin, Texas.</p>"}), "- - - nowhere -"},
		"our seat":                         {pages("acme.com", acmeTitle, [2]string{"/about", "<p>Our headquarters are in Austin, Texas.</p>"}), "- - - Austin Texas US -"},
		"a competitor's ticker":            {pages("acme.com", acmeTitle, [2]string{"/about", "<p>Acme's competitor Globex Inc. (NASDAQ: GLBX) makes springs.</p>"}), "- - - nowhere -"},
		"a friend's charity number":        {pages("acme.com", acmeTitle+"<footer><p>Acme loves the Globex Trust, registered charity number 123456.</p></footer>"), "- - - nowhere -"},
		"our charity number":               {pages("acme.com", acmeTitle+"<footer><p>Acme is a registered charity (no. 12). Registered charity number 123456.</p></footer>"), "- - NON_PROFIT nowhere -"},
		"a processor on a privacy page":    {pages("acme.de", acmeTitle, [2]string{"/legal/privacy", "<p>Globex Analytics GmbH<br>Musterstr. 1<br>10115 Berlin</p>"}), "- - - nowhere -"},
		"a stranger in an imprint":         {pages("acme.de", acmeTitle, [2]string{"/impressum", "<p>Globex Analytics GmbH<br>Abteilung Daten<br>Musterstr. 1<br>10115 Berlin</p>"}), "- - - nowhere -"},
		"a court in an imprint":            {pages("acme.de", acmeTitle, [2]string{"/impressum", "<p>Registergericht: Amtsgericht Charlottenburg<br>Amtsgerichtsplatz 1<br>14057 Berlin</p>"}), "- - - nowhere -"},
		"a court behind the address":       {pages("acme.de", acmeTitle, [2]string{"/impressum", "<p>Acme GmbH, Musterstr. 1, 10115 Berlin, Amtsgericht Charlottenburg</p>"}), "- - PRIVATELY_HELD Berlin - DE -"},
		"a year as a postal code":          {pages("acme.ch", acmeTitle+"<footer><p>Weg 1</p><p>© 2023 All rights reserved</p></footer>"), "- - - nowhere -"},
		"a legal form as a state":          {pages("elsol.com", `<title>El Sol</title><footer><p>EL SOL S.A. 1918 - 2022</p></footer>`), "- - - nowhere -"},
		"a country's code as a region":     {pages("acme.de", acmeTitle+extracttest.Organization(`"url":"/","name":"Acme","address":{"addressLocality":"Berlin","addressRegion":"DE","postalCode":"12205"}`)), "- - - Berlin - DE -"},
		"Germany's code is no state":       {pages("acme.com", acmeTitle+"<footer><p>Acme, Musterstr. 1, Berlin, DE 10115</p></footer>"), "- - - nowhere -"},
		"a quarter of a city":              {pages("acme.com", acmeTitle+"<address>1200 Levee Street SE, Washington, DC 20003</address>"), "- - - Washington District of Columbia US -"},
		"a state that is a form":           {pages("acme.com", acmeTitle+"<footer><p>12 Wide Street</p><p>Las Vegas, NV 89101</p></footer>"), "- - - Las Vegas Nevada US -"},
		"half of the domain":               {pages("hammerschmidt-auto.de", `<title>Neuwagen</title><footer><p>Autohaus Hammerschmidt GmbH · Weg 6 · 94315 Straubing</p></footer>`), "- - - Straubing - DE -"},
		"a country within the city":        {pages("acme.com", acmeTitle+extracttest.Organization(`"url":"/","name":"Acme","address":{"addressLocality":"Weßling, Germany"}`)), "- - - Weßling - DE -"},
	} {
		c, _ := company.Decide(x.in)
		if got := summary(c); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

func TestTopicOf_Words_GiveTopic(t *testing.T) {
	for _, x := range []struct {
		path, text string
		want       company.Topic
		ok         bool
	}{
		{"/over-het-bedrijf", "", company.About, true},
		{"/a-nossa-historia", "", company.About, true},
		{"/over", "Over het bedrijf", company.About, true},
		{"/x", "L’azienda", company.About, true},
		{"/x", "Datenschutz & Impressum", company.Imprint, true},
		{"/x", "Shop|Blog|Jobs|Impressum", company.Imprint, true},
		{"/x", "Shop|Blog|Jobs|Team|Impressum", 0, false}, // a menu
		{"/x", "Shop", 0, false},
	} {
		topic, ok := company.TopicOf(&url.URL{Path: x.path}, x.text)
		if ok != x.ok || ok && topic != x.want {
			t.Errorf("%s, %q: %v, %v", x.path, x.text, topic, ok)
		}
	}
}

func TestDecide_WordWithinASegment_IsNoRole(t *testing.T) {
	for path, want := range map[string]string{
		"/allocations":       "Munich",
		"/tagblatt":          "Munich",
		"/de/agb.html":       "nowhere",
		"/privacy-policy":    "nowhere",
		"/Datenschutz/":      "nowhere",
		"/en/contact-us.php": "nowhere", // another office, perhaps
	} {
		c, _ := company.Decide(pages("acme.com", acmeTitle, [2]string{path, "<p>Acme is headquartered in Munich, Germany.</p>"}))
		got := "nowhere"
		if c.Location != nil {
			got = *c.Location.City
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
