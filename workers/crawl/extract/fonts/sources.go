package fonts

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/css"
	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/table"
)

var tables = table.Of("fonts")

// Limits for the sources of fonts.
const (
	maxFontFaces   = 600
	maxFontLinks   = 100
	maxStackBytes  = 1000
	maxStackLength = 20 // families of one stack
)

// fontSources holds the sources of a page's fonts.
type fontSources struct {
	asked []askedFamily         // of font services, in the order of the page
	faces map[string]loadedFace // by folded name
	adobe bool                  // a kit of Adobe Fonts is requested
}

// askedFamily is a family requested from a font service.
type askedFamily struct {
	Family
	source string
}

// loadedFace is the content of the @font-face rules of one family.
type loadedFace struct {
	name    string
	origin  string
	weights []int
	source  string
}

const (
	adobeHost  = "use.typekit.net"
	googleHost = "fonts.gstatic.com"
	bunnyHost  = "fonts.bunny.net"
)

func newFontSources(in extract.Input) *fontSources {
	s := &fontSources{faces: map[string]loadedFace{}}
	for _, u := range slices.Concat(in.Page.Styles, lateStyles(in), in.Style.Imported()) {
		s.ask(u)
	}
	for _, u := range in.Page.Sources {
		s.adobe = s.adobe || u != nil && strings.EqualFold(u.Hostname(), adobeHost)
	}
	s.askScript(in)
	for _, f := range in.Style.Faces()[:min(len(in.Style.Faces()), maxFontFaces)] {
		s.face(f.Family, f.Sources, f.Weights)
	}
	return s
}

// lateStyles returns the sheets that a page loads late: as a preload, or with a script.
func lateStyles(in extract.Input) []*url.URL {
	if in.Page.Root == nil {
		return nil
	}
	var out []*url.URL
	nodes := 1
	for n := range in.Page.Root.Descendants() {
		if nodes++; nodes > maxFontNodes || len(out) >= maxFontLinks {
			break
		}
		if n.Type == html.ElementNode && n.Data == "link" && !strings.Contains(page.Attr(n, "rel"), "stylesheet") {
			for _, name := range []string{"href", "data-href", "data-wpr-hosted-gf-parameters"} {
				if u := in.Page.Resolve(page.Attr(n, name)); u != nil && serves(u) {
					out = append(out, u)
				}
			}
		}
	}
	return out
}

// serves reports whether a URL belongs to a font service.
func serves(u *url.URL) bool {
	return slices.Contains(Hosts, strings.ToLower(u.Hostname())) || strings.EqualFold(u.Hostname(), adobeHost)
}

// ask adds the URL of a font service's sheet.
func (s *fontSources) ask(u *url.URL) {
	if u == nil {
		return
	}
	s.adobe = s.adobe || strings.EqualFold(u.Hostname(), adobeHost) && u.Path != "" && u.Path != "/"
	for _, f := range ParseURL(u) {
		s.askFamily(f, u.String())
	}
}

func (s *fontSources) askFamily(f Family, source string) {
	if at := slices.IndexFunc(s.asked,
		func(have askedFamily) bool { return extract.Folded(have.Name) == extract.Folded(f.Name) }); at >= 0 {
		have := &s.asked[at]
		have.Weights = mergedWeights(have.Weights, f.Weights)
		have.Italic = have.Italic || f.Italic
		return
	}
	if len(s.asked) < maxFamilies {
		s.asked = append(s.asked, askedFamily{f, source})
	}
}

// loaderFamilies matches the families in the configuration of a web font loader for Google.
var loaderFamilies = lazyregexp.New(`google\s*:\s*\{\s*["']?families["']?\s*:\s*\[([^\]]{1,1000})\]`)

// askScript reads the configuration of a web font loader.
func (s *fontSources) askScript(in extract.Input) {
	found := loaderFamilies.FindStringSubmatch(in.Page.Script)
	if found == nil {
		return
	}
	for part := range strings.SplitSeq(found[1], `',`) {
		for piece := range strings.SplitSeq(part, `",`) {
			text := strings.ReplaceAll(strings.Trim(piece, " \t\r\n\"'"), "+", " ")
			if f, ok := parseFamily(text); ok {
				s.askFamily(f, in.PageURL())
			}
		}
	}
}

