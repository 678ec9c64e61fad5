package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document is the API description as values, with all references resolved.
type Document struct {
	Title       string
	Version     string // of the API
	Description string // simple Markdown, like every Description here
	BaseURL     string
	Tags        []Tag
	Security    []Security
	Operations  []*Operation // in the order of the source
	Schemas     []*Schema    // the named ones, in the order of the source
}

// Tag groups operations.
type Tag struct {
	Name        string
	Description string
	Operations  []*Operation
}

// Security is one way to send a key.
type Security struct {
	Name        string // name used by operations
	In          string // header or query
	Parameter   string // name of the header or of the query parameter
	Description string
}

// Operation is one method of one path.
type Operation struct {
	ID          string
	Method      string
	Path        string // with its parameters in braces
	Tag         string
	Summary     string
	Description string
	Keys        []string // kinds of key that may call it; none: no key is needed
	Security    []string // alternative ways to send a key
	Parameters  []*Parameter
	Body        *Body // nil if the operation has none
	Responses   []*Response
}

// Parameter is a parameter of an operation, including header parameters but not those for keys, or a header of a response.
type Parameter struct {
	Name        string
	In          string // path, query, header
	Required    bool
	Description string
	Schema      *Schema
	Example     any
}

// Body is the request body of an operation.
type Body struct {
	Required    bool
	Description string
	Contents    []*Content
}

// Response is an operation's response with one status.
type Response struct {
	Status      int
	Description string
	Headers     []*Parameter
	Contents    []*Content // none: the response has no body
}

// Content is a body in one media type.
type Content struct {
	Type     string
	Schema   *Schema // nil for binary data
	Examples []Example
}

// Example is one example of a body.
type Example struct {
	Name    string
	Summary string
	Value   any    // as decoded by encoding/json, numbers as json.Number
	Text    string // as displayed: indented JSON, or the text itself
}

// Schema describes the allowed values. Missing restrictions are zero or nil.
type Schema struct {
	Name        string // of a named schema, otherwise empty
	Types       []string
	Description string
	Limits
	Enum       []any
	Const      any
	Default    any
	Items      *Schema
	Properties []Property
	Closed     bool // no additional properties
	OneOf      []*Schema
	AllOf      []*Schema
}

// Limits are the restrictions of a schema that are written as it has them.
type Limits struct {
	Format    string   `yaml:"format"`
	Pattern   string   `yaml:"pattern"`
	Minimum   *float64 `yaml:"minimum"`
	Maximum   *float64 `yaml:"maximum"`
	MinLength *int     `yaml:"minLength"`
	MaxLength *int     `yaml:"maxLength"`
	MinItems  *int     `yaml:"minItems"`
	MaxItems  *int     `yaml:"maxItems"`
}

// Property is a field of an object.
type Property struct {
	Name     string
	Required bool
	Schema   *Schema
}

// Codes returns the error codes that a response may contain; none if it is not an error of the JSON API.
func (r *Response) Codes() []string {
	for _, c := range r.Contents {
		if c.Schema == nil {
			continue
		}
		for _, part := range c.Schema.AllOf {
			code := part.property("error").property("code")
			if part.Name != "" || code == nil {
				continue // the part common to all errors
			}
			var codes []string
			for _, v := range code.Enum {
				codes = append(codes, fmt.Sprint(v))
			}
			return codes
		}
	}
	return nil
}

// property returns a field of an object, also within unnamed parts of allOf; nil if there is none.
func (s *Schema) property(name string) *Schema {
	if s == nil {
		return nil
	}
	for _, p := range s.Properties {
		if p.Name == name {
			return p.Schema
		}
	}
	for _, part := range s.AllOf {
		if part.Name == "" && part.property(name) != nil {
			return part.property(name)
		}
	}
	return nil
}

// Read returns the document for a service with that base URL.
func Read(baseURL string) (*Document, error) {
	root, err := parse()
	if err != nil {
		return nil, err
	}
	r := reader{root: root, baseURL: baseURL, schemas: map[string]*Schema{}}
	d := r.document()
	if err := errors.Join(r.errs...); err != nil {
		return nil, fmt.Errorf("read the interface description: %w", err)
	}
	return d, nil
}

// methods in the order in which they are displayed.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost}

// reader walks the source. It records references that it cannot resolve and continues.
type reader struct {
	root    *yaml.Node
	baseURL string
	schemas map[string]*Schema // by name, each once, so that two references to one are the same value
	errs    []error
}

func (r *reader) document() *Document {
	info := r.at(r.root, "info")
	d := &Document{
		Title: r.text(info, "title"), Version: r.text(info, "version"), Description: r.text(info, "description"),
		BaseURL: r.baseURL,
	}
	components := r.at(r.root, "components")
	for name, n := range r.members(r.at(components, "securitySchemes")) {
		s := Security{Name: name, In: r.text(n, "in"), Parameter: r.text(n, "name"),
			Description: r.text(n, "description")}
		if r.text(n, "type") == "http" {
			s.In, s.Parameter = "header", "Authorization"
		}
		d.Security = append(d.Security, s)
	}
	for name := range r.members(r.at(components, "schemas")) {
		d.Schemas = append(d.Schemas, r.named(name))
	}
	for path, n := range r.members(r.at(r.root, "paths")) {
		for _, method := range methods {
			if o := r.at(n, strings.ToLower(method)); o != nil {
				d.Operations = append(d.Operations, r.operation(path, method, n, o))
			}
		}
	}
	for _, n := range r.items(r.at(r.root, "tags")) {
		tag := Tag{Name: r.text(n, "name"), Description: r.text(n, "description")}
		for _, o := range d.Operations {
			if o.Tag == tag.Name {
				tag.Operations = append(tag.Operations, o)
			}
		}
		d.Tags = append(d.Tags, tag)
	}
	return d
}

