package page

import (
	"bytes"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	maxTreeDepth  = 200      // limits the tree that plainTree builds; deeper elements become siblings
	maxTreeNodes  = 400_000  // limits its nodes: an ordinary page of MaxBytes has fewer
	maxTokenBytes = MaxBytes // limits one token; a longer one ends the tree
)

// tree parses HTML, with the simple builder if the parser fails.
func tree(text []byte) *html.Node {
	// With scripting off the content of noscript is parsed, which contains lazily loaded images.
	root, err := html.ParseWithOptions(bytes.NewReader(text), html.ParseOptionEnableScripting(false))
	if err == nil {
		return root
	}
	return plainTree(text)
}

// closes names the elements that a start tag of the same group ends.
var closes = map[atom.Atom][]atom.Atom{
	atom.P:      {atom.P},
	atom.Li:     {atom.Li},
	atom.Dt:     {atom.Dt, atom.Dd},
	atom.Dd:     {atom.Dt, atom.Dd},
	atom.Option: {atom.Option},
	atom.Tr:     {atom.Tr, atom.Td, atom.Th},
	atom.Td:     {atom.Td, atom.Th},
	atom.Th:     {atom.Td, atom.Th},
}

var void = map[atom.Atom]bool{
	atom.Area: true, atom.Base: true, atom.Br: true, atom.Col: true, atom.Embed: true, atom.Hr: true,
	atom.Img: true, atom.Input: true, atom.Link: true, atom.Meta: true, atom.Param: true,
	atom.Source: true, atom.Track: true, atom.Wbr: true,
}

// plainTree builds a tree from tokens, without the error recovery of the HTML standard and never deeper than
// maxTreeDepth: deeper elements become children of the last one above it.
func plainTree(text []byte) *html.Node {
	z := html.NewTokenizer(bytes.NewReader(text))
	z.SetMaxBuf(maxTokenBytes)
	b := treeBuilder{open: []*html.Node{{Type: html.DocumentNode}}}
	for range maxTreeNodes {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		t := z.Token()
		switch kind {
		case html.TextToken:
			b.top().AppendChild(&html.Node{Type: html.TextNode, Data: t.Data})
		case html.StartTagToken:
			b.start(t, false)
		case html.SelfClosingTagToken:
			b.start(t, true)
		case html.EndTagToken:
			b.end(t.Data)
		}
	}
	return b.open[0]
}

// treeBuilder holds the open elements, the document first.
type treeBuilder struct{ open []*html.Node }

func (b *treeBuilder) top() *html.Node { return b.open[len(b.open)-1] }

func (b *treeBuilder) start(t html.Token, closed bool) {
	for _, ended := range closes[t.DataAtom] {
		if len(b.open) > 1 && b.top().DataAtom == ended {
			b.open = b.open[:len(b.open)-1]
		}
	}
	n := &html.Node{Type: html.ElementNode, Data: t.Data, DataAtom: t.DataAtom, Attr: t.Attr,
		Namespace: b.top().Namespace}
	if t.DataAtom == atom.Svg || t.DataAtom == atom.Math {
		n.Namespace = t.Data
	}
	b.open[min(len(b.open), maxTreeDepth)-1].AppendChild(n)
	if !void[t.DataAtom] && !(closed && n.Namespace != "") {
		b.open = append(b.open, n)
	}
}

// maxEndScan limits the search for the start of an end tag: otherwise each tag
// of a page of only mismatched end tags would search all open elements.
const maxEndScan = 256

func (b *treeBuilder) end(name string) {
	for i := len(b.open) - 1; i > 0 && i >= len(b.open)-maxEndScan; i-- {
		if b.open[i].Data == name {
			b.open = b.open[:i]
			return
		}
	}
}
