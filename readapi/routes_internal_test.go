package readapi

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"

	"github.com/gorilla/mux"
)

// Route is a path of the API, for tests that cover all paths.
type Route struct {
	Path       string // as it is registered, with {names}
	SecretOnly bool
}

// Routes returns every path of the API's own endpoints.
func (a *API) Routes() ([]Route, error) {
	var routes []Route
	err := a.router.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		e, ok := route.GetHandler().(*endpoint)
		if !ok {
			return nil
		}
		path, err := route.GetPathTemplate()
		routes = append(routes, Route{Path: path, SecretOnly: e.access == secretKey})
		return err
	})
	return routes, err
}

// NewSmallListener is NewListener with another limit; 0 is the real one.
func NewSmallListener(l net.Listener, limit int) *Listener {
	small := NewListener(l, NewUnrouted("https://brands.example.com", "", slog.New(slog.DiscardHandler)))
	small.open = newConnections(cmp.Or(limit, openConns()), small.open.unrouted)
	return small
}

// NewPlainListener is NewListener for the service of these tests.
func NewPlainListener(l net.Listener) net.Listener { return NewSmallListener(l, 0) }

// KeyChecked records that a valid key was checked on the connection of a request.
func KeyChecked(r *http.Request) { connOf(r.Context()).keyChecked() }

// Limits of a body, of a write, of room, and of a drain.
const (
	StalledWrite    = stalledWrite
	IdleGrace       = idleGrace
	RoomPatience    = roomPatience
	MaxLingerBytes  = maxLingerBytes
	BodyStartWithin = bodyStartWithin
	MinBodyRate     = minBodyRate
	DrainQuiet      = drainQuiet
	MaxWebhooks     = maxWebhooks
	WebhookWithin   = webhookWithin
)
