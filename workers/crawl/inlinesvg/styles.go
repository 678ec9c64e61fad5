package inlinesvg

import (
	"cmp"
	"strconv"
	"strings"

	"golang.org/x/net/html"

	"letterhead/internal/css"
	"letterhead/workers/crawl/table"
)

var tables = table.Of("inlinesvg")

// presentation are the attributes of an svg, symbol or use element that its content inherits.
var presentation = tables.Set("presentation")

// value returns an element's own value of a property, from a stylesheet, its style attribute or an attribute.
func (w *writer) value(n *html.Node, property string) string {
	if w.cascade != nil && w.lookups < maxStyled {
		if v := w.cascade.Value(n, property); v != "" {
			return v
		}
	}
	return cmp.Or(Inline(n, property), attr(n, property))
}

// inherited returns the value of a property of an element or its nearest ancestor that has one.
func (w *writer) inherited(n *html.Node, property string) string {
	if w.cascade != nil {
		return w.cascade.Inherited(n, property)
	}
	for i := 0; n != nil && i < maxWalk; i, n = i+1, n.Parent {
		if v := Inline(n, property); v != "" {
			return v
		}
		if n.Namespace == "svg" && attr(n, property) != "" {
			return attr(n, property)
		}
	}
	return ""
}

// enter returns the context of an element's children.
func (w *writer) enter(n *html.Node, at context) context {
	if c, ok := plainColor(w.value(n, "color")); ok {
		at.color = c
	}
	if v, ok := w.paint(w.value(n, "fill"), at); ok {
		at.unfilled = v == "none"
	}
	if v, ok := w.paint(w.value(n, "stroke"), at); ok {
		at.stroked = v != "none"
	}
	return at
}

// declarations returns the resolved properties of an element from stylesheets
// and its style attribute. For the root, only inherited properties count.
func (w *writer) declarations(n *html.Node, at context, root bool) []string {
	text := attr(n, "style")
	look := w.cascade != nil && w.lookups < maxStyled
	if !look && text == "" {
		return nil
	}
	w.lookups++
	own := parse(text)
	var out []string
	for _, property := range styled {
		if root && (property == "display" || property == "visibility" || property == "opacity") { // temporary states
			continue
		}
		v := own[property]
		if look {
			if c := w.cascade.Value(n, property); c != "" {
				v = c
			}
		}
		delete(own, property)
		if v = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "!important")); v == "" {
			continue
		}
		if paints[property] {
			var ok bool
			if v, ok = w.paint(v, at); !ok {
				continue
			}
		} else if property == "color" || !plainValue(v) {
			continue
		}
		w.noteReferences(v)
		out = append(out, property+":"+v)
	}
	if root {
		return out
	}
	if kind := name(n); kind == "text" || kind == "tspan" {
		out = append(out, w.lettered(n, kind == "text")...)
	}
	for _, property := range kept {
		if v := own[property]; v != "" && len(v) < maxValue {
			w.noteReferences(v)
			out = append(out, property+":"+v)
		}
	}
	return out
}

// lettering are the properties of text, which a page often sets far above a drawing.
var lettering = tables.List("lettering")

// lettered returns the properties of text that apply to an element: if inherited, also those of its ancestors.
func (w *writer) lettered(n *html.Node, inherited bool) []string {
	var out []string
	for _, property := range lettering {
		v := w.value(n, property)
		if v == "" && inherited {
			v = w.inherited(n, property)
		}
		if property == "font-size" {
			if size := Length(v); size > 0 {
				v = strconv.FormatFloat(size, 'f', -1, 64) + "px"
			}
		}
		v = strings.NewReplacer(`"`, "", "'", "").Replace(v)
		if v != "" && len(v) < maxValue && plainValue(v[:min(len(v), plainBytes)]) {
			out = append(out, property+":"+v)
		}
	}
	return out
}

// kept are further properties that are copied from a style attribute.
var kept = tables.List("kept")

