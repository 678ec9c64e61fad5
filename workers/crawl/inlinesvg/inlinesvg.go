package inlinesvg

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"letterhead/domain/brand"
	"letterhead/internal/css"
)

// Limits of one image. Logos stay far below them.
const (
	MaxBytes  = 256 << 10 // limits the result
	MaxSprite = 2 << 20   // limits a sprite from which a symbol is cut

	maxElements = 3000   // written, use expanded
	maxDepth    = 48     // of nesting, use expanded
	maxUses     = 200    // expansions
	maxStyled   = 400    // elements whose style is looked up
	maxIDs      = 20_000 // elements with an id in a document
	maxWalk     = 1200   // depth of a document
)

var (
	// ErrEmpty: the image has no visible content.
	ErrEmpty = errors.New("drawing is empty")
	// ErrTooLarge: the image exceeds a limit.
	ErrTooLarge = errors.New("drawing is too large")
	// ErrNotFound: the sprite has no such part, or is not a sprite.
	ErrNotFound = errors.New("no such part in the sprite")
)

// Image is the content of an svg element.
type Image struct {
	SVG           []byte // a self-contained file; nil if Sprite refers to the shapes
	Sprite        *Sprite
	Width, Height float64 // CSS pixels on the page, 0 unknown
}

// Sprite is a part of a file that a page draws.
type Sprite struct {
	URL         *url.URL // without the fragment
	ID          string
	Color, Fill string // the values of currentColor and of the default fill; "" for the initial one
	ViewBox     string // of the svg element on the page; "" for none
}

// Resolver resolves the svg elements of one document. It is not safe for concurrent use.
type Resolver struct {
	root    *html.Node
	base    *url.URL
	cascade *css.Cascade
	ids     map[string]*html.Node
}

// NewResolver returns a resolver for a document at a URL. cascade may be nil;
// then only the elements' own colors are known.
func NewResolver(root *html.Node, base *url.URL, cascade *css.Cascade) *Resolver {
	return &Resolver{root: root, base: base, cascade: cascade}
}

// Resolve converts an svg element to a file. Errors: ErrEmpty, ErrTooLarge.
func (r *Resolver) Resolve(svg *html.Node) (*Image, error) {
	w := &writer{Resolver: r, written: map[string]bool{}}
	at := context{color: w.inherited(svg, "color"), fill: w.inherited(svg, "fill")}
	if color, ok := plainColor(at.color); ok {
		at.color = color
	} else {
		at.color = black
	}
	d := &Image{}
	d.Width, d.Height = w.size(svg)
	if sprite := w.sprite(svg, at); sprite != nil {
		d.Sprite = sprite
		return d, nil
	}
	box, from := attr(svg, "viewBox"), svg
	if box == "" {
		if use, target := w.onlyUse(svg); target != nil && attr(target, "viewBox") != "" {
			// Drawn in the symbol's own coordinates, it keeps its aspect ratio.
			box, from, w.around = attr(target, "viewBox"), target, []*html.Node{use, target}
		} else if d.Width > 0 && d.Height > 0 {
			box = fmt.Sprintf("0 0 %g %g", d.Width, d.Height)
		}
	}
	w.document(svg, from, box, at)
	if w.err == nil && w.shapes > 0 && !w.painted {
		// Its colors are defined where they are not visible here. A logo is not meant to be invisible.
		w = &writer{Resolver: r, written: map[string]bool{}, repaint: true, around: w.around}
		w.document(svg, from, box, at)
	}
	return d, w.finish(d)
}

// ResolveSymbol converts a symbol of the document, as an svg element that uses it would show it. Errors: as Resolve.
func (r *Resolver) ResolveSymbol(id string) (*Image, error) {
	svg := &html.Node{Type: html.ElementNode, Data: "svg", DataAtom: atom.Svg, Namespace: "svg"}
	svg.AppendChild(&html.Node{Type: html.ElementNode, Data: "use", Namespace: "svg",
		Attr: []html.Attribute{{Key: "href", Val: "#" + id}}})
	return r.Resolve(svg)
}

