package colors

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"

	"letterhead/internal/css"
	"letterhead/internal/imaging"
	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/table"
)

var tables = table.Of("colors")

// Limits for reading the style sheets.
const (
	maxNamed        = 6      // colors taken from custom properties
	maxButtons      = 40     // buttons looked at
	maxLinks        = 60     // links looked at
	maxPanels       = 40     // panels with a color of their own looked at
	maxMenuLinks    = 20     // links looked at in menus, if they come first
	maxColorNodes   = 60_000 // nodes walked for them
	maxVariableName = 60     // bytes of a name in the evidence
	maxCSSColor     = 200    // bytes of a color
	minButtons      = 0.2    // of all colored buttons that must have a color
)

// sheets adds the colors of the style sheets: variables for brand colors, buttons and links.
func (p *colorPool) sheets() {
	if p.in.Style == nil {
		return
	}
	p.surfaces()
	p.variables()
}

// frameworkSheet matches the paths of sheets that are the same on many sites.
var frameworkSheet = lazyregexp.New(`(?i)/(plugins?|node_modules|vendors?|wp-includes|libs?|npm)/|[/_.-](` +
	tables.Any("frameworkSheet") + `)\b[\w.-]*\.css`)

// frameworkVariable matches the names by which frameworks declare their own colors, in whichever sheet.
var frameworkVariable = lazyregexp.New(`^--(bs|e-global|wp|ast|nv)-`)

// isOwn reports whether a color is the site's own. A framework's default is its own if a sheet other than the
// framework's sets it.
func isOwn(c imaging.RGB, sheet *url.URL) bool {
	return !frameworkColors[c] || sheet == nil || !frameworkSheet.MatchString(sheet.Path)
}

// addSheet adds a color of a sheet. A grey one counts less, and one that is not the site's own counts only if another
// source agrees.
func (p *colorPool) addSheet(c imaging.RGB, weight float64, method string, own bool) {
	one := pooled{color: c, weight: weight, method: method, source: p.in.PageURL(), framework: !own}
	if c.Chroma() < minChromatic {
		one.weight *= neutralShare
	}
	p.list = append(p.list, one)
}

var (
	// brandVariable lists names of variables for a brand's color, the most specific first.
	brandVariable = []struct {
		word   *lazyregexp.Regexp
		weight float64
	}{
		{lazyregexp.New(`(^|[-_])brand`), 1},
		{lazyregexp.New(`(^|[-_])primary`), 1},
		{lazyregexp.New(`(^|[-_])(accent|theme|main|corporate)([-_]|$)`), 0.75},
		{lazyregexp.New(`(^|[-_])cta([-_]|$)`), 0.75},
	}
	// paletteVariable is the first color of the palettes that owners choose in their themes.
	paletteVariable = lazyregexp.New(`^(global-palette1|ast-global-color-0|theme-palette-color-1|palette-color1|nv-primary-accent|color-base-accent-1)$`)
	// otherVariable matches names of other variables: a state, a shade, a text on the color, another meaning.
	otherVariable   = lazyregexp.New(`(^|[-_])(` + tables.Any("otherVariable") + `)([-_]|\d*$)`)
	camel           = lazyregexp.New(`([a-z])([A-Z])`)  // matches the beginning of a word within a name
	shadeVariable   = lazyregexp.New(`[-_]?(\d{1,4})$`) // matches a step of a scale; its middle is the color itself
	middleOfScale   = extract.FoldedSet("500", "600", "5", "6", "9", "1", "01", "base", "default", "main")
	foreignVariable = lazyregexp.New(`^--(` + tables.Any("foreignVariable") + `)`)
)

// isShown reports whether a visitor sees a color on a button, a link, a heading or the header. Greys are always shown.
// Every color is if the sheets color none of these elements, as on pages that scripts build.
func (p *colorPool) isShown(c imaging.RGB) bool {
	return len(p.shown) == 0 || c.Chroma() < minChromatic ||
		slices.ContainsFunc(p.shown, func(s imaging.RGB) bool { return imaging.DeltaE(s, c) < sameColor })
}

