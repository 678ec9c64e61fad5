package starter_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/net/publicsuffix"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/searchindex/searchindextest"
	"letterhead/internal/svg"
	"letterhead/internal/testmust"
	"letterhead/starter"
)

// fewest is the minimum number of brands that a new installation must serve without a network.
const fewest = 2500

var update = flag.Bool("update", false, "write the files that are generated from the index")

// load returns all brands.
func load(t testing.TB) []starter.Brand {
	t.Helper()
	var all []starter.Brand
	testmust.Succeed(t, starter.Each(func(b starter.Brand) error { all = append(all, b); return nil }))
	return all
}

func TestIndex_IsLargeEnough(t *testing.T) {
	all := load(t)
	if len(all) != starter.Count || starter.Count < fewest {
		t.Errorf("%d brands, want Count, %d, and at least %d", len(all), starter.Count, fewest)
	}
	names := map[string]bool{}
	for _, b := range all {
		names[strings.ToLower(*b.Record.Name)] = true
	}
	if len(names) < fewest {
		t.Errorf("%d different names, want at least %d", len(names), fewest)
	}
}

func TestDomains_RegistrableAndSorted(t *testing.T) {
	last := ""
	for _, b := range load(t) {
		if b.Domain <= last {
			t.Errorf("%s follows %s", b.Domain, last)
		}
		last = b.Domain
		if domain, err := publicsuffix.EffectiveTLDPlusOne(b.Domain); err != nil || domain != b.Domain {
			t.Errorf("%s is not registrable: %s, %v", b.Domain, domain, err)
		}
		if _, icann := publicsuffix.PublicSuffix(b.Domain); !icann && !strings.Contains(b.Domain, ".") {
			t.Errorf("%s has no known suffix", b.Domain)
		}
	}
}

func TestKnownBrands_HaveRightNames(t *testing.T) {
	got := map[string]string{}
	for _, b := range load(t) {
		got[b.Domain] = *b.Record.Name
	}
	for domain, want := range map[string]string{
		// Hosting sites have their own brand, not that of a user.
		"github.com": "GitHub", "gitlab.com": "GitLab", "bitbucket.org": "Bitbucket", "figma.com": "Figma",
		"youtube.com": "YouTube", "facebook.com": "Facebook", "google.com": "Google", "npmjs.com": "npm",
		"dropbox.com": "Dropbox", "archive.org": "Internet Archive", "steampowered.com": "Steam", "medium.com": "Medium",
		"apple.com": "Apple", "jetbrains.com": "JetBrains", "atlassian.com": "Atlassian",
		"wikimedia.org": "Wikimedia Foundation", "brandfolder.com": "Brandfolder", "frontify.com": "Frontify",
		// Companies whose name and domain differ.
		"aa.com": "American Airlines", "bk.com": "Burger King", "who.int": "World Health Organization",
		"vw.com": "Volkswagen", "att.com": "AT&T", "tfl.gov.uk": "Transport for London",
		"spotify.com": "Spotify", "stripe.com": "Stripe", "mozilla.org": "Mozilla",
	} {
		if got[domain] != want {
			t.Errorf("%s is %q, want %q", domain, got[domain], want)
		}
	}
	// Owners of several brands without one that is named like the domain, a brand whose icon has a separate
	// license (apache.org), hosting sites, archives and press kits.
	for _, domain := range []string{
		"apache.org",
		"stellantis.com", "united-internet.de", "alibabagroup.com", "primefaces.com", "withgoogle.com", "notion.site",
		"wikipedia.org", "amazonaws.com", "cloudfront.net", "githubusercontent.com", "gstatic.com", "brandpad.io",
		"widencollective.com", "dpdhl-brands.com", "facebookbrand.com", "atlassian.design", "gojek.design", "w3.org",
		"seeklogo.com", "europa.eu", "googleusercontent.com", "readthedocs.io", "github.io", "netlify.app",
		"cncf-branding.netlify.app", "partnermarketinghub.withgoogle.com", "adonisjs.notion.site", "web.archive.org",
	} {
		if name, ok := got[domain]; ok {
			t.Errorf("%s is %q, want none", domain, name)
		}
	}
}

