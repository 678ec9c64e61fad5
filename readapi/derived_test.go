package readapi_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"
	"golang.org/x/net/http/httpguts"
	"pgregory.net/rapid"

	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/readapi/openapi"
	"letterhead/readapi/openapi/openapitest"
)

// class is the relation of a request's change to the document.
type class int

const (
	inside  class = iota // the document describes the request
	unclear              // the document does not say, or is ambiguous
	outside              // the request violates the document
)

// change is one difference between a derived request and the plain request of its operation.
type change struct {
	place  string // a request has at most one change per place
	name   string
	class  class
	status int  // of the refusal, if that is certain
	alone  bool // its effect depends on the rest of the request, or on earlier ones, which no schema expresses
	apply  func(*derived)

	elsewhere bool // the request may then belong to another operation, or none
}

// Places that decide to which operation a request belongs.
const (
	placeMethod = "method"
	placeBehind = "behind the path"
)

func (c change) String() string   { return c.place + ": " + c.name }
func (c change) GoString() string { return c.String() }

// derived is a request that is derived from the document.
type derived struct {
	o       *openapi.Operation
	method  string
	path    map[string]string   // escaped values of the path's parameters
	suffix  string              // after the path
	query   map[string][]string // pairs as sent, by the name of their parameter
	header  http.Header
	body    string // not sent if empty
	changes []change
}

func (r *derived) target() string {
	target := r.o.Path
	for name, value := range r.path {
		target = strings.ReplaceAll(target, "{"+name+"}", value)
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(r.query)) {
		pairs = append(pairs, r.query[name]...)
	}
	if target += r.suffix; len(pairs) > 0 {
		target += "?" + strings.Join(pairs, "&")
	}
	return target
}

func (r *derived) String() string {
	var names []string
	for _, c := range r.changes {
		names = append(names, c.String())
	}
	return fmt.Sprintf("%s with %q: %s %.300s %.300q %.500q", r.o.ID, names, r.method, r.target(), r.header, r.body)
}

// deriver derives requests from the document and judges their answers.
type deriver struct {
	s         *service
	checker   *openapitest.Checker
	document  *openapi.Document
	kin       *openapi3.T // decides whether a schema allows a value
	suspended *customer
	unknown   string // a well-formed secret key without an owner
	mixed     bool   // requests have several changes, and accounts several operations

	mu        sync.Mutex
	customers []*customer
	ids       map[string]shownBrands // of requests
	rows      map[openapitest.Row]int
	sent      map[string]int // requests by operation
}

// shownBrands is the possible cost of an answer.
type shownBrands struct{ least, most int }

func newDeriver(t *testing.T) *deriver {
	s := start(t, func(set *setup) { set.config.CrawlsPerMinute = 1_000_000 })
	d := &deriver{s: s, ids: map[string]shownBrands{}, rows: map[openapitest.Row]int{}, sent: map[string]int{}}
	var err error
	d.checker, err = checkAnswers()
	s.must(err)
	d.document = d.checker.Document()
	source, err := openapi.JSON(baseURL)
	s.must(err)
	d.kin, err = openapi3.NewLoader().LoadFromData(source)
	s.must(err)
	for domain := range heldDomains {
		s.known(domain, d.drawnRecord(domain))
	}
	s.known("plain.com", plainRecord("plain"))
	if _, err := s.assets.Put(t.Context(), []byte(heldFile), "svg"); err != nil {
		t.Fatal(err)
	}
	// Any other domain does not exist, except one that a crawl finds.
	found := d.drawnRecord("found")
	s.crawler.otherwise = func(_ context.Context, crawl eventschemas.CrawlRequested) ending {
		switch {
		case heldDomains[crawl.Domain], crawl.Domain == "found.com":
			return ending{record: ref(found)}
		case crawl.Domain == "plain.com":
			return ending{record: ref(plainRecord("plain"))}
		default:
			return ending{outcome: brand.DNS}
		}
	}
	d.suspended = s.account(plan.Custom, 50)
	d.suspended.suspend()
	d.customers = []*customer{d.suspended}
	d.unknown, _ = newKey(t, apikey.Secret)
	return d
}

// customer opens an account that reaches no limit.
func (d *deriver) customer() *customer {
	c := d.s.account(plan.Custom, 1_000_000)
	d.customers = append(d.customers, c)
	return c
}

// heldDomains are the indexed brands with a logo: those of the document's examples, and two of the
// tests.
var heldDomains = map[string]bool{"github.com": true, "figma.com": true, "acme.com": true, "globex.com": true}

// heldFile is a stored file.
const heldFile = "hello"

