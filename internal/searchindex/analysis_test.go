package searchindex_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"letterhead/internal/searchindex"
)

func TestFold(t *testing.T) {
	for in, want := range map[string]string{
		"GitHub":              "github",
		"  Bank  of\tAmerica": "bank of america",
		"Booking.com":         "bookingcom",
		"McDonald’s":          "mcdonalds",
		"AT&T":                "at t",
		"Coca-Cola":           "coca cola",
		"ŠKODA":               "skoda",
		"Müller":              "muller",
		"Groß":                "gross",
		"Ørsted":              "orsted",
		"Łódź":                "lodz",
		"İstanbul":            "istanbul",
		"Ελλάδα":              "ελλαδα",
		"Ёлка":                "елка",
		"ガス":                  "ガス", // the mark is part of the letter
		"ｶﾞｽ":                 "ガス",
		"삼성":                  "삼성",
		"हिन्दी":              "हिन्दी",
		"ｇｉｔ":                 "git",
		"tado°":               "tado",
		"E∞":                  "e",
		"!!!":                 "",
		"":                    "",
	} {
		if got := searchindex.Fold(in); got != want {
			t.Errorf("%q folds to %q, want %q", in, got, want)
		}
	}
}

func TestReadQuery(t *testing.T) {
	for in, want := range map[string]searchindex.Keys{
		"Siemens AG":             {Full: "siemensag", Core: "siemens", Words: []string{"siemens"}},
		"Allegro sp. z o.o.":     {Full: "allegrospzoo", Core: "allegro", Words: []string{"allegro"}},
		"Marks and Spencer Ltd.": {Full: "marksandspencerltd", Core: "marksspencer", Words: []string{"marks", "spencer"}},
		"SE":                     {Full: "se", Core: "se", Words: []string{"se"}, Typed: "se"},
		"Holdings Inc":           {Full: "holdingsinc", Core: "holdings", Words: []string{"holdings"}},
		"www.Stripe.com":         {Domain: "stripe.com", Label: "stripe", Full: "wwwstripecom", Core: "wwwstripecom", Words: []string{"wwwstripecom"}, Typed: "stripe.com"},
		"next.js":                {Full: "nextjs", Core: "nextjs", Words: []string{"nextjs"}, Typed: "next.js"},
		"https://a.bücher.de:8080/x": {
			Domain: "xn--bcher-kva.de", Label: "bucher", Full: "httpsabucherde8080x", Core: "httpsabucherde8080x",
			Words: []string{"https", "abucherde", "8080", "x"}, Typed: "https://a.bücher.de:8080/x",
		},
	} {
		got := searchindex.ReadQuery(in)
		if got.Domain != want.Domain || got.Label != want.Label || got.Full != want.Full || got.Core != want.Core ||
			got.Typed != want.Typed || !slices.Equal(got.Words, want.Words) {
			t.Errorf("%q reads as %+v, want %+v", in, got, want)
		}
	}
}

func TestRankOrder(t *testing.T) {
	// The best first; each differs from the one before in one thing that decides.
	docs := []searchindex.Document{
		{Domain: "acme.com", Name: "Acme", Quality: 0.1},           // name and label
		{Domain: "real-acme.org", Name: "Acme Inc.", Quality: 0.9}, // name
		{Domain: "acme.dev", Name: "Anvils", Quality: 0.9},         // label
		{Domain: "a.com", Name: "Acmeville", Quality: 0.5},         // name begins
		{Domain: "b.com", Name: "Acmevillette", Quality: 0.5},      // longer
		{Domain: "c.com", Name: "Acmevillette", Quality: 0.5},      // later domain
		{Domain: "d.com", Name: "Acmevillette", Quality: 0.4},      // poorer record
		{Domain: "acmebooks.com", Name: "Books", Quality: 0.9},     // label begins
		{Domain: "e.com", Name: "The Acme Gazette", Quality: 0.9},  // word begins
		{Domain: "acne.com", Name: "Acne", Quality: 0.1},           // typing error
		{Domain: "unlike.com", Name: "Something", Quality: 1},      // no match
		{Domain: "tomb.com", Name: "Acme", Quality: 1, Gone: true}, // no match
	}
	want := []string{"acme.com", "real-acme.org", "acme.dev", "a.com", "b.com", "c.com", "d.com", "acmebooks.com", "e.com", "acne.com"}
	shuffled := append(slices.Clone(docs), docs[3], docs[0]) // adapters may bring one twice
	slices.Reverse(shuffled)
	var got []string
	for _, h := range searchindex.Rank(searchindex.ReadQuery("acme"), shuffled, 20) {
		got = append(got, h.Domain)
	}
	if !slices.Equal(got, want) {
		t.Errorf("ranked %v, want %v", got, want)
	}
	if hits := searchindex.Rank(searchindex.ReadQuery("acme"), shuffled, 3); len(hits) != 3 || hits[2].Domain != want[2] {
		t.Errorf("limit 3: %v", hits)
	}
}

