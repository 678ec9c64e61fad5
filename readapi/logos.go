package readapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gorilla/mux"

	"letterhead/domain/brand"
	"letterhead/internal/web"
	"letterhead/readapi/logo"
	"letterhead/readapi/lookup"
)

const logoPath = "/logo/"

// routeLogos adds the logo paths. Options of a logo are any number of path segments, so the router
// only matches the prefix.
func (a *API) routeLogos(r *mux.Router) {
	e := newEndpoint("logo", open, reads((*exchange).serveLogo))
	e.plain = true
	a.logoEndpoint = e
	r.PathPrefix(logoPath).Handler(e)
	a.logoDevSearch = newEndpoint("logodev_search", anyKey, reads((*exchange).serveLogoDevSearch))
	r.PathPrefix(compatPath).Handler(e)
	r.Handle(strings.TrimSuffix(logoPath, "/"), e) // without a domain, like the path with its slash
}

// Cache lifetimes of logos (docs/logos.md). If a key was sent but not used, or the crawls of an address are used up,
// the response depends on the caller, so shared caches must not store it and browsers keep it only briefly. Responses that may soon improve are not cached.
var (
	cacheLogo         = []string{"public, max-age=86400, s-maxage=604800, stale-while-revalidate=86400"}
	cacheFallback     = []string{"public, max-age=900, s-maxage=3600"}
	cacheSoon         = []string{"public, max-age=10"} // a crawl takes about as long
	cacheBesideStatus = []string{"private, max-age=60"}
	cacheSoonPrivate  = []string{"private, max-age=10"} // both
	varyAccept        = []string{"Accept"}
)

// serveLogo answers GET and HEAD /logo/{domain} with options. HEAD is a GET whose image is not sent:
// it takes the same limits and may cause a crawl. Ranges are not supported: an image is a few KB.
//
// The whole request has the time of quick, plus the wait for a crawl if there is one.
func (x *exchange) serveLogo() error {
	whole, cancel := context.WithTimeout(x.request.Context(), x.api.quick+x.api.LogoTimeout)
	defer cancel()
	x.ctx = whole
	quick, cancel := context.WithTimeout(whole, x.api.quick)
	defer cancel()

	named, id, options, public, err := x.parseLogo()
	if err != nil {
		return err
	}
	x.domain = id.Domain
	if !public {
		return x.drawUnnamed(quick, named.Name, options)
	}
	who, problem := x.admitLogo()
	if problem != nil {
		return problem
	}
	switch {
	case named.Kind == logo.Domain:
		named.Name, err = x.api.lookup.DomainOf(quick, id)
	case named.Kind == logo.Name && who.Keyed:
		named, err = x.firstNamed(quick, named)
	}
	if errors.Is(err, lookup.ErrNoSuchBrand) { // draw the fallback, as for every identifier that names no brand
		named, err = logo.Identifier{Kind: "id", Name: id.BrandID.String()}, nil
	}
	if err == nil {
		err = x.drawLogo(whole, quick, who, named, options)
	}
	if err != nil {
		x.returnLogo(who, err)
		return err
	}
	return nil
}

// keylessShares divides the day's crawls for requests without a key: one address causes no more than such a part of them
// at a node, unless its network has no limit of logos.
const keylessShares = 4

// logoBrand is the brand that a logo is drawn for, as far as it is known.
type logoBrand struct {
	logo.Brand
	crawl lookup.LogoCrawl
	early bool // found before the index was filled at the start
	local bool // has a name that can have no brand
}

// drawLogo answers an admitted request. quick limits the quick parts, within whole.
func (x *exchange) drawLogo(
	whole, quick context.Context, who logoCaller, named logo.Identifier, options logo.Options,
) error {
	q := lookup.LogoQuery{Address: who.Address, Request: x.command(), Aside: x.aside() || !who.Keyed}
	switch named.Kind {
	case logo.Domain:
		q.Domain = named.Name
	case logo.Ticker:
		q.Symbol = named.Name
	}
	if who.Keyed {
		q.AccountID = who.Caller.AccountID
	} else if x.profile != nil && x.profile.key == "" {
		q.KeylessCrawls, q.Request.Actor = x.api.KeylessCrawls, "system:keyless-logos"
		if !x.unlimited() {
			q.KeylessShare = max(1, q.KeylessCrawls/keylessShares)
		}
	}
	filled := x.api.Filled() // before the index is read: events between the two would be missed
	answer, err := x.api.lookup.Logo(whole, quick, q)
	if err != nil {
		return err
	}
	x.domain = answer.Domain
	found := logoBrand{Brand: logo.Brand{Domain: answer.Domain}, crawl: answer.Crawl, early: !filled || answer.Partial}
	if answer.Domain == "" { // a monogram of the identifier
		found.Domain, found.Name = string(named.Kind)+"/"+named.Name, named.Name
	} else if !answer.Looks.Restricted { // a restricted brand is drawn like an unknown one
		found.Name, found.Logos = answer.Looks.Name, answer.Looks.Logos
	}
	if found.crawl != lookup.NoCrawl {
		quick = whole
	}
	image, err := x.api.Logos.Draw(quick, found.Brand, options)
	if err != nil {
		return err
	}
	return x.sendImage(image, found, options, who)
}

