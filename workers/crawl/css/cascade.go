package css

import (
	"net/url"
	"sync"

	"golang.org/x/net/html"
)

// Cascade answers what a document's stylesheets say. It is safe for concurrent use as long as nobody changes
// the document. A nil Cascade knows nothing and answers so.
type Cascade struct {
	*book

	mu       sync.Mutex
	work     int // compound selectors that may still be tested
	matches  map[*html.Node][]match
	vars     map[varKey]resolved
	siblings map[*html.Node]int
	inline   map[*html.Node][]declaration
	ready    map[int32]compiled
	tests    map[string]*compound // compounds by their text
	names    map[int32]map[string]int
}

// Face is one @font-face.
type Face struct {
	Family  string
	Sources []*url.URL // absolute
	Weights []int      // sorted; both ends of a range
}

// Variable is a custom property of the document's root.
type Variable struct{ Name, Value string }

// New reads the stylesheets of a document in the order of the document: its style elements, and of its
// linked sheets those whose text is given, by absolute URL. Sheets that a sheet imports are looked up in
// the same way. It never fails: what cannot be read is passed over.
func New(root *html.Node, base *url.URL, sheets map[string][]byte) *Cascade {
	return &Cascade{
		book: read(root, base, sheets), work: maxWork,
		matches:  map[*html.Node][]match{},
		vars:     map[varKey]resolved{},
		siblings: map[*html.Node]int{},
		inline:   map[*html.Node][]declaration{},
		ready:    map[int32]compiled{},
		tests:    map[string]*compound{},
		names:    map[int32]map[string]int{},
	}
}

// Value is what wins for a property on the element itself, with variables resolved; "" when nothing is said.
// The property is in lower case; a shorthand is taken apart for font-family, font-weight, font-size,
// background-image, background-color, background-position, background-size, background-repeat and mask-image. Addresses in
// url() are absolute and quoted, except such as lead into the document (url(#id)) or hold data. The keyword
// inherit is followed; currentColor is left as it is.
func (c *Cascade) Value(n *html.Node, property string) string {
	if c == nil || n == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value(n, ownElement, property)
}

// Generated is Value on what CSS puts before or after the content of an element: pseudo is "before" or "after".
func (c *Cascade) Generated(n *html.Node, pseudo, property string) string {
	if c == nil || n == nil {
		return ""
	}
	kind, ok := map[string]pseudoElement{"before": beforeElement, "after": afterElement}[pseudo]
	if !ok {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value(n, kind, property)
}

// Inherited is Value on the element or the nearest ancestor that has one.
func (c *Cascade) Inherited(n *html.Node, property string) string {
	if c == nil || n == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inherited(n, property)
}

// Variables lists the custom properties of the root in the order of the sheets, resolved. Those of the body
// follow, which many sheets treat as the root.
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

// Imported lists the URLs that the sheets import, whether their text was given or not.
func (c *Cascade) Imported() []*url.URL {
	if c == nil {
		return nil
	}
	return c.imported
}

// Empty says that no rule was read.
func (c *Cascade) Empty() bool { return c == nil || len(c.rules) == 0 && len(c.faces) == 0 }