// maxShown limits the colors of the page that are kept for isShown. The others limit the elements that are looked at
// for them: in headers and menus, which may have hundreds of links, and elsewhere.
const (
	maxShown         = 64
	maxShownFromHead = 80
	maxShownFrom     = 160
)

// sees keeps the colors of an element for isShown.
func (p *colorPool) sees(n *html.Node, head bool, properties ...string) {
	seen, most := &p.seen, maxShownFrom
	if head {
		seen, most = &p.seenInHead, maxShownFromHead
	}
	if *seen++; *seen > most {
		return
	}
	for _, property := range properties {
		value := p.in.Style.Value(n, property)
		colors := gradients(value)
		if c, ok := cssColor(value); ok {
			colors = append(colors, c)
		}
		for _, c := range colors {
			if c.Chroma() >= minChromatic && len(p.shown) < maxShown && !slices.Contains(p.shown, c) {
				p.shown = append(p.shown, c)
			}
		}
	}
}

// Limits for reading gradients.
const (
	maxGradient = 1000 // bytes of a value with gradients
	maxStops    = 8    // colors read from it
)

// gradients returns the colors of the gradients among the layers of a value, in order: #c00 and #f60 for
// "linear-gradient(90deg, #c00 10%, #f60), url(x.png)".
func gradients(value string) (all []imaging.RGB) {
	if len(value) > maxGradient || !strings.Contains(value, "radient(") {
		return nil
	}
	for layer := range css.Split(value, ',') {
		name, inside, _ := strings.Cut(layer, "(")
		if !strings.HasSuffix(strings.ToLower(name), "gradient") {
			continue
		}
		for stop := range css.Split(strings.TrimSuffix(strings.TrimSpace(inside), ")"), ',') {
			color := slices.Collect(css.Split(strings.TrimSpace(stop), ' '))[0] // without its position
			if c, ok := cssColor(color); ok && len(all) < maxStops {
				all = append(all, c)
			}
		}
	}
	return all
}

// variables adds the custom properties of the root that are named as the brand's color, if the page shows it.
func (p *colorPool) variables() {
	type named struct {
		color  imaging.RGB
		weight float64
		name   string
		own    bool
	}
	var found []named
	for _, v := range p.in.Style.Variables() {
		weight := brandVariableWeight(v.Name)
		if weight == 0 || len(v.Value) > maxCSSColor {
			continue
		}
		if c, ok := cssColor(v.Value); ok && p.isShown(c) &&
			!slices.ContainsFunc(found, func(have named) bool { return have.color == c && have.weight >= weight }) {
			own := isOwn(c, v.Sheet) && !(frameworkColors[c] && frameworkVariable.MatchString(v.Name))
			found = append(found, named{c, weight, v.Name, own})
		}
	}
	slices.SortStableFunc(found, func(a, b named) int {
		return int(100*b.weight) - int(100*a.weight)
	})
	for i, f := range found[:min(len(found), maxNamed)] {
		// A sheet with many such names has many colors; the first counts most.
		p.addSheet(f.color, variableWeight*f.weight/float64(1+i/2),
			variableMethod+f.name[:min(len(f.name), maxVariableName)], f.own)
	}
}

// brandVariableWeight returns how likely a custom property holds the brand's color, by its name, from 0 to 1.
func brandVariableWeight(name string) float64 {
	if foreignVariable.MatchString(name) {
		return 0
	}
	name = strings.ToLower(camel.ReplaceAllString(strings.TrimPrefix(name, "--"), "$1-$2"))
	name = strings.TrimSuffix(strings.TrimSuffix(name, "-rgb"), "-hsl")
	if paletteVariable.MatchString(name) {
		return 0.75
	}
	if otherVariable.MatchString(name) {
		return 0
	}
	if step := shadeVariable.FindStringSubmatch(name); step != nil && !middleOfScale[step[1]] {
		return 0
	}
	for _, rule := range brandVariable {
		if rule.word.MatchString(name) {
			return rule.weight
		}
	}
	return 0
}

