package main

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"

	"letterhead/eventschemas"
)

// inlinePrefix marks an entry of a label that is a drawing in the page itself.
const inlinePrefix = "inline:"

// sumPrefix marks an entry of a label that is the SHA-256 of a file.
const sumPrefix = "sha256:"

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return sumPrefix + hex.EncodeToString(sum[:])
}

// chosen is one logo of a record and its source.
type chosen struct {
	source string // its URL; for a drawing in the page, the page's with a fragment
	data   string // of a drawing in the page, without white space
	logo   eventschemas.Logo
}

// drawings finds the drawings of a page for a CSS selector in a label, such as "header svg", and returns their longest
// paths, without white space. An entry that is not a selector has none.
func drawings(root *html.Node, selector string) []string {
	found, err := cascadia.ParseGroup(selector)
	if root == nil || err != nil {
		return nil
	}
	var out []string
	for _, n := range cascadia.QueryAll(root, found) {
		longest := ""
		for _, part := range append([]*html.Node{n}, used(root, n)...) {
			for d := range part.Descendants() {
				if path := squeezed(attribute(d, "d")); len(path) > len(longest) {
					longest = path
				}
			}
		}
		if longest != "" {
			out = append(out, longest)
		}
	}
	return out
}

// used returns the elements that the use elements of a drawing refer to in the same document.
func used(root, drawing *html.Node) []*html.Node {
	var out []*html.Node
	for d := range drawing.Descendants() {
		id, here := strings.CutPrefix(attribute(d, "href"), "#")
		if d.Data != "use" || !here {
			continue
		}
		for n := range root.Descendants() {
			if n.Type == html.ElementNode && attribute(n, "id") == id {
				out = append(out, n)
				break
			}
		}
	}
	return out
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// chosenLogos returns the logos of a record in order.
func (c *crawled) chosenLogos() []chosen {
	if c.result == nil {
		return nil
	}
	out := make([]chosen, len(c.result.Record.Logos))
	for i, logo := range c.result.Record.Logos {
		out[i].logo = logo
	}
	for _, e := range c.result.Evidence {
		if n, ok := strings.CutPrefix(e.Field, "logos["); ok {
			if i, err := strconv.Atoi(strings.TrimSuffix(n, "]")); err == nil && i >= 0 && i < len(out) {
				out[i].source = e.Source
			}
		}
	}
	for _, t := range c.result.Trials {
		if t.Chosen >= 0 && t.Chosen < len(out) && t.Rejected == "" && t.URL != nil {
			out[t.Chosen].source, out[t.Chosen].data = t.URL.String(), squeezed(string(t.Data))
		}
	}
	return out
}

// is reports whether a label's entry names this logo. An inline entry is a substring of the drawing, usually of a path,
// or a selector of drawings in the page; "inline:*" matches any.
func (s *scorer) is(c chosen, entry string) bool {
	piece, inline := strings.CutPrefix(entry, inlinePrefix)
	if strings.HasPrefix(entry, sumPrefix) {
		return strings.EqualFold(s.sums[c.source], entry)
	}
	if !inline {
		return matches(entry, c.source) ||
			!strings.Contains(entry, "*") && sameAddress(c.source, entry) && !strings.HasPrefix(c.source, "data:")
	}
	if c.data == "" {
		return false
	}
	if piece == "*" || strings.Contains(c.data, squeezed(piece)) {
		return true
	}
	return slices.ContainsFunc(drawings(s.page, piece),
		func(path string) bool { return strings.Contains(c.data, path[:min(len(path), samePath)]) })
}

// samePath is the length of a path, in bytes, that distinguishes it from all others.
const samePath = 60

func (s *scorer) isAny(c chosen, entries []string) bool {
	return slices.ContainsFunc(entries, func(entry string) bool { return s.is(c, entry) })
}

// name returns the name of a logo in a report.
func (c chosen) name() string {
	if c.data != "" {
		return c.source + " (inline)"
	}
	return c.source
}

// squeezed returns a text without white space and commas, which are optional in drawings.
func squeezed(text string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == ',' {
			return -1
		}
		return r
	}, text)
}

// logos judges the primary logo, its type and theme, and whether any of the logos is another brand's.
func (s *scorer) logos() {
	truth := s.label.Logo
	if truth == nil {
		return
	}
	field := truth.field()
	all := s.chosenLogos()
	switch {
	case len(all) == 0 && len(truth.Accept) == 0:
		s.add(field, None, "", "")
	case len(all) == 0:
		s.add(field, Missing, "", truth.Accept[0])
	case s.isAny(all[0], truth.Accept):
		s.add(field, Right, all[0].name(), "")
		s.kinds(all[0].logo, truth)
	default:
		s.add(field, Wrong, all[0].name(), first(truth.Accept, "none"))
	}
	s.foreign(all, truth)
}

// kinds judges the type and theme of the right logo.
func (s *scorer) kinds(ours eventschemas.Logo, truth *LogoLabel) {
	if len(truth.Type) > 0 {
		s.equal("logo type", ours.Type, truth.Type)
	}
	if truth.Theme != nil {
		theme := "null"
		if ours.Theme != nil {
			theme = *ours.Theme
		}
		s.equal("logo theme", theme, accepted{*truth.Theme})
	}
}

// foreign judges whether one of the logos is not the brand's. A URL that is
// missing in the label counts as foreign, so that labels stay complete.
func (s *scorer) foreign(all []chosen, truth *LogoLabel) {
	for _, c := range all {
		if !s.isAny(c, truth.Accept) && !s.isAny(c, truth.Other) {
			note := "not in the label"
			if s.isAny(c, truth.Wrong) {
				note = "somebody else's"
			}
			s.add("foreign logo", Wrong, c.name(), note)
			return
		}
	}
	s.add("foreign logo", None, "", "")
}
