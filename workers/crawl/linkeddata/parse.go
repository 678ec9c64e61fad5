package linkeddata

import (
	"bytes"
	"encoding/json"
	"html"
	"slices"
	"strings"

	"letterhead/workers/crawl/jsontext"
)

// Limits of what is read.
const (
	// MaxBlobs bounds the script elements of one page.
	MaxBlobs = 32
	// MaxBlobBytes bounds one script element.
	MaxBlobBytes = 512 << 10
	// MaxTotalBytes bounds all script elements of one page.
	MaxTotalBytes = 1 << 20
	// maxDepth bounds nesting; real pages stay below ten.
	maxDepth = 48
	// maxObjects bounds the objects of one page.
	maxObjects = 4000
	// maxTextBytes bounds one text value.
	maxTextBytes = 8 << 10
	// maxValues bounds the values taken of one list.
	maxValues = 200
)

// Graph is all objects of a page.
type Graph struct {
	// Objects holds every object, in document order, parents before children; members of an object are
	// ordered by name.
	Objects []*Object
	byID    map[string]*Object
}

// Object is one typed or untyped thing.
type Object struct {
	ID    string
	Types []string // without the schema.org prefix
	// Role is the property through which the object was reached: "" at the top, "publisher", "review" …
	Role string
	// Parent is the object that holds it, nil at the top.
	Parent *Object

	graph  *Graph
	values map[string]any
}

// Parse reads the contents of a page's JSON-LD elements.
func Parse(blobs [][]byte) *Graph {
	g := &Graph{byID: map[string]*Object{}}
	left := MaxTotalBytes
	for _, b := range blobs[:min(len(blobs), MaxBlobs)] {
		if len(b) > MaxBlobBytes || len(b) > left {
			continue
		}
		left -= len(b)
		if v, ok := decode(b); ok {
			g.collect(v, "", nil, 0)
		}
	}
	return g
}

// decode tries the text as it is, then with the usual faults mended.
func decode(b []byte) (any, bool) {
	b = trim(b)
	if tooDeep(b) {
		return nil, false
	}
	var v any
	if json.Unmarshal(b, &v) == nil {
		return v, true
	}
	mended := mend(b)
	if json.Unmarshal(mended, &v) == nil {
		return v, true
	}
	unescaped := []byte(html.UnescapeString(string(mended)))
	if !tooDeep(unescaped) && json.Unmarshal(unescaped, &v) == nil {
		return v, true
	}
	return nil, false
}

// trim removes what pages put around the JSON: byte order marks, comments, CDATA, a semicolon.
func trim(b []byte) []byte {
	for {
		before := len(b)
		b = bytes.TrimSpace(b)
		b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
		b = bytes.TrimPrefix(b, []byte("<!--"))
		b = bytes.TrimSuffix(b, []byte("-->"))
		b = bytes.TrimPrefix(b, []byte("//"))
		b = bytes.TrimSuffix(b, []byte("//"))
		b = bytes.TrimPrefix(b, []byte("/*"))
		b = bytes.TrimSuffix(b, []byte("*/"))
		b = bytes.TrimPrefix(b, []byte("<![CDATA["))
		b = bytes.TrimSuffix(b, []byte("]]>"))
		b = bytes.TrimPrefix(b, []byte("*/"))
		b = bytes.TrimSuffix(b, []byte("/*"))
		b = bytes.TrimSuffix(b, []byte(";"))
		if len(b) == before {
			return b
		}
	}
}

func tooDeep(b []byte) bool { return jsontext.Depth(b, maxDepth) > maxDepth }

// mend turns raw control characters in strings into spaces and removes commas before a closing bracket.
func mend(b []byte) []byte {
	out := make([]byte, 0, len(b))
	quoted := false
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case quoted && c == '\\' && i+1 < len(b):
			out = append(out, c, b[i+1])
			i++
			continue
		case c == '"':
			quoted = !quoted
		case quoted && c < 0x20:
			c = ' '
		case !quoted && c == ',':
			rest := bytes.TrimLeft(b[i+1:], " \t\r\n")
			if len(rest) > 0 && (rest[0] == '}' || rest[0] == ']') {
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
		if o.ID != "" && len(v) > 1 && g.byID[o.ID] == nil {
			g.byID[o.ID] = o
		}
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names) // map order would make results differ from run to run
		for _, name := range names {
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
