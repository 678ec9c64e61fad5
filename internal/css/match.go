package css

import (
	"strings"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

// Limits of matching. Ordinary pages stay far below.
const (
	maxWork          = 2_000_000 // compound selectors tested for one cascade, about 100 ms
	maxSteps         = 2000      // tests of one selector on one element: combinators try every ancestor
	maxMatches       = 3000      // rules of one element
	maxCached        = 50_000    // elements whose rules are cached
	manyDeclarations = 64        // the number of an element's declarations from which they are indexed by name
)

// match is a rule that applies to an element.
type match struct {
	rule        int32
	specificity uint32
	pseudo      pseudoElement
}

// compiled is a selector ready for matching, its last compound first.
type compiled []compound

type compound struct {
	names      *names       // if it is only an element name, ids and classes, as most are
	test       cascadia.Sel // otherwise
	combinator byte
	positional bool // its test counts siblings
}

// names is a compound of an element name, ids and classes.
type names struct {
	tag          string
	ids, classes []string
}

// namesOf parses a compound; it returns nil if the compound has other parts.
func namesOf(text string) *names {
	out := &names{}
	for i := 0; i < len(text); {
		start := i
		if text[i] == '#' || text[i] == '.' {
			start++
		} else if i > 0 || !isName(text[i]) {
			return nil
		}
		end := nameEnd(text, start)
		if end == start {
			return nil
		}
		switch name := unescape(text[start:end]); {
		case text[i] == '#':
			out.ids = append(out.ids, name)
		case text[i] == '.':
			out.classes = append(out.classes, name)
		default:
			out.tag = strings.ToLower(name)
		}
		i = end
	}
	return out
}

func (w *names) match(n *html.Node) bool {
	if w.tag != "" && w.tag != n.Data && w.tag != strings.ToLower(n.Data) {
		return false
	}
	for _, want := range w.ids {
		if want != strings.TrimSpace(attr(n, "id")) {
			return false
		}
	}
	for _, want := range w.classes {
		if !hasWord(attr(n, "class"), want) {
			return false
		}
	}
	return true
}

// hasWord reports whether a list of words contains a word.
func hasWord(list, word string) bool {
	for from := 0; ; {
		i := strings.Index(list[from:], word)
		if i < 0 {
			return false
		}
		i += from
		if end := i + len(word); (i == 0 || isSpace(list[i-1])) && (end == len(list) || isSpace(list[end])) {
			return true
		}
		from = i + 1
	}
}

func (c *compound) match(n *html.Node) bool {
	if c.names != nil {
		return c.names.match(n)
	}
	return c.test.Match(n)
}

// compile prepares a selector; it returns nil if cascadia does not support it.
func (c *Cascade) compile(at int32) compiled {
	if out, ok := c.ready[at]; ok {
		return out
	}
	var out compiled
	pieces, ok := parts(c.selectors[at].text)
	for _, piece := range pieces {
		one := c.compound(piece.text)
		if one == nil {
			ok = false
			break
		}
		out = append(out, *one)
		out[len(out)-1].combinator = piece.combinator
	}
	if !ok {
		out = nil
	}
	c.ready[at] = out
	return out
}

// compound prepares one compound; it returns nil if cascadia does not support it.
func (c *Cascade) compound(text string) *compound {
	if have, ok := c.tests[text]; ok {
		return have
	}
	one := &compound{names: namesOf(text)}
	if one.names == nil {
		if parsed, err := cascadia.Parse(text); err != nil || parsed.PseudoElement() != "" {
			one = nil
		} else {
			one.test = parsed
			for _, costly := range []string{"-child", "-of-type", ":not(", ":empty"} {
				one.positional = one.positional || strings.Contains(text, costly)
			}
		}
	}
	c.tests[text] = one
	return one
}

// matched returns the rules that apply to an element.
func (c *Cascade) matched(n *html.Node) []match {
	if out, ok := c.matches[n]; ok {
		return out
	}
	var out []match
	try := func(list []int32) {
		for _, at := range list {
			if c.work--; c.work < 0 || len(out) >= maxMatches {
				return // rules that cannot match also count as work
			}
			s := &c.selectors[at]
			steps := maxSteps
			if sel := c.compile(at); len(sel) > 0 && c.matchesFrom(sel, n, &steps) {
				out = append(out, match{s.rule, s.specificity, s.pseudo})
			}
		}
	}
	if n.Type == html.ElementNode {
		for _, a := range n.Attr {
			switch {
			case a.Namespace != "":
			case a.Key == "id" && a.Val != "":
				try(c.byID[strings.TrimSpace(a.Val)])
			case a.Key == "class":
				for class := range strings.FieldsSeq(a.Val) {
					try(c.byClass[class])
				}
			}
		}
		try(c.byTag[strings.ToLower(n.Data)])
		try(c.universal)
	}
	if len(c.matches) < maxCached {
		c.matches[n] = out
	}
	return out
}

// matchesFrom matches a selector from its end. It returns false when the work is used up.
func (c *Cascade) matchesFrom(sel compiled, n *html.Node, steps *int) bool {
	cost := 1
	if sel[0].positional {
		cost += c.siblingCount(n)
	}
	c.work -= cost
	if *steps--; *steps < 0 || c.work < 0 || n == nil || n.Type != html.ElementNode || !sel[0].match(n) {
		return false
	}
	if len(sel) == 1 {
		return true
	}
	combinator := sel[0].combinator
	next := func(n *html.Node) *html.Node { return n.Parent }
	if combinator == '+' || combinator == '~' {
		next = previousElement
	}
	for p := next(n); p != nil && *steps >= 0; p = next(p) {
		if c.matchesFrom(sel[1:], p, steps) {
			return true
		}
		if combinator == '>' || combinator == '+' {
			break // only the nearest
		}
	}
	return false
}

func previousElement(n *html.Node) *html.Node {
	for n = n.PrevSibling; n != nil && n.Type != html.ElementNode; n = n.PrevSibling {
	}
	return n
}

// siblingCount returns the number of child nodes of the node's parent and of
// its ancestors: the nodes that a positional test may visit.
func (c *Cascade) siblingCount(n *html.Node) int {
	if n == nil || n.Parent == nil {
		return 0
	}
	count, ok := c.siblings[n.Parent]
	if !ok {
		for s := n.Parent.FirstChild; s != nil; s = s.NextSibling {
			count++
		}
		c.siblings[n.Parent] = count
	}
	return count / siblingsPerTest
}

const siblingsPerTest = 2 // the number of siblings visited in the time of one test
