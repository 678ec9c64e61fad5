package fonts

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"letterhead/domain/brand"
	"letterhead/workers/crawl/page"
)

// Limits of font URLs.
const (
	maxFamilies = 20 // maximum in one URL
	maxWeights  = 20 // of one family
	minWeight   = 1
	maxWeight   = 1000
	weightStep  = 100
)

// Family is one typeface requested from a font service.
type Family struct {
	Name    string
	Weights []int // sorted, unique; empty when the URL names none
	Italic  bool  // also requested: running text needs it
}

// Hosts serve Google's families under Google's URLs, which name everything that their stylesheets add.
var Hosts = []string{"fonts.googleapis.com", "fonts.bunny.net"}

// ParseURL reads the families out of the URL of a font service's stylesheet, in both of its forms:
// /css?family=A:400,700|B and /css2?family=A:ital,wght@0,400;1,700&family=B:wght@200..900. Anything else has none.
func ParseURL(u *url.URL) []Family {
	if u == nil || !slices.Contains(Hosts, strings.ToLower(u.Hostname())) || len(u.RawQuery) > page.MaxURLBytes {
		return nil
	}
	var out []Family
	for pair := range strings.SplitSeq(u.RawQuery, "&") { // not url.ParseQuery, which rejects the semicolons of css2
		key, value, _ := strings.Cut(pair, "=")
		value, err := url.QueryUnescape(value)
		if key != "family" || err != nil {
			continue
		}
		for text := range strings.SplitSeq(value, "|") {
			if f, ok := parseFamily(text); ok && len(out) < maxFamilies {
				out = append(out, f)
			}
		}
	}
	return out
}

func parseFamily(text string) (Family, bool) {
	name, axes, _ := strings.Cut(text, ":")
	f := Family{Name: page.Clean(name, brand.MaxFontNameRunes+1)}
	if brand.CheckFontName(f.Name) != nil || isIconFont(f.Name) {
		return Family{}, false
	}
	if names, values, ok := strings.Cut(axes, "@"); ok {
		f.Weights = axisWeights(names, values)
		f.Italic = strings.Contains(names, "ital")
	} else {
		for w := range strings.SplitSeq(axes, ",") {
			f.Italic = f.Italic || strings.HasSuffix(strings.ToLower(w), "i") ||
				strings.HasSuffix(strings.ToLower(w), "italic")
			f.addWeight(strings.TrimRight(strings.ToLower(w), "italcregub")) // 400i, 700italic, regular, bold
			switch lower := strings.ToLower(w); {
			case strings.HasPrefix(lower, "bold"):
				f.Weights = append(f.Weights, 700)
			case lower == "regular", lower == "normal", lower == "italic":
				f.Weights = append(f.Weights, 400)
			}
		}
	}
	slices.Sort(f.Weights)
	f.Weights = slices.Compact(f.Weights)
	f.Weights = f.Weights[:min(len(f.Weights), maxWeights)]
	return f, true
}

// axisWeights parses the weights of "ital,wght@0,400;1,700" and of the range
// "wght@200..900", which includes each multiple of a hundred.
func axisWeights(names, values string) []int {
	at := slices.Index(strings.Split(names, ","), "wght")
	if at < 0 {
		return nil
	}
	var f Family
	for tuple := range strings.SplitSeq(values, ";") {
		parts := strings.Split(tuple, ",")
		if at >= len(parts) || len(f.Weights) > maxWeights {
			continue
		}
		low, high, ranged := strings.Cut(parts[at], "..")
		f.addWeight(low)
		if !ranged {
			continue
		}
		f.addWeight(high)
		from, err1 := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil {
			continue
		}
		for w := (max(from, minWeight) + weightStep - 1) / weightStep * weightStep; w <= min(to, maxWeight); w += weightStep {
			f.Weights = append(f.Weights, w)
		}
	}
	return f.Weights
}

func (f *Family) addWeight(text string) {
	if w, err := strconv.Atoi(text); err == nil && w >= minWeight && w <= maxWeight {
		f.Weights = append(f.Weights, w)
	}
}
