package industry

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"letterhead/workers/crawl/extract"
)

// Text is one text of a page and its weight.
type Text struct {
	Body   string
	Weight float64
	Place  string // the place of the text; texts of one place count as one witness
}

// Guess is a class with the classifier's confidence.
type Guess struct {
	Class  *Class
	Score  float64  // 0 to 1
	Terms  []string // the words in favor of it, the strongest first
	Places int      // the number of places with words in favor of it
}

// The model: each term has a weight, multiplied by the weight of its text. If a term is in several texts the highest
// product counts, and a fraction of the others: a title that repeats the name is not a second witness. The evidence e
// of a class is the sum over its terms, and its probability is
//
//	(1+e)^sharpness / (nothing^sharpness + Σ (1+e)^sharpness)
//
// a softmax over the logarithms, which includes "no class of ours" with an evidence that grows with the number of
// words, because more words match more terms by chance. The constants were fitted on one half of testdata/labelled.txt;
// the other half measures them.
const (
	sharpness      = 3.0
	nothing        = 2.8
	nothingPerRoot = 0.17 // times the square root of the number of words
	repetition     = 0.35 // the fraction of a term's further texts
	alone          = 0.65 // factor of the evidence of a class supported by a single term
	// shortText is the number of words up to which a text counts fully; terms of a longer one are divided by the square
	// root of the ratio, because more words match more terms by chance.
	shortText  = 30
	repeated   = 0.25 // the increment for each further occurrence of a term in the same text, up to maxRepeats
	maxRepeats = 4
	MinScore   = 0.15 // the minimum score of a class
	MaxClasses = 3    // limits the classes that are returned

	minPrefix    = 3 // letters of the shortest prefix in a vocabulary
	maxWordBytes = 40
	maxWords     = 3000 // of one text
	maxPhrase    = 4
	keptTerms    = 4 // in a guess
)

// Classify weighs the texts of a page. It returns at most MaxClasses classes, best first, or none if nothing is likely.
func Classify(texts []Text) []Guess {
	v := taxonomy()
	heard := map[*term]*voice{}
	var order []*term // sums of floats depend on the order, and maps have none
	count := 0
	for _, t := range texts {
		count += v.weigh(t, func(x *term, weight float64) {
			if heard[x] == nil {
				heard[x] = &voice{}
				order = append(order, x)
			}
			if !slices.Contains(heard[x].places, t.Place) {
				heard[x].places = append(heard[x].places, t.Place)
			}
			heard[x].most = max(heard[x].most, weight)
			heard[x].sum += weight
		})
	}
	evidence := make([]float64, len(v.classes))
	spoke := map[int]map[*term]float64{}
	for _, x := range order {
		strength := heard[x].most + repetition*(heard[x].sum-heard[x].most)
		for _, h := range x.hits {
			evidence[h.class] += strength * h.weight
			if spoke[h.class] == nil {
				spoke[h.class] = map[*term]float64{}
			}
			spoke[h.class][x] = strength * h.weight
		}
	}
	for class, terms := range spoke {
		if len(terms) == 1 {
			evidence[class] *= alone
		}
	}
	total := math.Pow(nothing+nothingPerRoot*math.Sqrt(float64(count)), sharpness)
	for _, e := range evidence {
		if e > 0 {
			total += math.Pow(1+e, sharpness)
		}
	}
	var out []Guess
	for i, e := range evidence {
		if e <= 0 {
			continue
		}
		if p := math.Pow(1+e, sharpness) / total; p >= MinScore {
			out = append(out, Guess{Class: v.classes[i], Score: math.Round(p*100) / 100, Terms: strongest(spoke[i]),
				Places: placesOf(spoke[i], heard)})
		}
	}
	slices.SortStableFunc(out, func(a, b Guess) int { return cmp.Compare(b.Score, a.Score) })
	return out[:min(len(out), MaxClasses)]
}

// voice is the weight of a term over all texts.
type voice struct {
	most, sum float64
	places    []string
}

// weigh finds the terms of a text and returns the number of its words. Each
// term counts once, and a little more if it is repeated.
func (v *vocabulary) weigh(t Text, add func(*term, float64)) int {
	if t.Weight <= 0 {
		return 0
	}
	all := words(t.Body)
	if len(all) == 0 {
		return 0
	}
	found := map[*term]int{}
	var order []*term
	see := func(x *term) {
		if found[x]++; found[x] == 1 {
			order = append(order, x)
		}
	}
	for i, w := range all {
		v.match(all, i, w, see)
	}
	share := t.Weight
	if len(all) > shortText {
		share *= math.Sqrt(shortText / float64(len(all)))
	}
	for _, x := range order {
		times := 1 + repeated*float64(min(found[x], 1+maxRepeats)-1)
		add(x, share*times)
	}
	return len(all)
}

// match finds the terms that begin at word i.
func (v *vocabulary) match(all []string, i int, w string, see func(*term)) {
	for _, x := range v.exact[w] {
		if x.fits(all[i:]) {
			see(x)
		}
	}
	if singular, ok := strings.CutSuffix(w, "s"); ok && len(singular) >= minPrefix {
		for _, x := range v.exact[singular] {
			if len(x.words) == 1 {
				see(x)
			}
		}
	}
	for n := len(w); n >= minPrefix; n-- { // only the longest prefix, which is the most certain
		if found := v.prefix[w[:n]]; found != nil {
			for _, x := range found {
				see(x)
			}
			break
		}
	}
	for n := 1; n < len(w)-minPrefix; n++ {
		for end := len(w); end > n+minPrefix && end > len(w)-3; end-- { // with an ending of up to two letters
			if found := v.suffix[w[n:end]]; found != nil {
				for _, x := range found {
					see(x)
				}
				return
			}
		}
	}
}

// fits reports whether the words begin with a phrase.
func (x *term) fits(all []string) bool {
	if len(x.words) > len(all) || len(x.words) > maxPhrase {
		return false
	}
	for k, w := range x.words {
		if all[k] != w && !(x.prefix && k == len(x.words)-1 && strings.HasPrefix(all[k], w)) && all[k] != w+"s" {
			return false
		}
	}
	return true
}

// placesOf counts the places in which terms occurred.
func placesOf(terms map[*term]float64, heard map[*term]*voice) int {
	all := map[string]bool{}
	for x := range terms {
		for _, p := range heard[x].places {
			all[p] = true
		}
	}
	return len(all)
}

// strongest returns the texts of the terms with the largest weights.
func strongest(terms map[*term]float64) (texts []string) {
	all := slices.SortedFunc(maps.Keys(terms), func(a, b *term) int {
		return cmp.Or(cmp.Compare(terms[b], terms[a]), slices.Compare(a.words, b.words))
	})
	for _, t := range all[:min(len(all), keptTerms)] {
		texts = append(texts, strings.Join(t.words, " "))
	}
	return texts
}

// words returns the words of a text: letters and digits, lower case, without diacritics.
func words(text string) []string {
	var out []string
	for w := range strings.FieldsFuncSeq(text,
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }) {
		if len(out) == maxWords {
			break
		}
		if len(w) <= maxWordBytes {
			out = append(out, plain(w))
		}
	}
	return out
}

// plain returns a word in lower case without diacritics; ß is ss.
func plain(w string) string { return strings.ReplaceAll(extract.Folded(w), "ß", "ss") }