func TestTypingErrors(t *testing.T) {
	found := func(query, name string) bool {
		hits := searchindex.Rank(searchindex.ReadQuery(query), []searchindex.Document{{Domain: "x.org", Name: name}}, 1)
		return len(hits) == 1
	}
	for _, c := range []struct {
		query, name string
		want        bool
	}{
		{"spotfy", "Spotify", true},     // one missing
		{"spottify", "Spotify", true},   // one too many
		{"sp0tify", "Spotify", true},    // one wrong
		{"psotify", "Spotify", true},    // two swapped
		{"sptofiy", "Spotify", true},    // two errors in seven letters
		{"sptfy", "Spotify", false},     // two errors in five
		{"sxxxify", "Spotify", false},   // three errors
		{"hq", "HP", false},             // two letters have none
		{"ikae", "IKEA", true},          // one in four
		{"ikxx", "IKEA", false},         // two in four
		{"micorsof", "Microsoft", true}, // in a beginning
		{"goggles", "Google", true},
		{"ядекс", "Яндекс", true},
		{"bank of amercia", "Bank of America", true},
	} {
		if got := found(c.query, c.name); got != c.want {
			t.Errorf("%q finds %q: %v, want %v", c.query, c.name, got, c.want)
		}
	}
}

func FuzzReadQuery(f *testing.F) {
	for _, s := range []string{"Acme Inc.", "https://a.b.co.uk/x?y", "a&b+c", "\x00\xff", strings.Repeat("é ", 200), "İ", "ß.de", "xn--a.com", "//", "a:b:c", "ｶﾞ", "\u0301", "sp z oo"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		folded := searchindex.Fold(s)
		if !utf8.ValidString(folded) || strings.TrimSpace(folded) != folded {
			t.Errorf("%q folds to %q", s, folded)
		}
		if again := searchindex.Fold(folded); again != folded {
			t.Errorf("%q folds to %q, and that to %q", s, folded, again)
		}
		k := searchindex.ReadQuery(s)
		if len(k.Words) > 12 || utf8.RuneCountInString(k.Typed) > 2*searchindex.MaxText {
			t.Errorf("%q reads as %+v", s, k)
		}
		d := searchindex.Document{Domain: "acme.com", Name: s}
		hits := searchindex.Rank(k, []searchindex.Document{d}, 1)
		if k.Full != "" && (len(hits) != 1 || hits[0].Match != searchindex.Exact) {
			t.Errorf("a brand named %q is not found under its name: %+v", s, hits)
		}
	})
}

func FuzzRank(f *testing.F) {
	f.Add("mircosoft", "Microsoft", "microsoft.com")
	f.Add("github.co", "GitHub", "github.com")
	f.Add("a b c", "c b a", "x.y")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, query, name, domain string) {
		hits := searchindex.Rank(searchindex.ReadQuery(query), []searchindex.Document{{Domain: domain, Name: name}}, 5)
		if len(hits) > 1 {
			t.Errorf("one document gave %d hits", len(hits))
		}
	})
}