func (s *fontSources) face(family string, sources []*url.URL, weights []int) {
	name, ok := plainFamily(family)
	if !ok || isIconFont(name) {
		return
	}
	f := loadedFace{name: name, origin: "custom"}
	for _, u := range sources {
		switch strings.ToLower(u.Hostname()) {
		case googleHost, bunnyHost:
			f.origin = "google"
		case adobeHost:
			f.origin = "adobe"
		}
		f.source = cmp.Or(f.source, u.Scheme+"://"+u.Host+"/")
	}
	if len(weights) == 2 { // both ends of a range, which includes the steps between them
		for w := (weights[0]/weightStep + 1) * weightStep; w < weights[1]; w += weightStep {
			weights = append(slices.Clone(weights), w)
		}
	}
	if have, ok := s.faces[extract.Folded(name)]; ok {
		f.name, f.weights = have.name, have.weights
		if have.origin != "custom" {
			f.origin = have.origin
		}
		f.source = have.source
	}
	f.weights = mergedWeights(f.weights, weights)
	s.faces[extract.Folded(name)] = f
}

func mergedWeights(a, b []int) []int {
	out := append(append(make([]int, 0, len(a)+len(b)), a...), b...) // never nil, because a record's list must not be
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxWeights)]
}

func (f Family) font(kind string) eventschemas.Font {
	return eventschemas.Font{Name: f.Name, Type: kind, Origin: "google",
		OriginID: new(strings.ReplaceAll(f.Name, " ", "+")), Weights: mergedWeights(f.Weights, nil)}
}

var systemNames = extract.FoldedSet(tables.List("systemNames")...) // aliases for the font of the computer itself

// genericFonts are families for which the browser chooses a font.
var genericFonts = extract.FoldedSet(tables.List("genericFonts")...)

// systemFonts are installed on computers and need not be loaded: spelling by folded name.
var systemFonts = func() map[string]string {
	out := map[string]string{}
	for _, name := range tables.List("systemFonts") {
		out[extract.Folded(name)] = name
	}
	return out
}()

// resolve returns the font that a stack of families shows: the first that is
// loaded before a system font; failing that, the first that is named.
func (s *fontSources) resolve(stack string) (typeface, bool) {
	if len(stack) > maxStackBytes {
		return typeface{}, false
	}
	unknown := ""
	for i, family := range familiesOf(stack) {
		name, ok := plainFamily(family)
		switch key := extract.Folded(name); {
		case i >= maxStackLength:
		case !ok || isIconFont(name):
			continue
		case s.loaded(key):
			return s.load(key, unknown), true
		case systemNames[key] || genericFonts[key] || systemFonts[key] != "":
			if unknown != "" {
				return s.named(unknown), true
			}
			if genericFonts[key] {
				return typeface{}, false // the browser's choice is not the brand's
			}
			return systemFont(key), true
		case unknown == "":
			unknown = name
		}
	}
	if unknown == "" {
		return typeface{}, false
	}
	return s.named(unknown), true
}

func (s *fontSources) loaded(key string) bool {
	_, ok := s.faces[key]
	return ok || s.askedFor(key) >= 0
}

func (s *fontSources) askedFor(key string) int {
	return slices.IndexFunc(s.asked, func(f askedFamily) bool { return extract.Folded(f.Name) == key })
}

