package inlinesvg

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"

	"letterhead/internal/imaging"
	"letterhead/internal/lazyregexp"
)

const black = "#000000"

// skipped elements are never written: scripts, animations, and elements without visible content.
var skipped = tables.Set("skipped")

// shapes are the visible elements; text is counted separately.
var shapes = map[string]bool{
	"path": true, "rect": true, "circle": true, "ellipse": true, "line": true, "polyline": true, "polygon": true,
	"image": true,
}

// styled are the properties that are copied from stylesheets.
var styled = tables.List("styled")
var paints = map[string]bool{"fill": true, "stroke": true, "stop-color": true} // the properties that are colors

// context is the context of an element in the image.
type context struct {
	color             string // of currentColor; "" inside an unresolved pattern
	fill              string // inherited from outside of the image
	unfilled, stroked bool   // inherited by the shapes
	depth             int
	using             []*html.Node // targets of the enclosing uses
}

// writer writes one image.
type writer struct {
	*Resolver
	out      bytes.Buffer
	only     *html.Node   // drawn instead of the children of an empty root
	around   []*html.Node // elements between the root and its children whose paint applies
	elements int
	uses     int
	lookups  int
	shapes   int
	letters  int // characters of text
	needed   []string
	written  map[string]bool // ids
	err      error
	painted  bool // something is visible
	repaint  bool // the root is filled regardless of its declarations
}

// document writes the root with the children of from, followed by the elements they refer to.
func (w *writer) document(svg, from *html.Node, box string, at context) {
	inside := w.enter(svg, at)
	w.out.WriteString(`<svg xmlns="http://www.w3.org/2000/svg"`)
	if box = cleanBox(box); box != "" {
		w.attribute("viewBox", box)
	}
	if v := attr(from, "preserveAspectRatio"); v != "" {
		w.attribute("preserveAspectRatio", v)
	}
	for _, a := range svg.Attr {
		if key := attributeName(a.Key); presentation[key] && !(w.repaint && key == "fill") {
			w.attributeOf(key, a.Val, inside)
		}
	}
	declared := w.declarations(svg, inside, true)
	if w.repaint {
		declared = append(slices.DeleteFunc(declared, isFill), "fill:"+inside.color)
		inside.unfilled = false
	}
	if !slices.ContainsFunc(declared, isFill) && attr(svg, "fill") == "" {
		if fill, ok := w.paint(at.fill, inside); ok {
			declared = append(declared, "fill:"+fill)
			inside.unfilled = fill == "none"
		}
	}
	w.style(declared)
	w.out.WriteByte('>')
	if from != svg {
		w.ownDefinitions(svg, inside)
	}
	if w.only != nil {
		w.element(w.only, inside)
	} else {
		w.wrapped(w.around, from, inside)
	}
	w.references(inside)
	w.out.WriteString("</svg>")
}

// wrapped writes the children of an element within groups that carry the paint of other elements.
func (w *writer) wrapped(around []*html.Node, from *html.Node, at context) {
	if len(around) == 0 {
		w.children(from, at)
		return
	}
	n := around[0]
	inside := w.enter(n, at)
	w.out.WriteString("<g")
	w.presented(n, inside)
	w.style(w.declarations(n, inside, false))
	w.out.WriteByte('>')
	w.wrapped(around[1:], from, inside)
	w.out.WriteString("</g>")
}

// presented writes the attributes of an element that its content inherits.
func (w *writer) presented(n *html.Node, at context) {
	for _, a := range n.Attr {
		if key := attributeName(a.Key); presentation[key] || key == "class" {
			w.attributeOf(key, a.Val, at)
		}
	}
}

func isFill(declaration string) bool { return strings.HasPrefix(declaration, "fill:") }

// ownDefinitions writes the definitions of an svg element whose content is a symbol elsewhere.
func (w *writer) ownDefinitions(svg *html.Node, at context) {
	for c := svg.FirstChild; c != nil; c = c.NextSibling {
		if n := name(c); n == "style" {
			w.element(c, at)
		}
	}
}

// finish checks the result.
func (w *writer) finish(d *Image) error {
	switch {
	case w.err != nil:
		return w.err
	case w.shapes == 0 && w.letters == 0:
		return ErrEmpty
	}
	d.SVG = w.out.Bytes()
	return nil
}

func (w *writer) children(n *html.Node, at context) {
	at.depth++
	for c := n.FirstChild; c != nil && w.err == nil; c = c.NextSibling {
		switch c.Type {
		case html.ElementNode:
			w.element(c, at)
		case html.TextNode:
			switch name(n) {
			case "text", "tspan", "textPath":
				w.letters += len(strings.TrimSpace(c.Data))
				w.text(c.Data)
			case "style":
				w.text(c.Data)
			}
		}
	}
}

