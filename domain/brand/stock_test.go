package brand_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
)

func TestIsStock_IconOfSeveralBrands_OnlyIfTheyHaveNothingInCommon(t *testing.T) {
	t.Parallel()
	// Five companies that bought one template.
	strangers := func() []brand.Sighting {
		var out []brand.Sighting
		for _, name := range []string{"Karvel", "Ostrin", "Belfort", "Mendip", "Tarnow"} {
			domain := fmt.Sprintf("%c%s.com", name[0]+32, name[1:])
			out = append(out, brand.Sighting{Domain: domain, Name: name, At: domain})
		}
		return out
	}
	for name, c := range map[string]struct {
		change func(s []brand.Sighting) []brand.Sighting
		want   bool
	}{
		"five strangers":          {func(s []brand.Sighting) []brand.Sighting { return s }, true},
		"four strangers":          {func(s []brand.Sighting) []brand.Sighting { return s[:4] }, false},
		"one of five seen twice":  {func(s []brand.Sighting) []brand.Sighting { s[4] = s[0]; return s }, false},
		"none":                    {func([]brand.Sighting) []brand.Sighting { return nil }, false},
		"without names":           {func(s []brand.Sighting) []brand.Sighting { s[0].Name, s[1].Name = "", ""; return s }, true},
		"two with one name":       {func(s []brand.Sighting) []brand.Sighting { s[1].Name = "KARVEL!"; return s }, false},
		"a country in the name":   {func(s []brand.Sighting) []brand.Sighting { s[1].Name = "Karvel Polska"; return s }, false},
		"a country's domain":      {func(s []brand.Sighting) []brand.Sighting { s[1].Domain = "karvel.pl"; return s }, false},
		"a country in the domain": {func(s []brand.Sighting) []brand.Sighting { s[1].Domain = "karvel-polska.pl"; return s }, false},
		"a redirect":              {func(s []brand.Sighting) []brand.Sighting { s[1].At = "karvel.com"; return s }, false},
		"redirects to one site":   {func(s []brand.Sighting) []brand.Sighting { s[0].At, s[1].At = "group.eu", "group.eu"; return s }, false},
		"a link":                  {func(s []brand.Sighting) []brand.Sighting { s[3].Linked = []string{"x.com", "karvel.com"}; return s }, false},
		"a link back":             {func(s []brand.Sighting) []brand.Sighting { s[0].Linked = []string{"mendip.com"}; return s }, false},
		"links to the same others": {func(s []brand.Sighting) []brand.Sighting {
			s[0].Linked, s[1].Linked = []string{"x.com"}, []string{"x.com"}
			return s
		}, true},
		"a short name in another": {func(s []brand.Sighting) []brand.Sighting {
			s[0].Name, s[0].Domain, s[0].At = "Tar", "tar.com", "tar.com"
			return s
		}, true},
		"six with a pair": {func(s []brand.Sighting) []brand.Sighting {
			return append(s, brand.Sighting{Domain: "karvel.dk", Name: "Karvel", At: "karvel.dk"})
		}, true},
		// Two of the first three are alike; without the first there are five.
		"a link between two pairs": {func(s []brand.Sighting) []brand.Sighting {
			pair := brand.Sighting{Domain: "pair.com", Name: "Pair", At: "pair.com", Linked: []string{s[1].Domain, s[2].Domain}}
			return append([]brand.Sighting{s[0], pair}, s[1:]...)
		}, true},
		"groups of 16": {func([]brand.Sighting) []brand.Sighting {
			return slices.Concat(group("Karvel"), group("Ostrin"), group("Belfort"), group("Mendip"))
		}, false},
		"one brand in five domains": {func([]brand.Sighting) []brand.Sighting { return countries("de", "fr", "pl", "dk", "se") }, false},
	} {
		seen := c.change(strangers())
		if got := brand.IsStock(seen); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
		slices.Reverse(seen)
		if got := brand.IsStock(seen); got != c.want {
			t.Errorf("%s, in reverse: %t, want %t", name, got, c.want)
		}
	}
}

// group returns the brands of a company, which redirect to its site.
func group(name string) (out []brand.Sighting) {
	for i := range 16 {
		out = append(out, brand.Sighting{Domain: fmt.Sprintf("x%d%s.com", i, name), At: name + ".com"})
	}
	return out
}

// countries returns a brand with a domain in each of several countries.
func countries(endings ...string) (out []brand.Sighting) {
	for _, ending := range endings {
		out = append(out, brand.Sighting{Domain: "karvel." + ending, Name: "Karvel " + ending, At: "karvel." + ending})
	}
	return out
}

// The event lists the icons that were found even if the record omits them, so that a rebuild knows where they were
// seen.
func TestSucceedCrawl_WithoutTheStockIcon_SaysWhichIconWasFound(t *testing.T) {
	t.Parallel()
	found := &eventschemas.IconsByConvention{Assets: []string{strings.Repeat("a", 64)}, Linked: []string{"globex.com"}}
	with := record("Acme")
	with.Logos = []eventschemas.Logo{{Type: "icon", Formats: []eventschemas.Asset{{ID: found.Assets[0], Format: "png", Size: 9}}}}
	crawled := func(r eventschemas.Record) command {
		return func(b *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return b.SucceedCrawl(brand.SucceedCrawl{CrawlID: "c2", Record: r, FinalURL: "https://acme.com/", ByConvention: found})
		}
	}
	without := record("Acme")
	given(t, discovered(), requested("c1"), succeeded("c1", with), scheduled("c2")).
		when(crawled(without)).
		then(eventschemas.CrawlSucceeded{CrawlID: "c2", Record: without, FinalURL: "https://acme.com/", ByConvention: found}).
		shows(brand.StatusReady, "Acme")
	// Values that an operator set are not part of the crawled record.
	given(t, discovered(), requested("c1"), succeeded("c1", with), overriddenFact("logos", logosText(t, with)), scheduled("c2")).
		when(crawled(without)).
		keeps(found.Assets[0])
}

func logosText(t *testing.T, r eventschemas.Record) string {
	t.Helper()
	text, err := json.Marshal(r.Normalized().Logos)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// keeps checks that the first logo of the answer has an asset.
func (s *scenario) keeps(asset string) *scenario {
	s.t.Helper()
	logos := s.brand.View().Record.Logos
	if s.err != nil || len(logos) != 1 || logos[0].Formats[0].ID != asset {
		s.t.Fatalf("the answer has %+v (%v)", logos, s.err)
	}
	return s
}
