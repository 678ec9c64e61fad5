package readapi

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"

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
