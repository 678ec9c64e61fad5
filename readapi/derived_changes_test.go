package readapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"
	"golang.org/x/net/http/httpguts"

	"letterhead/readapi/openapi"
	"letterhead/readapi/openapi/openapitest"
)

// changesOf returns all changes that the document of an operation suggests.
func (d *deriver) changesOf(o *openapi.Operation, c *customer) []change {
	var all []change
	for _, p := range o.Parameters {
		all = append(all, d.parameterChanges(o, p)...)
	}
	all = append(all, d.bodyChanges(o)...)
	all = append(all, d.keyChanges(o, c)...)
	all = append(all, d.methodChanges(o)...)
	return append(all, surroundingChanges(o)...)
}

func (d *deriver) parameterChanges(o *openapi.Operation, p *openapi.Parameter) []change {
	var all []change
	place := p.In + " " + p.Name
	add := func(c class, name string, apply func(*derived)) {
		all = append(all, change{place: place, name: name, class: c, alone: p.In == "header", apply: apply})
	}
	good := goodTexts(p)
	for _, text := range textsOf(p.Schema, good) {
		if p.In == "header" && !httpguts.ValidHeaderFieldValue(text) {
			continue // net/http's client does not send it
		}
		c := d.classOf(o, p, text)
		if p.In == "path" && (text == "." || text == "..") {
			c = unclear // clients and proxies remove them from paths
		}
		add(c, fmt.Sprintf("%.60q (%d letters)", text, utf8.RuneCountInString(text)), func(r *derived) { r.set(p, text) })
		all[len(all)-1].elsewhere = p.In == "path" && c == unclear
		switch {
		case p.In != "path" || text != "":
		case !ofLogos(o):
			all[len(all)-1].status = http.StatusNotFound // another path, which is unknown
		case p.Name != "domain": // the first form, followed by a slash
			all[len(all)-1].elsewhere = true
		}
	}
	absent := inside
	if p.Required {
		absent = outside
	}
	example, pair := good[0], p.Name+"="+url.QueryEscape(good[0])
	switch p.In {
	case "path":
		add(d.classOf(o, p, example), "every byte escaped", func(r *derived) { r.path[p.Name] = escapedWhole(example) })
		add(unclear, "escaped twice", func(r *derived) { r.path[p.Name] = url.PathEscape(escapedWhole(example)) })
		add(unclear, "a parameter of a path", func(r *derived) { r.path[p.Name] += ";a=b" })
	case "header":
		if modern := modernMessage(o, p); modern != nil {
			add(inside, "with its other headers", modern)
		}
		add(d.classOf(o, p, example+", "+example), "twice", func(r *derived) { r.set(p, example, example) })
		add(d.classOf(o, p, example+", x"), "twice, with two values", func(r *derived) { r.set(p, example, "x") })
	case "query":
		queries := func(c class, name string, pairs ...string) {
			add(c, name, func(r *derived) { r.query[p.Name] = pairs })
		}
		queries(absent, "missing")
		queries(absent, "in capital letters only", strings.ToUpper(p.Name)+"=x")
		queries(outside, "twice", pair, pair)
		queries(outside, "twice, with two values", pair, p.Name+"=x")
		queries(outside, "half an escape", p.Name+"=%")
		queries(outside, "no escape", p.Name+"=%zz")
		queries(d.classOf(o, p, ""), "no equals sign", p.Name)
		queries(inside, "an escaped name", escapedWhole(p.Name)+"="+url.QueryEscape(example))
		queries(inside, "escaped whole", p.Name+"="+escapedWhole(example))
		queries(absent, "a list", p.Name+"[]=x")
	}
	return all
}