// surfaces adds the backgrounds of buttons and the color of links, and records the background of a dark page.
func (p *colorPool) surfaces() {
	var buttons, links, panels tally
	nodes := 0
	var body *html.Node
	var walk func(n *html.Node, text, head bool)
	walk = func(n *html.Node, text, head bool) {
		if nodes++; nodes > maxColorNodes || n.Type == html.ElementNode && (extract.ForeignBlock(n) || isAbsent(n)) {
			return
		}
		if n.Type == html.ElementNode && n.Data == "svg" {
			if head {
				p.sees(n, head, "fill", "color")
			}
			return
		}
		if n.Type == html.ElementNode {
			if n.Data == "body" && body == nil {
				body = n
			}
			text = text || n.Data == "p" || n.Data == "li" || n.Data == "main" || n.Data == "article"
			head = head || n.Data == "header" || n.Data == "nav"
			style := strings.ToLower(page.Attr(n, "style"))
			styled := strings.Contains(style, "color") || strings.Contains(style, "background")
			switch {
			case isButton(n):
				p.sees(n, false, "background-color", "background-image", "color", "border-color")
				if buttons.total < maxButtons {
					if c, ok := p.fill(n); ok && c != imaging.White {
						buttons.add(c, isOwn(c, p.in.Style.Sheet(n, "background-color")))
					}
				}
			case n.Data == "a" && (text || styled) && links.total < maxLinks && !(head && links.total >= maxMenuLinks):
				if c, ok := cssColor(p.in.Style.Value(n, "color")); ok && c.Chroma() >= minChromatic {
					links.add(c, isOwn(c, p.in.Style.Sheet(n, "color")))
					p.sees(n, head, "color")
				}
			case (styled || page.Attr(n, "bgcolor") != "") && panels.total < maxPanels:
				if c, ok := p.fill(n); ok && c.Chroma() >= minChromatic {
					panels.add(c, true)
				}
				p.sees(n, head, "color", "background-color", "background-image")
			case head, n.Data == "a", n.Data == "h1", n.Data == "h2", n.Data == "footer", n.Data == "section":
				p.sees(n, head, "color", "background-color", "background-image")
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, text, head)
		}
	}
	if p.in.Page.Root != nil {
		walk(p.in.Page.Root, false, false)
	}
	if body != nil {
		if c, ok := cssColor(p.in.Style.Value(body, "background-color")); ok && c.Brightness() < darkBelow {
			p.backgrounds = append(p.backgrounds,
				pooled{color: c, weight: darkBackgroundWeight, method: "page background", source: p.in.PageURL()})
		}
	}
	p.addTally(buttons, buttonWeight, buttonMethod)
	p.addTally(links, linkWeight, linkMethod)
	p.addTally(panels, panelWeight, "panel background")
}

// tally counts the elements of one kind by their color.
type tally struct {
	of    map[imaging.RGB]int
	own   map[imaging.RGB]bool // a rule of the site's own sets the color
	total int
}

func (t *tally) add(c imaging.RGB, own bool) {
	if t.of == nil {
		t.of, t.own = map[imaging.RGB]int{}, map[imaging.RGB]bool{}
	}
	t.of[c]++
	t.own[c] = t.own[c] || own
	t.total++
}

// addTally adds the colors that are frequent among the elements of one kind.
func (p *colorPool) addTally(t tally, weight float64, method string) {
	for c, count := range t.of {
		if share := float64(count) / float64(t.total); share >= minButtons {
			p.addSheet(c, weight*share, method, t.own[c])
		}
	}
}

// surface returns the color behind an element: that of the nearest element around it, else that of the hero, over which
// its header may lie, else that of the body.
func (p *colorPool) surface(n *html.Node) (imaging.RGB, bool) {
	var header *html.Node
	for ; n != nil && n.Type == html.ElementNode; n = n.Parent {
		if n.Data == "body" && header != nil {
			if c, ok := p.hero(header.NextSibling, maxHeroDepth); ok {
				return c, true
			}
		}
		if c, ok := p.fill(n); ok {
			return c, true
		}
		header = n
	}
	return imaging.RGB{}, false
}

