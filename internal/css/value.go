package css

import (
	"net/url"
	"slices"
	"strings"

	"github.com/tdewolff/parse/v2/css"
	"golang.org/x/net/html"
)

// Limits of values.
const (
	maxVarDepth  = 24       // variables within variables
	bytesPerTest = 64       // bytes substituted in the time of testing one selector
	maxExpanded  = 64 << 10 // bytes of a value after substitution
	maxVars      = 200_000  // variables of elements that are cached
	maxTries     = 8        // declarations of one property of one element that are tried
	maxVariables = 4000     // variables of the root that are listed
	maxAncestors = 1000
)

type varKey struct {
	n    *html.Node
	name string
}

type resolved struct {
	value string
	ok    bool
}

// answer is the kind of an element's answer for a property.
type answer int

const (
	unsaid    answer = iota
	said             // also "", if the initial value was requested
	inherited        // the parent decides
)

// shorthands maps a property to the shorthands that also set it.
var shorthands = map[string][]string{
	"font-family": {"font"}, "font-weight": {"font"}, "font-size": {"font"}, "font-style": {"font"}, "background-image": {"background"},
	"background-color": {"background"}, "background-position": {"background"}, "background-size": {"background"},
	"background-repeat": {"background"}, "border-color": {"border"},
	"mask-image": {"mask", "-webkit-mask", "-webkit-mask-image"},
}

// inheriting are the properties that are inherited by default.
var inheriting = setOf(`color fill stroke font-family font-weight font-size font-style visibility stroke-width
	fill-rule clip-rule fill-opacity stroke-opacity stroke-linecap stroke-linejoin text-transform color-scheme
	list-style-image text-anchor`)

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

func (c *Cascade) value(n *html.Node, pseudo pseudoElement, property string) string {
	for range maxAncestors {
		if v, how := c.lookup(n, pseudo, property); how != inherited {
			return v
		}
		if pseudo == ownElement {
			if n = n.Parent; n == nil || n.Type != html.ElementNode {
				return ""
			}
		}
		if pseudo = ownElement; inheriting[property] {
			return c.inherited(n, property)
		}
	}
	return ""
}

func (c *Cascade) inherited(n *html.Node, property string) string {
	for range maxAncestors {
		if n == nil || n.Type != html.ElementNode {
			return ""
		}
		if v, how := c.lookup(n, ownElement, property); how == said {
			return v
		}
		n = n.Parent
	}
	return ""
}

// candidate is a declaration of a property for an element.
type candidate struct {
	declaration *declaration
	rule        *rule // nil for the element's own declaration
	specificity uint32
	order       int
}

// beats implements the order of the cascade (CSS Cascade 5, section 6.1) among author declarations.
func (a candidate) beats(b candidate) bool {
	important := a.declaration.important
	switch {
	case important != b.declaration.important:
		return important
	case (a.rule == nil) != (b.rule == nil):
		return a.rule == nil
	case a.rule != nil && a.rule.layer.rank != b.rule.layer.rank:
		return (a.rule.layer.rank > b.rule.layer.rank) != important // among important ones the first layer wins
	case a.specificity != b.specificity:
		return a.specificity > b.specificity
	}
	return a.order >= b.order
}

// lookup returns an element's value for a property. The strongest declaration with known variables wins, because the
// sheet that sets the others may not have been read.
func (c *Cascade) lookup(n *html.Node, pseudo pseudoElement, property string) (string, answer) {
	list := c.candidates(n, pseudo, property)
	for range maxTries {
		best := strongest(list)
		if best < 0 {
			break
		}
		if v, how := c.evaluate(n, list[best], property); how != unsaid {
			return v, how
		}
		list[best].declaration = nil
	}
	if pseudo == ownElement {
		if v := c.presentation(n, property); v != "" {
			return keyword(v, property)
		}
	}
	return "", unsaid
}

// candidates lists the declarations of a property in an element's rules and style attribute.
func (c *Cascade) candidates(n *html.Node, pseudo pseudoElement, property string) []candidate {
	others := shorthands[property]
	is := func(name string) bool { return name == property || slices.Contains(others, name) }
	if strings.HasPrefix(property, "--") {
		return c.list(n, pseudo, property, is)
	}
	return c.list(n, pseudo, "", is)
}

