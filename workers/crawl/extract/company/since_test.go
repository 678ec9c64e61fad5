package company_test

import "testing"

// Each is what a company writes about itself.
func TestFounded_SinceInTenLanguages_IsRead(t *testing.T) {
	for text, want := range map[string]string{
		"<footer><p>Since 1965</p></footer>":                             "1965",
		"<h2>Family owned since 1965</h2>":                               "1965",
		"<p>Since 1965 we have made anvils for farms.</p>":               "1965",
		"<p>Dal 1968 produciamo mobili su misura.</p>":                   "1968",
		"<h2>Dal 1968</h2>":                                              "1968",
		"<p>Acme, mobili su misura dal 1968</p>":                         "1968",
		"<h2>Seit 2021</h2>":                                             "2021",
		"<p>Seit 1988 fertigen wir Möbel in Köln.</p>":                   "1988",
		"<p>Acme a été fondée en 1975 à Lyon.</p>":                       "1975",
		"<p>Fondée en 1975, la société Acme fabrique des enclumes.</p>":  "1975",
		"<p>Depuis 1975, nous fabriquons des enclumes.</p>":              "1975",
		"<h2>Desde 1990</h2>":                                            "1990",
		"<p>Desde 1990 fabricamos yunques.</p>":                          "1990",
		"<p>Desde 1990 produzimos bigornas.</p>":                         "1990",
		"<p>Мы работаем с 1998 года</p>":                                 "1998",
		"<p>Компания основана в 1998 году.</p>":                          "1998",
		"<p>С 1998 года мы производим двери.</p>":                        "1998",
		"<p>創業1923年</p>":                                                 "1923",
		"<p>創業 大正12年</p>":                                                "1923",
		"<p>公司成立于2003年</p>":                                              "2003",
		"<p>Sinds 1982</p>":                                              "1982",
		"<p>Sinds 1982 maken wij aambeelden.</p>":                        "1982",
		"<p>Od roku 1993 produkujemy meble.</p>":                         "1993",
		"<p>Działamy od roku 1993</p>":                                   "1993",
		"<p>Sedan 1955 tillverkar vi städ.</p>":                          "1955",
		"<p>Siden 1971</p>":                                              "1971",
		"<p>Since 2015 we have been a partner of the town's school.</p>": "-",
		"<p>Since 2020 we are ISO certified.</p>":                        "-",
		"<p>Seit 2019 sind wir Mitglied der Innung.</p>":                 "-",
		"<p>Since 1965 the town has had a bridge.</p>":                   "-",
		"<p>Seit 2020 haben wir neue Öffnungszeiten.</p>":                "-",
		"<p>Depuis 2018, nous proposons aussi la livraison.</p>":         "-",
		"<p>Dal 2019 siamo anche online.</p>":                            "-",
		"<p>Seit 2019 produzieren wir klimaneutral.</p>":                 "-",
		"<p>Since 2020 we have been producing a podcast.</p>":            "-",
		"<p>Seit 2018 stellen wir Lehrlinge ein.</p>":                    "-",
		"<p>Since 1998 prices have doubled.</p>":                         "-",
	} {
		if got := foundedOf("acme.com", "Acme", "/about", "</p>"+text+"<p>"); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
