package page

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"letterhead/domain/text"
	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/site"
)

// has reports whether any word is in the list.
func has(words, list []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
}

// namedBy are attributes, in addition to class and id, in which builders and frameworks name parts.
var namedBy = []string{"data-testid", "data-framer-name", "data-component", "data-name", "data-qa"}

const maxNameBytes = 1000 // limits the class and id that are read

// stateName matches the state of a block, not its kind: has-badge, with-press-bar, popup-enabled, modal-host.
var stateName = lazyregexp.New(`(?i)^(has|no|not|with|without)[-_]|[-_](loaded|enabled|disabled|ready|host)$`)

// tokens splits class, id and other names of an element into lower-case words: at white space, punctuation and before
// an upper-case letter after a lower-case one. The html and body elements have none.
func tokens(n *html.Node) []string {
	if n.DataAtom == atom.Html || n.DataAtom == atom.Body {
		return nil
	}
	text := ""
	for _, a := range n.Attr {
		if a.Namespace == "" && (a.Key == "class" || a.Key == "id" || slices.Contains(namedBy, a.Key)) {
			text += a.Val[:min(len(a.Val), maxNameBytes)] + " "
		}
	}
	if text == "" {
		return nil
	}
	var names []string
	for name := range strings.FieldsSeq(text[:min(len(text), maxNameBytes)]) {
		if !stateName.MatchString(name) {
			names = append(names, name)
		}
	}
	return SplitWords(strings.Join(names, " "))
}

// SplitWords splits a class, a file name or another identifier into lower-case words.
func SplitWords(text string) []string {
	var out []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 && len(out) < maxTokens {
			out = append(out, strings.ToLower(word.String()))
		}
		word.Reset()
	}
	lower := false
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r):
			flush()
			lower = false
			continue
		case unicode.IsUpper(r) && lower:
			flush()
		}
		lower = unicode.IsLower(r)
		word.WriteRune(r)
	}
	flush()
	return out
}

const maxAncestors = 3 // the number of ancestors whose words are added to an image's own

// ancestorTokens returns the words of the nearest containers.
func ancestorTokens(n *html.Node) []string {
	var out []string
	for i, p := 0, n.Parent; i < maxAncestors && p != nil && p.Type == html.ElementNode; i, p = i+1, p.Parent {
		out = append(out, tokens(p)...)
	}
	return out[:min(len(out), maxTokens)]
}

func lookup(n *html.Node, name string) (string, bool) {
	for _, a := range n.Attr {
		if a.Namespace == "" && a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// namespaced returns an attribute of a foreign element.
func namespaced(n *html.Node, namespace, name string) string {
	for _, a := range n.Attr {
		if a.Namespace == namespace && a.Key == name {
			return a.Val
		}
	}
	return ""
}

// Attr returns the value of an attribute without a namespace, or "" if the element does not have it.
func Attr(n *html.Node, name string) string {
	v, _ := lookup(n, name)
	return v
}

// maxInner limits the text of one element, in bytes. Linked data may be long.
const maxInner = 1 << 20

// separate lists elements whose text browsers show apart from the text around it.
var separate = []atom.Atom{atom.Br, atom.Div, atom.P, atom.Li, atom.H1, atom.H2, atom.H3, atom.Td, atom.Section,
	atom.Hr}

func inner(n *html.Node) string {
	if c := n.FirstChild; c != nil && c == n.LastChild && c.Type == html.TextNode {
		return c.Data
	}
	var b strings.Builder
	var add func(*html.Node, int)
	add = func(n *html.Node, depth int) {
		if depth > maxWalkDepth || b.Len() > maxInner {
			return
		}
		switch {
		case n.Type == html.TextNode:
			b.WriteString(n.Data)
		case n.Type == html.ElementNode && (n.DataAtom == atom.Script || n.DataAtom == atom.Style) && depth > 0:
			return
		}
		apart := depth > 0 && n.Type == html.ElementNode && slices.Contains(separate, n.DataAtom)
		if apart {
			b.WriteByte(' ')
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			add(c, depth+1)
		}
		if apart {
			b.WriteByte(' ')
		}
	}
	add(n, 0)
	return b.String()
}

// Clean prepares a text for display and truncates it to a number of runes; see text.Clean. It returns "" for a single
// value with a U+FFFD or a C1 control, because that was decoded wrongly.
func Clean(s string, limit int) string {
	if limit <= MaxValueRunes && strings.ContainsFunc(s, func(r rune) bool {
		return r == utf8.RuneError || r >= 0x80 && unicode.IsControl(r) && r != 0x85
	}) {
		return ""
	}
	return text.Clean(s, limit)
}

// resolve makes a URL absolute. It returns nil unless it is http or https; it
// drops the fragment and rejects credentials.
func resolve(base *url.URL, ref string) *url.URL {
	ref = site.Reference(ref)
	if strings.HasPrefix(ref, "#") {
		return nil
	}
	if strings.Contains(ref, "{{") || strings.Contains(ref, "${") || strings.Contains(ref, "<%") {
		return nil // a template that a script has not filled yet
	}
	return site.Absolute(base, ref)
}

// resolveImage also allows an image that is embedded in the page.
func resolveImage(base *url.URL, ref string) *url.URL {
	ref = strings.TrimSpace(ref)
	if len(ref) >= 5 && strings.EqualFold(ref[:5], "data:") {
		if len(ref) > MaxDataURLBytes || !strings.HasPrefix(strings.ToLower(ref[5:min(len(ref), 11)]), "image/") {
			return nil
		}
		return &url.URL{Scheme: "data", Opaque: ref[5:]}
	}
	return resolve(base, ref)
}
