package readapi_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/readapi"
)

const logoHostName = "logos.example.net"

func onLogoHost(set *setup) { set.config.LogoHost = logoHostName }

// sendTo sends a request with a Host header.
func (s *service) sendTo(host, method, path string, header http.Header) answer {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, nil)
	r.Host = host
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	s.api.Handler().ServeHTTP(w, r)
	return answer{status: w.Code, header: w.Result().Header, body: w.Body.Bytes()}
}

func TestLogoHost_Root_ServesLogos(t *testing.T) {
	t.Parallel()
	s := start(t, onLogoHost)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 256)))
	// Over the network once, where contractTransport checks it against the OpenAPI document.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/acme.com/w/64/icon?format=png", nil)
	s.must(err)
	r.Host = logoHostName
	resp, err := s.transport.RoundTrip(r)
	s.must(err)
	defer resp.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(resp.Body)
	s.must(err)
	want := answer{status: resp.StatusCode, header: resp.Header, body: body.Bytes()}
	want.is(t, "over the network", true, logoKept)
	if other := s.send(request{path: "/logo/acme.com/w/64/icon?format=png"}); !bytes.Equal(other.body, want.body) || other.header.Get("ETag") != want.header.Get("ETag") {
		t.Error("the other host served a different image")
	}
	for _, host := range []string{logoHostName, "LOGOS.Example.NET", logoHostName + ".", logoHostName + ":8080", logoHostName + ".:443"} {
		for _, path := range []string{"/acme.com/w/64/icon?format=png", "/acme.com/icon/w/64/?format=png", "/logo/acme.com/w/64/icon?format=png", "/www.acme.com?size=64&format=png"} {
			a := s.sendTo(host, http.MethodGet, path, nil)
			a.is(t, host+path, true, logoKept)
			if !bytes.Equal(a.body, want.body) {
				t.Errorf("%s%s served a different image", host, path)
			}
		}
	}
	if a := s.sendTo(logoHostName, http.MethodGet, "/acme.com?format=png&size=64", http.Header{"If-None-Match": {want.header.Get("ETag")}}); a.status != http.StatusNotModified {
		t.Errorf("If-None-Match: status %d, want %d", a.status, http.StatusNotModified)
	}
	if a := s.sendTo(logoHostName, http.MethodOptions, "/acme.com", http.Header{"Origin": {"https://shop.example"}, "Access-Control-Request-Method": {"GET"}}); a.status != http.StatusNoContent || a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("preflight: status %d, header %v", a.status, a.header)
	}
	a := s.sendTo(logoHostName, http.MethodPost, "/acme.com", nil)
	a.plainly(t, http.StatusMethodNotAllowed)
	if a.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("Allow %q, want %q", a.header.Get("Allow"), "GET, HEAD, OPTIONS")
	}
}

func TestLogoHost_OtherPaths_Are404(t *testing.T) {
	t.Parallel()
	s := start(t, onLogoHost, func(set *setup) {
		set.extra = map[string]http.Handler{"/healthz": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })}
	})
	c := s.account(plan.Growth, 50)
	for path, status := range map[string]int{
		"/": 404, "/favicon.ico": 404, "/robots.txt": 404, "/ROBOTS.txt": 404, "/.well-known/security.txt": 404, "/logo/": 404,
		"/v1/me": 400, "/v1/brands/acme.com": 400, "/v2/search/acme": 400, "/cdn/x.svg": 400, "/%20": 400, "//acme.com": 404,
		"/v1//me": 400,
	} {
		a := s.sendTo(logoHostName, http.MethodGet, path, bearer(c.secret))
		a.plainly(t, status)
		if a.header.Get("Location") != "" {
			t.Errorf("%s redirects to %s, want %q", path, a.header.Get("Location"), "")
		}
	}
	// The other host does not serve logos at its root.
	for _, host := range []string{"brands.example.com", "logos.example.net.evil.example", "xlogos.example.net", ""} {
		if a := s.sendTo(host, http.MethodGet, "/acme.com", nil); a.status != http.StatusNotFound || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
			t.Errorf("%q: status %d, header %v", host, a.status, a.header)
		}
	}
	c.get("/v1/me").ok(t)
}

func TestLogoHost_Port_IsCompared(t *testing.T) {
	t.Parallel()
	s := start(t, func(set *setup) { set.config.LogoHost = "localhost:8081" })
	for host, status := range map[string]int{"localhost:8081": 200, "LOCALHOST:8081": 200, "localhost:8080": 404, "localhost": 404} {
		if a := s.sendTo(host, http.MethodGet, "/acme.com", nil); a.status != status {
			t.Errorf("%s: status %d, want %d", host, a.status, status)
		}
	}
}

// Clients omit the default port of a scheme from Host, even if their URL has it.
func TestLogoHost_DefaultPort_IsOmitted(t *testing.T) {
	t.Parallel()
	for base, setting := range map[string]string{"https://brands.example.com": logoHostName + ":443", "http://brands.example.com": logoHostName + ":80"} {
		s := start(t, func(set *setup) { set.config.BaseURL, set.config.LogoHost = base, setting })
		for _, host := range []string{logoHostName, setting} {
			s.sendTo(host, http.MethodGet, "/acme.com", nil).is(t, host+" for "+setting, false, fallbackKept)
		}
	}
}