// list lists the declarations whose names satisfy is. custom is the name if only those of a custom property do, else "".
func (c *Cascade) list(n *html.Node, pseudo pseudoElement, custom string, is func(name string) bool) []candidate {
	var out []candidate
	for _, m := range c.matched(n) {
		if m.pseudo != pseudo {
			continue
		}
		r := &c.rules[m.rule]
		if custom != "" && len(r.declarations) > manyDeclarations {
			if i, ok := c.byName(m.rule)[custom]; ok {
				out = append(out, candidate{&r.declarations[i], r, m.specificity, int(m.rule)*maxDeclarations + i})
			}
			continue
		}
		for i := range r.declarations {
			if is(r.declarations[i].name) {
				out = append(out, candidate{&r.declarations[i], r, m.specificity, int(m.rule)*maxDeclarations + i})
			}
		}
	}
	if pseudo == ownElement {
		own := c.styleAttribute(n)
		for i := range own {
			if is(own[i].name) {
				out = append(out, candidate{&own[i], nil, 0, i})
			}
		}
	}
	return out
}

// byName returns an index of the custom properties of a long rule: the strongest of each name.
func (c *Cascade) byName(at int32) map[string]int {
	if names, ok := c.names[at]; ok {
		return names
	}
	names := map[string]int{}
	list := c.rules[at].declarations
	for i := range list {
		if have, ok := names[list[i].name]; !ok || list[i].important || !list[have].important {
			names[list[i].name] = i
		}
	}
	c.names[at] = names
	return names
}

// strongest returns the index of the declaration that wins, or -1 if all of them were tried.
func strongest(list []candidate) int {
	best := -1
	for i := range list {
		if list[i].declaration != nil && (best < 0 || list[i].beats(list[best])) {
			best = i
		}
	}
	return best
}

// styleAttribute reads an element's own declarations.
func (c *Cascade) styleAttribute(n *html.Node) []declaration {
	text := attr(n, "style")
	if text == "" {
		return nil
	}
	if out, ok := c.inline[n]; ok {
		return out
	}
	p := newParser(&book{layers: &layer{}}, text[:min(len(text), maxValue)], nil, nil)
	var out []declaration
	for p.next() && len(out) < maxInline {
		if p.kind != css.IdentToken && p.kind != css.CustomPropertyNameToken {
			continue
		}
		d, _, ended := p.statement(scope{parents: []string{}}, maxNesting)
		if d.name != "" {
			out = append(out, d)
		}
		if ended {
			break
		}
	}
	if len(c.inline) < maxCached {
		c.inline[n] = out
	}
	return out
}

const maxInline = 200 // limits the declarations of one style attribute

// written returns the value of a declaration as it is written, with absolute URLs.
func (c *Cascade) written(from candidate) string {
	if from.rule == nil {
		return c.absolute(from.declaration.value, c.base)
	}
	return c.absolute(from.declaration.value, from.rule.at)
}

// evaluate returns the value that a declaration gives a property.
func (c *Cascade) evaluate(n *html.Node, from candidate, property string) (string, answer) {
	v, ok := c.resolved(n, property, c.written(from))
	if !ok {
		return "", unsaid
	}
	if name := from.declaration.name; name != property && name != "-webkit-mask-image" && !isKeyword(v) {
		if v, ok = longhand(property, v); !ok {
			return "", unsaid
		}
	}
	return keyword(strings.TrimSpace(v), property)
}

func isKeyword(v string) bool {
	v = strings.ToLower(strings.TrimSpace(v))
	return slices.Contains([]string{"inherit", "initial", "unset", "revert", "revert-layer"}, v)
}

// keyword resolves the CSS-wide keywords.
func keyword(v, property string) (string, answer) {
	switch strings.ToLower(v) {
	case "inherit":
		return "", inherited
	case "initial":
		return "", said
	case "unset", "revert", "revert-layer":
		if inheriting[property] || strings.HasPrefix(property, "--") {
			return "", inherited
		}
		return "", said
	case "currentcolor":
		if property == "color" {
			return "", inherited
		}
	}
	return v, said
}

