package linkeddata

import (
	"encoding/json"
	"html"
	"slices"
	"strconv"
	"strings"

	"letterhead/workers/crawl/table"
)

var tables = table.Of("linkeddata")

// Is reports whether the object has one of the types.
func (o *Object) Is(types ...string) bool {
	return slices.ContainsFunc(o.Types, func(t string) bool { return slices.Contains(types, t) })
}

// organizationTypes are the schema.org types of possible brands, in addition to
// those whose names end in organizationEndings.
var organizationTypes = tables.List("organizationTypes")
var organizationEndings = []string{"Organization", "Business", "Store", "Company", "Agency"}

// IsOrganization reports whether the object can be a brand or a company.
func (o *Object) IsOrganization() bool {
	return slices.ContainsFunc(o.Types, func(t string) bool {
		return slices.Contains(organizationTypes, t) ||
			slices.ContainsFunc(organizationEndings, func(e string) bool { return strings.HasSuffix(t, e) })
	})
}

// Text returns the first text of a property, or "" if there is none. Entities
// are decoded once, because many pages also use them inside JSON.
func (o *Object) Text(name string) string {
	if all := o.Texts(name); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Texts returns all texts of a property.
func (o *Object) Texts(name string) []string {
	var out []string
	o.each(name, func(v any) {
		if s := scalar(v); s != "" {
			out = append(out, s)
		}
	})
	return out
}

// URLs returns the URLs of a property, given as text or as an object with url, contentUrl or @id.
func (o *Object) URLs(name string) []string {
	var out []string
	add := func(s string) {
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	o.each(name, func(v any) {
		m, ok := v.(map[string]any)
		if !ok {
			add(scalar(v))
			return
		}
		x := o.resolve(m)
		for _, key := range []string{"url", "contentUrl"} {
			if s := x.Text(key); s != "" {
				add(s)
				return
			}
		}
		add(x.ID)
	})
	return out
}

// Linked returns the objects of a property, with references followed once.
func (o *Object) Linked(name string) []*Object {
	var out []*Object
	o.each(name, func(v any) {
		if m, ok := v.(map[string]any); ok {
			out = append(out, o.resolve(m))
		}
	})
	return out
}

// resolve follows a reference: an object with only an @id. A reference to a
// reference is not followed further, so there are no cycles.
func (o *Object) resolve(m map[string]any) *Object {
	id, _ := m["@id"].(string)
	if id != "" && o.graph != nil && len(m) <= 2 { // @id, perhaps @type
		if target := o.graph.byID[id]; target != nil {
			return target
		}
	}
	return &Object{ID: id, Types: types(m["@type"]), graph: o.graph, values: m}
}

// each visits the values of a property, including values in one level of lists.
func (o *Object) each(name string, visit func(any)) {
	switch v := o.values[name].(type) {
	case nil:
	case []any:
		for _, e := range v[:min(len(v), maxValues)] {
			visit(e)
		}
	default:
		visit(v)
	}
}

func scalar(v any) string {
	var s string
	switch v := v.(type) {
	case string:
		s = v
	case float64:
		s = strconv.FormatFloat(v, 'f', -1, 64)
	case json.Number:
		s = v.String()
	case map[string]any:
		inner, ok := v["@value"]
		if !ok {
			return ""
		}
		if s, ok = inner.(string); !ok {
			return ""
		}
	}
	if len(s) > maxTextBytes {
		return ""
	}
	return strings.TrimSpace(html.UnescapeString(s))
}
