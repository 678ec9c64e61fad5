package readapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
	"letterhead/internal/web"
	"letterhead/readapi/lookup"
)

// maxLoggedClientID limits the logged length of a client's own request id.
const maxLoggedClientID = 100

func (a *API) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	return &exchange{
		Exchange: web.Exchange{ResponseWriter: w, ID: a.NewID(), Route: "unknown"},
		api:      a, request: r, ctx: r.Context(), start: a.Now(),
	}
}

// serve handles one request from the first byte to the log line.
func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	x := a.newExchange(w, r)
	x.topMessage = isV2(r.URL.EscapedPath())
	identifier, direct := domainOf(r)
	if direct && a.hostOfLogos(r.Host) == nil {
		x.ownHeader()
	}
	a.metrics.inFlight.Inc()
	defer a.Answered(x.ID) // after everything below, which sends the answer or begins to reverse charges
	defer func() {
		a.metrics.inFlight.Dec()
		if thrown := recover(); thrown != nil {
			if thrown == http.ErrAbortHandler {
				x.finish()
				panic(thrown) // net/http's own way to cut a connection, without a log line
			}
			x.fail(&lookup.PanicError{Value: thrown, Stack: debug.Stack()})
		}
		x.finish()
		if x.Status == statusClientGone {
			// Nothing was written. Returning would make net/http write an empty 200, which a client
			// that has only closed its sending side would read as an answer.
			panic(http.ErrAbortHandler)
		}
	}()
	x.setCommonHeaders()
	if framingAmbiguous(r) {
		x.Header()["Connection"] = connectionClose
	}
	dashboard := isDashboard(r.URL.Path) && a.hostOfLogos(r.Host) == nil
	if dashboard {
		x.closeToOtherSites()
		x.plain = true
		x.Header()["Referrer-Policy"] = noReferrer
	}
	operators := a.Extra[r.URL.Path] != nil
	if c := connOf(r.Context()); c != nil && !operators && !c.among.mayServe(c) {
		x.Header()["Connection"] = connectionClose
		x.setForm()
		x.fail(crowded(errOverloaded))
		return
	}
	if dashboard && a.dashboard != nil {
		x.Route = "dashboard"
		a.dashboard.ServeHTTP(x, r)
		return
	}
	if isPreflight(r) && !operators && !dashboard {
		x.Route = "preflight"
		x.answerPreflight()
		return
	}
	if a.isLogoDevSearch(r) {
		a.logoDevSearch.ServeHTTP(x, r)
		return
	}
	if a.hostOfLogos(r.Host) != nil {
		a.logoEndpoint.ServeHTTP(x, r)
		return
	}
	if location, ok := redirectOf(r); ok {
		x.Route = "redirect"
		x.redirect(location)
		return
	}
	if direct {
		x.identifier = identifier
		a.brand.ServeHTTP(x, r)
		return
	}
	a.router.ServeHTTP(x, r)
}

// framingAmbiguous reports whether a server in front of this one may see a different end of the request than net/http
// did, so that the following bytes on the connection may belong to it instead of being a request (RFC 9112, sections
// 6.1 and 11.2). net/http reads chunks and drops a Content-Length next to them, and in HTTP/1.0 drops the encoding, and
// reports neither. So every such connection ends with its answer; clients of this API need neither.
func framingAmbiguous(r *http.Request) bool {
	return len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1)
}

// finish counts and logs the answer. Neither path nor query are logged: identifiers may be e-mail
// addresses, and keys may be anywhere.
func (x *exchange) finish() {
	elapsed := x.api.Now().Sub(x.start)
	status := cmp.Or(x.Status, http.StatusOK) // net/http's own status, for a handler that wrote nothing
	x.api.metrics.observe(x.Route, x.request.Method, status, elapsed.Seconds())
	level := levelOf(status, x.problem)
	if !x.api.Logger.Enabled(x.ctx, level) {
		return
	}
	ctx := context.WithoutCancel(x.ctx)
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs,
		slog.String("request_id", x.ID), slog.String("method", methodLabel(x.request.Method)),
		slog.String("route", x.Route), slog.Int("status", status), slog.Float64("seconds", elapsed.Seconds()),
		slog.Int64("bytes", x.Written))
	attrs = appendText(attrs, "account", x.caller.AccountID)
	attrs = appendText(attrs, "key", x.caller.KeyID)
	attrs = appendText(attrs, "domain", x.domain)
	attrs = appendText(attrs, "cache", x.cache)
	attrs = appendText(attrs, "client_request_id", clientRequestID(x.request.Header))
	attrs = append(attrs, x.notes...)
	if x.problem != nil {
		attrs = append(attrs, problemAttrs(x.problem)...)
	}
	x.api.Logger.LogAttrs(ctx, level, "request", attrs...)
}

// appendText adds a text, unless it is empty.
func appendText(attrs []slog.Attr, key, value string) []slog.Attr {
	if value == "" {
		return attrs
	}
	return append(attrs, slog.String(key, value))
}

// problemAttrs returns what log lines have about a problem.
func problemAttrs(p *Problem) []slog.Attr {
	attrs := []slog.Attr{slog.String("code", p.Code)}
	if p.Cause != nil {
		attrs = append(attrs, slog.String("error", p.Cause.Error()))
	}
	if panicked, ok := errors.AsType[*lookup.PanicError](p); ok {
		attrs = append(attrs, slog.String("stack", string(panicked.Stack)))
	}
	return attrs
}

// levelOf makes internal faults visible; a site that cannot be fetched is not an internal fault.
// Everything else is logged only on demand: a line for each of tens of thousands of requests per
// second would cost more than answering them, and charges are in the ledger under their request ids.
func levelOf(status int, problem *Problem) slog.Level {
	switch {
	case problem == nil || status < http.StatusInternalServerError:
		return slog.LevelDebug
	case problem.Code == CodeInternalError:
		return slog.LevelError
	case problem.Code == CodeUpstreamFailed:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// clientRequestID returns the client's own id, truncated and without characters or keys that must not be logged.
func clientRequestID(h http.Header) string {
	id := h.Get(headerRequestID)
	if len(id) > maxLoggedClientID {
		id = id[:maxLoggedClientID]
	}
	if strings.Contains(id, "lh_sk_") || strings.Contains(id, "lh_pk_") || strings.Contains(id, "lh_op_") {
		return "looks like a key"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, id)
}

// metrics are the metrics of the HTTP API.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

// secondsBuckets range from an index hit (below a millisecond) to a live crawl that timed out (8.5 s).
var secondsBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: telemetry.Counters("letterhead_http_requests_total",
			"Requests answered, by route, method and status.", "route", "method", "status"),
		seconds: telemetry.Histograms("letterhead_http_request_duration_seconds",
			"From the request's headers to the end of the answer, by route.", secondsBuckets, "route"),
		inFlight: telemetry.Gauge("letterhead_http_requests_in_flight", "Requests that are being answered."),
	}
	return m, telemetry.Register(registerer, m.requests, m.seconds, m.inFlight)
}

func (m *metrics) observe(route, method string, status int, seconds float64) {
	m.requests.WithLabelValues(route, methodLabel(method), strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(seconds)
}

// methodLabel limits the label's values, whatever methods clients invent.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return method
	default:
		return "other"
	}
}
