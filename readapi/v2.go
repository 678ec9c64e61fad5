package readapi

import (
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"letterhead/domain/brand"
	"letterhead/internal/web"
)

// routeV2 adds the paths that follow the shape of a third-party brand API. Its clients must work with
// only the host changed, and some of them follow no redirect or lose their key on it, so every path is
// served with and without a trailing slash.
func (a *API) routeV2(r *mux.Router) {
	serve := func(path string, e *endpoint) {
		r.Handle(path, e)
		r.Handle(path+"/", e)
	}
	lookup := func(f func(*exchange) error) *endpoint {
		e := newEndpoint("v2_brand", secretKey, reads(f))
		e.credits, e.crawls = true, true
		return e
	}
	search := newEndpoint("v2_search", anyKey, reads((*exchange).serveSearchByName))
	search.keyInC = true

	serve("/v2/brands/id/{identifier}", lookup((*exchange).serveBrandByID))
	serve("/v2/brands/domain/{identifier}", lookup((*exchange).serveBrandByDomain))
	// Without an argument these are not identifiers either: no domain has one label.
	for _, path := range []string{"/v2/brands/id", "/v2/brands/domain"} {
		r.HandleFunc(path, a.serveUnknown)
		r.HandleFunc(path+"/", a.serveUnknown)
	}
	serve("/v2/brands/{identifier}", lookup((*exchange).serveBrand))
	serve("/v2/search/{name}", search)
}

func (x *exchange) serveBrandByID() error { return x.serveBrandBy(parseUUID) }

func (x *exchange) serveBrandByDomain() error { return x.serveBrandBy(parseDomain) }

// parseUUID parses a brand's id only, not even a urn. Errors: a Problem.
func parseUUID(text string) (brand.Identifier, error) {
	const canonical = 36 // the parser also accepts other lengths, which no other path takes for an id
	id, err := uuid.Parse(text)
	if err != nil || len(text) != canonical {
		return brand.Identifier{}, web.Invalid(
			"The id is not a uuid. Take brandId from a search, or look the brand up by its domain.")
	}
	return brand.Identifier{Kind: brand.BrandID, BrandID: id}, nil
}

// parseDomain parses a domain only. Errors: brand.ErrInvalidDomain.
func parseDomain(text string) (brand.Identifier, error) {
	identifier, err := brand.ParseIdentifier(text)
	if err != nil {
		return brand.Identifier{}, err
	}
	if _, err := brand.ParseDomain(strings.Trim(text, " ")); err != nil {
		return brand.Identifier{}, &brand.InvalidDomainError{
			Sentence: "This path takes a bare domain such as acme.com. " +
				"Send e-mail addresses, URLs and ids to /v2/brands/{identifier}.",
		}
	}
	return identifier, nil
}

// serveSearchByName answers GET and HEAD /v2/search/{name}: the results of /v1/search, as a bare array.
func (x *exchange) serveSearchByName() error {
	name, err := url.PathUnescape(mux.Vars(x.request)["name"])
	if err != nil {
		return web.Invalid("The name is not percent-encoded correctly.")
	}
	if problem := checkSearchText("The name", name); problem != nil {
		return problem
	}
	limit, problem := parseLimit(x.request.URL.RawQuery, defaultSearchLimit, maxSearchLimit)
	if problem != nil {
		return problem
	}
	results, err := x.searchBrands(name, limit)
	if err != nil {
		return err
	}
	return x.sendResults(results)
}
