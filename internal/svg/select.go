package svg

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tdewolff/parse/v2/css"

	"letterhead/internal/imaging"
)

// compound is one step of a selector, such as path.cls-1 or #logo.
type compound struct {
	tag     string // "" or "*" matches any
	id      string
	classes []string
	root    bool
}

// selector is a list of compounds from the outermost to the element itself,
// with the combinators between them: ' ' for within, '>' for directly within.
type selector struct {
	parts       []compound
	combinators []byte
}

func (c compound) String() string {
	s := c.tag
	if c.id != "" {
		s += "#" + c.id
	}
	for _, class := range c.classes {
		s += "." + class
	}
	if c.root {
		s += ":root"
	}
	return s
}

func (s selector) String() string {
	var b strings.Builder
	for i, p := range s.parts {
		if i > 0 {
			b.WriteByte(s.combinators[i-1])
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// specificity orders selectors as CSS does: ids, then classes, then names. Each
// count (maxSelectorPart, maxClasses) fits into a byte.
func (s selector) specificity() int {
	ids, classes, tags := 0, 0, 0
	for _, p := range s.parts {
		if p.id != "" {
			ids++
		}
		classes += len(p.classes)
		if p.root {
			classes++
		}
		if p.tag != "" && p.tag != "*" {
			tags++
		}
	}
	return ids<<16 | classes<<8 | tags
}

// parseSelectors parses a list and omits selectors that compound cannot represent.
func parseSelectors(tokens []css.Token) []selector {
	var out []selector
	for len(tokens) > 0 {
		end := slices.IndexFunc(tokens, func(t css.Token) bool { return t.TokenType == css.CommaToken })
		if end < 0 {
			end = len(tokens)
		}
		if s, ok := parseSelector(trimSpace(tokens[:end])); ok {
			out = append(out, s)
		}
		tokens = tokens[min(end+1, len(tokens)):]
	}
	return out
}

func parseSelector(tokens []css.Token) (selector, bool) {
	var s selector
	var current compound
	filled, between := false, byte(0)
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		if sep, ok := combinator(t); ok {
			if !filled && between == 0 {
				return s, false // begins with a combinator
			}
			if filled {
				s.parts = append(s.parts, current)
				current, filled = compound{}, false
			}
			if sep == '>' && between == '>' {
				return s, false
			}
			between = max(between, sep) // '>' is greater than ' '
			continue
		}
		if between != 0 {
			s.combinators = append(s.combinators, between)
			between = 0
		}
		used, ok := current.add(tokens[i:])
		if !ok {
			return s, false
		}
		filled = true
		i += used - 1
	}
	if !filled || len(s.parts) >= maxSelectorPart {
		return s, false
	}
	s.parts = append(s.parts, current)
	return s, true
}

func combinator(t css.Token) (byte, bool) {
	switch {
	case t.TokenType == css.WhitespaceToken:
		return ' ', true
	case t.TokenType == css.DelimToken && string(t.Data) == ">":
		return '>', true
	}
	return 0, false
}

// add adds the next simple selector and returns its number of tokens.
func (c *compound) add(tokens []css.Token) (used int, ok bool) {
	first := string(tokens[0].Data)
	empty := c.tag == "" && c.id == "" && len(c.classes) == 0 && !c.root
	switch {
	case tokens[0].TokenType == css.IdentToken && empty && isIdent(first), first == "*" && empty:
		c.tag = first
		return 1, true
	case tokens[0].TokenType == css.HashToken && c.id == "":
		c.id = first[1:]
		return 1, isID(c.id)
	case len(tokens) < 2 || tokens[1].TokenType != css.IdentToken:
		return 0, false
	case tokens[0].TokenType == css.DelimToken && first == ".":
		c.classes = append(c.classes, string(tokens[1].Data))
		return 2, isIdent(string(tokens[1].Data)) && len(c.classes) <= maxClasses
	case tokens[0].TokenType == css.ColonToken && string(tokens[1].Data) == "root" && !c.root:
		c.root = true
		return 2, true
	}
	return 0, false
}

func (c compound) matches(n *node) bool {
	if c.tag != "" && c.tag != "*" && c.tag != n.name || c.id != "" && c.id != n.id || c.root && n.parent != nil {
		return false
	}
	for _, class := range c.classes {
		if !slices.Contains(n.classes, class) {
			return false
		}
	}
	return true
}

// maxMatchSteps limits the comparisons of selectors with elements of one document.
const maxMatchSteps = 1_000_000

// matcher counts its work. found is reused for each element.
type matcher struct {
	steps int
	index map[string][]*candidate // by id, class, or name of the last compound
	found []*candidate
}

// matches reports whether a selector matches an element. It tries every possible ancestor for a step, as browsers do:
// checkCost would miss a rule that is missed here.
func (m *matcher) matches(s selector, n *node) bool {
	m.steps++
	last := len(s.parts) - 1
	return s.parts[last].matches(n) && m.outwards(s, last, n)
}

// outwards matches the compounds before part i, which n has matched. Its recursion depth is at most maxSelectorPart.
func (m *matcher) outwards(s selector, i int, n *node) bool {
	if i == 0 {
		return true
	}
	for up := n.parent; up != nil && m.steps <= maxMatchSteps; up = up.parent {
		m.steps++
		if s.parts[i-1].matches(up) && m.outwards(s, i-1, up) {
			return true
		}
		if s.combinators[i-1] == '>' {
			break
		}
	}
	return false
}

// candidate is a rule with one of its selectors.
type candidate struct {
	selector    selector
	rule        *rule
	specificity int
	order       int
}

// cascade computes the declarations of each element: attributes, then rules by
// specificity and order, then its own style, important ones last.
func (d *document) cascade() error {
	m := &matcher{index: map[string][]*candidate{}}
	for i := range d.rules {
		for _, s := range d.rules[i].selectors {
			k := indexKey(s.parts[len(s.parts)-1])
			m.index[k] = append(m.index[k], &candidate{s, &d.rules[i], s.specificity(), i})
		}
	}
	for _, n := range d.order {
		found := m.matching(n)
		if m.steps > maxMatchSteps {
			return fmt.Errorf("%w: style rules take too long to match", imaging.ErrTooLarge)
		}
		n.style, n.strong = map[string]string{}, nil
		n.urls = n.urls[:0]
		for _, a := range n.attrs {
			if properties[a.name] || a.name == "transform" || a.name == "patternTransform" {
				n.style[a.name] = a.value
				n.noteURLs(a.value)
			}
		}
		for _, important := range []bool{false, true} {
			for _, c := range found {
				n.declare(c.rule.declarations, important)
			}
			n.declare(n.inline, important)
		}
	}
	return nil
}

func indexKey(c compound) string {
	switch {
	case c.id != "":
		return "#" + c.id
	case len(c.classes) > 0:
		return "." + c.classes[0]
	case c.tag != "":
		return c.tag
	}
	return "*"
}

// matching returns the rules for an element, the strongest last. The list is valid until the next call.
func (m *matcher) matching(n *node) []*candidate {
	m.found = m.found[:0]
	m.collect("*", n)
	m.collect(n.name, n)
	if n.id != "" {
		m.collect("#"+n.id, n)
	}
	for _, class := range n.classes {
		m.collect("."+class, n)
	}
	slices.SortStableFunc(m.found, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.specificity, b.specificity), cmp.Compare(a.order, b.order))
	})
	return m.found
}

func (m *matcher) collect(key string, n *node) {
	for _, c := range m.index[key] {
		if m.steps > maxMatchSteps {
			return
		}
		if m.matches(c.selector, n) {
			m.found = append(m.found, c)
		}
	}
}

func (n *node) declare(ds []declaration, important bool) {
	for _, d := range ds {
		if d.important == important {
			n.style[d.name] = d.value
			n.noteURLs(d.value)
			if important {
				if n.strong == nil {
					n.strong = map[string]bool{}
				}
				n.strong[d.name] = true
			}
		}
	}
}

// noteURLs records the references of all declarations for the element, not only the strongest: a browser ignores values
// that it considers invalid, and then a weaker one applies.
func (n *node) noteURLs(value string) {
	if strings.Contains(value, "url(") {
		for _, m := range urlReference.FindAllStringSubmatch(value, -1) {
			n.urls = append(n.urls, m[1])
		}
	}
}
