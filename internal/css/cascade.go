package css

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/html"

	"letterhead/internal/lazyregexp"
)

// Cascade evaluates a document's stylesheets. It is safe for concurrent use as
// long as the document does not change. A nil Cascade is valid and empty.
type Cascade struct {
	*book

	mu       sync.Mutex
	work     int // compound selectors that may still be tested
	matches  map[*html.Node][]match
	vars     map[varKey]resolved
	siblings map[*html.Node]int
	inline   map[*html.Node][]declaration
	ready    map[int32]compiled
	tests    map[string]*compound // compounds by text
	names    map[int32]map[string]int
}

// Face is one @font-face.
type Face struct {
	Family  string
	Sources []*url.URL // absolute
	Weights []int      // sorted; both ends of a range
}

// Variable is a custom property of the document's root. Sheet is the URL of the first sheet that sets it, or the page's.
type Variable struct {
	Name, Value string
	Sheet       *url.URL
}

// Resolve makes an address in a sheet absolute, or returns nil if it is not an allowed one.
type Resolve func(base *url.URL, ref string) *url.URL

// New reads the stylesheets of a document in document order: its style elements, and the linked sheets whose text is
// given, by absolute URL. Imported sheets are looked up in the same way. It never fails: invalid parts are skipped.
func New(root *html.Node, base *url.URL, sheets map[string][]byte, resolve Resolve) *Cascade {
	return &Cascade{
		book: read(root, base, sheets, resolve), work: maxWork,
		matches:  map[*html.Node][]match{},
		vars:     map[varKey]resolved{},
		siblings: map[*html.Node]int{},
		inline:   map[*html.Node][]declaration{},
		ready:    map[int32]compiled{},
		tests:    map[string]*compound{},
		names:    map[int32]map[string]int{},
	}
}

// Value returns the winning value of a property on the element itself, with variables resolved, or "" if there is none.
// The property is in lower case. A shorthand is expanded for font-family, font-weight, font-size, font-style,
// background-image, background-color, background-position, background-size, background-repeat, border-color and
// mask-image. URLs in url() are absolute and quoted, except those that refer to the document (url(#id)) or contain data.
// The keyword inherit is resolved; currentColor is kept.
func (c *Cascade) Value(n *html.Node, property string) string {
	return locked(c, n, func() string { return c.value(n, ownElement, property) })
}

// locked evaluates something about an element. It returns the zero value without a cascade or an element.
func locked[T any](c *Cascade, n *html.Node, evaluate func() T) (value T) {
	if c != nil && n != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		value = evaluate()
	}
	return value
}

// Sheet returns the URL of the sheet whose declaration of a property applies to the element itself, the page's for a
// style element, or nil for the element's own declaration or none.
func (c *Cascade) Sheet(n *html.Node, property string) *url.URL {
	return locked(c, n, func() *url.URL {
		list := c.candidates(n, ownElement, property)
		if best := strongest(list); best >= 0 && list[best].rule != nil {
			return list[best].rule.at
		}
		return nil
	})
}

// Generated is Value for the content that CSS generates before or after an
// element's content: pseudo is "before" or "after".
func (c *Cascade) Generated(n *html.Node, pseudo, property string) string {
	kind, ok := map[string]pseudoElement{"before": beforeElement, "after": afterElement}[pseudo]
	if !ok {
		return ""
	}
	return locked(c, n, func() string { return c.value(n, kind, property) })
}

// Inherited is Value for the element or the nearest ancestor that has one.
func (c *Cascade) Inherited(n *html.Node, property string) string {
	return locked(c, n, func() string { return c.inherited(n, property) })
}

// Variables lists the custom properties of the root in the order of the sheets,
// resolved. Those of the body follow, which many sheets use like the root.
func (c *Cascade) Variables() []Variable {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.variables()
}

// Faces lists the @font-face rules.
func (c *Cascade) Faces() []Face {
	if c == nil {
		return nil
	}
	return c.faces
}

// Imported lists the URLs that the sheets import, including those whose text was not given.
func (c *Cascade) Imported() []*url.URL {
	if c == nil {
		return nil
	}
	return c.imported
}

// Empty reports whether no rule was read.
func (c *Cascade) Empty() bool { return c == nil || len(c.rules) == 0 && len(c.faces) == 0 }

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