const (
	maxValue   = 400 // bytes of a property's value
	plainBytes = 59  // of one that does not depend on its context
)

// plainValue reports whether a value does not depend on its context.
func plainValue(v string) bool {
	return len(v) <= plainBytes && !strings.ContainsAny(v, "(\"'") && v != "inherit" && v != "initial" &&
		v != "unset" && v != "revert"
}

// paint resolves the value of a paint. ok is false if the inherited value applies.
func (w *writer) paint(value string, at context) (string, bool) {
	value = strings.TrimSpace(value)
	lower := strings.ToLower(value)
	switch {
	case lower == "", lower == "inherit", lower == "unset", lower == "initial", lower == "revert",
		len(value) > maxValue:
		return "", false
	case lower == "none", lower == "transparent":
		return "none", true
	case lower == "currentcolor", lower == "context-fill", lower == "context-stroke":
		return at.color, true
	case strings.HasPrefix(lower, "url("):
		return localReference(value), true
	case strings.HasPrefix(lower, "var("):
		// Only the fallback after the comma is known here; stylesheets were checked before.
		inside := strings.TrimSuffix(value[4:], ")")
		if _, fallback, ok := strings.Cut(inside, ","); ok && !strings.HasPrefix(strings.TrimSpace(fallback), "var(") {
			return w.paint(fallback, at)
		}
		return at.color, true
	}
	return plainColor(value)
}

// localReference drops the part before the # of a reference: some pages write their own URL there.
func localReference(value string) string {
	m := reference.FindStringSubmatch(value)
	if m == nil {
		return "none"
	}
	rest := strings.TrimSpace(value[strings.IndexByte(value, ')')+1:])
	if c, ok := plainColor(rest); ok {
		return "url(#" + m[1] + ") " + c
	}
	return "url(#" + m[1] + ")"
}

// Inline returns the value of a property in a style attribute, or "".
func Inline(n *html.Node, property string) string {
	text := attr(n, "style")
	if text == "" || !strings.Contains(text, property) {
		return ""
	}
	return parse(text)[property]
}

const (
	maxStyleBytes   = 16 << 10
	maxDeclarations = 100
)

// parse parses a style attribute. Semicolons inside brackets and quotes do not separate declarations.
func parse(text string) map[string]string {
	out := map[string]string{}
	for declaration := range css.Split(text[:min(len(text), maxStyleBytes)], ';') {
		if key, v, ok := strings.Cut(declaration, ":"); ok && len(out) < maxDeclarations {
			out[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(v)
		}
	}
	return out
}

// size returns an svg element's size on the page in CSS pixels, 0 if unknown: the style goes before the attributes.
func (w *writer) size(svg *html.Node) (width, height float64) {
	side := func(property string) float64 {
		styled := 0.0
		if w.cascade != nil {
			styled = Length(w.cascade.Value(svg, property))
		}
		return cmp.Or(max(styled, 0), max(Length(Inline(svg, property)), 0), Length(attr(svg, property)))
	}
	return side("width"), side("height")
}

// pixelsPer is the size of units in CSS pixels, assuming the usual font size of 16.
var pixelsPer = map[string]float64{"": 1, "px": 1, "rem": 16, "em": 16, "pt": 96.0 / 72, "pc": 16, "mm": 96 / 25.4,
	"cm": 96 / 2.54, "in": 96}

// Length parses a CSS length in pixels; it returns 0 if the length is invalid or relative to an unknown size.
func Length(v string) float64 {
	v = strings.ToLower(strings.TrimSpace(v))
	end := len(v)
	for end > 0 && (v[end-1] < '0' || v[end-1] > '9') && v[end-1] != '.' {
		end--
	}
	n, err := strconv.ParseFloat(v[:end], 64)
	per, ok := pixelsPer[v[end:]]
	if err != nil || !ok || !(n > -maxLength && n < maxLength) {
		return 0
	}
	return n * per
}

const maxLength = 1e5