func TestConfig_LogoHost_IsValidated(t *testing.T) {
	for _, c := range []readapi.Config{
		{BaseURL: baseURL, LogoHost: "brands.example.com"},
		{BaseURL: baseURL, LogoHost: "BRANDS.example.com."},
		{BaseURL: "http://localhost:8080", LogoHost: "localhost:8080"},
		{BaseURL: "https://brands.example.com", LogoHost: "brands.example.com:443"},
		{BaseURL: "https://brands.example.com:443", LogoHost: "brands.example.com"},
	} {
		if err := c.Validate(); err == nil {
			t.Errorf("Validate(%+v) = nil, want an error", c)
		}
	}
	if err := (readapi.Config{BaseURL: "http://localhost:8080", LogoHost: "localhost:8081"}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestSearch_LogoHostSet_IconsUseIt(t *testing.T) {
	t.Parallel()
	s := start(t, onLogoHost)
	c := s.account(plan.Growth, 50)
	s.known("acme.com", record("Acme"))
	var found struct{ Results []struct{ Icon string } }
	s.must(json.Unmarshal(c.get("/v1/search?q=acme").body, &found))
	if len(found.Results) != 1 || found.Results[0].Icon != "https://logos.example.net/acme.com" {
		t.Errorf("icons %+v", found.Results)
	}
	tool := decodeExactly[struct {
		URL    string `json:"url"`
		Domain string `json:"domain"`
	}](t, c.agent(toolCall(1, "get_logo_url", `{"domain":"acme.com","size":64}`)).one(t, 200).found(t))
	if tool.URL != "https://logos.example.net/acme.com?size=64" {
		t.Errorf("tool %+v", tool)
	}
}

// Published forms of the compatible third-party URLs answer at the root of the logo host, and not below /logo.
func TestLogoHost_PublishedForms_Answer(t *testing.T) {
	t.Parallel()
	s := start(t, onLogoHost)
	acme := s.withLogo("Acme", "png", inked(t, 256))
	ticker := "NASDAQ:ACME"
	acme.Company = eventschemas.EmptyCompany()
	acme.Company.Ticker, acme.Company.Tickers = &ticker, []string{"ACME", "ACMEB"}
	s.known("acme.com", acme)
	for path, shown := range map[string]bool{
		"/domain/acme.com": true, "/domain/acme.com/w/64/h/64/fallback/404/type/icon.png": true, "/domain/www.acme.com/icon": true, "/domain/unknown.com": false,
		"/acme.com/type/icon.png": true, "/acme.com/fallback/brandfetch/icon": true, "/unknown.com/fallback/brandfetch/icon": false,
		"/ticker/ACME": true, "/ticker/acme/w/64/h/64/icon?c=x": true, "/ticker/ACMEB": true, "/ticker/NASDAQ%3AACME": true, "/ticker/NYSE%3AACME": false,
		"/ticker/ACME.L": false, "/ticker/ZZZZ": false, "/ticker/%00%ff": false, "/ticker/acme.com": false, "/isin/US0000000000": false, "/crypto/ACME": false,
	} {
		a := s.sendTo(logoHostName, http.MethodGet, path, nil)
		kept, source := fallbackKept, "monogram"
		if shown {
			kept, source = logoKept, "logo"
		}
		a.is(t, path, shown, kept)
		if a.header.Get("X-Logo-Source") != source {
			t.Errorf("%s: source %q, want %q", path, a.header.Get("X-Logo-Source"), source)
		}
		if strict := s.sendTo(logoHostName, http.MethodGet, "/logo"+path, nil); strings.Count(path, "/") > 1 && !strings.HasPrefix(path, "/acme.com/type/") && strict.status != http.StatusBadRequest {
			t.Errorf("/logo%s: status %d, want %d", path, strict.status, http.StatusBadRequest)
		}
	}
	if a := s.sendTo(logoHostName, http.MethodGet, "/acme.com/icon.jpg", nil); a.status != http.StatusOK || a.header.Get("Content-Type") != "image/jpeg" {
		t.Errorf("an extension of jpg: status %d, %s", a.status, a.header.Get("Content-Type"))
	}
	if a := s.sendTo(logoHostName, http.MethodGet, "/crypto/ACM/fallback/404", nil); a.status != http.StatusNotFound || a.header.Get("X-Logo-Source") != "transparent" {
		t.Errorf("fallback of a cryptocurrency: status %d, source %q", a.status, a.header.Get("X-Logo-Source"))
	}
	for _, path := range []string{"/domain", "/domain/", "/ticker", "/ticker/ACME/w/x", "/domain/local%20host", "/acme.com/type/fallback/404/w/400", "/crypto/ACM/banner", "/isin/X/theme/auto"} {
		s.sendTo(logoHostName, http.MethodGet, path, nil).plainly(t, http.StatusBadRequest)
	}
	s.send(request{path: "/logo/acme.com?format=jpg"}).plainly(t, http.StatusBadRequest)
	s.send(request{path: "/logo/acme.com/type/icon.png"}).ok(t)
}