const maxHeroDepth = 4 // limits the elements within which the surface of a hero is searched

// hero returns the color of the first element from n on, or of the first element within that.
func (p *colorPool) hero(n *html.Node, depth int) (imaging.RGB, bool) {
	for n != nil && (n.Type != html.ElementNode || n.Data == "script" || n.Data == "style") {
		n = n.NextSibling
	}
	if n == nil || depth == 0 {
		return imaging.RGB{}, false
	}
	if c, ok := p.fill(n); ok {
		return c, true
	}
	return p.hero(n.FirstChild, depth-1)
}

// fill returns the background of an element: its color, or the first color of a gradient.
func (p *colorPool) fill(n *html.Node) (imaging.RGB, bool) {
	if c, ok := cssColor(p.in.Style.Value(n, "background-color")); ok {
		return c, true
	}
	if all := gradients(p.in.Style.Value(n, "background-image")); len(all) > 0 {
		return all[0], true
	}
	return Parse(page.Attr(n, "bgcolor"))
}

// isAbsent reports whether an attribute keeps an element from being shown. Scripts show the whole page once it is
// loaded.
func isAbsent(n *html.Node) bool { return n.Data != "body" && n.Data != "html" && page.IsAbsent(n) }

var buttonName = lazyregexp.New(`(^|[-_])(btn|button|cta)([-_]|$)`) // matches the class of a button

func isButton(n *html.Node) bool {
	switch n.Data {
	case "button":
		return true
	case "input":
		return page.Attr(n, "type") == "submit"
	case "a", "span", "div":
		return slices.ContainsFunc(strings.Fields(strings.ToLower(page.Attr(n, "class"))), buttonName.MatchString)
	}
	return false
}

// cssColor parses a color of a style sheet: all of CSS, including mixed colors, and bare channels as kept in variables:
// "59 130 246" or "222.2 47.4% 11.2%". ok is false for a color that is more than half transparent.
func cssColor(text string) (imaging.RGB, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" || len(text) > maxCSSColor {
		return imaging.RGB{}, false
	}
	if c, alpha, ok := imaging.ParseColor(text); ok {
		return c, alpha >= minAlpha
	}
	return channels(text)
}

// channels parses three bare numbers: with percentages hue, saturation and lightness, else red, green and blue.
func channels(text string) (imaging.RGB, bool) {
	text, _, _ = strings.Cut(text, "/")
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })
	if len(parts) != 3 {
		return imaging.RGB{}, false
	}
	form := "rgb(" + strings.Join(parts, ",") + ")"
	if strings.HasSuffix(parts[1], "%") && strings.HasSuffix(parts[2], "%") {
		form = "hsl(" + strings.Join(parts, ",") + ")"
	} else {
		for _, part := range parts {
			if v, err := strconv.ParseFloat(part, 64); err != nil || v < 0 || v > 255 {
				return imaging.RGB{}, false
			}
		}
	}
	c, _, ok := imaging.ParseColor(form)
	return c, ok
}

var frameworkColors = hexes("frameworkColors") // the default colors of frameworks, builders and widgets
var templateColors = hexes("templateColors")   // the defaults of generators for icons and new projects

// tileColors are the palette in Microsoft's guide to tiles, from which users of RealFaviconGenerator choose. As the
// color of a tile alone, each of them only shows that a choice was required.
var tileColors = hexes("tileColors")

func hexes(section string) map[imaging.RGB]bool {
	out := map[imaging.RGB]bool{}
	for _, list := range tables.List(section) {
		for hex := range strings.FieldsSeq(list) {
			if c, _, ok := imaging.ParseColor("#" + hex); ok {
				out[c] = true
			}
		}
	}
	return out
}
