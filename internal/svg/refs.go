package svg

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"letterhead/internal/imaging"
	"letterhead/internal/lazyregexp"
)

var urlReference = lazyregexp.New(`url\(#([^()]+)\)`)

// tidyReferences removes references to missing elements, and unreferenced names. Afterwards every url() has a target,
// and repeating it changes nothing.
func (d *document) tidyReferences() {
	used := map[string]bool{}
	for _, n := range d.order {
		n.attrs, n.inline = d.tidied(n.attrs), d.tidied(n.inline)
		for _, id := range n.references() {
			used[id] = true
		}
	}
	for _, n := range d.order {
		if !used[n.id] {
			delete(d.byID, n.id)
			n.id = ""
		}
	}
}

// tidied returns attributes or declarations without dangling references.
func (d *document) tidied(list []attribute) []attribute {
	kept := list[:0]
	for _, x := range list {
		var keep bool
		if x.value, keep = d.resolved(x.name, x.value); keep {
			kept = append(kept, x)
		}
	}
	return kept
}

// urlsIn lists the ids to which a value refers.
func urlsIn(value string) (ids []string) {
	if !strings.Contains(value, "url(") {
		return nil
	}
	for _, m := range urlReference.FindAllStringSubmatch(value, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// resolved returns a value unchanged if all its references exist. Otherwise a paint is replaced by its fallback, or
// none, and any other value is removed: some renderers draw nothing for a missing filter or clip.
func (d *document) resolved(name, value string) (string, bool) {
	if !slices.ContainsFunc(urlsIn(value), func(id string) bool { return d.byID[id] == nil }) {
		return value, true
	}
	if name != "fill" && name != "stroke" {
		return "", false
	}
	if value = strings.TrimSpace(urlReference.ReplaceAllString(value, "")); value == "" {
		value = "none"
	}
	return value, true
}

// references lists the ids to which an element refers.
func (n *node) references() (ids []string) {
	if n.href != "" && n.name != "image" {
		ids = append(ids, n.href)
	}
	for x := range n.values() {
		ids = append(ids, urlsIn(x.value)...)
	}
	return ids
}

// rename gives the elements new ids, also in the references to them.
func (d *document) rename(to func(id string) string) {
	for _, n := range d.order {
		if n.href != "" && n.name != "image" {
			n.href = to(n.href)
		}
		for x := range n.values() {
			x.value = urlReference.ReplaceAllStringFunc(x.value, func(ref string) string {
				return "url(#" + to(urlsIn(ref)[0]) + ")"
			})
		}
		if n.id != "" {
			n.id = to(n.id)
		}
	}
}

// The cost of drawing, in units of about one simple shape. The limit is far above real logos (the most expensive of
// 1,863 is below 10,000) and below a load of one second for a browser.
const (
	maxCost           = 200_000
	maxReferenceDepth = 32
	pathBytesPerUnit  = 64
	stopsPerUnit      = 100 // for the square of a gradient's stops: 20,000 of them take two seconds
	maskCost          = 50
	filterCost        = 200 // of each step of a filter
	rasterCost        = 100
	layerCost         = 10 // of a group with its own opacity or blend mode
)

// unpainted are containers that draw nothing in their place.
var unpainted = setOf("defs", "symbol", "clipPath", "mask", "pattern", "linearGradient", "radialGradient",
	"filter")

// price is the cost of drawing an element, and the depth of its references.
type price struct {
	cost   float64
	height int
}

// coster adds up the cost of drawing, following every reference. It also detects cycles.
type coster struct {
	doc   *document
	known map[*node]price
	open  map[*node]bool
}

// checkCost rejects documents that expand exponentially or have cycles.
func (d *document) checkCost() error {
	c := &coster{doc: d, known: map[*node]price{}, open: map[*node]bool{}}
	total, err := c.price(d.root, 0)
	if err != nil {
		return err
	}
	most := total.cost
	// Some renderers also process invisible elements.
	for _, n := range d.order {
		if n.id != "" {
			one, err := c.price(n, 0)
			if err != nil {
				return err
			}
			most = math.Max(most, one.cost)
		}
	}
	if most > maxCost {
		return fmt.Errorf("%w: drawing it takes too long", imaging.ErrTooLarge)
	}
	return nil
}

// price returns the cost of n and its content. depth counts the references on the path to n; elements nest at most
// maxDepth deep between them, so both limit the recursion.
func (c *coster) price(n *node, depth int) (price, error) {
	if known, ok := c.known[n]; ok {
		return known, nil
	}
	if c.open[n] {
		return price{}, fmt.Errorf("%w: an element refers to itself", imaging.ErrTooLarge)
	}
	if depth > maxReferenceDepth {
		return price{}, fmt.Errorf("%w: references deeper than %d", imaging.ErrTooLarge, maxReferenceDepth)
	}
	c.open[n] = true
	defer delete(c.open, n)
	total := price{cost: ownCost(n)}
	for _, child := range n.children {
		if child.name == "" {
			continue
		}
		sub, err := c.price(child, depth)
		if err != nil {
			return price{}, err
		}
		if !unpainted[child.name] {
			total.cost += sub.cost
		}
		total.height = max(total.height, sub.height)
	}
	for _, id := range n.targets() {
		target := c.doc.byID[id]
		if target == nil {
			continue
		}
		sub, err := c.price(target, depth+1)
		if err != nil {
			return price{}, err
		}
		if target.name == "pattern" && n.name != "pattern" {
			sub.cost *= total.cost // a pattern is inherited by, and drawn for, everything inside
		}
		total.cost += sub.cost
		total.height = max(total.height, sub.height+1)
	}
	// A chain may have been visited in parts, its end first.
	if total.height > maxReferenceDepth {
		return price{}, fmt.Errorf("%w: references deeper than %d", imaging.ErrTooLarge, maxReferenceDepth)
	}
	total.cost = math.Min(total.cost, 10*maxCost)
	c.known[n] = total
	return total, nil
}

func ownCost(n *node) float64 {
	cost := 1.0
	switch {
	case n.name == "image":
		cost += rasterCost
	case n.name == "mask":
		cost += maskCost
	case strings.HasPrefix(n.name, "fe"):
		cost += filterCost
	}
	if n.name == "linearGradient" || n.name == "radialGradient" {
		stops := float64(len(n.children)) // each is compared with those before it
		cost += stops * stops / stopsPerUnit
	}
	cost += float64(len(n.attr("d"))+len(n.attr("points"))) / pathBytesPerUnit
	for _, c := range n.children {
		cost += float64(len(c.text)) / pathBytesPerUnit
	}
	if v, set := n.style["opacity"]; set && v != "1" {
		cost += layerCost
	}
	if _, set := n.style["mix-blend-mode"]; set {
		cost += layerCost
	}
	return cost
}

// targets returns the ids of elements that may be drawn or looked up when n is
// drawn: links first, because their targets also inherit a pattern.
func (n *node) targets() []string {
	if n.href == "" || n.name == "image" {
		return n.urls
	}
	return append([]string{n.href}, n.urls...)
}

const (
	// maxTiles and maxDashes limit the repetitions of a pattern or a dash over one shape.
	maxTiles  = 1_000_000
	maxDashes = 200_000
)

// checkRepeats rejects patterns and dashes that would repeat almost endlessly. It combines each of them with the
// largest shape of the document, because renderers differ in which one applies to which shape. checkCost has rejected
// cycles.
func (d *document) checkRepeats() error {
	length, width, height := 0.0, 0.0, 0.0
	for _, n := range d.order {
		if o, ok := outlineOf(n); ok {
			length, width, height = math.Max(length, o.length), math.Max(width, o.width()), math.Max(height, o.height())
		}
	}
	for _, n := range d.order {
		for _, dashes := range n.dashes() {
			if length/dashes > maxDashes {
				return fmt.Errorf("%w: more than %d dashes", imaging.ErrTooLarge, maxDashes)
			}
		}
		if n.name == "pattern" && n.id != "" && d.tiles(n, width, height) > maxTiles {
			return fmt.Errorf("%w: a pattern of more than %d tiles", imaging.ErrTooLarge, maxTiles)
		}
	}
	return nil
}

// dashes returns the mean length of a dash in each dash array of the element.
func (n *node) dashes() (means []float64) {
	for x := range n.values() {
		if x.name != "stroke-dasharray" {
			continue
		}
		list, _ := parseLengths(strings.ReplaceAll(x.value, ",", " "))
		sum := 0.0
		for _, l := range list {
			sum += math.Abs(l.value)
		}
		if sum > 0 {
			means = append(means, sum/float64(len(list)))
		}
	}
	return means
}

// tiles returns how often a pattern repeats over a shape of a size.
func (d *document) tiles(pattern *node, width, height float64) float64 {
	attr := func(name string) string { return d.inheritedAttr(pattern, name) }
	w, hasWidth := fraction(attr("width"))
	h, hasHeight := fraction(attr("height"))
	if !hasWidth || !hasHeight || w <= 0 || h <= 0 {
		return 0 // such a pattern is not drawn
	}
	if m, _, ok := parseTransform(attr("patternTransform")); ok {
		w *= math.Hypot(m.a, m.b)
		h *= math.Hypot(m.c, m.d)
	}
	if attr("patternUnits") != "userSpaceOnUse" {
		width, height = 1, 1 // the size is relative to the shape's
	}
	count := math.Max(width/w, 1) * math.Max(height/h, 1)
	if math.IsNaN(count) {
		return math.Inf(1)
	}
	return count
}

// inheritedAttr returns an attribute of a pattern, or of the one to which it refers.
func (d *document) inheritedAttr(n *node, name string) string {
	if v := n.attr(name); v != "" {
		return v
	}
	if target := d.byID[n.href]; target != nil {
		return d.inheritedAttr(target, name)
	}
	return ""
}

// fraction returns a length in pixels, or relative to its box.
func fraction(s string) (float64, bool) {
	if strings.HasSuffix(s, "%") {
		return proportion(s)
	}
	return pixels(s)
}