func (w *writer) text(s string) {
	_ = xml.EscapeText(&w.out, []byte(s)) // a bytes.Buffer does not fail
	w.checkSize()
}

func (w *writer) checkSize() {
	if w.out.Len() > MaxBytes && w.err == nil {
		w.err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxBytes)
	}
}

// element writes an element and its content.
func (w *writer) element(n *html.Node, at context) {
	kind := name(n)
	if skipped[kind] || n.Namespace != "svg" || w.err != nil {
		return
	}
	w.elements++
	if w.elements > maxElements || at.depth > maxDepth {
		w.err = fmt.Errorf("%w: elements or depth", ErrTooLarge)
		return
	}
	inside := w.enter(n, at)
	declared := w.declarations(n, inside, false)
	if slices.Contains(declared, "display:none") ||
		attr(n, "display") == "none" && !slices.ContainsFunc(declared, isDisplay) {
		return
	}
	if kind == "use" {
		w.use(n, inside, declared)
		return
	}
	if kind == "a" || kind == "switch" {
		kind = "g"
	}
	if shapes[kind] && (kind != "image" || isEmbedded(href(n))) {
		w.shapes++
		w.painted = w.painted || !inside.unfilled || inside.stroked || kind == "image"
	}
	w.painted = w.painted || kind == "style" || kind == "text" && !inside.unfilled // a style element may do anything
	w.out.WriteString("<" + kind)
	for _, a := range n.Attr {
		w.keep(a, inside)
	}
	w.style(declared)
	w.out.WriteByte('>')
	w.children(n, inside)
	w.out.WriteString("</" + kind + ">")
	w.checkSize()
}

func isDisplay(declaration string) bool { return strings.HasPrefix(declaration, "display:") }

// use writes the target of a use element in its place.
func (w *writer) use(n *html.Node, at context, declared []string) {
	target := w.target(n)
	if target == nil || slices.Contains(at.using, target) {
		return
	}
	if w.uses++; w.uses > maxUses {
		w.err = fmt.Errorf("%w: uses", ErrTooLarge)
		return
	}
	at.using = append(at.using[:len(at.using):len(at.using)], target)
	move := attr(n, "transform")
	if x, y := Length(attr(n, "x")), Length(attr(n, "y")); x != 0 || y != 0 {
		move += fmt.Sprintf(" translate(%g %g)", x, y)
	}
	w.out.WriteString("<g")
	if move != "" {
		w.attribute("transform", strings.TrimSpace(move))
	}
	w.presented(n, at)
	w.style(declared)
	w.out.WriteByte('>')
	if kind := name(target); kind == "symbol" || kind == "svg" {
		w.symbol(target, n, at)
	} else {
		at.depth++
		w.element(target, at)
	}
	w.out.WriteString("</g>")
	w.checkSize()
}

// symbol writes a symbol as a nested svg with the size in its use.
func (w *writer) symbol(symbol, use *html.Node, at context) {
	inside := w.enter(symbol, at)
	w.out.WriteString("<svg")
	for _, side := range []string{"width", "height"} {
		if v := cmp.Or(attr(use, side), attr(symbol, side)); v != "" {
			w.attribute(side, v)
		}
	}
	for _, a := range symbol.Attr {
		key := attributeName(a.Key)
		if presentation[key] || slices.Contains([]string{"x", "y", "viewBox", "preserveAspectRatio", "class"}, key) {
			w.attributeOf(key, a.Val, inside)
		}
	}
	w.style(w.declarations(symbol, inside, false))
	w.out.WriteByte('>')
	w.written[attr(symbol, "id")] = true
	w.children(symbol, inside)
	w.out.WriteString("</svg>")
}

// references writes the referenced elements elsewhere in the document: gradients, masks, clips.
func (w *writer) references(at context) {
	for i := 0; i < len(w.needed) && w.err == nil; i++ { // grows during the loop; limited by written ids
		id := w.needed[i]
		if w.written[id] {
			continue
		}
		w.written[id] = true
		target := w.byID(id)
		if target == nil {
			continue
		}
		w.out.WriteString("<defs>")
		before, letters := w.shapes, w.letters
		w.element(target, context{color: at.color, depth: 1})
		w.shapes, w.letters = before, letters // the shapes of a clip are not visible
		w.out.WriteString("</defs>")
	}
}

// isEmbedded reports whether a URL contains an image itself.
func isEmbedded(ref string) bool { return strings.HasPrefix(ref, "data:image/") }