// goodTexts returns values that are known to be valid, starting with that of the plain request: the
// document's example, unless that cannot be in an index, and others of the kinds that the descriptions
// mention.
func goodTexts(p *openapi.Parameter) []string {
	known := brand.ID("acme.com").String()
	switch p.Name {
	case "identifier":
		return []string{fmt.Sprint(p.Example), "plain.com", "found.com", "nowhere.com", "https://www.acme.com/about?a=b#c", "jane@globex.com", known, "urn:letterhead:brand:" + known, uuid.NewString()}
	case "domain":
		return []string{fmt.Sprint(p.Example), "plain.com", "nowhere.com", "www.globex.com"}
	case "id":
		return []string{known, strings.ToUpper(known), uuid.NewString()}
	case "file":
		return []string{fmt.Sprintf("%x.svg", sha256.Sum256([]byte(heldFile)))}
	}
	return []string{fmt.Sprint(p.Example)}
}

// plain returns the minimal request of an operation, with a key if one is allowed: without one, all
// requests for logos would share the limit of one address.
func (d *deriver) plain(o *openapi.Operation, c *customer) *derived {
	r := &derived{o: o, method: o.Method, path: map[string]string{}, query: map[string][]string{}, header: http.Header{}}
	for _, p := range o.Parameters {
		if p.Required {
			r.set(p, goodTexts(p)[0])
		}
	}
	if o.Body != nil {
		r.body = encodedJSON(o.Body.Contents[0].Examples[0].Value)
		r.header.Set("Content-Type", o.Body.Contents[0].Type)
	}
	if len(o.Security) > 0 {
		r.header.Set("Authorization", "Bearer "+c.secret)
	}
	return r
}

func (r *derived) set(p *openapi.Parameter, texts ...string) {
	switch p.In {
	case "path":
		r.path[p.Name] = url.PathEscape(texts[0])
	case "query":
		r.query[p.Name] = nil
		for _, text := range texts {
			r.query[p.Name] = append(r.query[p.Name], p.Name+"="+url.QueryEscape(text))
		}
	case "header":
		r.header[http.CanonicalHeaderKey(p.Name)] = texts
	}
}

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
			add(inside, "with what goes with it", modern)
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
		return []change{{place: "body", name: "where there is none", class: unclear, apply: func(r *derived) { r.body = `{"a":1}` }}}
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
	headers("nobody's", 401, "Authorization", "Bearer "+d.unknown)
	headers("no UTF-8", 401, "X-Api-Key", "\xff\xfe")
	headers("long", 401, "X-Api-Key", strings.Repeat("x", 4000))
	headers("two headers of one name", 401, "X-Api-Key", c.secret, "X-Api-Key", c.secret)
	headers("two that differ", 401, "Authorization", "Bearer "+c.secret, "X-Api-Key", c.publishable)
	headers("bearer in small letters", 0, "Authorization", "bearer "+c.secret)
	headers("both headers", 0, "Authorization", "Bearer "+c.secret, "X-Api-Key", c.secret)
	headers("another scheme beside it", 0, "Authorization", "Basic x", "X-Api-Key", c.secret)
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
			add(name+", nobody's", 401, sent(d.unknown))
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
		case method == http.MethodOptions || d.document.Operation(method, o.Path) != nil:
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

// surroundingChanges vary what the document leaves to HTTP, or says for all operations: unknown query
// parameters are ignored, and no content type or accepted type is refused.
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

func (d *deriver) with(o *openapi.Operation, c *customer, changes []change) *derived {
	r := d.plain(o, c)
	r.changes = changes
	for _, c := range changes {
		c.apply(r)
	}
	return r
}

// sideBySide is the number of operations that are tried concurrently.
const sideBySide = 4

// TestDerivedRequests_Described_AnswerAsDocumented derives requests from the OpenAPI document: for each
// operation its plain request, then one change at a time. A new path or parameter in the document is
// covered automatically.
func TestDerivedRequests_Described_AnswerAsDocumented(t *testing.T) {
	t.Parallel()
	d := newDeriver(t)
	operations := d.document.Operations
	customers := make([]*customer, len(operations))
	for i := range operations {
		customers[i] = d.customer()
	}
	next := make(chan int, len(operations))
	for i := range operations {
		next <- i
	}
	close(next)
	together(sideBySide, func(int) {
		for i := range next {
			o, c := operations[i], customers[i]
			d.try(t, d.plain(o, c))
			for _, changed := range d.changesOf(o, c) {
				d.try(t, d.with(o, c, []change{changed}))
			}
		}
	})
	for _, o := range operations {
		for _, status := range []int{200, 401, 405} {
			method := o.Method
			if status == 405 {
				method = d.document.Methods(o.Path)[0]
			}
			if o.Response(status) != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(d.rows)), func(r openapitest.Row) bool {
				return r.Method == method && r.Path == o.Path && r.Status == status
			}) {
				t.Errorf("%s never answered %d: the derived requests are wrong", o.ID, status)
			}
		}
	}
	d.settle(t)
}

