package sp500_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/industry"
	"letterhead/workers/crawl/postal"
	"letterhead/workers/crawl/sp500"
)

func TestFind_KnownCompany_ReturnsItsData(t *testing.T) {
	for domain, want := range map[string]struct {
		ticker, city, state, country, sub string
		founded                           int
	}{
		"apple.com":                {"NASDAQ:AAPL", "Cupertino", "CA", "US", "Technology Hardware, Storage & Peripherals", 1976},
		"microsoft.com":            {"NASDAQ:MSFT", "Redmond", "WA", "US", "Systems Software", 1975},
		"berkshirehathaway.com":    {"NYSE:BRK.B", "Omaha", "NE", "US", "Multi-Sector Holdings", 1839},
		"cboe.com":                 {"CBOE:CBOE", "Chicago", "IL", "US", "Financial Exchanges & Data", 1973},
		"chubb.com":                {"NYSE:CB", "Zurich", "", "CH", "Property & Casualty Insurance", 1985},
		"abc.xyz":                  {"NASDAQ:GOOGL", "Mountain View", "CA", "US", "Interactive Media & Services", 1998},
		"thewaltdisneycompany.com": {"NYSE:DIS", "Burbank", "CA", "US", "Movies & Entertainment", 1923},
	} {
		f, ok := sp500.Of(domain)
		if !ok || f.Ticker() != want.ticker || f.City != want.city || f.State != want.state || f.Country != want.country || f.SubIndustry != want.sub || f.FoundedYear != want.founded {
			t.Errorf("%s: %+v", domain, f)
		}
	}
	for _, domain := range []string{"example.com", "", "www.apple.com", "com"} {
		if f, ok := sp500.Of(domain); ok {
			t.Errorf("%q: %+v", domain, f)
		}
	}
	if f, ok := sp500.Of("Apple.com"); !ok || f.Name != "Apple Inc." {
		t.Error("domains are compared by case")
	}
}

func TestRows_AreWellFormed(t *testing.T) {
	text := testmust.Get(os.ReadFile("sp500.tsv"))(t)
	symbol := regexp.MustCompile(`^[A-Z]{1,5}(\.[A-Z])?$`)
	domains, symbols, rows := map[string]bool{}, map[string]bool{}, 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		rows++
		fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(fields) != 9 {
			t.Errorf("%d columns: %s", len(fields), line)
			continue
		}
		for d := range strings.SplitSeq(fields[0], ",") {
			registrable, err := publicsuffix.EffectiveTLDPlusOne(d)
			if err != nil || registrable != d || d != strings.ToLower(d) {
				t.Errorf("%q is not a registrable domain: %v", d, err)
			}
			if domains[d] {
				t.Errorf("%s is listed twice", d)
			}
			domains[d] = true
			f, ok := sp500.Of(d)
			if !ok || f.Name == "" || f.SubIndustry == "" || f.FoundedYear != 0 && (f.FoundedYear < 1600 || f.FoundedYear > 2024) {
				t.Errorf("%s: %+v", d, f)
			}
			if f.Country != "" {
				if _, ok := postal.ByCode(f.Country); !ok || f.City == "" {
					t.Errorf("%s: seat %q, country %q", d, f.City, f.Country)
				}
			}
			if f.State != "" && postal.State(f.Country, f.State) == "" {
				t.Errorf("%s: state %q", d, f.State)
			}
		}
		if !slices.Contains([]string{"NASDAQ", "NYSE", "CBOE", ""}, fields[1]) {
			t.Errorf("exchange %q", fields[1])
		}
		for s := range strings.SplitSeq(fields[2], ",") {
			if s != "" && (!symbol.MatchString(s) || symbols[s]) {
				t.Errorf("symbol %q is invalid or listed twice", s)
			}
			symbols[s] = true
		}
	}
	if rows < 450 || len(sp500.Domains()) != len(domains) {
		t.Errorf("%d rows, %d domains of %d", rows, len(sp500.Domains()), len(domains))
	}
}

func TestSubIndustries_HaveClasses(t *testing.T) {
	for _, d := range sp500.Domains() {
		f, _ := sp500.Of(d)
		if c, score := industry.BySubIndustry(f.SubIndustry); c == nil || score < industry.BroadScore {
			t.Errorf("%s: %q has none", d, f.SubIndustry)
		}
	}
	if c, _ := industry.BySubIndustry("Alchemy"); c != nil {
		t.Error("an unknown sub-industry has no class")
	}
}
