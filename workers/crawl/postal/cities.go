package postal

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/binary"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"sync"
)

// citiesFile has the CityKeys of GeoNames in ascending order, as the differences between them. The tests write it with
// -update-cities.
//
//go:embed cities.gz
var citiesFile []byte

const maxCityKeys = 4_000_000 // limits the names that are read from it

// cities are the CityKeys in ascending order.
var cities = sync.OnceValue(func() []uint32 {
	unpacked, err := gzip.NewReader(bytes.NewReader(citiesFile))
	if err != nil {
		panic("postal: cities.gz: " + err.Error())
	}
	data, err := io.ReadAll(unpacked)
	if err != nil {
		panic("postal: cities.gz: " + err.Error())
	}
	var out []uint32
	key := uint64(0)
	for len(data) > 0 && len(out) < maxCityKeys {
		gap, n := binary.Uvarint(data)
		if n <= 0 {
			panic("postal: cities.gz is damaged: write it with -update-cities of the tests")
		}
		key += gap
		out, data = append(out, uint32(key)), data[n:]
	}
	return out
})

// CityKey returns a hash of a city's name and its country's alpha-2 code. Two names have the same key with a probability
// of 1 in 4,000,000,000; a name that no city has shares a city's key with a probability of 1 in 4000.
func CityKey(country, name string) uint32 {
	sum := fnv.New64a()
	sum.Write([]byte(country + " " + folded(name)))
	return uint32(sum.Sum64() >> 32)
}

// IsCity reports whether a country has a city, town or village of a name, in any of the languages of GeoNames.
func IsCity(country, name string) bool {
	_, found := slices.BinarySearch(cities(), CityKey(country, name))
	return found && len(name) <= maxNameBytes
}

// InCity is IsCity for a name that a part of the city may follow: Wien 7, Berlin-Mitte, Paris (15e).
func InCity(country, name string) bool {
	least := len(name) / 3
	for name != "" && len(name) >= least && len(name) <= maxNameBytes {
		if IsCity(country, name) {
			return true
		}
		name = name[:max(0, strings.LastIndexAny(name, " -/(,"))]
	}
	return false
}

// OnlyCity returns the only country that has a city of a name; ok is false if none or several have.
func OnlyCity(name string) (out Country, ok bool) {
	for _, c := range gazette().all {
		if !IsCity(c.Code, name) {
			continue
		}
		if ok {
			return Country{}, false
		}
		out, ok = c, true
	}
	return out, ok
}

var (
	spokenIn   = tables.Map("spokenIn")   // the countries of languages
	currencies = tables.Map("currencies") // the countries of currency signs
)

// Suits reports whether a country is plausible for a site: by the ending of its domain, the language of its page, or
// the currencies in its text.
func (c Country) Suits(domain, language, text string) bool {
	if near, ok := OfDomain(domain); ok {
		return near.Code == c.Code
	}
	if near, ok := OfLanguage(language); ok && near.Code == c.Code {
		return true
	}
	spoken, _, _ := strings.Cut(strings.ToLower(language), "-")
	if strings.Contains(spokenIn[spoken], c.Code) {
		return true
	}
	for sign, countries := range currencies {
		if strings.Contains(countries, c.Code) && strings.Contains(text, sign) {
			return true
		}
	}
	return false
}