var (
	hexPattern = regexp.MustCompile(`^#[0-9a-f]{6}$`)
	idPattern  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	// hexAnywhere finds colors; references contain a letter beyond f.
	hexAnywhere = regexp.MustCompile(`#[0-9a-f]{3,6}\b`)
)

func TestRecords_ContainOnlySourceData(t *testing.T) {
	for _, b := range load(t) {
		r := b.Record
		if r.Name == nil || strings.TrimSpace(*r.Name) == "" || strings.TrimSpace(*r.Name) != *r.Name {
			t.Errorf("%s: name %v", b.Domain, r.Name)
		}
		if r.Complete || r.NSFW || r.Restriction != nil || r.LongDescription != nil || r.OGImage != nil || len(r.Fonts)+len(r.Images) != 0 {
			t.Errorf("%s: the record contains more than the sources have", b.Domain)
		}
		if r.QualityScore <= 0 || r.QualityScore > 0.70 {
			t.Errorf("%s: quality %v, want at most 0.70, the maximum for a name, logos and colors", b.Domain, r.QualityScore)
		}
		if len(b.Evidence) == 0 {
			t.Errorf("%s: no evidence", b.Domain)
		}
		sources := map[string]bool{}
		for _, e := range b.Evidence {
			if !strings.Contains(starter.Version, e.Source) && !strings.HasPrefix(e.Source, "S&P 500 ") || e.Confidence <= 0 || e.Confidence > 1 {
				t.Errorf("%s: evidence %+v", b.Domain, e)
			}
			sources[e.Field] = true
		}
		for field, known := range map[string]bool{
			"description": r.Description != nil, "links": len(r.Links) > 0, "company.founded_year": r.Company.FoundedYear != nil,
			"company.employees": r.Company.Employees != nil, "company.kind": r.Company.Kind != nil, "company.location": r.Company.Location != nil,
			"company.ticker": r.Company.Ticker != nil, "company.industries": len(r.Company.Industries) > 0,
		} {
			if known != sources[field] {
				t.Errorf("%s: %s is known: %t, and has evidence: %t", b.Domain, field, known, sources[field])
			}
		}
	}
}

// The shares are those of docs/starter.md.
func TestRecords_AreDescribed(t *testing.T) {
	got := map[string]int{}
	count := func(field string, known bool) {
		if known {
			got[field]++
		}
	}
	for _, b := range load(t) {
		r, c := b.Record, b.Record.Company
		count("description", r.Description != nil)
		count("three links", len(r.Links) >= 3)
		count("link", len(r.Links) > 0)
		count("founded", c.FoundedYear != nil)
		count("employees", c.Employees != nil)
		count("kind", c.Kind != nil)
		count("location", c.Location != nil)
		count("ticker", c.Ticker != nil)
		count("industry", len(c.Industries) > 0)
	}
	for field, least := range map[string]int{
		"description": 459, "three links": 94, "link": 612, "founded": 105, "employees": 100, "kind": 127, "location": 92, "ticker": 78, "industry": 393,
	} {
		if got[field] < least {
			t.Errorf("%d records have %s, want at least %d", got[field], field, least)
		}
	}
}