// pickScheme resolves light-dark(): the dark color applies only if the element allows no light scheme.
func (c *Cascade) pickScheme(n *html.Node, v string) string {
	for range maxTries {
		i := indexFunction(v, "light-dark(")
		if i < 0 {
			return v
		}
		argument, rest, _ := cutFunction(v[i:], "light-dark")
		schemes := slices.Collect(Split(argument, ','))
		pick := schemes[0]
		allowed := c.inherited(n, "color-scheme")
		if len(schemes) == 2 && strings.Contains(allowed, "dark") && !strings.Contains(allowed, "light") {
			pick = schemes[1]
		}
		v = strings.TrimSpace(v[:i] + strings.TrimSpace(pick) + " " + rest)
	}
	return v
}

// substitute substitutes the variables in a value. ok is false if one is unknown and has no fallback.
func (c *Cascade) substitute(n *html.Node, value string, depth int) (string, bool) {
	i := indexFunction(value, "var(")
	if i < 0 {
		return value, true
	}
	if depth > maxVarDepth {
		return "", false
	}
	var out strings.Builder
	for ; i >= 0; i = indexFunction(value, "var(") {
		end := closing(value, i+3)
		argument := value[i+len("var(") : max(end, i+len("var("))]
		out.WriteString(value[:i])
		value = value[min(end+1, len(value)):]
		name, fallback, has := strings.Cut(argument, ",")
		v, ok := c.variable(n, strings.TrimSpace(name), depth+1)
		if !ok && has {
			v, ok = c.substitute(n, strings.TrimSpace(fallback), depth+1)
		}
		if !ok || out.Len()+len(v)+len(value) > maxExpanded {
			return "", false
		}
		out.WriteString(v)
		c.work -= len(v) / bytesPerTest
	}
	out.WriteString(value)
	return out.String(), true
}

// variable returns the value of a custom property on an element or the nearest ancestor that sets it. A cycle makes all
// of its variables unknown, as does a value that grows too long.
func (c *Cascade) variable(n *html.Node, name string, depth int) (string, bool) {
	if !strings.HasPrefix(name, "--") || depth > maxVarDepth {
		return "", false
	}
	var passed []varKey
	answered := resolved{}
	for p := n; p != nil && p.Type == html.ElementNode && len(passed) < maxAncestors; p = p.Parent {
		key := varKey{p, name}
		if have, ok := c.vars[key]; ok {
			answered = have
			break
		}
		if len(c.vars) >= maxVars {
			return "", false
		}
		c.vars[key] = resolved{} // unknown during its own evaluation: a cycle ends here
		passed = append(passed, key)
		if v, how := c.customProperty(p, name, depth); how == said {
			answered = resolved{v, v != ""}
			break
		}
	}
	for _, key := range passed {
		c.vars[key] = answered
	}
	return answered.value, answered.ok
}

// customProperty returns the element's own value of a variable.
func (c *Cascade) customProperty(n *html.Node, name string, depth int) (string, answer) {
	list := c.candidates(n, ownElement, name)
	best := strongest(list)
	if best < 0 {
		return "", unsaid
	}
	v, ok := c.substitute(n, c.written(list[best]), depth)
	if !ok {
		return "", said
	}
	return keyword(strings.TrimSpace(v), name)
}

func (c *Cascade) variables() []Variable {
	var out []Variable
	seen := map[string]bool{}
	for _, n := range []*html.Node{c.root, c.body} {
		if n == nil || n.Type != html.ElementNode {
			continue
		}
		take := func(d declaration, sheet *url.URL) {
			if !strings.HasPrefix(d.name, "--") || seen[d.name] || len(out) >= maxVariables {
				return
			}
			seen[d.name] = true
			if v, ok := c.variable(n, d.name, 0); ok {
				out = append(out, Variable{d.name, v, sheet})
			}
		}
		byOrder := slices.Clone(c.matched(n))
		slices.SortFunc(byOrder, func(a, b match) int { return int(a.rule - b.rule) })
		for _, m := range byOrder {
			if m.pseudo != ownElement {
				continue
			}
			for _, d := range c.rules[m.rule].declarations {
				take(d, c.rules[m.rule].at)
			}
		}
		for _, d := range c.styleAttribute(n) {
			take(d, c.base)
		}
	}
	return out
}
