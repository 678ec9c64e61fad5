package page

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

func (g *gatherer) meta(n *html.Node) {
	content := Attr(n, "content")
	for _, kind := range []string{"property", "name", "itemprop", "http-equiv"} {
		for key := range strings.FieldsSeq(Attr(n, kind)) {
			g.declare(kind, key, content)
		}
	}
	if strings.EqualFold(Attr(n, "http-equiv"), "refresh") && g.page.Refresh == nil {
		g.page.Refresh = g.refresh(content)
	}
	if strings.EqualFold(Attr(n, "name"), "msapplication-config") && g.page.Config == nil {
		g.page.Config = g.page.Resolve(content)
	}
}

func (g *gatherer) declare(kind, key, content string) {
	if len(g.page.Metas) >= MaxMetas || len(key) > 100 {
		return
	}
	g.page.Metas = append(g.page.Metas,
		Meta{Kind: kind, Key: strings.ToLower(key), Content: Clean(content, MaxValueRunes)})
}

const (
	maxItemDepth = 20  // the number of ancestors of a value that are searched for its item
	maxItemNodes = 200 // limits the elements of an item that are searched for its name
)

// owned records the owners of the logos among the values from an index on.
func (g *gatherer) owned(n *html.Node, from int, at place) {
	for i := from; i < len(g.page.Metas); i++ {
		if m := &g.page.Metas[i]; m.Kind == "itemprop" && m.Key == "logo" {
			m.Of, m.Other = itemName(n), at.excluded || at.logoWall
		}
	}
}

// itemName returns the name of the microdata item to which an element belongs.
func itemName(n *html.Node) string {
	var scope *html.Node
	for i, p := 0, n.Parent; scope == nil; i, p = i+1, p.Parent {
		if p == nil || i == maxItemDepth {
			return ""
		}
		if _, is := lookup(p, "itemscope"); is {
			scope = p
		}
	}
	left := maxItemNodes
	var find func(*html.Node) string
	find = func(n *html.Node) string {
		for c := n.FirstChild; c != nil && left > 0; c = c.NextSibling {
			if c.Type != html.ElementNode {
				continue
			}
			left--
			if slices.Contains(strings.Fields(Attr(c, "itemprop")), "name") {
				if content := Attr(c, "content"); content != "" {
					return Clean(content, MaxValueRunes)
				}
				return Clean(inner(c), MaxValueRunes)
			}
			if _, other := lookup(c, "itemscope"); other {
				continue
			}
			if name := find(c); name != "" {
				return name
			}
		}
		return ""
	}
	return find(scope)
}

// ValueAttributes are the attributes in which elements other than meta have the value of their itemprop.
var ValueAttributes = map[string]string{"a": "href", "area": "href", "link": "href", "img": "src", "audio": "src",
	"embed": "src", "iframe": "src", "source": "src", "track": "src", "video": "src", "object": "data", "time": "datetime"}

// microdata adds an itemprop of an element other than meta.
func (g *gatherer) microdata(n *html.Node) {
	props := Attr(n, "itemprop")
	if props == "" || n.Data == "meta" {
		return
	}
	name, isDeclared := ValueAttributes[n.Data]
	value := Attr(n, name)
	if !isDeclared {
		value = inner(n)
	}
	for prop := range strings.FieldsSeq(props) {
		g.declare("itemprop", prop, value)
	}
}

