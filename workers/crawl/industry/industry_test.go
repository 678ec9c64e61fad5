package industry_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/industry"
)

func TestTaxonomy_Tables_AreConsistent(t *testing.T) {
	slugs, ids, parents := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, c := range industry.All() {
		i := c.Industry(0.5)
		if i.Name == "" || i.Slug == "" || i.Emoji == "" || len(i.ID) != 16 || i.Score != 0.5 || i.Parent == nil || i.Parent.Name == "" || i.Parent.Emoji == "" {
			t.Errorf("%+v", i)
			continue
		}
		if slugs[i.Slug] || ids[i.ID] {
			t.Errorf("%s is listed twice", i.Slug)
		}
		if strings.Trim(i.Slug, "abcdefghijklmnopqrstuvwxyz-") != "" || strings.ContainsAny(i.Emoji, "abcdefghijklmnopqrstuvwxyz &") {
			t.Errorf("slug %q, emoji %q", i.Slug, i.Emoji)
		}
		if industry.BySlug(i.Slug) != c {
			t.Errorf("%s is not found by its slug", i.Slug)
		}
		slugs[i.Slug], ids[i.ID], parents[i.Parent.Slug] = true, true, i.Parent.ID
	}
	if len(parents) < 20 || len(slugs) < 120 {
		t.Errorf("%d parents, %d children", len(parents), len(slugs))
	}
	// Stored records contain the ids: they must not change with the code.
	if id := industry.BySlug("software").ID(); id != "51b4ca55626f20cf" || parents["technology"] != "e91fadf24f78c081" {
		t.Errorf("the ids of software and technology changed to %s and %s", id, parents["technology"])
	}
}

func TestByType_SchemaType_HasIndustry(t *testing.T) {
	for name, want := range map[string]string{
		"Restaurant": "restaurants-and-cafes", "Hotel": "hotels-and-lodging", "LegalService": "legal-services", "AutoDealer": "car-dealers-and-services",
		"NewsMediaOrganization": "news-and-publishing", "Dentist": "dental-care", "BankOrCreditUnion": "banking", "CollegeOrUniversity": "universities",
		"Organization": "", "Corporation": "", "LocalBusiness": "", "WebSite": "", "": "",
	} {
		slug := ""
		if c := industry.ByType(name); c != nil {
			slug = c.Slug
		}
		if slug != want {
			t.Errorf("%s: %q, want %q", name, slug, want)
		}
	}
}

// example is one labelled description.
type example struct {
	accepted   []string
	name, text string
}

func examples(t testing.TB, half string) []example {
	t.Helper()
	text := testmust.Get(os.ReadFile("testdata/labelled.txt"))(t)
	var out []example
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), "|", 4)
		if len(fields) == 4 && fields[0] == half {
			out = append(out, example{strings.Split(fields[1], ","), fields[2], fields[3]})
		}
	}
	return out
}

func classify(e example) []industry.Guess {
	return industry.Classify([]industry.Text{{Body: e.name, Weight: nameWeight}, {Body: e.text, Weight: descriptionWeight}})
}

// The weights of a page's name and description.
const (
	nameWeight        = 2
	descriptionWeight = 2
)

// measured holds the results of the first guesses of a half.
type measured struct {
	examples, given, right int     // first guesses with a score of at least 0.5
	anyRight               int     // with a right class among the guesses
	said                   float64 // mean score of those given
}

func measure(t *testing.T, half string) measured {
	var m measured
	for _, e := range examples(t, half) {
		m.examples++
		guesses := classify(e)
		if slices.ContainsFunc(guesses, func(g industry.Guess) bool { return slices.Contains(e.accepted, g.Class.Slug) }) {
			m.anyRight++
		}
		right := len(guesses) > 0 && slices.Contains(e.accepted, guesses[0].Class.Slug)
		if len(guesses) > 0 && guesses[0].Score >= 0.5 {
			m.given++
			m.said += guesses[0].Score
			if right {
				m.right++
			}
		}
		if !right && (len(guesses) > 0 || e.accepted[0] != "-") {
			t.Logf("%s %q is %v:", half, e.name, e.accepted)
			for _, g := range guesses {
				t.Logf("    %.2f %s %v", g.Score, g.Class.Slug, g.Terms)
			}
		}
	}
	m.said /= float64(max(1, m.given))
	return m
}

