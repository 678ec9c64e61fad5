package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/extract/company"
	"letterhead/workers/crawl/industry"
	"letterhead/workers/crawl/postal"
	"letterhead/workers/crawl/sp500"
)

// pytickersymbols contains facts about the constituents of stock indices in twenty countries. Its texts are not used.
const (
	tickerSymbols        = "pytickersymbols"
	tickerSymbolsVersion = "1.17.10"
)

const publicCompany = "PUBLIC_COMPANY"

// readTickerSymbols returns a statement for each constituent with a site.
func readTickerSymbols(folder string) ([]statement, error) {
	about, err := os.ReadFile(filepath.Join(folder, tickerSymbols+"-"+tickerSymbolsVersion+".dist-info", "METADATA"))
	if err != nil {
		return nil, fmt.Errorf("read source: %w", err)
	}
	if !bytes.Contains(about, []byte("\nName: "+tickerSymbols+"\n")) ||
		!bytes.Contains(about, []byte("\nVersion: "+tickerSymbolsVersion+"\n")) {
		return nil, fmt.Errorf("%s does not contain %s %s", folder, tickerSymbols, tickerSymbolsVersion)
	}
	path := filepath.Join(folder, tickerSymbols, "indices_data.py")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read source: %w", err)
	}
	_, literal, ok := strings.Cut(string(text), "\nINDICES = ")
	if !ok {
		return nil, missing(path, "indices")
	}
	value, err := parsePython(literal)
	if err != nil {
		return nil, fmt.Errorf("read source %s: %w", path, err)
	}
	indices := asMap(value)
	seen := map[string]bool{} // a company is in several indices, with other texts
	var out []statement
	for _, name := range slices.Sorted(maps.Keys(indices)) {
		for _, c := range asList(asMap(indices[name])["companies"]) {
			if s, ok := listed(asMap(c)); ok && !seen[s.Domain+" "+s.Name] {
				seen[s.Domain+" "+s.Name] = true
				out = append(out, s)
			}
		}
	}
	return out, nil
}

func asMap(v any) map[string]any { m, _ := v.(map[string]any); return m }
func asList(v any) []any         { l, _ := v.([]any); return l }
func asText(v any) string        { s, _ := v.(string); return s }

// listed reads one constituent.
func listed(c map[string]any) (statement, bool) {
	facts := asMap(c["metadata"])
	site, _, _ := strings.Cut(asText(facts["website"]), " ")
	at, ok := placeOf("https://" + strings.ToLower(site))
	if !ok {
		return statement{}, false
	}
	s := statement{
		Source: tickerSymbols + " " + tickerSymbolsVersion, Method: "index constituent", Confidence: 0.85,
		Domain: at.Domain, Name: asText(c["name"]), Kind: publicCompany, Founded: foundedIn(facts["founded"]),
		Employees: headcount(asText(facts["employees"])), Location: seatIn(asText(facts["headquarters"])),
		Tickers: tickerIn(asText(facts["traded_as"])),
	}
	if _, curated := sp500.Of(at.Domain); curated {
		s.Founded = 0 // years that the curated list lacks are those of reorganizations
	}
	if article := asText(facts["wikipedia_url"]); article != "" {
		s.Links = []string{article}
	}
	var classes []string
	for _, name := range asList(c["industries"]) {
		if class, score := industry.BySubIndustry(asText(name)); class != nil && score == industry.SubIndustryScore {
			classes = append(classes, class.Name)
		}
	}
	s.Industry = soleClass(classes)
	return s, true
}

var (
	// founding matches a single founding date with its age, and nothing after it but a place.
	founding = regexp.MustCompile(`^(?:[A-Z][a-z]+ )?(?:\d{1,2}(?:, | [A-Z][a-z]+ ))?(\d{4}) ?[;(] ?\d+ years ago\)? \( ?(?:[A-Z][a-z]+ \d+, )?(\d{4})[-0-9]* \)(?: ,?(?:in )?([^()]*))?$`)
	// notBegun matches remarks that the date is that of a predecessor or of a reorganization.
	notBegun = regexp.MustCompile(`(?i)\b(as|via|merge\w*|spin\w*|split|from|reform\w*|\d{4})\b`)
	// counted matches a headcount with its year.
	counted = regexp.MustCompile(`^(?:c\. )?(\d{1,3}(?:,\d{3})+|\d+) \((?:[A-Za-z]+\.? )?(?:\d{1,2}, )?(20\d\d)\)$`)
	// building matches words of buildings, which precede the city.
	building = regexp.MustCompile(`(?i)\b(headquarters|towers?|cent(er|re)|campus|house|building|plaza|park|airport|square|field|street|road|county)\b`)
	// quoted matches the first listing on an exchange of the United States.
	quoted = regexp.MustCompile(`^(NYSE|Nasdaq) : ([A-Z]{1,5})\b`)
)

// foundedIn returns the year of a founding date, or 0 if the text has several dates or is about something else.
func foundedIn(v any) int {
	text := asText(v)
	m := founding.FindStringSubmatch(text)
	if m == nil || m[1] != m[2] || notBegun.MatchString(m[3]) {
		return 0
	}
	year, _ := strconv.Atoi(m[1])
	return year
}

// oldestCount is the first year of a headcount that is still used: buckets are wide.
const oldestCount = 2022

// headcount returns the lower bound of a headcount's bucket, or 0 if the headcount is unknown or old.
func headcount(text string) int {
	m := counted.FindStringSubmatch(text)
	if m == nil || m[2] < strconv.Itoa(oldestCount) {
		return 0
	}
	n, _ := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
	return company.Bucket(n)
}

// seatIn returns the city of the headquarters, or nil if the text has several places or names a building.
func seatIn(text string) *eventschemas.Location {
	if strings.ContainsAny(text, "()°0123456789") || building.MatchString(text) {
		return nil
	}
	text = strings.ReplaceAll(text, " ,", ",")
	if n := strings.Count(text, ","); n < 1 || n > 2 {
		return nil
	}
	last := strings.TrimRight(text[strings.LastIndexByte(text, ',')+1:], ".")
	text = strings.NewReplacer("U.S.", "United States", ", US", ", United States",
		", UK", ", United Kingdom").Replace(text)
	if strings.Contains(text, "England") || strings.Contains(text, "Tokyo") || strings.Contains(last, " and ") {
		return nil // parts of a city or of a country
	}
	city, state, country, ok := postal.Seat(text)
	if !ok || state == "" && country.Code == "US" && strings.Count(text, ",") > 1 {
		return nil // without its state, the city may be a borough
	}
	return country.Location(city, state)
}

// tickerIn returns the qualified symbol of a company whose main listing is in the United States.
func tickerIn(text string) []string {
	m := quoted.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	return []string{strings.ToUpper(m[1]) + ":" + m[2]}
}
