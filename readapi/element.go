package readapi

import (
	"fmt"
	"strings"

	"github.com/gorilla/mux"
)

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

func (a *API) routeElement(r *mux.Router) {
	r.Handle(elementPath, newEndpoint("element", open, reads((*exchange).serveElement)))
}

// serveElement sends the script to pages of all sites, also to those that isolate themselves from other origins.
func (x *exchange) serveElement() error {
	x.Header()["Cross-Origin-Resource-Policy"] = assetResource
	return x.sendCached(typeScript, x.api.pages.element, elementCache)
}
