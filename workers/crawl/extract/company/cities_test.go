package company_test

import (
	"testing"

	"letterhead/workers/crawl/extract/company"
)

// A place is a city of its country, or has a postal code of a country that is plausible for the site.
func TestLocation_PlaceOrPlausibleCode_IsNeeded(t *testing.T) {
	const en, ie = `<html lang=en>`, `<html lang=en-IE>`
	const event = `<script type="application/ld+json">{"@type":"MusicEvent","name":"Concert"}</script>`
	for text, want := range map[string]string{
		en + `<footer><p>Wheels for your BMW E91 X5X2</p></footer>`:                         "",
		en + `<footer><p>12 Main Street, Clonmel E91 X5X2</p></footer>`:                     "Clonmel IE",
		ie + `<footer><p>12 Main Street, Ballynowhere E91 X5X2</p></footer>`:                "Ballynowhere IE",
		en + `<p>Location: Fennimore</p>`:                                                   "Fennimore US",
		en + `<p>Location: Fennimore, Wisconsin</p>`:                                        "Fennimore US",
		en + `<dl><dt>Location</dt><dd>Fennimore</dd></dl>`:                                 "Fennimore US",
		`<html lang=de><p>Standort: Passau</p>`:                                             "Passau DE",
		en + `<p>Location: London</p>`:                                                      "",
		en + `<p>Location: Remote</p>`:                                                      "",
		en + `<p>Location: Fennimore</p><p>Location: Leeds</p>`:                             "",
		`<html lang=en-GB><p>Location: Reading room</p>`:                                    "",
		`<html lang=ru><p>Город: Москва</p>`:                                                "",
		en + `<h1>Leeds Canal Run</h1><p>When: 12 June 2027</p><p>Location: Fennimore</p>`:  "",
		en + `<p>Saturday, June 12</p><p>Location: Fennimore</p>`:                           "",
		en + `<p>Location: Fennimore</p><p>Doors: 19:00</p>`:                                "",
		en + `<dl><dt>Time</dt><dd>7 pm</dd><dt>Location</dt><dd>Fennimore</dd></dl>`:       "",
		en + `<p>Location: Fennimore</p><p>12/06/2027</p>`:                                  "",
		en + `<p>Sales manager</p><p>Location: Fennimore</p><p>Salary: 40,000</p>`:          "",
		en + `<p>Location: Fennimore</p><p>Open daily, 9:00 to 17:00</p>`:                   "Fennimore US",
		en + `<p>Location: Fennimore</p><p>Founded in May 1972 by 12 farmers</p>`:           "Fennimore US",
		en + `<p>Location: Fennimore</p><p>12 Market Street</p>`:                            "Fennimore US",
		en + event + `<p>Location: Fennimore</p>`:                                           "",
		`<html lang=de><p>Am 12. Juni</p><p>Standort: Passau</p>`:                           "",
		`<html lang=de><p>Termin: Samstag</p><p>Standort: Passau</p>`:                       "",
		`<html lang=fr><p>Le 3 août</p><p>Localisation: Annecy</p>`:                         "",
		`<html lang=fr><p>Localisation: Annecy</p>`:                                         "Annecy FR",
		en + `<p>Location: Acme</p>`:                                                        "",
		`<html lang=de><footer><p>Acme GmbH<br>Dorfweg 3<br>24999 Kleinstdorf</p></footer>`: "Kleinstdorf DE",
		en + `<footer><p>Acme<br>Dorfweg 3<br>24999 Kleinstdorf</p></footer>`:               "",
	} {
		c, _ := company.Decide(pages("acme.com", `<title>Acme</title>`+text))
		got := ""
		if l := c.Location; l != nil && l.City != nil {
			got = *l.City + " " + *l.CountryCode
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
