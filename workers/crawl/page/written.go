package page

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"letterhead/internal/lazyregexp"
)

const (
	maxWriters = 40   // limits the scripts of a page that are searched for a header
	maxSteps   = 5000 // limits the steps that are read of each
	// maxWriter limits the length of such a script, and maxWriterBytes of all: a script that writes a header is short.
	maxWriter      = 32 << 10
	maxWriterBytes = 128 << 10
)

var (
	// step matches what a script does on its way to write HTML from literals, which may be joined: it chooses an
	// element, defines one, or writes. It also matches comments and other literals, so that nothing is found in them.
	step = lazyregexp.New(`(?s)/\*.*?(?:\*/|\z)|//[^\n]*|` + literals + `|` +
		`(?:getElementById|querySelector|\$)\(\s*["'][#.]?([\w-]+)["']|` +
		`customElements\.define\(\s*["']([\w-]+)["']|(?:(document\.write(?:ln)?\()|\.(?:inner|outer)HTML\s*\+?=|` +
		`\.(?:html|append|prepend)\(|\.insertAdjacentHTML\(\s*["']\w+["']\s*,)\s*` +
		`(` + literals + `(?:\s*\+\s*` + literals + `)*)`)
	// writer matches all scripts in which step finds one that writes, and is faster.
	writer  = lazyregexp.New(`document\.write|erHTML|AdjacentHTML|\.(?:html|append|prepend)\(`)
	literal = lazyregexp.New(`(?s)` + literals)
	// expression matches a value within a template literal, which is unknown.
	expression = lazyregexp.New(`\$\{[^}]*\}`)
	// headerPart matches the HTML of a header. Scripts also write counters and advertisements.
	headerPart = lazyregexp.New(`(?i)<(?:header|nav)\b|\blogo|\bnavbar`)
	unescaped  = strings.NewReplacer(`\n`, "\n", `\t`, " ", `\"`, `"`, `\'`, "'", "\\`", "`", `\/`, "/")
)

// literals matches a literal. One that is not closed ends with the line or the script, so that step never reads a
// script to its end in vain.
const literals = `(?:'(?:[^'\\\n]|\\.)*(?:'|\n|\\?\z)|"(?:[^"\\\n]|\\.)*(?:"|\n|\\?\z)|` +
	"`(?:[^`\\\\]|\\\\.)*(?:`|\\\\?\\z))"

// insertWritten inserts the header that the page's own scripts write from literals, where a browser would show it.
func insertWritten(root *html.Node) {
	var scripts []*html.Node
	var steps [][][]string            // of each script
	chosen := map[string]*html.Node{} // the elements that the scripts choose or define, by name
	left := maxWriterBytes
	for n := range root.Descendants() {
		if n.DataAtom != atom.Script || len(scripts) == maxWriters || strings.Contains(Attr(n, "type"), "json") {
			continue
		}
		text := inner(n)
		if len(text) > min(left, maxWriter) || !writer.MatchString(text) || !headerPart.MatchString(text) {
			continue
		}
		scripts, left = append(scripts, n), left-len(text)
		steps = append(steps, step.FindAllStringSubmatch(text, maxSteps))
		for _, m := range steps[len(steps)-1] {
			chosen[m[1]], chosen[m[2]] = nil, nil
		}
	}
	if len(scripts) == 0 {
		return
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		for name := range strings.FieldsSeq(Attr(n, "id") + " " + Attr(n, "class") + " " + n.Data) {
			if other, ok := chosen[name]; ok && other == nil {
				chosen[name] = n
			}
		}
	}
	for i, script := range scripts {
		into, defined := &html.Node{}, "" // nowhere, until the script chooses or defines an element
		for _, m := range steps[i] {
			to, before := into, (*html.Node)(nil)
			switch {
			case chosen[m[1]] != nil:
				into = chosen[m[1]]
			case m[2] != "":
				defined = m[2]
			case m[3] != "":
				to, before = script.Parent, script
			}
			for _, n := range headerOf(m[4]) {
				to.InsertBefore(n, before)
			}
		}
		for n := into.FirstChild; into.Type == 0 && chosen[defined] != nil && n != nil; n = into.FirstChild {
			into.RemoveChild(n)
			chosen[defined].AppendChild(n)
		}
	}
}

// headerOf parses literals. It returns no nodes unless they are the HTML of a header.
func headerOf(written string) []*html.Node {
	var text strings.Builder
	for _, l := range literal.FindAllString(written, -1) {
		text.WriteString(expression.ReplaceAllString(unescaped.Replace(l[1:max(1, len(l)-1)]), ""))
	}
	if !headerPart.MatchString(text.String()) {
		return nil
	}
	div := &html.Node{Type: html.ElementNode, DataAtom: atom.Div, Data: "div"}
	nodes, _ := html.ParseFragment(strings.NewReader(text.String()), div) // none if they are nested too deeply
	return nodes
}