// Cut converts one part of a sprite to a file: a symbol, a view, a group, a
// nested svg. Errors: ErrNotFound, ErrEmpty, ErrTooLarge.
func Cut(sprite []byte, part Sprite) ([]byte, error) {
	if len(sprite) > MaxSprite {
		return nil, fmt.Errorf("%w: a sprite of %d bytes", ErrTooLarge, len(sprite))
	}
	// SVG is similar enough to HTML's foreign content for the HTML parser, which is more tolerant than XML.
	root, err := html.Parse(bytes.NewReader(selfClosed(sprite)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	r := NewResolver(root, nil, nil)
	target := r.byID(part.ID)
	if target == nil {
		return nil, fmt.Errorf("%w: #%s", ErrNotFound, part.ID)
	}
	w := &writer{Resolver: r, written: map[string]bool{}}
	at := context{color: part.Color, fill: part.Fill}
	at.color = cmp.Or(at.color, black)
	box := attr(target, "viewBox")
	box = cmp.Or(box, part.ViewBox)
	from := target
	switch name(target) {
	case "view":
		from = enclosing(target)
	case "symbol", "svg":
	default:
		// A group or a shape is drawn unchanged.
		from = &html.Node{Type: html.ElementNode, Data: "svg", Namespace: "svg"}
		w.only = target
		if outer := enclosing(target); box == "" && outer != nil {
			box = attr(outer, "viewBox")
		}
	}
	if from == nil {
		return nil, fmt.Errorf("%w: #%s", ErrNotFound, part.ID)
	}
	w.document(from, from, box, at)
	d := &Image{}
	if err := w.finish(d); err != nil {
		return nil, err
	}
	return d.SVG, nil
}

// selfClosed drops the text before the svg element, which an HTML parser would treat as text.
func selfClosed(svg []byte) []byte {
	if i := bytes.Index(svg, []byte("<svg")); i > 0 {
		return svg[i:]
	}
	return svg
}

// enclosing returns the nearest svg element around an element.
func enclosing(n *html.Node) *html.Node {
	for p := n.Parent; p != nil; p = p.Parent {
		if p.Namespace == "svg" && name(p) == "svg" {
			return p
		}
	}
	return nil
}

// sprite returns the reference of an svg element that only uses a part of another file.
func (w *writer) sprite(svg *html.Node, at context) *Sprite {
	var use *html.Node
	left := maxElements
	for n := range svg.Descendants() {
		if left--; left < 0 {
			break
		}
		switch {
		case n.Type != html.ElementNode:
		case name(n) == "use" && use == nil:
			use = n
		case shapes[name(n)]:
			return nil
		}
	}
	if use == nil {
		return nil
	}
	file, id, ok := strings.Cut(href(use), "#")
	if !ok || file == "" || id == "" || w.base == nil {
		return nil
	}
	u, err := url.Parse(file)
	if err != nil {
		return nil
	}
	u = w.base.ResolveReference(u)
	if !brand.IsWebURL(u) {
		return nil
	}
	if u.Path == w.base.Path && u.Host == w.base.Host && w.byID(id) != nil {
		return nil // refers to the page itself
	}
	s := &Sprite{URL: u, ID: id, Color: at.color, ViewBox: attr(svg, "viewBox")}
	inside := w.enter(use, w.enter(svg, at))
	s.Color = inside.color
	if fill, ok := w.paint(w.value(use, "fill"), inside); ok {
		s.Fill = fill
	} else if fill, ok := w.paint(w.value(svg, "fill"), inside); ok {
		s.Fill = fill
	} else if fill, ok := w.paint(at.fill, inside); ok {
		s.Fill = fill
	}
	return s
}

// onlyUse returns the single use that is the content of an svg element, and its target.
func (w *writer) onlyUse(svg *html.Node) (only, target *html.Node) {
	for c := svg.FirstChild; c != nil; c = c.NextSibling {
		if c.Type != html.ElementNode || skipped[name(c)] || name(c) == "defs" || name(c) == "symbol" {
			continue
		}
		if only != nil || name(c) != "use" || attr(c, "x") != "" || attr(c, "y") != "" || attr(c, "transform") != "" {
			return nil, nil
		}
		only = c
	}
	if only == nil {
		return nil, nil
	}
	return only, w.target(only)
}
