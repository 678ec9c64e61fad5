package readapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"html/template"
	"image/png"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"letterhead/internal/accept"
	"letterhead/internal/htmx"
	"letterhead/internal/monogram"
	"letterhead/internal/ratelimit"
	"letterhead/internal/web"
	"letterhead/projections/search"
)

// landing is the first page, and the pages of brands that it leads to. Both read the index without an account.
type landing struct {
	gallery  *gallery // the pages show logos as it does
	template *template.Template
	brand    *template.Template
	may      string     // what the pages load, for their policies
	painting sync.Mutex // guards wall
	wall     *wall
	icon     func() (page, error)
	script   func() page
	files    map[string]page // llms.txt and robots.txt
	missing  page            // for a browser at an unknown path
}

const (
	// visitsPerMinute limits the searches and pages of brands of one visitor's address. Searching while someone types
	// takes about one for each pause.
	visitsPerMinute = 120
	// maxLandingResults limits the results of one search.
	maxLandingResults = 8
	// landingIcon is the side of the icon, in pixels: browsers show it at 16, or at 32 on dense screens.
	landingIcon = 32
)

// scopeVisits is the scope of the counters of searches and pages of brands, by visitor's address.
const scopeVisits = "landing-searches"

// landingResults are the results of a search, and a sentence if there are none.
type landingResults struct {
	Results  []landingResult
	Sentence string
}

// landingResult is a brand, with its icon for light and for dark pages.
type landingResult struct {
	Name, Domain, Light, Dark string
}

// landingView is the data of the template.
type landingView struct {
	view
	Root               string // of relative URLs: "", or "../" for a problem at a page of a brand, which has no scripts
	Logos              string // URL of logos
	HTMXConfig, Script string
	Query              string
	MaxQuery           int
	Found              landingResults
	Wall               []galleryImage // captioned with domains
}

func newLanding(g *gallery) (*landing, error) {
	l := &landing{gallery: g, files: map[string]page{},
		may: g.images + "; script-src 'self'; connect-src 'self'; form-action 'self'"}
	var err error
	if l.template, err = pageTemplate("landing"); err != nil {
		return nil, err
	}
	if l.brand, err = pageTemplate("brand"); err != nil {
		return nil, err
	}
	l.icon = sync.OnceValues(func() (page, error) { return drawIcon(g.Name) })
	l.script = sync.OnceValue(func() page { return newStaticPage(htmx.Script) })
	if l.missing, err = staticPage("missing", view{frame: g.frame, Title: g.Name + ": no such page"}); err != nil {
		return nil, err
	}
	for _, name := range []string{"llms.txt", "robots.txt"} {
		source, err := pageFiles.ReadFile("pages/" + name)
		if err != nil {
			return nil, err
		}
		l.files[name] = newStaticPage([]byte(strings.ReplaceAll(string(source), "{{.BaseURL}}", g.BaseURL)))
	}
	_, err = l.page("", "", landingResults{}, &wall{})
	return l, err
}

// page renders the first page with the results of a search. Its relative URLs begin with root.
func (l *landing) page(root, query string, found landingResults, w *wall) ([]byte, error) {
	v := landingView{
		view: view{frame: l.gallery.frame, Title: l.gallery.Name + ": the brand behind a domain", Paint: w.paint},
		Root: root, Logos: strings.Replace(l.gallery.source, "../", root, 1),
		HTMXConfig: htmx.Config, Script: strings.TrimPrefix(htmx.Path, "/"),
		Query: query, MaxQuery: maxSearchRunes, Found: found, Wall: w.tiles,
	}
	return render(l.template, v)
}

// drawIcon draws the icon of the service: a PNG file in an ICO file, which every browser accepts at /favicon.ico.
func drawIcon(name string) (page, error) {
	var drawn bytes.Buffer
	err := png.Encode(&drawn, monogram.Monogram{Domain: "letterhead", Name: name}.Draw(landingIcon))
	if err != nil {
		return page{}, fmt.Errorf("draw the icon: %w", err)
	}
	const header = 6 + 16 // of the file, and of its only image
	icon := []byte{0, 0, 1, 0, 1, 0, landingIcon, landingIcon, 0, 0, 1, 0, 32, 0}
	icon = binary.LittleEndian.AppendUint32(icon, uint32(drawn.Len()))
	icon = binary.LittleEndian.AppendUint32(icon, header)
	return newPage(append(icon, drawn.Bytes()...)), nil
}

// routeLanding adds the first page, its parts, and the files that browsers, crawlers and agents look for at the root.
func (a *API) routeLanding(r *mux.Router) {
	add := func(path string, f func(*exchange) error) {
		r.Handle(path, newEndpoint("landing", open, reads(f)))
	}
	add("/", (*exchange).serveLanding)
	add("/suggest", (*exchange).serveSuggestions)
	add("/brands/{domain}", (*exchange).serveBrandPage)
	add(htmx.Path, (*exchange).serveScript)
	add("/favicon.ico", (*exchange).serveIcon)
	for name := range a.pages.landing.files {
		add("/"+name,
			func(x *exchange) error { return x.sendCached(web.Text, x.api.pages.landing.files[name], pageCache) })
	}
	for _, path := range []string{"/docs/", "/v1", "/v1/"} {
		add(path, func(x *exchange) error {
			x.redirect(x.api.BaseURL + "/docs")
			return nil
		})
	}
}

// serveLanding answers GET and HEAD /. Without scripts its form sends ?q=. The parameter domain leads to a brand's page.
func (x *exchange) serveLanding() error {
	sent := x.request.URL.Query()
	if domain := strings.TrimSpace(sent.Get("domain")); domain != "" {
		x.redirect("brands/" + url.PathEscape(domain))
		return nil
	}
	query := strings.TrimSpace(sent.Get("q"))
	found, problem := x.suggestions(query)
	return x.sendLanding("", query, found, problem)
}