// The scores must hold for the half on which the model was not fitted.
func TestClassify_Scores_MatchAccuracy(t *testing.T) {
	for _, half := range []string{"fit", "check"} {
		m := measure(t, half)
		precision := float64(m.right) / float64(max(1, m.given))
		t.Logf("%s: %d examples, %d first guesses of 0.5 or more, precision %.2f, mean score %.2f, a right class among the guesses of %d", half, m.examples, m.given, precision, m.said, m.anyRight)
		if m.examples < 40 || m.given < m.examples/3 {
			t.Errorf("%s: only %d of %d have a first guess of 0.5 or more", half, m.given, m.examples)
		}
		if precision < 0.85 || precision < m.said-0.1 {
			t.Errorf("%s: precision is %.2f, mean score is %.2f", half, precision, m.said)
		}
	}
}

func TestClassify_NoEvidence_IsEmpty(t *testing.T) {
	for _, text := range []string{"", "   ", "Welcome", "lorem ipsum dolor sit amet", "東京", strings.Repeat("we are the best ", 500)} {
		if got := industry.Classify([]industry.Text{{Body: text, Weight: 3}}); len(got) != 0 {
			t.Errorf("%.20q: %+v, want no class", text, got[0])
		}
	}
	if got := industry.Classify(nil); len(got) != 0 {
		t.Error("no text gave classes")
	}
}

func TestClassify_EqualScores_KeepOrder(t *testing.T) {
	text := []industry.Text{{Body: "bank insurance hotel restaurant school software games music", Weight: 2}}
	first := industry.Classify(text)
	for range 20 {
		again := industry.Classify(text)
		if len(again) != len(first) || len(first) > industry.MaxClasses {
			t.Fatalf("%d and %d guesses", len(first), len(again))
		}
		for i := range again {
			if again[i].Class != first[i].Class || again[i].Score != first[i].Score {
				t.Fatalf("first %v, then %v", first[i], again[i])
			}
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, seed := range []string{"Krankenversicherung für Tiere", "e-commerce it-security", "ß\u0308\xff", "soins du visage l'hôtel", "a b c"} {
		f.Add(seed, 1.5)
	}
	f.Fuzz(func(t *testing.T, text string, weight float64) {
		sum := 0.0
		for _, g := range industry.Classify([]industry.Text{{Body: text, Weight: min(weight, 100)}}) {
			sum += g.Score
			if g.Score < industry.MinScore || g.Score > 1 || g.Class == nil {
				t.Errorf("%+v", g)
			}
		}
		if sum > 1.02 {
			t.Errorf("scores sum to %v", sum)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	texts := []industry.Text{{Body: strings.Repeat("We are an international freight forwarding and Krankenversicherung company in Paris. ", 180), Weight: 1}} // 15 kB
	for b.Loop() {
		industry.Classify(texts)
	}
}

// A term that may be a prefix and a suffix keeps both properties, whatever the order of a map.
func TestClassify_TermIsPrefixAndSuffix_CountsAsBoth(t *testing.T) {
	for _, text := range []string{"Versicherungsmakler Versicherung", "Krankenversicherung Hausratversicherung"} {
		got := industry.Classify([]industry.Text{{Body: text, Weight: 2}})
		if len(got) == 0 || got[0].Class.Slug != "insurance" {
			t.Errorf("%q: %+v, want insurance first", text, got)
		}
	}
}

func TestClassify_Places_AreCounted(t *testing.T) {
	texts := []industry.Text{{Body: "bank loans mortgages", Weight: 2, Place: "menu"}, {Body: "bank and savings", Weight: 2, Place: "page"}, {Body: "bank", Weight: 1, Place: "page"}}
	got := industry.Classify(texts)
	if len(got) == 0 || got[0].Class.Slug != "banking" || got[0].Places != 2 {
		t.Errorf("%+v, want banking in 2 places", got)
	}
}
