package judge

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/page"
)

// Limits of fonts.
const (
	maxFamilies = 20 // read of one address
	maxWeights  = 20 // of one family
	maxFontName = 60 // runes
	minWeight   = 1
	maxWeight   = 1000
	weightStep  = 100
)

// Family is one typeface that a font service is asked for.
type Family struct {
	Name    string
	Weights []int // sorted, unique; empty when the address names none
}

// iconFonts are typefaces of pictures.
var iconFonts = set("Material Icons", "Material Icons Outlined", "Material Icons Round", "Material Icons Sharp", "Material Symbols Outlined", "Material Symbols Rounded", "Material Symbols Sharp", "Font Awesome", "FontAwesome", "swiper-icons", "icomoon", "eicons", "Noto Color Emoji")

// fontHosts serve Google's families under Google's addresses.
var fontHosts = []string{"fonts.googleapis.com", "fonts.bunny.net"}

// Fonts decides the site's typefaces from the font services that its pages ask. One family is used for
// everything; of several the first is taken for titles and the second for text, which is a guess.
func Fonts(in Input) Found[[]eventschemas.Font] {
	out := Found[[]eventschemas.Font]{Value: []eventschemas.Font{}}
	var families []Family
	for _, style := range in.Page.Styles {
		for _, f := range ParseFontURL(style) {
			if len(families) < maxFamilies && !slices.ContainsFunc(families, func(have Family) bool { return have.Name == f.Name }) {
				families = append(families, f)
				if out.Source == "" {
					out.Source = style.String()
				}
			}
		}
	}
	if len(families) == 0 {
		return out
	}
	title, body := families[0], families[min(1, len(families)-1)]
	out.Method, out.Confidence = "google fonts link", 0.7
	if len(families) > 1 {
		out.Confidence = 0.4
	}
	out.Value = append(out.Value, title.font("title"), body.font("body"))
	return out
}

func (f Family) font(kind string) eventschemas.Font {
	id := strings.ReplaceAll(f.Name, " ", "+")
	weights := f.Weights
	if weights == nil {
		weights = []int{}
	}
	return eventschemas.Font{Name: f.Name, Type: kind, Origin: "google", OriginID: &id, Weights: weights}
}

// ParseFontURL reads the families out of the address of a font service's stylesheet, in both of its forms:
// /css?family=A:400,700|B and /css2?family=A:ital,wght@0,400;1,700&family=B:wght@200..900. Anything else
// has none.
func ParseFontURL(u *url.URL) []Family {
	if u == nil || !slices.Contains(fontHosts, strings.ToLower(u.Hostname())) || len(u.RawQuery) > page.MaxURLBytes {
		return nil
	}
	var out []Family
	for pair := range strings.SplitSeq(u.RawQuery, "&") { // not url.ParseQuery: it refuses the semicolons of css2
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
	f := Family{Name: page.Clean(name, maxFontName+1)}
	if f.Name == "" || len([]rune(f.Name)) > maxFontName || strings.ContainsAny(f.Name, "<>\"'{};@/\\") || iconFonts[folded(f.Name)] {
		return Family{}, false
	}
	if names, values, ok := strings.Cut(axes, "@"); ok {
		f.Weights = axisWeights(names, values)
	} else {
		for w := range strings.SplitSeq(axes, ",") {
			f.addWeight(strings.TrimRight(strings.ToLower(w), "italcregub")) // 400i, 700italic, regular, bold
			if strings.HasPrefix(strings.ToLower(w), "bold") {
				f.Weights = append(f.Weights, 700)
			}
		}
	}
	slices.Sort(f.Weights)
	f.Weights = slices.Compact(f.Weights)
	f.Weights = f.Weights[:min(len(f.Weights), maxWeights)]
	return f, true
}

// axisWeights reads the weights of "ital,wght@0,400;1,700" and of the range "wght@200..900", whose steps
// of a hundred count.
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
