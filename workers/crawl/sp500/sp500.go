// Package sp500 contains facts about the companies of the S&P 500 index by the domains of their sites, from an embedded
// open data set. README.md names its source.
package sp500

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/postal"
	"letterhead/workers/crawl/table"
)

// Source names the data set, for evidence.
const Source = "S&P 500 constituents, datahub.io, PDDL 1.0, as of 2024"

// Fact is an entry about one listed company. Unknown fields are zero.
type Fact struct {
	Name        string
	Exchange    string   // NASDAQ, NYSE, CBOE
	Symbols     []string // of its shares, the main one first
	FoundedYear int
	City        string
	State       string // code
	Country     string // ISO 3166-1 alpha-2
	SubIndustry string // the Global Industry Classification Standard's
}

// Ticker returns the main symbol qualified by its exchange, such as NASDAQ:AAPL, or "" if either is unknown.
func (f Fact) Ticker() string {
	if f.Exchange == "" || len(f.Symbols) == 0 {
		return ""
	}
	return f.Exchange + ":" + f.Symbols[0]
}

// Location returns the company's seat, or nil if its city or country is unknown.
func (f Fact) Location() *eventschemas.Location {
	country, ok := postal.ByCode(f.Country)
	if !ok || f.City == "" {
		return nil
	}
	return country.Location(f.City, postal.State(f.Country, f.State))
}

//go:embed sp500.tsv
var sp500 string

var byDomain = sync.OnceValue(func() map[string]Fact {
	out := map[string]Fact{}
	for _, fields := range table.Must(sp500).Rows("", 9) {
		f := Fact{Name: fields[3], Exchange: fields[1], City: fields[5], State: fields[6], Country: fields[7],
			SubIndustry: fields[8]}
		f.FoundedYear, _ = strconv.Atoi(fields[4]) // empty means unknown
		if fields[2] != "" {
			f.Symbols = strings.Split(fields[2], ",")
		}
		for domain := range strings.SplitSeq(fields[0], ",") {
			out[domain] = f
		}
	}
	return out
})

// Of returns the facts about the company with a registrable domain.
func Of(domain string) (Fact, bool) {
	f, ok := byDomain()[strings.ToLower(domain)]
	return f, ok
}