// sendLanding sends the first page, with the status of a problem if there is one. Its relative URLs begin with root.
func (x *exchange) sendLanding(root, query string, found landingResults, problem *Problem) error {
	l := x.api.pages.landing
	w := x.paintedWall()
	body, err := l.page(root, query, found, w)
	if err != nil {
		return err
	}
	x.Header()["Content-Security-Policy"] = l.gallery.policy(l.may, w.paint)
	switch {
	case problem != nil:
		x.sendWith(problem, body)
		return nil
	case x.request.URL.RawQuery != "":
		return x.sendCached(web.HTML, newPage(body), galleryCache)
	}
	return x.sendCached(web.HTML, newPage(body), pageCache)
}

// serveSuggestions answers GET and HEAD /suggest with the results of a search, as a part of the page.
func (x *exchange) serveSuggestions() error {
	found, problem := x.suggestions(strings.TrimSpace(x.request.URL.Query().Get("q")))
	var body bytes.Buffer
	if err := x.api.pages.landing.template.ExecuteTemplate(&body, "found", found); err != nil {
		return fmt.Errorf("render the results of a search: %w", err)
	}
	x.Header()["Content-Security-Policy"] = x.api.pages.csp
	x.sendWith(problem, body.Bytes())
	return nil
}

// sendWith sends a page that must not be stored, with the status of a problem if there is one.
func (x *exchange) sendWith(problem *Problem, body []byte) {
	h, status := x.Header(), http.StatusOK
	h["Cache-Control"] = cacheNever
	if problem != nil {
		x.problem, status = problem, problem.Status
		if problem.RetryAfter > 0 {
			h[headerRetryAfter] = []string{strconv.FormatInt(int64(problem.RetryAfter/time.Second), 10)}
		}
	}
	x.send(status, web.HTML, body)
}

// suggestions searches for the page; an empty query has no results. Beyond the limit of the visitor's address, for a
// query that cannot be searched for, and while the index is unavailable, it returns the problem, and its sentence for
// the page. Pages of other sites search with a key of their account.
func (x *exchange) suggestions(query string) (landingResults, *Problem) {
	if query == "" {
		return landingResults{}, nil
	}
	x.closeToOtherSites()
	hits, problem := x.searchForVisitor(query)
	if problem != nil {
		return landingResults{Sentence: problem.Text}, problem
	}
	var found landingResults
	for _, hit := range hits {
		icon := func(background string) string {
			i := x.api.pages.gallery.image(url.PathEscape(hit.Domain), "", "size", gallerySize, "background", background)
			return strings.TrimPrefix(i.Source, "../")
		}
		found.Results = append(found.Results,
			landingResult{Name: hit.Name, Domain: hit.Domain, Light: icon("light"), Dark: icon("dark")})
	}
	if len(hits) == 0 {
		found.Sentence = "No brand was found. To see the brand of a domain, enter the whole domain."
	}
	return found, nil
}

func (x *exchange) searchForVisitor(query string) ([]search.Hit, *Problem) {
	if problem := checkSearchText("The search", query); problem != nil {
		return nil, problem
	}
	if problem := x.admitVisitor(); problem != nil {
		return nil, problem
	}
	ctx, cancel := context.WithTimeout(x.request.Context(), x.api.quick)
	defer cancel()
	hits, err := x.api.Search.Search(ctx, query, maxLandingResults)
	if err != nil {
		return nil, unavailable(
			"The search is unavailable; logos and look-ups by domain still work. Try again in a moment.",
			retryUnavailable, err)
	}
	return hits, nil
}

// admitVisitor counts a request that reads the index without an account.
func (x *exchange) admitVisitor() *Problem {
	return x.checked(func(ctx context.Context) *Problem {
		decision, err := x.api.Counters.Take(ctx, ratelimit.Key{Scope: scopeVisits, ID: x.visitor()}, 1, visitsPerMinute)
		if err != nil {
			return unavailable("The limit of searches could not be checked. Try again in a moment.",
				retryUnavailable, err)
		}
		if !decision.Allowed {
			return rateLimited(
				"This address has searched too often in this minute. Try again when the minute has ended.",
				decision.RetryAfter(x.api.Now()))
		}
		return nil
	})
}

// visitor returns the address of the visitor, as limits count it.
func (x *exchange) visitor() string { return Visitor(x.request, x.api.TrustedProxies) }

func (x *exchange) serveScript() error {
	return x.sendCached(typeScript, x.api.pages.landing.script(), assetCache)
}

func (x *exchange) serveIcon() error {
	icon, err := x.api.pages.landing.icon()
	if err != nil {
		return err
	}
	return x.sendCached(typeIcon, icon, pageCache)
}

var (
	typeScript = []string{"text/javascript; charset=utf-8"}
	typeIcon   = []string{"image/x-icon"}
)

// sendMissing answers a browser at an unknown path with a page, and reports false to any other client: browsers name
// HTML in the header Accept.
func (x *exchange) sendMissing() bool {
	weights := accept.Weights(x.request.Header["Accept"], "text/html", "application/json")
	if x.request.Method != http.MethodGet && x.request.Method != http.MethodHead || weights[0] <= weights[1] {
		return false
	}
	h := x.Header()
	h["Content-Security-Policy"] = x.api.pages.csp
	h["Cache-Control"] = cacheNever
	h["Vary"] = varyAccept
	x.send(http.StatusNotFound, web.HTML, x.api.pages.landing.missing.body)
	return true
}
