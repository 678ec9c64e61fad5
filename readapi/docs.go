package readapi

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"github.com/gorilla/mux"

	"letterhead/domain/statement"
	"letterhead/internal/contentcoding"
	"letterhead/internal/web"
	"letterhead/readapi/openapi"
)

// codeDoc is the documentation of one code.
type codeDoc struct {
	Code     Code
	Statuses []int
	Meaning  string
	Action   string
	Details  string
}

// codeDocs lists every code that an answer may have, in the order of the OpenAPI description.
var codeDocs = []codeDoc{
	{
		CodeInvalidRequest, []int{400, 405, 413, 431},
		"A parameter or header is missing, malformed or outside its range, " +
			"an idempotency key was used for another request, the path does not answer that method, " +
			"or the body or the headers are too large.",
		"Read the message, change the request, send it again. On 405 the Allow header lists the methods.", "",
	},
	{CodeInvalidDomain, []int{400}, "The identifier holds no registrable domain: it is an IP address, a single label, a public suffix such as co.uk, or no host name at all.",
		"Send a domain (acme.com), an e-mail address, a percent-encoded URL, or a brand id from search.", ""},
	{CodeUnauthorized, []int{401},
		"No key was sent, or the key is mistyped, unknown, expired, revoked or deleted, or it was sent in a URL.",
		"Send the key in the header Authorization: Bearer <API_KEY>, or in X-Api-Key. A lost key is replaced, not recovered.", ""},
	{CodeInsufficientCredits, []int{402}, "The account has no credit left for this look-up, or those left are reserved for running look-ups, or the limit of the API key is used up (`key_limit`). Nothing was charged.",
		"Add credits: where the service sells them, POST /v1/billing/checkout with {\"pack\":\"NAME\"} or {\"price\":\"ID\"} returns a page to pay on; otherwise ask its operator. Do not retry on a timer: it does not help until credits are added.", "balance: credits that can be spent, negative after a refund of spent credits. required: credits the request needed. billing_url: where to add credits. key_limit and key_used: credits that the API key may spend, and has spent, if its limit is the reason."},
	{CodeForbidden, []int{403}, "A publishable key was used where a secret key is needed, or outside its scopes or allowed origins, or the account is suspended.",
		"Use a secret key from a server, a publishable key whose scopes and origins include the request, or have the account reinstated.", ""},
	{CodeNotFound, []int{404}, "No brand has that id, for example because its owner had it removed from the index; the account has no such statement or ledger entries; the service sells no credits; or the path does not exist.",
		"Look a brand up by its domain. Otherwise check the month, the request id or the path.", ""},
	{CodeDomainNotFound, []int{404}, "The domain does not exist in the DNS.",
		"Check the spelling. The answer is remembered for 15 minutes.", ""},
	{CodeNoBrandData, []int{404},
		"The domain is parked, empty or a placeholder, or its owner had the brand removed from the index.",
		"Treat it as a domain without a brand. The answer is remembered for a day.", ""},
	{CodeFetchBlocked, []int{422}, "The site refused to be read by our crawler.",
		"There is nothing that you can do. The answer is remembered for a day.", ""},
	{CodeRateLimited, []int{429}, "The account sent more requests in this minute than its plan allows, or requested crawls of more new domains than its plan allows.",
		"Wait as long as Retry-After says, then send the request again. Domains in the index take no crawl.",
		"retry_after: seconds until the minute ends."},
	{CodeQuotaExceeded, []int{429}, "The searches that the plan includes in this month (UTC) are used up.",
		"Wait for the 1st of the month, or move to a larger plan, which takes effect immediately.",
		"retry_after: seconds until the month starts over. limit: searches a month on the plan. billing_url: where to upgrade."},
	{CodeInternalError, []int{500}, "Something failed on the service's side.",
		"Send the request again. If it keeps failing, report the X-Request-Id.", ""},
	{CodeFetchFailed, []int{502, 503}, "The brand's site could not be fetched: connection refused, TLS failure, server error. With 503 that is the remembered answer of the last crawl.",
		"On 503 wait as long as Retry-After says; the domain is crawled again after that.", ""},
	{CodeTimeout, []int{503, 504},
		"The live crawl ran out of time. With 503 that is the remembered answer of the last crawl.",
		"On 503 wait as long as Retry-After says; the domain is crawled again after that.", ""},
	{
		CodeUpstreamFailed, []int{503},
		"The key, the credits, the usage counters or a store could not be reached in time; " +
			"no storage is left to charge or change anything; " +
			"or the service is crawling as many new domains in this minute as it may. Any charge is reversed.",
		"Wait as long as Retry-After says, then send the request again. Domains in the index are served as usual.", "",
	},
}

