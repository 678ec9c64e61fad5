package readapi_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/stripe/stripe-go/v82"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/stripeapi"
	"letterhead/projections/checkpoints"
	"letterhead/readapi"
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
	status int  // of the rejection, if that is certain
	alone  bool // its effect depends on the rest of the request, or on earlier ones, which no schema expresses
	apply  func(*derived)

	elsewhere bool // the request may then belong to another operation, or none
}

// Places that decide to which operation a request belongs.
const (
	placeMethod = "method"
	placeBehind = "behind the path"
)

func (c change) String() string { return c.place + ": " + c.name }

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

// unsigned accepts webhooks without a signature, because derived requests cannot be signed.
type unsigned struct{}

func (unsigned) CheckHeader(string) error { return nil }

func (unsigned) Verify(body []byte, _ string) (stripeapi.Event, error) {
	if jsontext.Value(body).Kind() != jsontext.KindBeginObject || !jsontext.Value(body).IsValid() {
		return stripeapi.Event{}, stripeapi.ErrNotEvent
	}
	return stripeapi.Event{ID: "evt_1", Type: "charge.succeeded", APIVersion: stripe.APIVersion}, nil
}

func (unsigned) Checkout(context.Context, stripeapi.Checkout) (stripeapi.Session, error) {
	return stripeapi.Session{ID: "cs_1", URL: "https://checkout.stripe.com/c/pay/cs_1"}, nil
}

func newDeriver(t *testing.T) *deriver {
	s := start(t, withStripe, func(set *setup) {
		set.config.CrawlsPerMinute = 1_000_000
		configure := set.deps
		set.deps = func(d *readapi.Deps) { configure(d); d.Stripe = unsigned{} }
	})
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
	_, err = s.node.Operations.Checkpoints.Make(t.Context(), s.node.Operator(), time.Time{}, "")
	s.must(err)
	s.must(s.node.Operations.Reads.FoldedTo(t.Context(), checkpoints.Name))
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

// customer opens an account that reaches no limit, with a charge of the request in the document's example.
func (d *deriver) customer() *customer {
	c := d.s.account(plan.Custom, 1_000_000)
	example := openapitest.Operation(d.document, http.MethodGet, "/v1/ledger/{request_id}").Parameters[0].Example
	_, err := d.s.writer.ChargeLookup(d.s.t.Context(), commands.ChargeLookup{Request: commands.Request{ID: fmt.Sprint(example), Actor: operator().Actor}, AccountID: c.id, BrandID: uuid.NewString(), Domain: spentAway})
	d.s.must(err)
	d.customers = append(d.customers, c)
	return c
}

// heldDomains are the indexed brands with a logo: those of the document's examples, and two of the tests.
var heldDomains = map[string]bool{"github.com": true, "figma.com": true, "acme.com": true, "globex.com": true}

// heldFile is a stored file.
const heldFile = "hello"

// goodTexts returns values that are known to be valid, starting with that of the plain request: the document's example,
// unless that cannot be in an index, and others of the kinds that the descriptions mention.
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

func (d *deriver) with(o *openapi.Operation, c *customer, changes []change) *derived {
	r := d.plain(o, c)
	r.changes = changes
	for _, c := range changes {
		c.apply(r)
	}
	return r
}