// modernMessage returns the additional requirements of version 2026-07-28 besides its header: they are
// in the description, where no schema can express them.
func modernMessage(o *openapi.Operation, p *openapi.Parameter) func(*derived) {
	if p.Name != "MCP-Protocol-Version" {
		return nil
	}
	return func(r *derived) {
		r.set(p, "2026-07-28")
		for _, other := range o.Parameters {
			if other.In == "header" && other != p {
				r.set(other, fmt.Sprint(other.Example))
			}
		}
		r.body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_brand","arguments":{"identifier":"acme.com"},` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	}
}

func escapedWhole(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

// classOf asks the validator whether the schema of a parameter allows a text.
func (d *deriver) classOf(o *openapi.Operation, p *openapi.Parameter, text string) class {
	if !utf8.ValidString(text) { // JSON Schema's texts are Unicode
		if p.In == "header" && p.Schema.Pattern == "" && len(p.Schema.Enum) == 0 {
			return unclear // HTTP's headers are bytes
		}
		return outside
	}
	if p.In == "header" {
		text = strings.Trim(text, " \t") // optional whitespace of HTTP, on either side
	}
	item := d.kin.Paths.Value(o.Path)
	parameter := item.GetOperation(o.Method).Parameters.GetByInAndName(p.In, p.Name)
	if parameter == nil {
		parameter = item.Parameters.GetByInAndName(p.In, p.Name)
	}
	value := any(text)
	if !slices.Contains(p.Schema.Types, "string") {
		if err := json.Unmarshal([]byte(text), &value); err != nil || strings.TrimSpace(text) != text {
			value = text
		}
	}
	if parameter.Schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020()) != nil {
		return outside
	}
	if p.Schema.Format == "uuid" && (uuid.Validate(text) != nil || len(text) != len(uuid.Nil.String())) {
		return outside
	}
	if modernMessage(o, p) != nil && text == "2026-07-28" {
		return unclear // without the parts that belong to it
	}
	return inside
}

func (d *deriver) bodyChanges(o *openapi.Operation) []change {
	if o.Body == nil {
		return []change{{place: "body", name: "where none is expected", class: unclear, apply: func(r *derived) { r.body = `{"a":1}` }}}
	}
	var all []change
	content := o.Body.Contents[0]
	schema := d.kin.Paths.Value(o.Path).GetOperation(o.Method).RequestBody.Value.Content[content.Type].Schema.Value
	add := func(name, body string, certain bool) {
		c := outside
		var value any
		switch {
		case !certain:
			c = unclear
		case utf8.ValidString(body) && json.Unmarshal([]byte(body), &value) == nil && schema.VisitJSON(value, openapi3.EnableJSONSchema2020()) == nil:
			c = inside
		}
		all = append(all, change{place: "body", name: name, class: c, apply: func(r *derived) { r.body = body }})
	}
	var good []any
	for _, e := range content.Examples {
		good = append(good, e.Value)
	}
	for _, branch := range content.Schema.OneOf {
		if branch.Items != nil {
			good = append(good, slices.Clone(good))
		}
	}
	for i, value := range good {
		name := fmt.Sprintf("good one %d", i)
		add(name, encodedJSON(value), true)
		for _, v := range variantsOf(content.Schema, value, 0) {
			add(name+v.name, encodedJSON(v.value), true)
		}
		for what, body := range brokenBodies(encodedJSON(value)) {
			add(name+", "+what, body, !json.Valid([]byte(body)))
		}
	}
	add("missing", "", o.Body.Required)
	slices.SortFunc(all, func(a, b change) int { return strings.Compare(a.name, b.name) }) // maps are unordered
	return all
}

// keyChanges returns changes that send every kind of key in every way.
func (d *deriver) keyChanges(o *openapi.Operation, c *customer) []change {
	var all []change
	add := func(name string, status int, apply func(*derived)) {
		changed := change{place: "key", name: name, apply: func(r *derived) {
			r.header.Del("Authorization")
			apply(r)
		}}
		if len(o.Keys) > 0 && status != 0 {
			changed.class, changed.status = outside, status
		}
		all = append(all, changed)
	}
	headers := func(name string, status int, pairs ...string) {
		add(name, status, func(r *derived) {
			for i := 0; i < len(pairs); i += 2 {
				r.header[pairs[i]] = append(r.header[pairs[i]], pairs[i+1])
			}
		})
	}
	publishable := http.StatusForbidden
	if slices.Contains(o.Keys, "publishable") {
		publishable = 0
	}
	headers("none", 401)
	headers("an empty one", 401, "Authorization", "Bearer ")
	headers("no scheme", 401, "Authorization", c.secret)
	headers("Basic", 401, "Authorization", "Basic "+c.secret)
	headers("mistyped", 401, "Authorization", "Bearer "+c.secret[:len(c.secret)-1]+"!")
	headers("unknown", 401, "Authorization", "Bearer "+d.unknown)
	headers("no UTF-8", 401, "X-Api-Key", "\xff\xfe")
	headers("long", 401, "X-Api-Key", strings.Repeat("x", 4000))
	headers("two headers of one name", 401, "X-Api-Key", c.secret, "X-Api-Key", c.secret)
	headers("two that differ", 401, "Authorization", "Bearer "+c.secret, "X-Api-Key", c.publishable)
	headers("bearer in small letters", 0, "Authorization", "bearer "+c.secret)
	headers("both headers", 0, "Authorization", "Bearer "+c.secret, "X-Api-Key", c.secret)
	headers("another scheme in addition", 0, "Authorization", "Basic x", "X-Api-Key", c.secret)
	headers("publishable", publishable, "Authorization", "Bearer "+c.publishable)
	headers("of a suspended account", 403, "Authorization", "Bearer "+d.suspended.secret)
	headers("publishable, of a suspended account", 403, "X-Api-Key", d.suspended.publishable)
	for _, way := range d.document.Security {
		takes, name := slices.Contains(o.Security, way.Name), "as "+way.Name
		switch {
		case way.Parameter == "Authorization":
		case way.In == "header":
			headers(name, map[bool]int{false: 401}[takes], way.Parameter, c.secret)
		case way.In == "query":
			sent := func(keys ...string) func(*derived) {
				return func(r *derived) {
					for _, key := range keys {
						r.query[way.Parameter] = append(r.query[way.Parameter], way.Parameter+"="+url.QueryEscape(key))
					}
				}
			}
			add(name+", publishable", map[bool]int{false: 401}[takes], sent(c.publishable))
			add(name+", secret", 401, sent(c.secret))
			add(name+", empty", 401, sent(""))
			add(name+", unknown", 401, sent(d.unknown))
			add(name+", twice", 401, sent(c.publishable, c.publishable))
		}
	}
	add("secret, in an unknown parameter", 401, func(r *derived) { r.query["key"] = []string{"key=" + c.secret, "api_key=" + c.secret} })
	return all
}

// allMethods are methods of HTTP that net/http's client sends, and some invalid ones.
var allMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "get", "M-SEARCH", "!#$%&'*+-.^_`|~"}

