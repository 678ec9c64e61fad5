package readapi

import (
	"cmp"
	"log/slog"
	"net"
	"net/netip"

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
func NewSmallListener(l net.Listener, limit int, proxies []netip.Prefix, logger *slog.Logger) *Listener {
	small := NewListener(l, proxies, logger)
	small.open = newConnections(cmp.Or(limit, openConns()), proxies, logger)
	return small
}

// NewPlainListener is NewListener without proxies.
func NewPlainListener(l net.Listener) net.Listener {
	return NewListener(l, nil, slog.New(slog.DiscardHandler))
}

// Limits of a body, of a write, of the log, and of a drain.
const (
	StalledWrite    = stalledWrite
	WaitGrace       = waitGrace
	MaxLingerBytes  = maxLingerBytes
	BoundLogEvery   = boundLogEvery
	BodyStartWithin = bodyStartWithin
	MinBodyRate     = minBodyRate
	DrainQuiet      = drainQuiet
	MaxWebhooks     = maxWebhooks
	WebhookWithin   = webhookWithin
)
