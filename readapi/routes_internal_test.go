package readapi

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gorilla/mux"
)

// Routes returns the paths of the API's own endpoints as they are registered, with {names}.
func (a *API) Routes() ([]string, error) {
	var paths []string
	err := a.router.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		if _, ok := route.GetHandler().(*endpoint); !ok {
			return nil
		}
		path, err := route.GetPathTemplate()
		paths = append(paths, path)
		return err
	})
	return paths, err
}

// A look-up of a domain bypasses the router, which must give such a path to the same endpoint.
func TestRouter_PathOfDomain_LeadsToBrand(t *testing.T) {
	a := &API{}
	var err error
	if a.pages, err = newPages("https://brands.example.com", "", "Test", Operator{Name: "Letterhead"}); err != nil {
		t.Fatal(err)
	}
	router := a.newRouter()
	for path, direct := range map[string]bool{
		"/v1/brands/acme.com": true, "/v1/brands/..": true, "/v1/brands/b%C3%BCcher.example": true, "/v1/brands/a.b%2Fc": true,
		"/v1/brands/batch": false, "/v1/brands/": false, "/v1/brands/acme.com/": false, "/v2/brands/acme.com": false,
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		identifier, ok := domainOf(r)
		if ok != direct {
			t.Errorf("%s: direct %t", path, ok)
		}
		var found mux.RouteMatch
		if routed := router.Match(r, &found) && found.Handler == a.brand; ok &&
			(!routed || identifier != found.Vars["identifier"]) {
			t.Errorf("%s: %q, and the router has %q, %t", path, identifier, found.Vars["identifier"], routed)
		}
	}
}

// NewSmallListener is NewListener with another limit; 0 is the real one.
func NewSmallListener(l net.Listener, limit int) *Listener {
	small := NewListener(l, NewUnrouted(Config{BaseURL: "https://brands.example.com"}, slog.New(slog.DiscardHandler)))
	small.open = newConnections(cmp.Or(limit, openConns()), small.open.unrouted)
	return small
}

// NewPlainListener is NewListener for the service of these tests.
func NewPlainListener(l net.Listener) net.Listener { return NewSmallListener(l, 0) }

// KeyChecked records that a valid key was checked on the connection of a request.
func KeyChecked(r *http.Request) { connOf(r.Context()).keyChecked() }

// Limits of a body, of room, and of a drain.
const (
	IdleGrace       = idleGrace
	MaxLingerBytes  = maxLingerBytes
	BodyStartWithin = bodyStartWithin
	MinBodyRate     = minBodyRate
	DrainQuiet      = drainQuiet
	MaxWebhooks     = maxWebhooks
	WebhookWithin   = webhookWithin
)
