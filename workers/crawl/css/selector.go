package css

import (
	"slices"
	"strings"
)

// Limits of selectors. Longer ones are passed over.
const (
	maxSelectorBytes = 1000
	maxSelectorList  = 1000 // selectors of one rule
	maxNested        = 256  // selectors that nesting makes of one rule
	maxAlternatives  = 64   // that :is() and :where() make of one selector
	maxParts         = 16   // compound selectors of one
)

// pseudoElement is what a rule is about.
type pseudoElement uint8

const (
	ownElement pseudoElement = iota
	beforeElement
	afterElement
)

// selector is one selector of a rule.
type selector struct {
	text        string
	specificity uint32 // ids, classes and types in 10 bits each
	rule        int32
	pseudo      pseudoElement
}

const (
	idWeight    = 1 << 20
	classWeight = 1 << 10
	typeWeight  = 1
	maxWeight   = 1 << 30
)

// splitSelectors splits a list.
func splitSelectors(list string) []string {
	out := []string{}
	for part := range splitTop(list, ',') {
		part = strings.TrimSpace(part)
		if part == "" || len(part) > maxSelectorBytes {
			continue
		}
		if out = append(out, part); len(out) >= maxSelectorList {
			break
		}
	}
	return out
}

// nestSelectors puts the selectors of a nested rule under those of the rule around it (CSS Nesting 1).
func nestSelectors(parents, children []string) []string {
	var out []string
	for _, parent := range parents {
		for _, child := range children {
			text := parent + " " + child
			if strings.Contains(child, "&") {
				text = strings.ReplaceAll(child, "&", parent)
			}
			if len(text) > maxSelectorBytes {
				continue
			}
			if out = append(out, text); len(out) >= maxNested {
				return out
			}
		}
	}
	return out
}

// index enters a selector of a rule under what its last part asks for.
func (b *book) index(text string, rule int32) {
	whole, ok := scan(text, 0)
	if !ok {
		return
	}
	for _, alternative := range alternatives(text[:whole.end]) {
		one := whole
		if alternative != text[:whole.end] {
			if one, ok = scan(alternative, 0); !ok {
				continue
			}
		}
		if len(b.selectors) >= maxSelectors {
			return
		}
		at := int32(len(b.selectors))
		b.selectors = append(b.selectors, selector{text: alternative, specificity: min(whole.specificity, maxWeight-1), rule: rule, pseudo: whole.pseudo})
		switch {
		case one.id != "":
			b.byID[one.id] = append(b.byID[one.id], at)
		case one.class != "":
			b.byClass[one.class] = append(b.byClass[one.class], at)
		case one.tag != "":
			b.byTag[one.tag] = append(b.byTag[one.tag], at)
		default:
			b.universal = append(b.universal, at)
		}
	}
}

// scanned is what a selector asks for.
type scanned struct {
	id, class, tag string // of its last compound
	specificity    uint32
	pseudo         pseudoElement
	end            int // where the pseudo-element begins, or the text ends
}

// never are the pseudo-classes that no element of ours is in, or that would cost too much to find out.
var never = map[string]bool{
	"hover": true, "focus": true, "focus-within": true, "focus-visible": true, "active": true, "visited": true, "target": true,
	"has": true, "haschild": true, "contains": true, "containsown": true, "matches": true, "matchesown": true,
	"input": true, "host": true, "host-context": true, "fullscreen": true, "open": true, "popover-open": true,
	"autofill": true, "-webkit-autofill": true, "invalid": true, "checked": true, "indeterminate": true, "first-letter": true, "first-line": true,
}

// alternativesOf are the pseudo-classes that stand for a list.
func alternativesOf(name string) bool {
	return name == "is" || name == "where" || name == "-webkit-any" || name == "-moz-any"
}

// maxScanDepth bounds selectors within selectors.
const maxScanDepth = 4

// scan reads what a selector asks for. ok is false when nothing can match it.
func scan(text string, depth int) (s scanned, ok bool) {
	s.end = len(text)
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '#', c == '.':
			end := nameEnd(text, i+1)
			if end == i+1 {
				return s, false
			}
			if name := unescape(text[i+1 : end]); c == '#' {
				s.id, s.specificity = name, s.specificity+idWeight
			} else {
				s.class, s.specificity = name, s.specificity+classWeight
			}
			i = end
		case c == '[':
			i = closing(text, i) + 1
			s.specificity += classWeight
		case c == ':':
			end, ok := s.pseudoAt(text, i, depth)
			if !ok {
				return s, false
			}
			if i = end; s.pseudo != ownElement {
				return s, strings.TrimSpace(text[i:]) == ""
			}
		case isSpace(c), c == '>', c == '+', c == '~':
			if i++; strings.Trim(text[i:], " \t\n\r\f") != "" {
				s.id, s.class, s.tag = "", "", ""
			}
		case c == '*':
			i++
		case isName(c), c == '\\':
			end := nameEnd(text, i)
			s.tag, s.specificity = strings.ToLower(unescape(text[i:end])), s.specificity+typeWeight
			i = max(end, i+1)
		default:
			return s, false
		}
	}
	return s, true
}

