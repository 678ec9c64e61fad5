package readapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"letterhead/readapi/openapi"
)

// The functions of the API reference.
var referenceFuncs = template.FuncMap{
	"codes": (*openapi.Response).Codes, "contains": strings.Contains, "curl": curl, "fields": fieldsOf, "kind": kindOf,
	"limits": limitsOf, "markdown": markdown, "phrase": phrase, "schemaLink": schemaLink, "slug": slug,
	"text": text, "typeScript": typeScriptCall, "value": shownValue,
}

// text is the text of an element. html/template would also escape the quotes, which takes a fifth of an example in JSON.
func text(s string) template.HTML {
	return template.HTML(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s))
}

// slug returns what follows /docs/ in the path of a group's page.
func slug(group string) string {
	if group == "Logos" {
		return "logo-images" // because /docs/logos demonstrates logos
	}
	return strings.ReplaceAll(strings.ToLower(group), " ", "-")
}

// found is an operation, a schema, a field or an error code. URL is relative to /docs/.
type found struct {
	Kind, Name, Text, URL string
}

// find returns what has every word of a query in its name or text.
func find(d *openapi.Document, query string) []found {
	words, all := strings.Fields(strings.ToLower(query)), []found(nil)
	add := func(f found, more string) {
		text := strings.ToLower(f.Kind + " " + f.Name + " " + f.Text + " " + more)
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
			all = append(all, f)
		}
	}
	for _, o := range d.Operations {
		names := o.ID
		for _, p := range o.Parameters {
			names += " " + p.Name
		}
		for _, r := range o.Responses {
			for _, h := range r.Headers {
				names += " " + h.Name
			}
		}
		add(found{o.Method, o.Path, o.Summary, slug(o.Tag) + "#op-" + o.ID}, names)
	}
	for _, s := range d.Schemas {
		url := "schemas#schema-" + s.Name
		add(found{"schema", s.Name, s.Description, url}, "")
		for _, f := range fieldsOf(s) {
			add(found{"field", s.Name + "." + f.Path, f.Schema.Description, url}, "")
		}
	}
	for _, c := range codeDocs {
		add(found{"error", string(c.Code), c.Meaning, "errors#" + string(c.Code)}, "")
	}
	return all
}

// markdown renders the subset that the document's descriptions use: paragraphs, `code` and **bold**.
func markdown(text string) template.HTML {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		b.WriteString("<p>" + string(phrase(paragraph)) + "</p>")
	}
	return template.HTML(b.String())
}

var (
	codeMarks = regexp.MustCompile("`([^`]*)`")
	boldMarks = regexp.MustCompile(`\*\*([^*]*)\*\*`)
	fieldName = regexp.MustCompile(`(?m)^( *)"([a-zA-Z]\w*)":`) // in JSON; it needs no quotes in TypeScript
)

// phrase renders one paragraph, for places where <p> is not allowed.
func phrase(text string) template.HTML {
	escaped := codeMarks.ReplaceAllString(template.HTMLEscapeString(text), "<code>$1</code>")
	return template.HTML(boldMarks.ReplaceAllString(escaped, "<strong>$1</strong>"))
}

// kindOf describes a schema's type in a few words.
func kindOf(s *openapi.Schema) string {
	switch {
	case s == nil:
		return "bytes"
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
	path, query, command := o.Path, url.Values{}, "curl "
	for _, p := range o.Parameters {
		value := shownValue(p.Example)
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(value))
		case p.In == "query" && p.Required:
			query.Set(p.Name, value)
		}
	}
	if o.Method == http.MethodHead {
		command = "curl --head "
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	lines := []string{command + ShellWord(baseURL+path)}
	if len(o.Keys) > 0 {
		lines = append(lines, `  -H "Authorization: Bearer $LETTERHEAD_KEY"`)
	}
	if o.Body != nil {
		lines = append(lines, `  -H "Content-Type: application/json"`)
		var compact bytes.Buffer // from the text, whose fields are in the written order
		if e := o.Body.Contents[0].Examples; len(e) > 0 && json.Compact(&compact, []byte(e[0].Text)) == nil {
			lines = append(lines, "  --data "+ShellWord(compact.String()))
		}
	}
	return strings.Join(lines, " \\\n")
}

// typeScriptCall returns a call of the client in clients/typescript that sends the same request as curl.
func typeScriptCall(o *openapi.Operation) string {
	options, parameters := map[string]any{}, map[string]map[string]any{}
	for _, p := range o.Parameters {
		if p.Required {
			options["params"] = parameters
			if parameters[p.In] == nil {
				parameters[p.In] = map[string]any{}
			}
			parameters[p.In][p.Name] = p.Example
		}
	}
	if o.Body != nil && len(o.Body.Contents[0].Examples) > 0 {
		options["body"] = json.RawMessage(o.Body.Contents[0].Examples[0].Text)
	}
	if answers := o.Responses[0].Contents; len(answers) > 0 && !strings.Contains(answers[0].Type, "json") {
		options["parseAs"] = "blob"
	}
	call := "const { data, response } = await letterhead.http." + o.Method + "(" + strconv.Quote(o.Path)
	if len(options) > 0 {
		indented, _ := json.MarshalIndent(options, "", "  ") // examples were JSON
		call += ", " + fieldName.ReplaceAllString(string(indented), "$1$2:")
	}
	return call + ");"
}

// ShellWord quotes a word for a POSIX shell if necessary.
func ShellWord(w string) string {
	if w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=+,@%") == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
