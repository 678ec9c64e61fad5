package searchindex_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"letterhead/internal/searchindex"
)

func TestFold_Normalizes(t *testing.T) {
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
		"ΌΜΙΛΟΣ":              "ομιλοσ",
		"όμιλος":              "ομιλοσ", // final sigma
		"الشَّركة":            "الشركه", // vowels, and teh marbuta as often typed
		"أرامكـو":             "ارامكو", // the letter that is only a line
		"کافی":                "كافي",   // Persian letters
		"הָאָרֶץ":             "הארץ",
		"בע״מ":                "בעמ",
		"٣M ۴ ३":              "3m 4 3",
		"Azərbaycan":          "azerbaycan",
		"str\u00adipe\u200f":  "stripe", // invisible characters
		"नमस्\u200dते":        "नमस्ते",
		"ไทย น้ำ":             "ไทย น้ํา", // both spellings of a vowel are equal
		"❤\ufe0f":             "",
		"3\ufe0f\u20e3":       "3",
		"👩\u200d👧":            "",
		"!!!":                 "",
		"":                    "",
	} {
		if got := searchindex.Fold(in); got != want {
			t.Errorf("%q folds to %q, want %q", in, got, want)
		}
	}
}

func TestReadQuery_SplitsTerms(t *testing.T) {
	for in, want := range map[string]searchindex.Keys{
		"Siemens AG":                 {Full: "siemensag", Core: "siemens", Words: []string{"siemens"}},
		"Allegro sp. z o.o.":         {Full: "allegrospzoo", Core: "allegro", Words: []string{"allegro"}},
		"Marks and Spencer Ltd.":     {Full: "marksandspencerltd", Core: "marksspencer", Words: []string{"marks", "spencer"}},
		"SE":                         {Full: "se", Core: "se", Words: []string{"se"}, Typed: "se"},
		"Holdings Inc":               {Full: "holdingsinc", Core: "holdings", Words: []string{"holdings"}},
		"www.Stripe.com":             {Domain: "stripe.com", Label: "stripe", Full: "stripecom", Core: "stripecom", Words: []string{"stripecom"}, Typed: "stripe.com"},
		"next.js":                    {Full: "nextjs", Core: "nextjs", Words: []string{"nextjs"}, Typed: "next.js"},
		"https://a.bücher.de:8080/x": {Domain: "xn--bcher-kva.de", Label: "bucher", Typed: "xn--bcher-kva.de"},
		"jane@stripe.com":            {Domain: "stripe.com", Label: "stripe", Typed: "stripe.com"},
		"Jane <jane@stripe.com>":     {Domain: "stripe.com", Label: "stripe", Typed: "stripe.com"},
		"MAILTO:jane@Stripe.com":     {Domain: "stripe.com", Label: "stripe", Typed: "stripe.com"},
		"//stripe.com":               {Domain: "stripe.com", Label: "stripe", Typed: "stripe.com"},
		"https://git":                {Full: "git", Core: "git", Words: []string{"git"}, Typed: "git"},
		"Amazon.com, Inc.":           {Domain: "amazon.com", Label: "amazon", Full: "amazoncominc", Core: "amazoncom", Words: []string{"amazoncom"}},
		"AC/DC":                      {Full: "acdc", Core: "acdc", Words: []string{"ac", "dc"}, Typed: "ac/dc"},
		"excite@home":                {Full: "excitehome", Core: "excitehome", Words: []string{"excite", "home"}, Typed: "excite@home"},
		"東京ガスNTT":                    {Full: "東京ガスntt", Core: "東京ガスntt", Words: []string{"東京", "ガス", "ntt"}, Typed: "東京ガスntt"},
		"サーバー":                       {Full: "サーバー", Core: "サーバー", Words: []string{"サーバー"}, Typed: "サーバー"},
		"🙂":                          {},
		"-":                          {},
	} {
		got := searchindex.ReadQuery(in)
		if got.Domain != want.Domain || got.Label != want.Label || got.Full != want.Full || got.Core != want.Core ||
			got.Typed != want.Typed || !slices.Equal(got.Words, want.Words) {
			t.Errorf("%q reads as %+v, want %+v", in, got, want)
		}
	}
}