// keep writes an attribute of an element if it belongs to the image.
func (w *writer) keep(a html.Attribute, at context) {
	key := attributeName(a.Key)
	switch {
	case key == "id":
		w.written[a.Val] = true
	case key == "href":
		if id, local := strings.CutPrefix(a.Val, "#"); local {
			w.need(id)
		} else if !isEmbedded(a.Val) {
			return
		}
	case key == "style", strings.HasPrefix(key, "on"), strings.HasPrefix(key, "data-"), strings.HasPrefix(key, "aria-"),
		key == "role", a.Namespace != "" && a.Namespace != "xlink":
		return
	}
	w.attributeOf(key, a.Val, at)
}

// attributeOf writes an attribute with its colors resolved.
func (w *writer) attributeOf(key, value string, at context) {
	if paints[key] || key == "color" {
		if v, ok := w.paint(value, at); ok {
			value = v
		} else {
			return
		}
	}
	w.noteReferences(value)
	w.attribute(key, value)
}

var attributeKey = lazyregexp.New(`^[A-Za-z][A-Za-z0-9-]{0,40}$`)

func (w *writer) attribute(key, value string) {
	if !attributeKey.MatchString(key) {
		return
	}
	w.out.WriteString(" " + key + `="`)
	w.text(value)
	w.out.WriteByte('"')
}

func (w *writer) style(declared []string) {
	if len(declared) > 0 {
		w.attribute("style", strings.Join(declared, ";"))
	}
}

var reference = lazyregexp.New(`url\(\s*['"]?[^'")#]{0,300}#([^'")\s]{1,100})['"]?\s*\)`)

func (w *writer) noteReferences(value string) {
	if !strings.Contains(value, "url(") {
		return
	}
	for _, m := range reference.FindAllStringSubmatch(value, maxReferences) {
		w.need(m[1])
	}
}

const (
	maxReferences = 8   // in one value
	maxNeeded     = 200 // in one image
)

func (w *writer) need(id string) {
	if len(w.needed) < maxNeeded {
		w.needed = append(w.needed, id)
	}
}

// cleanBox checks a viewBox: four numbers, of which the last two are sizes.
func cleanBox(box string) string {
	fields := strings.FieldsFunc(box,
		func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' })
	if len(fields) != 4 {
		return ""
	}
	for i, f := range fields {
		if v, err := strconv.ParseFloat(f, 64); err != nil || i >= 2 && !(v > 0) {
			return ""
		}
	}
	return strings.Join(fields, " ")
}

// plainColor converts a color to a form that every renderer supports.
func plainColor(value string) (string, bool) {
	c, alpha, ok := imaging.ParseColor(value)
	switch {
	case !ok:
		return "", false
	case alpha >= 1:
		return c.Hex(), true
	case alpha <= 0:
		return "none", true
	}
	return fmt.Sprintf("rgba(%d,%d,%d,%.3g)", c.R, c.G, c.B, alpha), true
}

// camel maps lower-case names of SVG to their correct case. The HTML parser
// restores them; the simple tree builder does not.
var camel = tables.Map("camel")

// name returns an element's name in the case of SVG.
func name(n *html.Node) string { return cmp.Or(camel[n.Data], n.Data) }

func attributeName(key string) string {
	key = strings.TrimPrefix(key, "xlink:")
	return cmp.Or(camel[key], key)
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if (a.Namespace == "" || a.Namespace == "xlink") && attributeName(a.Key) == key {
			return a.Val
		}
	}
	return ""
}

// href returns the reference of an element, from either of the two attributes.
func href(n *html.Node) string { return strings.TrimSpace(attr(n, "href")) }

// target returns the target of a use element in this document, or nil.
func (r *Resolver) target(use *html.Node) *html.Node {
	file, id, ok := strings.Cut(href(use), "#")
	if !ok || id == "" {
		return nil
	}
	if file != "" && (r.base == nil || strings.Contains(file, ".svg")) {
		return nil
	}
	return r.byID(id)
}

// byID finds an element anywhere in the document.
func (r *Resolver) byID(id string) *html.Node {
	if r.ids == nil {
		r.index()
	}
	return r.ids[id]
}

// index indexes the elements of the drawings in the document by id.
func (r *Resolver) index() {
	r.ids = map[string]*html.Node{}
	if r.root == nil {
		return
	}
	for n := range r.root.Descendants() {
		if len(r.ids) >= maxIDs {
			return
		}
		if n.Type == html.ElementNode && n.Namespace == "svg" {
			if id := attr(n, "id"); id != "" && r.ids[id] == nil {
				r.ids[id] = n
			}
		}
	}
}
