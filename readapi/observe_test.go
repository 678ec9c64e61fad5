package readapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"letterhead/domain/plan"
	"letterhead/readapi"
)

func TestEveryRequestIsLoggedWithItsIDAndWithoutItsKeys(t *testing.T) {
	s := start(t)
	c := s.account(plan.Free, 50)
	s.known("acme.com", record("acme"))
	a := s.send(request{path: "/v1/brands/jane%40acme.com?key=" + c.publishable, header: http.Header{
		"Authorization": {"Bearer " + c.secret}, "X-Request-Id": {"client-7"},
	}})
	id := a.ok(t).Get("X-Request-Id")
	if id == "client-7" || len(id) != 36 {
		t.Errorf("request id %q is not minted here", id)
	}
	if again := c.get("/v1/me").header.Get("X-Request-Id"); again == id {
		t.Error("two requests have one id")
	}
	lines := s.logs.of(id)
	if len(lines) != 1 {
		t.Fatalf("%d log lines", len(lines))
	}
	for field, want := range map[string]any{
		"msg": "request", "level": "DEBUG", "method": "GET", "route": "brand", "status": 200.0, "account": c.id, "key": c.secretID,
		"domain": "acme.com", "cache": "HIT", "client_request_id": "client-7", "bytes": float64(len(a.body)),
	} {
		if lines[0][field] != want {
			t.Errorf("field %s is %v, want %v", field, lines[0][field], want)
		}
	}
	s.send(request{path: "/v1/brands/" + c.secret + "?x=" + c.secret, header: http.Header{"X-Api-Key": {c.secret}, "X-Request-Id": {c.secret}}})
	s.send(request{path: "/" + c.secret})
	all := s.logs.all()
	for _, secret := range []string{c.secret, c.publishable, "jane"} {
		if strings.Contains(all, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	b := c.books()
	if b.charges[0].RequestID != id {
		t.Errorf("the charge is found under %s, the answer said %s", b.charges[0].RequestID, id)
	}
}

func TestRequestsAreCounted(t *testing.T) {
	s := start(t)
	c := s.account(plan.Free, 50)
	s.known("acme.com", record("acme"))
	c.get("/v1/brands/acme.com").ok(t)
	c.get("/v1/brands/acme.com").ok(t)
	c.get("/v1/brands/co.uk")
	s.send(request{method: "BREW", path: "/v1/me"})
	for _, want := range []string{
		`letterhead_http_requests_total{method="GET",route="brand",status="200"} 2`,
		`letterhead_http_requests_total{method="GET",route="brand",status="400"} 1`,
		`letterhead_http_requests_total{method="other",route="me",status="405"} 1`,
		`letterhead_http_request_duration_seconds_count{route="brand"} 3`,
		`letterhead_http_requests_in_flight 0`,
	} {
		if got := s.scrape(); !strings.Contains(got, want+"\n") {
			t.Errorf("the metrics lack %s in\n%s", want, got)
		}
	}
}

func (s *service) scrape() string {
	page := httptest.NewRecorder()
	promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return page.Body.String()
}

func TestOtherPartsHandlersAreServedToo(t *testing.T) {
	s := start(t, func(set *setup) {
		set.config.Extra = map[string]http.Handler{
			"/healthz": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
			"/metrics": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") }),
		}
	})
	if a := s.send(request{path: "/healthz"}); a.status != http.StatusNoContent || a.header.Get("X-Request-Id") == "" {
		t.Errorf("%d %v", a.status, a.header)
	}
	s.send(request{path: "/metrics"}).refused(t, http.StatusInternalServerError, "internal_error")
}

func TestRequestsPastTheServersLimitsAreRefused(t *testing.T) {
	s := start(t)
	if status := s.rawStatus("GET /v1/me HTTP/1.1\r\nHost: x\r\nX-Junk: " + strings.Repeat("j", 40<<10) + "\r\n\r\n"); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("40 KiB of headers: %d", status)
	}
	server := readapi.NewServer(http.NotFoundHandler())
	for name, d := range map[string]int64{
		"ReadHeaderTimeout": int64(server.ReadHeaderTimeout), "WriteTimeout": int64(server.WriteTimeout),
		"IdleTimeout": int64(server.IdleTimeout), "MaxHeaderBytes": int64(server.MaxHeaderBytes),
	} {
		if d <= 0 {
			t.Errorf("%s has no bound", name)
		}
	}
}

func TestEverythingThatIsWrongWithTheConfigurationIsReportedAtOnce(t *testing.T) {
	_, err := readapi.New(readapi.Config{BaseURL: "brands.example.com/", CrawlTimeout: -1, CrawlsPerMinute: -1, Extra: map[string]http.Handler{"x": nil}}, readapi.Deps{})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{"BaseURL", "CrawlTimeout", "CrawlsPerMinute", "extra handler", "Credits", "Counters", "Assets", "Search"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not reported in: %v", part, err)
		}
	}
}

func TestWithoutOurListenerAnswersAreTheSame(t *testing.T) {
	s := start(t)
	c := s.account(plan.Free, 50)
	s.known("acme.com", record("acme"))
	plain := httptest.NewServer(s.api.Handler())
	defer plain.Close()
	with := c.get("/v1/brands/acme.com")
	s.url = plain.URL
	without := c.get("/v1/brands/acme.com")
	if without.ok(t); string(with.body) != string(without.body) || with.header.Get("Content-Length") != without.header.Get("Content-Length") {
		t.Errorf("with %v %s\nwithout %v %s", with.header, with.body, without.header, without.body)
	}
}
