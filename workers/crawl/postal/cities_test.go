package postal_test

import (
	"testing"

	"letterhead/workers/crawl/postal"
)

func TestIsCity_NamesOfGeoNames_AreKnown(t *testing.T) {
	for name, country := range map[string]string{
		"Fennimore": "US", "München": "DE", "Munich": "DE", "MUNCHEN": "DE", "Wien 7": "AT", "Berlin-Mitte": "DE", "København K": "DK",
		"東京": "JP", "Москва": "RU", "São Paulo": "BR", "Köln": "DE", "Dublin 2": "IE", "Łódź": "PL", "Saint-Denis": "FR",
	} {
		if !postal.IsCity(country, name) {
			t.Errorf("%s is not in %s", name, country)
		}
	}
	for name, country := range map[string]string{"BMW": "IE", "Widgets": "GB", "Fennimore": "DE", "": "US", "Rights Reserved": "US"} {
		if postal.IsCity(country, name) {
			t.Errorf("%q is in %s", name, country)
		}
	}
	if c, ok := postal.OnlyCity("Fennimore"); !ok || c.Code != "US" {
		t.Errorf("Fennimore is in %v", c)
	}
	if _, ok := postal.OnlyCity("London"); ok {
		t.Error("only one country has a London")
	}
}

func TestSuits_Site_HasPlausibleCountries(t *testing.T) {
	for _, c := range []struct {
		country, domain, language, text string
		want                            bool
	}{
		{"IE", "acme.ie", "", "", true}, {"IE", "acme.com", "en", "", false}, {"IE", "acme.com", "en-IE", "", true},
		{"GB", "acme.com", "en", "", true}, {"AT", "acme.com", "de", "", true}, {"AT", "acme.de", "de", "", false},
		{"GB", "acme.com", "", "From £20", true}, {"PL", "acme.com", "", "20 zł", true}, {"JP", "acme.com", "en", "", false},
	} {
		country, _ := postal.ByCode(c.country)
		if got := country.Suits(c.domain, c.language, c.text); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
