package readapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/gorilla/mux"

	"letterhead/domain/brand"
	"letterhead/readapi/logo"
)

// routeLogos adds the logo paths. Options of a logo are path segments of any number, so the router only knows where
// they begin.
func (a *API) routeLogos(r *mux.Router) {
	e := newEndpoint("logo", open, map[string]func(*exchange) error{http.MethodGet: (*exchange).serveLogo, http.MethodHead: (*exchange).serveLogo})
	e.plain = true
	r.PathPrefix(logoPath).Handler(e)
	r.Handle(strings.TrimSuffix(logoPath, "/"), e) // which has no domain, as the path with its slash
}

const logoPath = "/logo/"

// serveLogo answers GET and HEAD /logo/{domain} and what may follow.
func (x *exchange) serveLogo() error {
	r := x.request
	sent, options, err := logo.Parse(strings.TrimPrefix(r.URL.EscapedPath(), logoPath), r.URL.RawQuery, r.Header["Accept"])
	var invalid *logo.InvalidError
	if errors.As(err, &invalid) {
		return invalidRequest("%s", invalid.Sentence)
	}
	domain, err := brand.RegistrableDomain(sent)
	if err != nil {
		return err
	}
	x.domain = domain
	looks, err := x.api.lookup.Looks(x.context(), domain)
	if err != nil {
		return err
	}
	picture, err := x.api.logos.Draw(x.context(), looks, options)
	if err != nil {
		return err
	}
	h := x.Header()
	h[headerETag] = []string{picture.ETag}
	h["Cache-Control"] = []string{"public, max-age=86400, s-maxage=604800, stale-while-revalidate=86400"}
	if picture.Fallback {
		h["Cache-Control"] = []string{"public, max-age=900, s-maxage=3600"}
	}
	x.send(http.StatusOK, []string{picture.ContentType}, picture.Body)
	return nil
}

// Looks returns what is drawn for a domain, as far as the index knows.
func (l *Lookup) Looks(ctx context.Context, domain string) (logo.Brand, error) {
	out := logo.Brand{Domain: domain}
	entry, _, err := l.find(ctx, brand.Identifier{Kind: brand.Domain, Domain: domain})
	if err != nil || entry == nil {
		return out, err
	}
	looks, err := entry.Looks()
	if err != nil || looks.Restricted {
		return out, err
	}
	out.Name, out.Logos = looks.Name, looks.Logos
	return out, nil
}