func TestFacts_FollowContract(t *testing.T) {
	for _, b := range load(t) {
		r, c := b.Record, b.Record.Company
		if d := r.Description; d != nil && (utf8.RuneCountInString(*d) < 12 || utf8.RuneCountInString(*d) > 300 || strings.TrimSpace(*d) != *d || strings.ContainsAny(*d, "\n<>")) {
			t.Errorf("%s: description %q", b.Domain, *d)
		}
		seen := map[string]bool{}
		for _, l := range r.Links {
			u, err := url.Parse(l.URL)
			if err != nil || u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") == "" ||
				!linkHosts[l.Name].MatchString(u.Host) || seen[l.Name] {
				t.Errorf("%s: link %+v", b.Domain, l)
			}
			seen[l.Name] = true
		}
		if y := c.FoundedYear; y != nil && (*y < 1600 || *y > 2026) {
			t.Errorf("%s: founded in %d", b.Domain, *y)
		}
		if l := c.Location; l != nil && (l.City == nil || l.CountryCode == nil || len(*l.CountryCode) != 2) {
			t.Errorf("%s: location %s", b.Domain, asJSON(t, l))
		}
		if (c.Ticker == nil) != (len(c.Tickers) == 0) || c.Ticker != nil && (!strings.HasSuffix(*c.Ticker, ":"+c.Tickers[0]) || !tickerPattern.MatchString(*c.Ticker)) ||
			!slices.Equal(c.Tickers, eventschemas.BareSymbols(c.Tickers)) {
			t.Errorf("%s: tickers %s", b.Domain, asJSON(t, c))
		}
	}
}

var (
	tickerPattern = regexp.MustCompile(`^[A-Z]+:[A-Z0-9.]+$`)
	// linkHosts are the hosts of the profiles of each network.
	linkHosts = map[string]*regexp.Regexp{
		"twitter": regexp.MustCompile(`^x\.com$`), "linkedin": regexp.MustCompile(`^www\.linkedin\.com$`), "github": regexp.MustCompile(`^github\.com$`),
		"instagram": regexp.MustCompile(`^www\.instagram\.com$`), "facebook": regexp.MustCompile(`^www\.facebook\.com$`),
		"youtube": regexp.MustCompile(`^www\.youtube\.com$`), "tiktok": regexp.MustCompile(`^www\.tiktok\.com$`),
		"pinterest": regexp.MustCompile(`^www\.pinterest\.com$`), "threads": regexp.MustCompile(`^www\.threads\.net$`),
		"medium": regexp.MustCompile(`^medium\.com$`), "wikipedia": regexp.MustCompile(`^[a-z]+\.wikipedia\.org$`),
	}
)

// Facts that people know, and entries of the sources that are about somebody else.
func TestKnownBrands_HaveRightFacts(t *testing.T) {
	got := map[string]eventschemas.Record{}
	for _, b := range load(t) {
		got[b.Domain] = b.Record
	}
	for domain, want := range map[string]int{"apple.com": 1976, "netflix.com": 1997, "siemens.com": 1847, "uber.com": 2009} {
		if y := got[domain].Company.FoundedYear; y == nil || *y != want {
			t.Errorf("%s: founded in %v, want %d", domain, y, want)
		}
	}
	for domain, want := range map[string]string{"mastercard.com": "US", "adyen.com": "NL", "accenture.com": "IE"} {
		if l := got[domain].Company.Location; l == nil || *l.CountryCode != want {
			t.Errorf("%s: location %s, want %s", domain, asJSON(t, l), want)
		}
	}
	for domain, want := range map[string]string{"stripe.com": "Payments", "starbucks.com": "Restaurants & Cafés", "bmw.com": "Car Manufacturers"} {
		if i := got[domain].Company.Industries; len(i) != 1 || i[0].Name != want {
			t.Errorf("%s: industries %s, want %s", domain, asJSON(t, i), want)
		}
	}
	for _, domain := range []string{"archive.org", "buffer.com", "allegro.pl"} { // other companies have pages there
		if d := got[domain].Description; d != nil {
			t.Errorf("%s: %q", domain, *d)
		}
	}
	for _, domain := range []string{"magic.link", "wyze.com", "globus.de"} { // other accounts have the name
		for _, l := range got[domain].Links {
			if l.Name == "github" {
				t.Errorf("%s: %s", domain, l.URL)
			}
		}
	}
}