//go:embed pages
var pageFiles embed.FS

// page is a rendered document, ready to be sent.
type page struct {
	body []byte
	etag string
	file *contentcoding.File // of a document that is rendered once; otherwise nil
}

type pages struct {
	documents func() (documents, error)
	gallery   *gallery
	landing   *landing
	statement *statement.Page
	element   page // the script of <brand-logo>
	csp       []string
	docsURLs  map[Code]string
}

// documents are the pages that do not change while the server runs.
type documents struct {
	pages    map[string]page // by path
	overview documentView    // of /docs, for searches
	found    *template.Template
}

// docsURLs returns the URL of the documentation of each error.
func docsURLs(baseURL string) map[Code]string {
	urls := map[Code]string{}
	for _, c := range codeDocs {
		urls[c.Code] = baseURL + "/docs/errors#" + string(c.Code)
	}
	return urls
}

// newPages prepares the pages. The first request for a document renders all of them, so that a start does
// not wait for it. logoHost is the separate host of logos, or "".
func newPages(baseURL, logoHost, userAgent string, by Operator) (pages, error) {
	f, err := newFrame(baseURL, by)
	if err != nil {
		return pages{}, err
	}
	p := pages{docsURLs: docsURLs(baseURL), csp: f.policy("form-action 'none'", "")}
	if p.gallery, err = newGallery(f, logoHost); err != nil {
		return pages{}, err
	}
	if p.landing, err = newLanding(p.gallery); err != nil {
		return pages{}, err
	}
	if p.statement, err = statement.NewPage(baseURL); err != nil {
		return pages{}, err
	}
	if p.element, err = newElement(p.gallery); err != nil {
		return pages{}, err
	}
	p.documents = sync.OnceValues(func() (documents, error) { return renderDocuments(f, userAgent) })
	return p, nil
}

// documentView is the data of the templates of documents.
type documentView struct {
	view
	Codes              []codeDoc
	UserAgent, Product string
	Document           *openapi.Document
	Group              openapi.Tag // of the operations on the page; without a name, none
	Query, Rejected    string
	MaxQuery           int
	Found              []found
}

func renderDocuments(f frame, userAgent string) (documents, error) {
	described, err := openapi.Read(f.BaseURL)
	if err != nil {
		return documents{}, err
	}
	description, err := openapi.JSON(f.BaseURL)
	found, failed := pageTemplate("docs")
	err = errors.Join(err, failed)
	d := documents{found: found, pages: map[string]page{descriptionPath: newStaticPage(description)}, overview: documentView{
		view: view{frame: f, Title: f.Name + ": search the API"}, Codes: codeDocs, UserAgent: userAgent,
		Product: productOf(userAgent), Document: described, MaxQuery: maxSearchRunes,
	}}
	add := func(path, file, title string, group openapi.Tag) {
		v := d.overview
		v.Title, v.Group = f.Name+": "+title, group
		p, failed := staticPage(file, v)
		d.pages[path], err = p, errors.Join(err, failed)
	}
	add("/bot", "bot", "our crawler", openapi.Tag{})
	add("/docs/errors", "errors", "errors", openapi.Tag{Name: "Errors"})
	add("/docs", "docs", "the API", openapi.Tag{})
	schemas := openapi.Tag{Name: "Schemas", Description: "The objects in requests and answers, with their fields."}
	for _, group := range append(described.Tags, schemas) {
		add("/docs/"+slug(group.Name), "docs", "the API: "+group.Name, group)
	}
	return d, err
}

func newPage(body []byte) page {
	sum := sha256.Sum256(body)
	return page{body: body, etag: `"` + hex.EncodeToString(sum[:16]) + `"`}
}

// newStaticPage is newPage for a document that is rendered once.
func newStaticPage(body []byte) page {
	p := newPage(body)
	p.file = contentcoding.NewFile(body)
	return p
}

