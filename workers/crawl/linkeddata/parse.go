package linkeddata

import (
	"bytes"
	"encoding/json"
	"errors"
	"html"
	"io"
	"maps"
	"slices"
	"strings"

	"letterhead/workers/crawl/jsontext"
)

// Limits of the data that is read.
const (
	MaxBlobs      = 32        // limits the script elements of one page
	maxBlobBytes  = 512 << 10 // limits one script element
	maxTotalBytes = 1 << 20   // limits all script elements of one page
	maxDepth      = 48        // limits nesting; real pages stay below ten
	maxObjects    = 4000      // limits the objects of one page
	maxTextBytes  = 8 << 10   // limits one text value
	maxValues     = 200       // limits the values of one list
)

// Graph holds all objects of a page.
type Graph struct {
	// Objects holds every object, in document order, parents before children; members of an object are ordered by name.
	Objects []*Object
	byID    map[string]*Object
}

// All returns the objects. A nil graph, as of a page that was not parsed, has none.
func (g *Graph) All() []*Object {
	if g == nil {
		return nil
	}
	return g.Objects
}

// Object is one typed or untyped thing.
type Object struct {
	ID     string
	Types  []string // without the schema.org prefix
	Role   string   // the property through which the object was reached: "" at the top, "publisher", "review" …
	Parent *Object  // the object that contains it, or nil at the top

	graph    *Graph
	values   map[string]any
	pointers []*Object // the references that lead to it
}

// Parse parses the contents of a page's JSON-LD elements.
func Parse(blobs [][]byte) *Graph {
	g := &Graph{byID: map[string]*Object{}}
	left := maxTotalBytes
	for _, b := range blobs[:min(len(blobs), MaxBlobs)] {
		if len(b) > maxBlobBytes || len(b) > left {
			continue
		}
		left -= len(b)
		for _, v := range decode(b) {
			g.collect(v, "", nil, 0)
		}
	}
	for _, o := range g.Objects {
		if target := g.byID[o.ID]; o.isReference() && target != nil && target != o && len(target.pointers) < maxValues {
			target.pointers = append(target.pointers, o)
		}
	}
	return g
}

// decode tries the text unchanged, then with common mistakes corrected. Some pages write several values one after the
// other, and some a string that contains the value.
func decode(b []byte) []any {
	b = trim(b)
	if tooDeep(b) {
		return nil
	}
	if out := values(b); out != nil {
		return out
	}
	mended := mend(b)
	if out := values(mended); out != nil {
		return out
	}
	if unescaped := []byte(html.UnescapeString(string(mended))); !tooDeep(unescaped) {
		return values(unescaped)
	}
	return nil
}

// values decodes values up to the end; it returns nil if the text is not entirely valid.
func values(b []byte) []any {
	var out []any
	d := json.NewDecoder(bytes.NewReader(b))
	for len(out) < maxValues {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			return nil
		}
		if s, ok := v.(string); ok && len(out) == 0 && !tooDeep([]byte(s)) {
			if inner := []byte(s); json.Unmarshal(inner, &v) != nil {
				v = s
			}
		}
		out = append(out, v)
	}
	return out
}

// trim removes additions around the JSON: byte order marks, comments, CDATA, a semicolon.
func trim(b []byte) []byte {
	for {
		before := len(b)
		b = bytes.TrimSpace(b)
		for _, begin := range []string{"\xef\xbb\xbf", "<!--", "//", "/*", "<![CDATA[", "*/"} {
			b = bytes.TrimPrefix(b, []byte(begin))
		}
		for _, end := range []string{"-->", "//", "*/", "]]>", "/*", ";"} {
			b = bytes.TrimSuffix(b, []byte(end))
		}
		if len(b) == before {
			return b
		}
	}
}

func tooDeep(b []byte) bool { return jsontext.Depth(b, maxDepth) > maxDepth }

// mend turns raw control characters in strings into spaces, drops the backslash of escapes that JSON does
// not know, and removes comments and commas before a closing bracket.
func mend(b []byte) []byte {
	out := make([]byte, 0, len(b))
	quoted := false
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case quoted && c == '\\' && i+1 < len(b):
			if i++; bytes.IndexByte([]byte(`"\/bfnrtu`), b[i]) >= 0 {
				out = append(out, c)
			}
			out = append(out, b[i])
			continue
		case c == '"':
			quoted = !quoted
		case quoted && c < 0x20:
			c = ' '
		case !quoted && c == '/' && i+1 < len(b) && (b[i+1] == '*' || b[i+1] == '/'):
			end, skip := []byte("\n"), 0
			if b[i+1] == '*' {
				end, skip = []byte("*/"), 1
			}
			n := bytes.Index(b[i+2:], end)
			if n < 0 {
				return out
			}
			i += 2 + n + skip
			continue
		case !quoted && c == ',':
			if rest := bytes.TrimLeft(b[i+1:], " \t\r\n"); len(rest) > 0 && (rest[0] == '}' || rest[0] == ']') {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// collect adds a value's objects to the graph.
func (g *Graph) collect(v any, role string, parent *Object, depth int) {
	if depth > maxDepth || len(g.Objects) >= maxObjects {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			g.collect(e, role, parent, depth+1)
		}
	case map[string]any:
		if list, ok := v["@graph"]; ok && len(v) <= 3 { // @context, @graph, @id
			g.collect(list, role, parent, depth+1)
			return
		}
		o := &Object{Role: role, Parent: parent, graph: g, values: v}
		o.ID, _ = v["@id"].(string)
		o.Types = types(v["@type"])
		g.Objects = append(g.Objects, o)
		if have := g.byID[o.ID]; o.ID != "" && len(v) > 1 && (have == nil || have.isReference() && !o.isReference()) {
			g.byID[o.ID] = o
		}
		for _, name := range slices.Sorted(maps.Keys(v)) { // map order would make results nondeterministic
			if name == "@graph" {
				g.collect(v[name], role, parent, depth+1)
				continue
			}
			g.collect(v[name], name, o, depth+1)
		}
	}
}

func types(v any) []string {
	var out []string
	add := func(s string) {
		s = strings.TrimSpace(s)
		if i := strings.LastIndexAny(s, "/:#"); i >= 0 {
			s = s[i+1:]
		}
		if s != "" && len(s) <= 100 && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	switch v := v.(type) {
	case string:
		add(v)
	case []any:
		for _, e := range v[:min(len(v), maxValues)] {
			if s, ok := e.(string); ok {
				add(s)
			}
		}
	}
	return out
}