// parseLogo returns what names the brand, and the options. If that is not a ticker or the like, id is the identifier
// that it was parsed as: the separate host accepts what a look-up accepts, and /logo on the host of the API only
// domains. public is false for a name that can have no brand, which only profiles answer.
func (x *exchange) parseLogo() (named logo.Identifier, id brand.Identifier, o logo.Options, public bool, err error) {
	path := x.findProfile()
	if x.aside() {
		return x.parseShape(x.profile.profile, path)
	}
	address, published, ok := x.logoAddress(path, x.profile != nil)
	if !ok {
		return named, id, o, false, &Problem{Status: http.StatusNotFound, Code: CodeNotFound,
			Text: "This path does not exist. Logos are at /{domain}, for example /github.com."}
	}
	query, accept := x.request.URL.RawQuery, x.request.Header["Accept"]
	if published {
		named, o, err = logo.ParsePublished(address, query, accept)
	} else {
		named.Kind = logo.Domain
		named.Name, o, err = logo.Parse(address, query, accept)
	}
	if invalid, ok := errors.AsType[*logo.InvalidError](err); ok {
		return named, id, o, false, web.Invalid("%s", invalid.Sentence)
	}
	switch {
	case named.Kind != logo.Domain:
	case published:
		id, err = brand.ParseIdentifier(named.Name)
		if logo.IsLocal(named.Name) && (strings.ContainsAny(named.Name, ".[") || err != nil && isLabel(strings.ToLower(named.Name))) {
			return named, brand.Identifier{}, o, false, nil
		}
	default:
		id.Kind = brand.Domain
		id.Domain, err = brand.ParseDomain(named.Name)
	}
	return named, id, o, true, err
}

// isLabel reports whether text without a dot can be the name of a host, and is no path of the other host or type.
func isLabel(text string) bool {
	return text != "" && strings.Trim(text, labelBytes) == "" && !strings.Contains(noLabels, " "+text+" ")
}

const labelBytes = "abcdefghijklmnopqrstuvwxyz0123456789-_"
const noLabels = " billing bot brands cdn compat dashboard docs healthz icon logo mcp metrics readyz static suggest symbol v1 v2 "

// sendImage answers with an image, or with 304 if the caller has it.
func (x *exchange) sendImage(p logo.Image, found logoBrand, o logo.Options, who logoCaller) error {
	x.noteLogo(p, found, who)
	h := x.Header()
	h["Cross-Origin-Resource-Policy"] = assetResource
	h["Content-Security-Policy"] = imagePolicy
	describeLogo(h, p)
	if o.Negotiated {
		h["Vary"] = varyAccept
	}
	soon := found.crawl.Temporary() && !found.early && (x.aside() || !who.Keyed)
	switch {
	case found.local:
		h["Cache-Control"] = cacheLocal
	case soon && who.KeyStatus != "":
		h["Cache-Control"] = cacheSoonPrivate
	case soon:
		h["Cache-Control"] = cacheSoon
	case found.crawl.Temporary(), found.early && p.Fallback != "":
		h["Cache-Control"] = cacheNever
	case who.KeyStatus != "", who.unkeyed && p.Fallback != "", found.crawl == lookup.CrawlShareUsedUp:
		h["Cache-Control"] = cacheBesideStatus
	case p.Fallback != "":
		h["Cache-Control"] = cacheFallback
	default:
		h["Cache-Control"] = cacheLogo
	}
	status := http.StatusOK
	if miss, ok := missOf(o.Fallback); ok && p.Fallback != "" {
		p, status = miss, http.StatusNotFound
	} else if p.Fallback != "" && o.Fallback == logo.NotFound {
		status = http.StatusNotFound
	}
	if !x.whole(func() { x.sendTagged(status, []string{p.ContentType}, p.ETag, p.Body) }) {
		return errClientGone
	}
	return nil
}

// describeLogo sets the headers that describe what was drawn: a stored logo with its type and theme, or a fallback.
func describeLogo(h http.Header, p logo.Image) {
	h["X-Logo-Source"] = []string{cmp.Or(string(p.Fallback), "logo")}
	if p.From.Type != "" {
		h["X-Logo-Type"] = []string{string(p.From.Type)}
	}
	if p.From.Ink != logo.Any {
		h["X-Logo-Theme"] = []string{string(p.From.Ink)}
	}
}

// noteLogo adds the kind of answer to the log.
func (x *exchange) noteLogo(p logo.Image, found logoBrand, who logoCaller) {
	shown := "brand"
	if p.Fallback != "" {
		shown = "fallback"
	}
	x.notes = append(x.notes, slog.String("logo", shown))
	if found.crawl != lookup.NoCrawl {
		x.notes = append(x.notes, slog.String("crawl", string(found.crawl)))
	}
	if who.KeyStatus != "" {
		x.notes = append(x.notes, slog.String("key_status", string(who.KeyStatus)))
	}
}
