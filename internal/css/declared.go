package css

import (
	"cmp"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/internal/lazyregexp"
)

// Declaration is a property of an element with the value that wins.
type Declaration struct{ Property, Value string }

// Unset is the value of a property whose strongest declaration unsets it, refers to an unknown variable, or is invalid
// because of a variable's value. Such a declaration wins all the same (CSS Custom Properties 1, section 3.1).
const Unset = "unset"

// Declared returns the properties that the rules and the style attribute of an element set, sorted by name, without
// custom properties; font is the only shorthand that is expanded. accept rewrites a value, or rejects it as invalid, and
// then a weaker declaration applies.
//
// It is for files whose sheets are all known. Value is for pages, of which sheets may be missing.
func (c *Cascade) Declared(n *html.Node, accept func(property, value string) (string, bool)) []Declaration {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.all(n)
	c.work -= len(list)
	slices.SortFunc(list, func(a, b candidate) int {
		if a.order == b.order && a.rule == b.rule && a.specificity == b.specificity {
			return 0 // one declaration
		}
		if a.beats(b) {
			return -1
		}
		return 1
	})
	var out []Declaration
	decided := map[string]bool{}
	for _, from := range list {
		property := from.declaration.name
		if decided[property] {
			continue
		}
		raw := from.declaration.value
		value, ok := c.resolved(n, property, raw)
		if ok {
			value, ok = accept(property, value)
		}
		switch {
		case ok:
		case indexFunction(raw, "var(") >= 0, strings.EqualFold(raw, Unset), strings.EqualFold(raw, "revert"):
			value = Unset
		default:
			continue
		}
		decided[property] = true
		out = append(out, Declaration{property, value})
	}
	slices.SortFunc(out, func(a, b Declaration) int { return cmp.Compare(a.Property, b.Property) })
	return out
}

// Resolved returns the value of a presentation attribute with variables and light-dark() resolved.
func (c *Cascade) Resolved(n *html.Node, property, value string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resolved(n, property, value)
}

// resolved resolves what a value refers to: variables, the color scheme, and the current color within a mixed one.
func (c *Cascade) resolved(n *html.Node, property, value string) (string, bool) {
	value, ok := c.substitute(n, value, 0)
	if !ok || strings.HasPrefix(property, "--") || property == "color-scheme" {
		return value, ok
	}
	value = c.pickScheme(n, value)
	if indexFunction(value, "color-mix(") >= 0 && currentColor.MatchString(value) {
		if property == "color" {
			n = n.Parent
		}
		value = currentColor.ReplaceAllString(value, cmp.Or(c.inherited(n, "color"), "black"))
	}
	return value, true
}

var currentColor = lazyregexp.New(`(?i)\bcurrentcolor\b`)

// Exhausted reports whether the sheets took too much work, so that rules may be missing.
func (c *Cascade) Exhausted() bool { return c.work < 0 }

// all lists the declarations of an element's rules and style attribute, without those of custom properties.
func (c *Cascade) all(n *html.Node) []candidate {
	out := c.list(n, ownElement, "", func(name string) bool { return !strings.HasPrefix(name, "--") })
	for _, from := range slices.Clone(out) {
		if from.declaration.name != "font" {
			continue
		}
		for _, property := range []string{"font-family", "font-size", "font-style", "font-weight"} {
			if value, ok := longhand(property, from.declaration.value); ok {
				part := from
				part.declaration = &declaration{property, value, from.declaration.important}
				out = append(out, part)
			}
		}
	}
	return out
}