func (r *reader) operation(path, method string, item, n *yaml.Node) *Operation {
	o := &Operation{
		ID: r.text(n, "operationId"), Method: method, Path: path,
		Summary: r.text(n, "summary"), Description: r.text(n, "description"), Keys: r.texts(n, "x-keys"),
	}
	if tags := r.texts(n, "tags"); len(tags) == 1 {
		o.Tag = tags[0]
	} else {
		r.fault(n, "%s has not exactly one tag", o.ID)
	}
	for _, s := range r.items(r.at(n, "security")) {
		for name := range r.members(s) {
			o.Security = append(o.Security, name)
		}
	}
	for _, p := range slices.Concat(r.items(r.at(item, "parameters")), r.items(r.at(n, "parameters"))) {
		o.Parameters = append(o.Parameters, r.parameter(r.text(p, "name"), r.text(p, "in"), p))
	}
	if b := r.at(n, "requestBody"); b != nil {
		o.Body = &Body{Required: r.yes(b, "required"), Description: r.text(b, "description"), Contents: r.contents(b)}
	}
	for status, a := range r.members(r.at(n, "responses")) {
		o.Responses = append(o.Responses, r.response(status, a))
	}
	return o
}

func (r *reader) parameter(name, in string, n *yaml.Node) *Parameter {
	return &Parameter{Name: name, In: in, Required: r.yes(n, "required"), Description: r.text(n, "description"),
		Schema: r.schema(r.at(n, "schema")), Example: r.value(r.at(n, "example"))}
}

func (r *reader) response(status string, n *yaml.Node) *Response {
	code, err := strconv.Atoi(status)
	if err != nil {
		r.fault(n, "%q is no status", status)
	}
	a := &Response{Status: code, Description: r.text(n, "description"), Contents: r.contents(n)}
	for name, h := range r.members(r.at(n, "headers")) {
		a.Headers = append(a.Headers, r.parameter(name, "header", h))
	}
	return a
}

func (r *reader) contents(n *yaml.Node) []*Content {
	var all []*Content
	for mediaType, c := range r.members(r.at(n, "content")) {
		content := &Content{Type: mediaType}
		if schema := member(c, "schema"); schema != nil {
			content.Schema = r.schemaOf(schema)
		}
		if e := r.at(c, "example"); e != nil {
			content.Examples = append(content.Examples, r.example("", "", e))
		}
		for name, e := range r.members(r.at(c, "examples")) {
			content.Examples = append(content.Examples, r.example(name, r.text(e, "summary"), r.at(e, "value")))
		}
		all = append(all, content)
	}
	return all
}

func (r *reader) example(name, summary string, n *yaml.Node) Example {
	e := Example{Name: name, Summary: summary, Value: r.value(n)}
	if text, ok := e.Value.(string); ok {
		e.Text = text
		return e
	}
	var compact, indented bytes.Buffer
	if err := writeJSON(&compact, n, r.baseURL, 0); err != nil {
		r.fault(n, "example %s: %w", name, err)
		return e
	}
	if err := json.Indent(&indented, compact.Bytes(), "", "  "); err != nil {
		r.fault(n, "example %s: %w", name, err)
	}
	e.Text = indented.String()
	return e
}

// named returns the schema with a name, parsed once.
func (r *reader) named(name string) *Schema {
	if s, ok := r.schemas[name]; ok {
		return s
	}
	n := r.at(r.at(r.at(r.root, "components"), "schemas"), name)
	s := &Schema{Name: name}
	r.schemas[name] = s
	r.fill(s, n)
	return s
}

func (r *reader) schema(n *yaml.Node) *Schema {
	if n == nil {
		return nil
	}
	s := &Schema{}
	r.fill(s, n)
	return s
}

// schemaOf parses a schema that may be a reference to a named one.
func (r *reader) schemaOf(raw *yaml.Node) *Schema {
	if raw.Kind == yaml.AliasNode {
		raw = raw.Alias
	}
	if to := member(raw, "$ref"); to != nil {
		if name, ok := strings.CutPrefix(to.Value, "#/components/schemas/"); ok {
			return r.named(name)
		}
	}
	return r.schema(raw)
}

func (r *reader) fill(s *Schema, n *yaml.Node) {
	if n == nil { // a reference without a target
		return
	}
	if err := n.Decode(&s.Limits); err != nil {
		r.fault(n, "%w", err)
	}
	s.Description = r.text(n, "description")
	s.Const, s.Default = r.value(r.at(n, "const")), r.value(r.at(n, "default"))
	if t := r.at(n, "type"); t != nil && t.Kind == yaml.ScalarNode {
		s.Types = []string{t.Value}
	} else {
		s.Types = r.texts(n, "type")
	}
	for _, v := range r.items(r.at(n, "enum")) {
		s.Enum = append(s.Enum, r.value(v))
	}
	if items := member(n, "items"); items != nil {
		s.Items = r.schemaOf(items)
	}
	required := r.texts(n, "required")
	for name := range r.members(r.at(n, "properties")) {
		s.Properties = append(s.Properties, Property{Name: name, Required: slices.Contains(required, name),
			Schema: r.schemaOf(member(r.at(n, "properties"), name))})
	}
	if more := r.at(n, "additionalProperties"); more != nil {
		s.Closed = more.Value == "false"
	}
	for _, part := range sequence(r.at(n, "oneOf")) {
		s.OneOf = append(s.OneOf, r.schemaOf(part))
	}
	for _, part := range sequence(r.at(n, "allOf")) {
		s.AllOf = append(s.AllOf, r.schemaOf(part))
	}
}