func TestColors_FollowContract(t *testing.T) {
	for _, b := range load(t) {
		count := map[string]int{}
		for i, c := range b.Record.Colors {
			count[c.Type]++
			if !hexPattern.MatchString(c.Hex) {
				t.Errorf("%s: color %q", b.Domain, c.Hex)
				continue
			}
			if want := brightness(c.Hex); c.Brightness != want {
				t.Errorf("%s: brightness of %s is %d, want %d", b.Domain, c.Hex, c.Brightness, want)
			}
			if (c.Type == "accent") != (i == 0) {
				t.Errorf("%s: color %d is %s", b.Domain, i, c.Type)
			}
		}
		if count["accent"] != 1 || count["dark"] > 1 || count["light"] > 1 {
			t.Errorf("%s: colors %v", b.Domain, count)
		}
	}
}

// brightness is the luma of a color with the weights of ITU-R BT.709, from 0 to 255.
func brightness(hex string) int {
	v, _ := strconv.ParseUint(hex[1:], 16, 32)
	r, g, b := float64(v>>16), float64(v>>8&255), float64(v&255)
	return int(math.Round(0.2126*r + 0.7152*g + 0.0722*b))
}

func TestLogos_AreSanitizedVectors(t *testing.T) {
	for _, b := range load(t) {
		if len(b.Record.Logos) == 0 || len(b.Record.Logos) != len(b.SVG) {
			t.Fatalf("%s: %d logos and %d files", b.Domain, len(b.Record.Logos), len(b.SVG))
		}
		for i, l := range b.Record.Logos {
			file := l.Formats[0]
			if len(l.Formats) != 1 || file.Format != "svg" || !idPattern.MatchString(file.ID) || file.Size != int64(len(b.SVG[i])) {
				t.Errorf("%s: logo %d is %+v", b.Domain, i, l)
			}
			clean, _, err := svg.Sanitize(b.SVG[i])
			if err != nil || !bytes.Equal(clean, b.SVG[i]) {
				t.Errorf("%s: the sanitizer changes logo %d (%v); run the generator again", b.Domain, i, err)
			}
		}
	}
}

// Reversed logos come last. Each is white or black, and the brand has an original logo of the same type.
func TestReversedLogos_FollowOriginals(t *testing.T) {
	brands := 0
	for _, b := range load(t) {
		own, reversed := map[string]bool{}, 0
		for i, l := range b.Record.Logos {
			if !l.IsReversed() {
				own[l.Type] = true
				if reversed > 0 || len(l.Tags) != 0 {
					t.Errorf("%s: the original logo %d is %+v", b.Domain, i, l)
				}
				continue
			}
			reversed++
			ink := map[string]string{"light": "#ffffff", "dark": "#000000"}[*l.Theme]
			for _, color := range hexAnywhere.FindAllString(string(b.SVG[i]), -1) {
				if color != ink {
					t.Errorf("%s: the reversed logo %d with theme %s has the color %s, want %v", b.Domain, i, *l.Theme, color, ink)
				}
			}
			if !own[l.Type] {
				t.Errorf("%s: a reversed %s has no original", b.Domain, l.Type)
			}
		}
		if reversed > 0 {
			brands++
		}
		if want, named := map[string]bool{"github.com": true, "apple.com": true, "ibm.com": true, "snapchat.com": true, "google.com": false, "spotify.com": false}[b.Domain]; named && want != (reversed > 0) {
			t.Errorf("%s has %d reversed logos", b.Domain, reversed)
		}
	}
	if brands < 500 || brands > 700 {
		t.Errorf("%d brands have reversed logos, want at least 500 and at most 700", brands)
	}
}

