package readapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// closed requests a path of the dashboard, and checks that pages of other sites cannot read the answer.
func (s *service) closed(method, path string) answer {
	s.t.Helper()
	a := s.send(request{method: method, path: path, header: http.Header{
		"Accept": {"text/html"}, "Origin": {"https://other.example"}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"content-type"},
	}})
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") {
			s.t.Errorf("%s %s: status %d, %s: %s", method, path, a.status, name, a.header.Get(name))
		}
	}
	if a.header.Get("Referrer-Policy") != "no-referrer" || a.header.Get("X-Request-Id") == "" {
		s.t.Errorf("%s %s: status %d, header %v", method, path, a.status, a.header)
	}
	return a
}

func TestDashboard_AnyAnswer_IsClosedToOtherSites(t *testing.T) {
	t.Parallel()
	s := start(t, func(set *setup) {
		set.dashboard = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/panic") {
				panic("in the dashboard")
			}
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, r.Method+" "+r.URL.Path)
		})
	})
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/dashboard", "GET /dashboard"},
		{"GET", "/dashboard/", "GET /dashboard/"},
		{"POST", "/dashboard/keys", "POST /dashboard/keys"},
		{"OPTIONS", "/dashboard/keys", "OPTIONS /dashboard/keys"},
		{"GET", "/%64ashboard/keys", "GET /dashboard/keys"},
		{"GET", "/dashboard//v1/me", "GET /dashboard//v1/me"},
		{"GET", "/static/dashboard/a.css", "GET /static/dashboard/a.css"},
	} {
		if a := s.closed(c.method, c.path); a.status != http.StatusTeapot || string(a.body) != c.body {
			t.Errorf("%s %s: status %d, body %s", c.method, c.path, a.status, a.body)
		}
	}
	if a := s.closed("GET", "/dashboard/panic"); a.status != http.StatusInternalServerError || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		t.Errorf("a panic: status %d, %s", a.status, a.header.Get("Content-Type"))
	}
	if a := s.opened("/dashboard2", nil); a.status != http.StatusNotFound || a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("another path: status %d, header %v", a.status, a.header)
	}
}

func TestDashboard_NotServed_IsMissing(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, method := range []string{"GET", "POST", "OPTIONS"} {
		if a := s.closed(method, "/dashboard"); a.status != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", method, a.status)
		}
	}
}