// refresh parses "5; url=/next".
func (g *gatherer) refresh(content string) *Refresh {
	number, rest, _ := strings.Cut(content, ";")
	if number == content {
		number, rest, _ = strings.Cut(content, ",")
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || seconds < 0 || seconds > 1e6 {
		return nil
	}
	rest = strings.TrimSpace(rest)
	if i := strings.IndexByte(rest, '='); i >= 0 && strings.EqualFold(strings.TrimSpace(rest[:i]), "url") {
		rest = strings.TrimSpace(rest[i+1:])
	}
	u := g.page.Resolve(strings.Trim(rest, `'"`))
	if u == nil {
		return nil
	}
	return &Refresh{Seconds: int(seconds), URL: u}
}

func (g *gatherer) link(n *html.Node) {
	rels := strings.Fields(strings.ToLower(Attr(n, "rel")))
	href := Attr(n, "href")
	if kind := iconRel(rels); kind != "" {
		g.icon(n, kind, href)
	}
	for _, rel := range rels {
		switch rel {
		case "manifest":
			if g.page.Manifest == nil {
				g.page.Manifest = g.page.Resolve(href)
			}
		case "stylesheet":
			if u := g.page.Resolve(href); u != nil && len(g.page.Styles) < maxStyles {
				g.page.Styles = append(g.page.Styles, u)
			}
		case "me":
			if u := g.page.Resolve(href); u != nil && len(g.page.Anchors) < MaxAnchors {
				g.page.Anchors = append(g.page.Anchors, Anchor{URL: u, Me: true})
			}
		case "logo", "image_src":
			g.declare("name", rel, href)
		}
	}
}

// iconRel returns the kind of icon that a rel declares, or "".
func iconRel(rels []string) string {
	switch {
	case slices.Contains(rels, "apple-touch-icon"), slices.Contains(rels, "apple-touch-icon-precomposed"):
		return "apple-touch-icon"
	case slices.Contains(rels, "mask-icon"):
		return "mask-icon"
	case slices.Contains(rels, "fluid-icon"):
		return "fluid-icon"
	case slices.Contains(rels, "icon"): // also "shortcut icon"
		return "icon"
	}
	return ""
}

func (g *gatherer) icon(n *html.Node, rel, href string) {
	if len(g.page.Icons) >= MaxIcons {
		return
	}
	u := resolveImage(g.page.Base, href)
	if u == nil {
		return
	}
	if _, mask := lookup(n, "mask"); mask && rel == "icon" { // the predecessor of rel=mask-icon
		rel = "mask-icon"
	}
	icon := Icon{
		Rel:   rel,
		URL:   u,
		Type:  strings.ToLower(Clean(Attr(n, "type"), 60)),
		Color: Clean(Attr(n, "color"), 40),
		Media: strings.ToLower(Clean(Attr(n, "media"), 100)),
	}
	icon.Sizes, icon.Any = ParseSizes(Attr(n, "sizes"))
	g.page.Icons = append(g.page.Icons, icon)
}

const maxSize = 8192 // limits a declared size in pixels: larger ones are not serious

// ParseSizes parses a sizes attribute, such as "16x16 32x32 any". Malformed parts are skipped.
func ParseSizes(text string) (sizes []Size, any bool) {
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		if word == "any" {
			any = true
			continue
		}
		w, h, ok := strings.Cut(word, "x")
		if !ok {
			w, h, ok = strings.Cut(word, "×")
		}
		width, err1 := strconv.Atoi(strings.TrimSuffix(w, "px"))
		height, err2 := strconv.Atoi(strings.TrimSuffix(h, "px"))
		if !ok || err1 != nil || err2 != nil || width < 1 || height < 1 || width > maxSize || height > maxSize {
			continue
		}
		if len(sizes) < 16 {
			sizes = append(sizes, Size{width, height})
		}
	}
	return sizes, any
}

// scriptElement adds a script: linked data, or traces for signatures.
func (g *gatherer) scriptElement(n *html.Node) {
	g.page.Scripts++
	kind, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(Attr(n, "type"))), ";")
	if kind == "application/ld+json" {
		g.blobs = append(g.blobs, []byte(inner(n))) // linkeddata limits number and size
		return
	}
	g.source(Attr(n, "src"))
	if text := inner(n); text != "" && len(g.page.Script) < maxRawBytes {
		g.page.Script += text[:min(len(text), maxRawBytes-len(g.page.Script))] + "\n"
	}
}

func (g *gatherer) source(src string) {
	if src == "" || len(g.page.Sources) >= maxScriptHosts {
		return
	}
	if u := g.page.Resolve(src); u != nil {
		g.page.Sources = append(g.page.Sources, u)
	}
}