// staticPage renders a page once.
func staticPage(name string, data any) (page, error) {
	t, err := pageTemplate(name)
	if err != nil {
		return page{}, err
	}
	body, err := render(t, data)
	return newStaticPage(body), err
}

// productOf returns the crawler's own name in its User-Agent, which by convention starts like a
// browser's: Mozilla/5.0 (compatible; LetterheadBot/1.0; +https://…).
func productOf(userAgent string) string {
	for _, part := range strings.FieldsFunc(userAgent, func(r rune) bool { return strings.ContainsRune(" ;()", r) }) {
		name, _, versioned := strings.Cut(part, "/")
		if versioned && name != "Mozilla" && !strings.Contains(part, "://") {
			return name
		}
	}
	return userAgent
}

// descriptionPath is the path of the OpenAPI document, as JSON.
const descriptionPath = "/v1/openapi.json"

// routeDocs adds the paths of the documentation.
func (a *API) routeDocs(r *mux.Router) {
	docs := newEndpoint("docs", open, reads((*exchange).serveDocument))
	r.Handle("/docs/logos", newEndpoint("docs", open, reads((*exchange).serveGallery)))
	r.Handle("/docs/{page}", docs) // after the path that it matches, too
	r.Handle("/docs", docs)
	r.Handle("/bot", newEndpoint("bot", open, reads((*exchange).serveDocument)))
	r.Handle(descriptionPath, newEndpoint("openapi", open, reads((*exchange).serveDocument)))
}

// pageCache lets a browser keep a page for a few minutes and revalidate it with its tag afterwards.
var pageCache = []string{"public, max-age=300"}

// serveDocument sends the document that has the path, or the results of a search in the API reference.
func (x *exchange) serveDocument() error {
	d, err := x.api.pages.documents()
	if err != nil {
		return err
	}
	path := x.request.URL.Path
	p, known := d.pages[path]
	switch {
	case path == descriptionPath:
		return x.sendCached(web.JSON, p, pageCache)
	case !known:
		x.api.serveUnknown(x, x.request)
		return nil
	}
	x.Header()["Content-Security-Policy"] = d.overview.policy("form-action 'self'", "")
	query := strings.TrimSpace(x.request.URL.Query().Get("q"))
	if path != "/docs" || query == "" {
		return x.sendCached(web.HTML, p, pageCache)
	}
	v, problem := d.overview, checkSearchText("The search", query)
	if problem == nil {
		problem = x.admitVisitor()
	}
	if v.Query = query; problem != nil {
		v.Rejected = problem.Text
	} else {
		v.Found = find(v.Document, query)
	}
	body, err := render(d.found, v)
	if err == nil {
		x.sendWith(problem, body)
	}
	return err
}

// sendCached sends a page, or 304 if the client has it.
func (x *exchange) sendCached(contentType []string, p page, cache []string) error {
	h := x.Header()
	h["Cache-Control"] = cache
	if p.file == nil {
		x.sendTagged(http.StatusOK, contentType, p.etag, p.body)
		return nil
	}
	coding, body := p.file.Choose(h, x.request.Header["Accept-Encoding"])
	if !x.unmodified(coding, p.etag) {
		web.Send(x, http.StatusOK, contentType, coding, body)
	}
	return nil
}

// elementPath is where pages load the element <brand-logo> from. It has no version in it, so that pages need not change
// with a release.
const elementPath = "/static/brand-logo.js"

// elementCache is shorter than assetCache, because a release may change the script.
var elementCache = []string{"public, max-age=86400, stale-while-revalidate=604800"}

// newElement returns the script of <brand-logo>. It requests logos from where it was loaded, under whatever host name,
// or from the separate host of logos.
func newElement(g *gallery) (page, error) {
	script, err := pageFiles.ReadFile("pages/brand-logo.js")
	if err != nil {
		return page{}, fmt.Errorf("read the script of the element: %w", err)
	}
	fill := strings.NewReplacer("{{.BaseURL}}", g.BaseURL, "{{.Logos}}", g.source)
	return newStaticPage([]byte(fill.Replace(string(script)))), nil
}

// serveElement sends the script to pages of all sites, also to those that isolate themselves from other origins.
func (x *exchange) serveElement() error {
	x.Header()["Cross-Origin-Resource-Policy"] = assetResource
	return x.sendCached(typeScript, x.api.pages.element, elementCache)
}