func (s *fontSources) load(key, instead string) typeface {
	out := typeface{confidence: shownConfidence}
	if instead != "" {
		out.note = "instead of " + instead + ", which the page does not load"
	}
	if at := s.askedFor(key); at >= 0 {
		out.font, out.source = s.asked[at].font(""), s.asked[at].source
		if face, ok := s.faces[key]; ok && len(out.font.Weights) == 0 {
			out.font.Weights = mergedWeights(face.weights, nil)
		}
		return out
	}
	face := s.faces[key]
	out.font = eventschemas.Font{Name: face.name, Origin: face.origin, Weights: mergedWeights(face.weights, nil)}
	out.source = face.source
	switch face.origin {
	case "google":
		out.font.OriginID = new(strings.ReplaceAll(face.name, " ", "+"))
	case "adobe":
		out.font.OriginID = new(face.name)
	}
	return out
}

var kitName = lazyregexp.New(`^[a-z0-9]+(-[a-z0-9]+)*$`) // matches names of families in a kit of Adobe Fonts

// named returns a font that sheets name but that is not visibly loaded. A kit
// loaded by scripts has a different spelling of names.
func (s *fontSources) named(name string) typeface {
	out := typeface{font: eventschemas.Font{Name: name, Origin: "custom", Weights: []int{}},
		confidence: namedConfidence, note: "where it is loaded from is unknown"}
	if s.adobe && kitName.MatchString(name) {
		out.font.Origin, out.font.OriginID = "adobe", new(name)
		out.note = "the page asks for a kit of Adobe Fonts"
	}
	return out
}

// systemFont returns the system font with a folded name, in its usual spelling.
func systemFont(key string) typeface {
	name := systemFonts[key]
	if systemNames[key] {
		name = "system-ui"
	}
	return typeface{font: eventschemas.Font{Name: name, Origin: "system", Weights: []int{}},
		confidence: systemConfidence}
}

// familiesOf splits a font-family value and removes quotes.
func familiesOf(stack string) []string {
	var out []string
	for part := range css.Split(stack, ',') {
		if name := strings.TrimSpace(part); name != "" && len(out) < maxStackLength {
			out = append(out, strings.TrimSpace(strings.Trim(name, `"'`)))
		}
	}
	return out
}

var (
	// builtName matches the names that Next.js generates for a family: __Inter_a1b2c3, __Inter_Fallback_a1b2c3.
	builtName = lazyregexp.New(`^__(.+?)_([0-9a-f]{6})$`)
	// variableName matches the suffixes of variable fonts by Fontsource and others.
	variableName = lazyregexp.New(`(?i)[ -]?(variable|var|vf)$`)
	// fontStandIn matches a system font under another name, adjusted to the width of the font that replaces it.
	fontStandIn = lazyregexp.New(`(?i)[ _-](fallback|fallback[ :-].*|placeholder|adjusted|override)$`)
)

// plainFamily returns the name of a family without the additions of tools. ok
// is false if the name is not a family, or only a placeholder for one.
func plainFamily(name string) (string, bool) {
	if built := builtName.FindStringSubmatch(name); built != nil {
		name = strings.ReplaceAll(built[1], "_", " ")
	}
	name = page.Clean(strings.ReplaceAll(name, "\\", ""), brand.MaxFontNameRunes+1)
	if fontStandIn.MatchString(name) {
		return "", false
	}
	if short := strings.TrimSpace(variableName.ReplaceAllString(name, "")); short != "" {
		name = short
	}
	if brand.CheckFontName(name) != nil || strings.Contains(name, "'") || strings.HasPrefix(name, "--") {
		return "", false
	}
	switch strings.ToLower(name) {
	case "inherit", "initial", "unset", "revert", "none", "auto", "normal", "undefined", "false", "null":
		return "", false
	}
	return name, true
}

// iconWords matches names of icon fonts.
var iconWords = lazyregexp.New(`(?i)(^|[^a-z])(` + tables.Any("iconWords") + `)($|[^a-z])|icons?$|^fa[bsrl]?$`)

func isIconFont(name string) bool { return iconWords.MatchString(name) }

// subsetName matches a family for one script, which pages load in addition to the one for their own.
var subsetName = lazyregexp.New(`(?i)^(noto (sans|serif|naskh|nastaliq|kufi) .*(` + tables.Any("subsetName") +
	`)|nanum.*|.*\b(mono|code)\b.*)$`)