// TestDerivedRequests_NotDescribed_AreRejected derives requests with several changes each.
func TestDerivedRequests_NotDescribed_AreRejected(t *testing.T) {
	t.Parallel()
	d := newDeriver(t)
	d.mixed = true
	c := d.customer()
	changes := map[string][]change{}
	for _, o := range d.document.Operations {
		changes[o.ID] = d.changesOf(o, c)
	}
	rapid.Check(t, func(t *rapid.T) {
		d.s.clock.add(time.Minute) // a new window
		for range rapid.IntRange(1, 8).Draw(t, "requests") {
			o := d.document.Operations[rapid.IntRange(0, len(d.document.Operations)-1).Draw(t, "operation")]
			places := map[string][]change{}
			for _, changed := range changes[o.ID] {
				places[changed.place] = append(places[changed.place], changed)
			}
			names := slices.Sorted(maps.Keys(places))
			for _, place := range slices.Clone(names) { // more often where something can be wrong, because HTTP's own headers are many
				if slices.ContainsFunc(places[place], func(c change) bool { return c.class == outside }) {
					names = append(names, slices.Repeat([]string{place}, 8)...)
				}
			}
			var chosen []change
			for _, place := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 4, rapid.ID).Draw(t, "places") {
				some := places[place]
				if side := rapid.SampledFrom([]class{outside, inside, unclear}).Draw(t, "side"); slices.ContainsFunc(some, func(c change) bool { return c.class == side }) {
					some = slices.DeleteFunc(slices.Clone(some), func(c change) bool { return c.class != side })
				}
				chosen = append(chosen, rapid.SampledFrom(some).Draw(t, place))
			}
			d.try(t, d.with(o, c, compatible(chosen)))
		}
	})
	d.settle(t)
}

// compatible drops changes that are pointless together with one that turns the path into another.
func compatible(changes []change) []change {
	missing := slices.ContainsFunc(changes, func(c change) bool { return c.status == http.StatusNotFound })
	behind := slices.ContainsFunc(changes, func(c change) bool { return c.place == placeBehind })
	return slices.DeleteFunc(changes, func(c change) bool {
		return c.place == placeMethod && (missing || behind) || c.place == placeBehind && missing
	})
}

// TestDerivedRequests_RawBytes_AnswerAsDocumented derives requests from the document that net/http's client refuses to send.
func TestDerivedRequests_RawBytes_AnswerAsDocumented(t *testing.T) {
	t.Parallel()
	d := newDeriver(t)
	c := d.customer()
	for _, o := range d.document.Operations {
		plain := d.plain(o, c)
		send := func(what, method, target, headers string, want ...int) {
			t.Helper()
			var lines strings.Builder
			for name, values := range plain.header {
				fmt.Fprintf(&lines, "%s: %s\r\n", name, values[0])
			}
			conn := d.s.dial(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: %d\r\n%s%s\r\n%s",
				method, target, len(plain.body), lines.String(), headers, plain.body))
			defer conn.Close()
			resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
			if err != nil {
				t.Errorf("%s, %s: %v", o.ID, what, err)
				return
			}
			var body bytes.Buffer
			_, err = body.ReadFrom(resp.Body)
			resp.Body.Close()
			if err != nil || !slices.Contains(want, resp.StatusCode) {
				t.Errorf("%s, %s: %d, want one of %v: %s %v", o.ID, what, resp.StatusCode, want, body.Bytes(), err)
			}
			if resp.Header.Get("X-Request-Id") == "" {
				return // net/http's own refusal of invalid HTTP
			}
			d.judge(t, &derived{o: o, method: method, changes: []change{{place: what, class: unclear}}},
				(&url.URL{Path: strings.Split(target, "?")[0]}).EscapedPath(), answer{status: resp.StatusCode, header: resp.Header, body: body.Bytes()})
		}
		send("CONNECT", http.MethodConnect, plain.target(), "", http.StatusMethodNotAllowed)
		send("a method with a slash", "GET/", plain.target(), "", http.StatusBadRequest)
		send("a byte that no header has", o.Method, plain.target(), "X: a\x01b\r\n", http.StatusBadRequest)
		send("a NUL in a header", o.Method, plain.target(), "X: a\x00b\r\n", http.StatusBadRequest)
		for _, p := range o.Parameters {
			switch p.In {
			case "header":
				send("DEL in "+p.Name, o.Method, plain.target(), p.Name+": a\x7fb\r\n", http.StatusBadRequest)
			case "query":
				send("letters as they are in "+p.Name, o.Method, plain.target()+"?"+p.Name+"=é品", "", http.StatusOK, http.StatusBadRequest)
			case "path":
				odd := *plain
				odd.path = map[string]string{p.Name: "é品.com"}
				send("letters as they are in "+p.Name, o.Method, odd.target(), "", http.StatusOK, http.StatusBadRequest, http.StatusNotFound)
				odd.path = map[string]string{p.Name: "%zz"}
				send("no escape in "+p.Name, o.Method, odd.target(), "", http.StatusBadRequest)
			}
		}
	}
	sent := 0
	for _, n := range d.sent {
		sent += n
	}
	t.Logf("%5d derived requests that no client sends, less those that net/http refuses by itself", sent)
}