func TestBrands_AreValidEvents(t *testing.T) {
	for _, b := range load(t) {
		events, err := brand.New(b.Domain).Import(brand.Import{Source: starter.Version, Record: b.Record, Evidence: b.Evidence})
		if err != nil {
			t.Fatalf("%s: %v", b.Domain, err)
		}
		if got := events[0].(eventschemas.BrandImported).Record; !reflect.DeepEqual(got, b.Record.Normalized()) {
			t.Errorf("%s: the brand keeps %+v of %+v", b.Domain, got, b.Record)
		}
		enc, err := eventschemas.Encode(events[0])
		if err != nil {
			t.Fatalf("%s: %v", b.Domain, err)
		}
		if err := eventschemas.ValidateJSON(enc.Type, enc.SchemaVersion, enc.Data); err != nil {
			t.Errorf("%s: %v", b.Domain, err)
		}
	}
}

func TestSearchSuite_UsesSameBrands(t *testing.T) {
	const file = "../internal/searchindex/searchindextest/brands.tsv"
	var want bytes.Buffer
	for _, b := range load(t) {
		fmt.Fprintf(&want, "%s\t%s\t%.2f\n", b.Domain, *b.Record.Name, b.Record.QualityScore)
	}
	if *update {
		testmust.Succeed(t, os.WriteFile(file, want.Bytes(), 0o644))
		return
	}
	var got bytes.Buffer
	for _, d := range searchindextest.Brands() {
		fmt.Fprintf(&got, "%s\t%s\t%.2f\n", d.Domain, d.Name, d.Quality)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%s does not match the index; run go test ./starter -run %s -update", file, t.Name())
	}
}

func TestEach_Error_StopsThere(t *testing.T) {
	stop := errors.New("stop")
	n := 0
	err := starter.Each(func(starter.Brand) error {
		n++
		if n == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 3 {
		t.Errorf("stopped after %d with %v; want 3 and %v", n, err, stop)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data := testmust.Get(json.Marshal(v))(t)
	return string(data)
}

// pack compresses a text as the generator does.
func pack(text string) []byte {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		panic(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

const oneLogo = `{"domain":"a.com","record":{"logos":[{"formats":[{"format":"svg"}]}]},"svg":["<svg/>"]}`

func TestRead_DamagedFile_Fails(t *testing.T) {
	whole := pack(strings.Repeat(oneLogo+"\n", 100))
	for name, data := range map[string][]byte{
		"empty line":           pack(oneLogo + "\n\n"),
		"cut off":              whole[:len(whole)/2],
		"not compressed":       []byte(oneLogo),
		"not JSON":             pack("{"),
		"no domain":            pack(`{"svg":["<svg/>"],"record":{"logos":[{"formats":[{}]}]}}`),
		"no file":              pack(`{"domain":"a.com"}`),
		"fewer files":          pack(`{"domain":"a.com","record":{"logos":[{"formats":[{}]},{"formats":[{}]}]},"svg":["<svg/>"]}`),
		"a logo without files": pack(`{"domain":"a.com","record":{"logos":[{"formats":[]}]},"svg":["<svg/>"]}`),
		"an endless line":      pack(`{"domain":"` + strings.Repeat("a", 1<<20) + `"}`),
	} {
		if err := starter.Read(bytes.NewReader(data), func(starter.Brand) error { return nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := starter.Read(bytes.NewReader(whole), func(starter.Brand) error { return nil }); err != nil {
		t.Errorf("the whole file: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(oneLogo))
	f.Add([]byte(`{"domain":"a.com","record":{"logos":[{"formats":[{}]}]},"svg":["<svg/>"],"evidence":[]}` + "\n" + oneLogo))
	f.Add([]byte(`{"domain":1}`))
	f.Add([]byte("\n\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		check := func(b starter.Brand) error {
			if b.Domain == "" || len(b.SVG) != len(b.Record.Logos) {
				t.Errorf("got %+v", b)
			}
			return nil
		}
		_ = starter.Read(bytes.NewReader(text), check) // the input is hardly ever compressed
		_ = starter.Read(bytes.NewReader(pack(string(text))), check)
	})
}

func BenchmarkEach(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if err := starter.Each(func(starter.Brand) error { n++; return nil }); err != nil || n != starter.Count {
			b.Fatal(n, err)
		}
	}
}
