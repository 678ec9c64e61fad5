package readapi

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"letterhead/internal/testmust"
)

func TestRedirectOf_UncleanPathBelowV1_IsClean(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"/v1/brands/https://acme.com", "/v1/brands/https:/acme.com"},
		{"/v1/brands/https://acme.com/a%2Fb?refresh=true&x=%26", "/v1/brands/https:/acme.com/a%2Fb?refresh=true&x=%26"},
		{"//v1/brands/acme.com", "/v1/brands/acme.com"},
		{"/v1//brands/acme.com/", "/v1/brands/acme.com/"},
		{"/v1/brands/./acme.com", "/v1/brands/acme.com"},
		{"/v1/x/../me", "/v1/me"},
		{"/v1/brands/https%3A%2F%2Facme.com", ""},
		{"/v1/brands/%2e%2e", ""},
		{"/v1/brands/acme.com/", ""},
		{"/v1/../admin", ""},
		{"/v1", ""},
		{"/v2/brands/https://acme.com", ""},
		{"/v2//brands", ""},
		{"/v2/../v1/me", ""},
		{"/cdn//x", ""},
		{"//evil.com/..", ""},
		{"/", ""},
	} {
		u := testmust.Get(url.ParseRequestURI(c.path))(t)
		if strings.HasPrefix(c.path, "//") { // as net/http reads a request line, which is never a host alone
			u = &url.URL{Path: c.path}
		}
		got, ok := redirectOf(&http.Request{URL: u})
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s: redirect to %q (%v), want %q", c.path, got, ok, c.want)
		}
	}
}

// A redirect stays on this host, below /v1, and its target is not redirected again.
func FuzzRedirect(f *testing.F) {
	for _, seed := range []string{"/v1/brands/https://acme.com", "//evil.com/v1/..//v1/x", "/v1/%2e%2e//", `/v1/\\evil.com//`, "/v1/./?a=b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		location, ok := redirectOf(&http.Request{URL: u})
		if !ok {
			return
		}
		if !strings.HasPrefix(location, "/v1/") || strings.ContainsAny(location, "\r\n") {
			t.Fatalf("%q redirects to %q", target, location)
		}
		next, err := url.ParseRequestURI(location)
		if err != nil {
			t.Fatalf("%q redirects to %q: %v", target, location, err)
		}
		if again, ok := redirectOf(&http.Request{URL: next}); ok {
			t.Fatalf("%q redirects to %q and that to %q", target, location, again)
		}
	})
}

// Without the proxy of the chart, clients reach only the paths that its Ingress lists.
func TestRouter_Routes_AreInTheIngressOfTheChart(t *testing.T) {
	a := &API{}
	a.pages = testmust.Get(newPages("https://brands.example.com", "", "Test", Operator{Name: "Letterhead"}))(t)
	a.router = a.newRouter()
	chart := testmust.Get(os.ReadFile("../deploy/helm/letterhead/templates/ingress.yaml"))(t)
	listed := map[string][]string{}
	for _, list := range regexp.MustCompile(`"(paths|exact)" \(list ([^)]+)\)`).FindAllSubmatch(chart, -1) {
		for _, path := range strings.Fields(string(list[2])) {
			listed[string(list[1])] = append(listed[string(list[1])], strings.Trim(path, `"`))
		}
	}
	prefixes := slices.DeleteFunc(listed["paths"], func(path string) bool { return path == "/" }) // for the proxy
	routes := testmust.Get(a.Routes())(t)
	if len(routes) == 0 || len(prefixes) == 0 {
		t.Fatalf("%d routes, %d prefixes", len(routes), len(prefixes))
	}
	for _, route := range routes {
		if !slices.Contains(listed["exact"], route) && !slices.ContainsFunc(prefixes, func(prefix string) bool {
			return route == prefix || strings.HasPrefix(route, prefix+"/")
		}) {
			t.Errorf("the Ingress does not route %s", route)
		}
	}
}