func TestRank_IgnoresLegalForms(t *testing.T) {
	for name, want := range map[string]string{
		"Acme, Inc.":                   "acme",
		"Acme Holdings Pty. Ltd.":      "acme",
		"Acme GmbH & Co. KG":           "acme",
		"Acme & Cie.":                  "acme",
		"Acme und Co":                  "acme",
		"Acme S.p.A.":                  "acme",
		"Acme S. p. A.":                "acme",
		"ACME A/S":                     "acme",
		"Acme S.à r.l.":                "acme",
		"Acme S. de R.L. de C.V.":      "acme",
		"Acme spol. s r.o.":            "acme",
		"Acme UG (haftungsbeschränkt)": "acme",
		"Acme Sdn Bhd":                 "acme",
		"Acme K.K.":                    "acme",
		"PT Acme Tbk":                  "acme",
		"ООО «Акме»":                   "акме",
		"株式会社アクメ":                      "アクメ",
		"アクメ 株式会社":                     "アクメ",
		"㈱アクメ":                         "アクメ",
		"有限会社":                         "有限会社",
		"有限公司":                         "有限公司",
		"주식회사 아크메":                     "아크메",
		"บริษัท แอคมี จำกัด (มหาชน)": "แอคมี",
		"شركة أكمي ذ.م.م":       "اكمي",
		"אקמי בע\"מ":            "אקמי",
		"Marks and Spencer plc": "marksspencer",
		"And":                   "and",
		"And and":               "and",
		"Co":                    "co",
		"Inc. Ltd.":             "inc",
		"PT":                    "pt",
		"SAP SE":                "sap",
		"Deutsche Bank":         "deutschebank",
		"Inc Magazine":          "incmagazine",
	} {
		if got := searchindex.ReadQuery(name).Core; got != searchindex.Fold(want) {
			t.Errorf("the significant part of %q is %q, want %q", name, got, want)
		}
	}
}

func TestRank_OrdersHits(t *testing.T) {
	// The best first; each differs from the previous one in one deciding property.
	docs := []searchindex.Document{
		{Domain: "acme.net", Name: "Acme", Popular: true},          // name and label, popular
		{Domain: "acme.com", Name: "Acme", Quality: 0.1},           // a better record
		{Domain: "real-acme.org", Name: "Acme Inc.", Quality: 0.9}, // name
		{Domain: "acme.dev", Name: "Anvils", Quality: 0.9},         // label
		{Domain: "a.com", Name: "Acmeville AG", Quality: 0.5},      // name begins
		{Domain: "b.com", Name: "Acmevillette", Quality: 0.5},      // longer
		{Domain: "c.com", Name: "Acmevillette", Quality: 0.5},      // later domain
		{Domain: "d.com", Name: "Acmevillette", Quality: 0.4},      // poorer record
		{Domain: "acmebooks.com", Name: "Books", Quality: 0.9},     // label begins
		{Domain: "e.com", Name: "The Acme Gazette", Quality: 0.9},  // word begins
		{Domain: "acne.com", Name: "Acne", Quality: 0.1},           // typing error
		{Domain: "unlike.com", Name: "Something", Quality: 1},      // no match
		{Domain: "tomb.com", Name: "Acme", Quality: 1, Gone: true}, // no match
	}
	want := []string{"acme.net", "acme.com", "real-acme.org", "acme.dev", "a.com", "b.com", "c.com", "d.com", "acmebooks.com", "e.com", "acne.com"}
	shuffled := append(slices.Clone(docs), docs[4], docs[0]) // adapters may return a document twice
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

func TestRank_TypingErrors_AreFound(t *testing.T) {
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
		{"hq", "HP", false},             // texts of two letters allow none
		{"ikae", "IKEA", true},          // one in four
		{"ikxx", "IKEA", false},         // two in four
		{"micorsof", "Microsoft", true}, // in a prefix
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
	for _, s := range []string{"Acme Inc.", "https://a.b.co.uk/x?y", "a&b+c", "\x00\xff", strings.Repeat("é ", 200), "İ", "ß.de", "xn--a.com", "//", "a:b:c", "Jane <jane@a.com>", "a.com, Inc.", "株式会社", "٣", "ｶﾞ", "\u0301", "sp z oo"} {
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
		address := strings.Contains(norm.NFKC.String(s), "//") // only the host of a URL counts
		if k.Full != "" && !address && (len(hits) != 1 || hits[0].Match != searchindex.Exact) {
			t.Errorf("a brand named %q is not found under its name: %+v", s, hits)
		}
		const whole = 12 // in runes, so that neither is truncated, because one rune may fold to several words
		if d.Name += " GmbH"; k.Full != "" && !address && utf8.RuneCountInString(s) <= whole && len(strings.Fields(folded)) < 8 {
			if hits := searchindex.Rank(k, []searchindex.Document{d}, 1); len(hits) != 1 || hits[0].Match != searchindex.Exact {
				t.Errorf("a brand named %q is not found as %q: %+v", d.Name, s, hits)
			}
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
			t.Errorf("one document gave %d hits, want at most 1", len(hits))
		}
	})
}

func TestWithoutForms_RemovesLegalForms(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"acme": "acme", "acme gmbh": "acme", "acme gmbh co kg": "acme", "acme sp z oo": "acme", "ооо ромашка": "ромашка", "ооо ромашка ооо": "ромашка",
		"pt astra tbk": "astra", "goldman sachs group": "goldman sachs group", "inc": "inc", "gmbh co kg": "gmbh", "inc acme": "inc acme", "": "",
	} {
		words := strings.Fields(name)
		from, to := searchindex.WithoutForms(words)
		if got := strings.Join(words[from:to], " "); got != want {
			t.Errorf("WithoutForms of %q = %q, want %q", name, got, want)
		}
	}
}