// pseudoAt reads the pseudo-class or pseudo-element that begins at a place and returns where it ends.
func (s *scanned) pseudoAt(text string, at, depth int) (int, bool) {
	start := at + 1
	double := start < len(text) && text[start] == ':'
	if double {
		start++
	}
	end := nameEnd(text, start)
	name := strings.ToLower(text[start:end])
	if name == "before" || name == "after" {
		s.specificity += typeWeight
		s.end, s.pseudo = at, beforeElement
		if name == "after" {
			s.pseudo = afterElement
		}
		return end, true
	}
	if double || never[name] || name == "" {
		return end, false
	}
	argument := ""
	if end < len(text) && text[end] == '(' {
		close := closing(text, end)
		argument = text[end+1 : close]
		end = min(close+1, len(text))
	}
	switch {
	case name == "where":
		return end, depth < maxScanDepth
	case name == "not", alternativesOf(name):
		if depth >= maxScanDepth {
			return end, false
		}
		s.specificity += mostSpecific(argument, depth+1)
		return end, name != "not" || cheap(argument)
	}
	s.specificity += classWeight
	return end, true
}

// mostSpecific is the specificity of the most specific selector of a list.
func mostSpecific(list string, depth int) uint32 {
	best := uint32(0)
	for _, part := range splitSelectors(list) {
		if one, ok := scan(part, depth); ok {
			best = max(best, one.specificity)
		}
	}
	return best
}

// maxInner bounds the combinators within :not(), whose matching tries every way through the ancestors.
const maxInner = 1

func cheap(list string) bool {
	count := 0
	for part := range splitTop(list, ',') {
		count += len(strings.FieldsFunc(strings.TrimSpace(part), func(r rune) bool { return strings.ContainsRune(" \t\n>+~", r) })) - 1
	}
	return count <= maxInner
}

// alternatives writes the selectors that a selector with :is() and :where() stands for. What cannot be
// written without them is left out.
func alternatives(text string) []string {
	done, open := []string{}, []string{text}
	for steps := 0; len(open) > 0 && steps < 4*maxAlternatives; steps++ {
		one := open[0]
		open = open[1:]
		start, list, end := findList(one)
		if start < 0 {
			done = append(done, one)
			if len(done) >= maxAlternatives {
				return done
			}
			continue
		}
		for _, item := range splitSelectors(list) {
			if merged, ok := mergeAt(one[:start], item, one[end:]); ok && len(open) < maxAlternatives {
				open = append(open, merged)
			}
		}
	}
	return done
}

// findList finds the first :is() or :where() that stands in no brackets, or is all that a :not() holds.
func findList(text string) (start int, list string, end int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[', '"', '\'':
			i = closing(text, i)
		case ':':
			stop := nameEnd(text, i+1)
			if stop >= len(text) || text[stop] != '(' {
				continue
			}
			close := closing(text, stop)
			name := strings.ToLower(text[i+1 : stop])
			if alternativesOf(name) {
				return i, text[stop+1 : close], min(close+1, len(text))
			}
			i = close
		}
	}
	return -1, "", 0
}

// mergeAt puts one item of a list in the place of the list: an item with combinators only when what stands
// before it in its compound can be moved behind, which holds since the order within a compound is free
// except for the name of an element.
func mergeAt(before, item, after string) (string, bool) {
	cut := compoundStart(before)
	context, own := before[:cut], before[cut:]
	inner := compoundStart(item)
	context, item = context+item[:inner], item[inner:]
	rest := own
	if item == "*" && (own != "" || !isCombinator(after)) {
		item = ""
	}
	if startsWithName(item) && rest != "" {
		if startsWithName(rest) {
			return "", false
		}
		rest = strings.TrimPrefix(rest, "*")
		return context + item + rest + after, true
	}
	return context + rest + item + after, true
}

func isCombinator(text string) bool {
	return text == "" || isSpace(text[0]) || text[0] == '>' || text[0] == '+' || text[0] == '~'
}

func startsWithName(text string) bool {
	return text != "" && (isName(text[0]) || text[0] == '\\')
}

// compoundStart is where the last compound of a selector begins.
func compoundStart(text string) int {
	start := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i = nameEnd(text, i) - 1
		case c == '[', c == '(':
			i = closing(text, i)
		case isSpace(c), c == '>', c == '+', c == '~':
			start = i + 1
		}
	}
	return start
}

// part is one compound of a selector and how the one before it, to its left, relates to it.
type part struct {
	text       string
	combinator byte // ' ', '>', '+', '~'; 0 for the first
}

// parts splits a selector into its compounds, the last first.
func parts(text string) ([]part, bool) {
	var out []part
	start, combinator := 0, byte(0)
	flush := func(end int) bool {
		if end == start {
			return false
		}
		out = append(out, part{text[start:end], combinator})
		return len(out) <= maxParts
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i = nameEnd(text, i) - 1
		case c == '[', c == '(':
			i = closing(text, i)
		case isSpace(c), c == '>', c == '+', c == '~':
			if !flush(i) {
				return nil, false
			}
			combinator = ' '
			for ; i < len(text) && isCombinator(text[i:]); i++ {
				if !isSpace(text[i]) {
					if combinator != ' ' {
						return nil, false
					}
					combinator = text[i]
				}
			}
			start = i
			i--
		}
	}
	if !flush(len(text)) {
		return nil, false
	}
	slices.Reverse(out)
	return out, true
}