func (d *deriver) methodChanges(o *openapi.Operation) []change {
	var all []change
	for _, method := range allMethods {
		if method == o.Method {
			continue
		}
		c := change{place: placeMethod, name: method, apply: func(r *derived) { r.method = method }}
		switch {
		case method == http.MethodOptions || openapitest.Operation(d.document, method, o.Path) != nil:
			c.class, c.elsewhere = unclear, true // judged as a request of another operation
		default:
			c.class, c.status = outside, http.StatusMethodNotAllowed
		}
		all = append(all, c)
	}
	return append(all, change{place: placeMethod, name: "a preflight", class: unclear, elsewhere: true, apply: func(r *derived) {
		r.method = http.MethodOptions
		r.header.Set("Origin", "https://shop.example")
		r.header.Set("Access-Control-Request-Method", o.Method)
	}})
}

// surroundingChanges varies parts that the document leaves to HTTP, or describes for all operations: unknown query
// parameters are ignored, and no content type or accepted type is rejected.
func surroundingChanges(o *openapi.Operation) []change {
	var all []change
	add := func(place, name string, c class, apply func(*derived)) {
		all = append(all, change{place: place, name: name, class: c, apply: apply})
	}
	header := func(name, value string, c class) {
		add("header "+name, fmt.Sprintf("%.60q", value), c, func(r *derived) {
			if r.header.Del(name); value != "" {
				r.header.Set(name, value)
			}
		})
	}
	for _, pair := range []string{"surprise=1", "utm_source=%zz", "=", "&", "a=b;c=d", "%00=%00", strings.Repeat("a=b&", 500), "identifiers[]=x", "\u00e9=1"} {
		add("unknown query", fmt.Sprintf("%.60q", pair), inside, func(r *derived) { r.query["zz"] = []string{pair} })
	}
	for _, accept := range []string{"application/json", "*/*", "text/html", "image/png, */*;q=0", "application/json;q=0", "nonsense", ",", strings.Repeat("a/b,", 1000), "\xff"} {
		header("Accept", accept, inside)
	}
	typed := unclear // the body's declared type is not checked
	if o.Body == nil {
		typed = inside // some clients declare a JSON body on every request, even without a body
	}
	for _, mediaType := range []string{"", "application/json; charset=utf-8", "application/json; charset=utf-16", "text/plain", "application/x-www-form-urlencoded",
		"multipart/form-data", "application/xml", "nonsense", "application/json, text/plain", "\xff"} {
		header("Content-Type", mediaType, typed)
	}
	header("Content-Encoding", "gzip", typed)
	header("Accept-Encoding", "gzip;q=1, br", inside)
	header("Accept-Language", "xx-XX", inside)
	header("Range", "bytes=0-1", inside)
	header("If-Modified-Since", "Mon, 01 Jan 2035 00:00:00 GMT", inside)
	header("If-Match", `"x"`, inside)
	header("Cookie", "a=b", inside)
	header("X-Request-Id", "mine", inside)
	header("X-HTTP-Method-Override", "DELETE", inside)
	header("X-Forwarded-For", "not an address", inside)
	header("Forwarded", "for=;;", inside)
	for _, suffix := range []string{"/", "//", "/x", "%2f", "%20"} {
		c := unclear
		if suffix == "/" && (strings.HasPrefix(o.Path, "/v2/") || ofLogos(o)) {
			c = inside // some clients of that shape write every path like this
		}
		add(placeBehind, suffix, c, func(r *derived) { r.suffix = suffix })
		all[len(all)-1].elsewhere = c == unclear
	}
	return all
}
