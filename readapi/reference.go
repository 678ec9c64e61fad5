package readapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"letterhead/readapi/openapi"
)

// The functions of the API reference page.
var referenceFuncs = template.FuncMap{
	"anchor": anchor, "codes": (*openapi.Response).Codes, "curl": curl, "fields": fieldsOf, "kind": kindOf,
	"limits": limitsOf, "markdown": markdown, "phrase": phrase, "schemaLink": schemaLink,
	"statusClass": func(status int) string { return strconv.Itoa(status/100) + "xx" }, "value": shownValue,
}

// anchor returns the id of an operation's section.
func anchor(o *openapi.Operation) string { return "op-" + o.ID }

// markdown renders the subset that the document's descriptions use: paragraphs, `code` and **bold**.
func markdown(text string) template.HTML {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		b.WriteString("<p>" + string(phrase(paragraph)) + "</p>")
	}
	return template.HTML(b.String())
}

// phrase renders one paragraph, for places where <p> is not allowed.
func phrase(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			b.WriteString("<code>" + template.HTMLEscapeString(part) + "</code>")
			continue
		}
		for j, words := range strings.Split(part, "**") {
			if j%2 == 1 {
				b.WriteString("<strong>" + template.HTMLEscapeString(words) + "</strong>")
			} else {
				b.WriteString(template.HTMLEscapeString(words))
			}
		}
	}
	return template.HTML(b.String()) // all text in it was escaped above
}

// kindOf describes a schema's type in a few words.
func kindOf(s *openapi.Schema) string {
	if s == nil {
		return "bytes"
	}
	switch {
	case len(s.OneOf) > 0 && len(s.Properties) == 0:
		var kinds []string
		for _, one := range s.OneOf {
			kinds = append(kinds, kindOf(one))
		}
		return strings.Join(kinds, " or ")
	case len(s.AllOf) > 0:
		return kindOf(s.AllOf[0])
	case s.Items != nil:
		return "array of " + kindOf(s.Items)
	case s.Name != "" && len(s.Properties) > 0:
		return s.Name
	case len(s.Types) == 0:
		return "anything"
	default:
		return strings.Join(s.Types, " or ")
	}
}

// schemaLink returns the id of the section of the named schema that a schema refers to, or "" if there is none.
func schemaLink(s *openapi.Schema) string {
	switch {
	case s == nil:
		return ""
	case s.Name != "" && len(s.Properties) > 0:
		return "schema-" + s.Name
	case s.Items != nil:
		return schemaLink(s.Items)
	}
	for _, part := range slices.Concat(s.OneOf, s.AllOf) {
		if to := schemaLink(part); to != "" {
			return to
		}
	}
	return ""
}

// limitsOf lists the constraints on a value beyond its type.
func limitsOf(s *openapi.Schema) []string {
	if s == nil {
		return nil
	}
	var limits []string
	add := func(format string, args ...any) { limits = append(limits, fmt.Sprintf(format, args...)) }
	if s.Name == "" { // a nullable value
		for _, one := range s.OneOf {
			if one.Name == "" {
				limits = append(limits, limitsOf(one)...)
			}
		}
	}
	if s.Const != nil {
		add("always %s", shownValue(s.Const))
	}
	if len(s.Enum) > 0 {
		var all []string
		for _, v := range s.Enum {
			all = append(all, shownValue(v))
		}
		add("one of %s", strings.Join(all, ", "))
	}
	if s.Format != "" {
		add("%s", s.Format)
	}
	between(add, "from", s.Minimum, s.Maximum, "")
	between(add, "length", s.MinLength, s.MaxLength, "")
	between(add, "", s.MinItems, s.MaxItems, " items")
	if s.Pattern != "" {
		add("matches %s", s.Pattern)
	}
	if s.Default != nil {
		add("default %s", shownValue(s.Default))
	}
	return limits
}

// between adds a range, either end of which may be open.
func between[T int | float64](add func(string, ...any), what string, low, high *T, unit string) {
	what = strings.TrimLeft(what+" ", " ")
	switch {
	case low != nil && high != nil && *low == *high:
		add("%s%v%s", what, *low, unit)
	case low != nil && high != nil:
		add("%s%v to %v%s", what, *low, *high, unit)
	case low != nil:
		add("%sat least %v%s", strings.TrimPrefix(what, "from "), *low, unit)
	case high != nil:
		add("%sat most %v%s", strings.TrimPrefix(what, "from "), *high, unit)
	}
}

func shownValue(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(encoded)
}

// field is a row of a schema's table; fields of nested objects follow it, with their path.
type field struct {
	Path     string
	Required bool
	Schema   *openapi.Schema
}

// maxFieldDepth limits the depth of displayed fields of unnamed objects; those of named ones have their own table.
const maxFieldDepth = 4

func fieldsOf(s *openapi.Schema) []field { return appendFields(nil, s, "", 0) }

func appendFields(all []field, s *openapi.Schema, prefix string, depth int) []field {
	if depth > maxFieldDepth {
		return all
	}
	for _, p := range s.Properties {
		all = append(all, field{Path: prefix + p.Name, Required: p.Required, Schema: p.Schema})
		if p.Schema.Name == "" {
			all = appendFields(all, p.Schema, prefix+p.Name+".", depth+1)
		}
	}
	return all
}

// curl returns a shell command that sends a request of an operation, with the examples of its parameters.
func curl(baseURL string, o *openapi.Operation) string {
	path, query, headers := o.Path, url.Values{}, []string{}
	for _, p := range o.Parameters {
		value := shownValue(p.Example)
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(value))
		case p.In == "query" && p.Required:
			query.Set(p.Name, value)
		}
	}
	if len(o.Keys) > 0 {
		headers = append(headers, "Authorization: Bearer $LETTERHEAD_KEY")
	}
	var lines []string
	switch o.Method {
	case http.MethodHead:
		lines = append(lines, "curl --head "+shellQuoted(baseURL+path+encoded(query)))
	default:
		lines = append(lines, "curl "+shellQuoted(baseURL+path+encoded(query)))
	}
	if o.Body != nil {
		headers = append(headers, "Content-Type: application/json")
	}
	for _, h := range headers {
		lines = append(lines, `  -H "`+h+`"`)
	}
	if o.Body != nil && len(o.Body.Contents[0].Examples) > 0 {
		var compact bytes.Buffer // from the text, whose fields are in the written order
		if err := json.Compact(&compact, []byte(o.Body.Contents[0].Examples[0].Text)); err == nil {
			lines = append(lines, "  --data "+shellQuoted(compact.String()))
		}
	}
	return strings.Join(lines, " \\\n")
}

func encoded(query url.Values) string {
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// shellQuoted quotes a string for a shell if it has other characters than those of a plain URL.
func shellQuoted(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:/.-_%@", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
