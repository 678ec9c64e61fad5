package readapi_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/plan"
	"letterhead/internal/apikey"
	"letterhead/internal/config"
	"letterhead/internal/testmust"
	"letterhead/readapi"
	"letterhead/readapi/logo"
)

var profileHosts = []readapi.LogoHost{
	{Host: "clearbit.example.net", Profile: logo.Clearbit}, {Host: "logodev.example.net", Profile: logo.LogoDev},
	{Host: "google.example.net", Profile: logo.Google}, {Host: "duck.example.net", Profile: logo.DuckDuckGo},
	{Host: "vault.example.net:8443", Profile: logo.Bitwarden}, {Host: "best.example.net", Profile: logo.Besticon},
	{Host: "fetch.example.net", Profile: logo.Brandfetch},
}

func onProfiles(set *setup) {
	set.config.LogosPerAddress = 0 // no limit
	for _, h := range profileHosts {
		set.config.LogoHosts = append(set.config.LogoHosts, config.LogoHost{Host: h.Host, Profile: string(h.Profile)})
	}
}

// corpus has requests as applications send them: profile, path, status, media type, and side in pixels of the answer, 0
// for one without an image. acme.com is known, nowhere-here.com is not. The forms are those that docs/use-it-with.md
// names with their sources.
var corpus = []struct {
	profile logo.Profile
	path    string
	status  int
	kind    string
	side    int
}{
	{"clearbit", "acme.com", 200, "png", 128},
	{"clearbit", "acme.com/", 200, "png", 128},
	{"clearbit", "https://acme.com", 200, "png", 128},
	{"clearbit", "HTTP://www.acme.com/about?size=64", 200, "png", 64},
	{"clearbit", "https://nowhere-here.com/x", 404, "plain", 0},
	{"logodev", "https://acme.com/about/", 200, "jpeg", 128},
	{"clearbit", "ACME.com", 200, "png", 128},
	{"clearbit", "www.acme.com", 200, "png", 128},
	{"clearbit", "shop.acme.com", 200, "png", 128},
	{"clearbit", "acme.com?size=40", 200, "png", 40},
	{"clearbit", "acme.com?size=64", 200, "png", 64},
	{"clearbit", "acme.com?SIZE=80", 200, "png", 80},
	{"clearbit", "acme.com?size=200", 200, "png", 200},
	{"clearbit", "acme.com?size=800", 200, "png", 256},
	{"clearbit", "acme.com?size=99999999999999999999", 200, "png", 128},
	{"clearbit", "acme.com?size=", 200, "png", 128},
	{"clearbit", "acme.com?size=0", 200, "png", 128},
	{"clearbit", "acme.com?size=-5", 200, "png", 128},
	{"clearbit", "acme.com?size=80px", 200, "png", 128},
	{"clearbit", "acme.com?size=64&size=32", 200, "png", 64},
	{"clearbit", "acme.com?format=jpg", 200, "jpeg", 128},
	{"clearbit", "acme.com?format=JPG&size=100", 200, "jpeg", 100},
	{"clearbit", "acme.com?format=PNG", 200, "png", 128},
	{"clearbit", "acme.com?format=webp", 200, "webp", -1},
	{"clearbit", "acme.com?format=svg", 200, "png", 128},
	{"clearbit", "acme.com?format=bmp", 200, "png", 128},
	{"clearbit", "acme.com?greyscale=true", 200, "png", 128},
	{"clearbit", "acme.com?grayscale=1&size=32", 200, "png", 32},
	{"clearbit", "acme.com?token=pk_x&unknown=%zz&theme=auto", 200, "png", 128},
	{"clearbit", "https%3A%2F%2Facme.com", 200, "png", 128},
	{"clearbit", "acme.com:8443", 200, "png", 128},
	{"clearbit", "nowhere-here.com", 404, "plain", 0},
	{"clearbit", "nowhere-here.com?size=64", 404, "plain", 0},
	{"clearbit", "undefined", 404, "plain", 0},
	{"clearbit", "192.168.1.1", 404, "plain", 0},
	{"clearbit", "%20", 404, "plain", 0},
	{"clearbit", "not%20a%20domain.com", 404, "plain", 0},
	{"clearbit", "acme.com/logo/x", 404, "plain", 0},
	{"clearbit", "favicon.ico", 404, "plain", 0},
	{"clearbit", "robots.txt", 404, "plain", 0},
	{"clearbit", "", 404, "plain", 0},

	{"logodev", "acme.com?token=pk_abc", 200, "jpeg", 128},
	{"logodev", "acme.com", 200, "jpeg", 128},
	{"logodev", "acme.com?token=pk_abc&size=64&format=png", 200, "png", 64},
	{"logodev", "acme.com?token=pk_abc&size=64&retina=true&format=png", 200, "png", 128},
	{"logodev", "acme.com?size=2000&format=png", 200, "png", 256},
	{"logodev", "acme.com?format=webp", 200, "webp", -1},
	{"logodev", "acme.com?format=png&theme=dark", 200, "png", 128},
	{"logodev", "acme.com?format=png&theme=auto", 200, "png", 128},
	{"logodev", "acme.com?format=png&theme=light&greyscale=true", 200, "png", 128},
	{"logodev", "acme.com?fallback=404&format=png", 200, "png", 128},
	{"logodev", "nowhere-here.com?format=png", 200, "png", 128},
	{"logodev", "nowhere-here.com", 200, "jpeg", 128},
	{"logodev", "nowhere-here.com?fallback=monogram&format=png&size=64", 200, "png", 64},
	{"logodev", "nowhere-here.com?fallback=404", 404, "plain", 0},
	{"logodev", "ticker/NONE.L?format=png", 200, "png", 128},
	{"logodev", "isin/US0000000000?fallback=404", 404, "plain", 0},
	{"logodev", "crypto/abc?format=png", 200, "png", 128},
	{"logodev", "localhost?fallback=404", 404, "plain", 0},
	{"logodev", "nas.local?format=png", 200, "png", 128},
	{"logodev", "search?q=acme", 401, "json", 0},
	{"logodev", "name/acme?format=png", 200, "png", 128},
	{"logodev", "name/acme?fallback=404", 404, "plain", 0}, // it needs a key
	{"logodev", "name/a%2Fb?format=png", 200, "png", 128},
	{"logodev", "name?fallback=404", 404, "plain", 0},
	{"logodev", "describe/acme.com", 404, "plain", 0},

	{"google", "s2/favicons?domain=acme.com", 200, "png", 16},
	{"google", "s2/favicons?domain=acme.com&sz=32", 200, "png", 32},
	{"google", "s2/favicons?sz=64&domain=acme.com", 200, "png", 64},
	{"google", "s2/favicons?domain=acme.com&sz=128", 200, "png", 128},
	{"google", "s2/favicons?domain=acme.com&sz=256", 200, "png", 256},
	{"google", "s2/favicons?domain=acme.com&sz=512", 200, "png", 256},
	{"google", "s2/favicons?domain=acme.com&sz=1", 200, "png", 16},
	{"google", "s2/favicons?domain=acme.com&sz=big", 200, "png", 16},
	{"google", "s2/favicons?domain_url=https://acme.com&sz=32", 200, "png", 32},
	{"google", "s2/favicons?domain_url=https%3A%2F%2Facme.com%2Fdocs%3Fq%3D1&sz=32", 200, "png", 32},
	{"google", "s2/favicons?domain=https://acme.com/docs?q=1#top&sz=32", 200, "png", -1},
	{"google", "s2/favicons?domain=acme.com:8080&sz=32", 200, "png", 32},
	{"google", "s2/favicons?domain=user@acme.com&sz=32", 200, "png", 32},
	{"google", "S2/Favicons?Domain=acme.com&SZ=32", 200, "png", 32},
	{"google", "faviconV2?client=SOCIAL&type=FAVICON&fallback_opts=TYPE,SIZE,URL&url=http://acme.com&size=64", 200, "png", 64},
	{"google", "faviconV2?client=SOCIAL&url=https%3A%2F%2Fwww.acme.com%2F&size=48", 200, "png", 48},
	{"google", "faviconV2?url=acme.com", 200, "png", 16},
	{"google", "s2/favicons/?domain=https://acme.com/100%&sz=32", 200, "png", 32},
	{"google", "s2/favicons?domain=nowhere-here.com&sz=64", 404, "png", 16},
	{"google", "faviconV2?url=http://nowhere-here.com&size=64", 404, "png", 16},
	{"google", "s2/favicons?domain=192.168.1.1", 404, "png", 16},
	{"google", "s2/favicons?domain=http://[::1]:8080/", 404, "png", 16},
	{"google", "s2/favicons?domain=localhost:3000", 404, "png", 16},
	{"google", "s2/favicons?domain=", 404, "png", 16},
	{"google", "s2/favicons", 404, "png", 16},
	{"google", "acme.com", 404, "plain", 0},

	{"duckduckgo", "ip3/acme.com.ico", 200, "png", 64},
	{"duckduckgo", "ip2/acme.com.ico", 200, "png", 64},
	{"duckduckgo", "ip3/www.acme.com.ico", 200, "png", 64},
	{"duckduckgo", "ip3/nowhere-here.com.ico", 404, "png", 16},
	{"duckduckgo", "ip3/router.lan.ico", 404, "png", 16},
	{"duckduckgo", "ip3/.ico", 404, "png", 16},
	{"duckduckgo", "ip3/acme.com", 404, "plain", 0},
	{"duckduckgo", "ip4/acme.com.ico", 404, "plain", 0},

	{"bitwarden", "acme.com/icon.png", 200, "png", 64},
	{"bitwarden", "login.acme.com/icon.png", 200, "png", 64},
	{"bitwarden", "nowhere-here.com/icon.png", 404, "plain", 0},
	{"bitwarden", "10.0.0.7/icon.png", 404, "plain", 0},
	{"bitwarden", "wiki.internal/icon.png", 404, "plain", 0},
	{"bitwarden", "abcdefghij.onion/icon.png", 404, "plain", 0},
	{"bitwarden", "change-password-uri?uri=https://acme.com", 404, "plain", 0},

	{"besticon", "icon?url=acme.com&size=80..120..200", 200, "png", 120},
	{"besticon", "icon?url=https%3A%2F%2Facme.com%2Fx&size=32", 200, "png", 32},
	{"besticon", "icon?size=16..32&url=acme.com", 200, "png", 32},
	{"besticon", "icon?url=acme.com", 200, "png", 80},
	{"besticon", "icon?url=acme.com&size=64&formats=png,ico,gif&fallback_icon_color=ff0000", 200, "png", 64},
	{"besticon", "icon?url=acme.com&size=64..", 200, "png", 80},
	{"besticon", "icon?url=nowhere-here.com&size=64", 200, "png", 64},
	{"besticon", "icon?url=nowhere-here.com&size=64&fallback_icon_url=https://other.example/x.png", 200, "png", 64},
	{"besticon", "icon?url=http://192.168.0.1&size=48", 200, "png", 48},
	{"besticon", "allicons.json?url=acme.com", 404, "plain", 0},

	{"google", "s2/favicons?sz=128&domain_url=acme.com", 200, "png", 128},
	{"brandfetch", "acme.com?c=abc&format=png", 200, "png", 128},
	{"brandfetch", "acme.com/w/64/h/64?c=abc&format=png", 200, "png", 64},
	{"brandfetch", "acme.com/fallback/lettermark/theme/dark/h/64/w/64/icon.png?c=abc", 200, "png", 64},
	{"brandfetch", "acme.com/type/icon.png", 200, "png", 128},
	{"brandfetch", "domain/acme.com/w/128/h/128/fallback/lettermark/icon.png?c=abc", 200, "png", 128},
	{"brandfetch", "acme.com/fallback/brandfetch/icon.jpg", 200, "jpeg", 128},
	{"brandfetch", "acme.com/type/fallback/404/w/400/h/400", 400, "plain", 0},
	{"brandfetch", "ACME.com/ICON.PNG/W/64/Theme/DARK?fallback=LETTERMARK", 200, "png", 64},
	{"brandfetch", "acme.com?type=Icon&format=PNG", 200, "png", 128},
	{"brandfetch", "192.168.1.1/icon.png", 200, "png", 128},
	{"brandfetch", "nas.local/fallback/404/icon.png", 404, "png", 128},
	{"brandfetch", "nas.home.arpa/w/64/icon.png", 200, "png", 64},
	{"brandfetch", "localhost/icon.png", 200, "png", -1},
	{"brandfetch", "domain/nas", 200, "webp", -1},
	{"brandfetch", "nas/fallback/404", 404, "webp", -1},
	{"brandfetch", "Symbol", 400, "plain", 0},
	{"brandfetch", "logo", 400, "plain", 0},
	{"brandfetch", "healthz", 400, "plain", 0},
	{"brandfetch", "v1/brands/acme.com", 400, "plain", 0},
	{"brandfetch", "nas/icon/nonsense", 400, "plain", 0},
	{"brandfetch", "acme..com/icon.png", 400, "plain", 0},
	{"brandfetch", "nas.local/type/fallback", 400, "plain", 0},
	{"brandfetch", "favicon.ico", 404, "plain", 0},
}

func TestProfiles_Corpus_AnswersAsTheServices(t *testing.T) {
	t.Parallel()
	s := start(t, onProfiles)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 256)))
	hosts := map[logo.Profile]string{}
	for _, h := range profileHosts {
		hosts[h.Profile] = h.Host
	}
	for _, c := range corpus {
		for host, path := range map[string]string{hosts[c.profile]: "/" + c.path, "brands.example.com": "/compat/" + string(c.profile) + "/" + c.path} {
			a := s.sendTo(host, http.MethodGet, path, http.Header{"Accept": {"image/avif,image/webp,*/*"}})
			name := host + path
			if a.status != c.status || !strings.Contains(a.header.Get("Content-Type"), "/"+c.kind) {
				t.Errorf("%s: %d %s, want %d %s", name, a.status, a.header.Get("Content-Type"), c.status, c.kind)
				continue
			}
			if a.header.Get("Location") != "" || a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: header %v", name, a.header)
			}
			if c.side > 0 {
				img, _, err := image.DecodeConfig(bytes.NewReader(a.body))
				if err != nil || img.Width != c.side || img.Height != c.side {
					t.Errorf("%s: %d by %d pixels, %v; want %d", name, img.Width, img.Height, err, c.side)
				}
			}
			head := s.sendTo(host, http.MethodHead, path, http.Header{"Accept": {"image/avif,image/webp,*/*"}})
			if head.status != a.status || head.header.Get("Content-Type") != a.header.Get("Content-Type") {
				t.Errorf("HEAD %s: %d, %v", name, head.status, head.header)
			}
		}
	}
}

func TestProfiles_PathsOfTheAPI_AreNoNamesAtBrandfetch(t *testing.T) {
	t.Parallel()
	s := start(t, onProfiles)
	for _, route := range append(testmust.Get(s.api.Routes())(t), "/healthz", "/readyz", "/metrics", "/static/", "/dashboard") {
		first, _, _ := strings.Cut(route[1:], "/")
		if first == "" || strings.ContainsAny(first, ".{") {
			continue
		}
		if a := s.sendTo("brands.example.com", http.MethodGet, "/compat/brandfetch/"+first, nil); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d, want 400", first, a.status)
		}
	}
}

func TestProfiles_LogoDevNamesAndSearch_AreSearchedWithAKey(t *testing.T) {
	t.Parallel()
	s := start(t, onProfiles)
	c := s.account(plan.Growth, 50)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 256)))
	s.must(s.runner.CatchUp(t.Context()))
	for _, base := range []string{"logodev.example.net", "brands.example.com/compat/logodev"} {
		host, path, _ := strings.Cut(base, "/")
		if path != "" {
			path = "/" + path
		}
		get := func(query string, header http.Header) answer {
			return s.sendTo(host, http.MethodGet, path+query, header)
		}
		logoOf := s.sendTo("logodev.example.net", http.MethodGet, "/acme.com?format=png", nil)
		if a := get("/name/Acme?format=png&key="+c.publishable, nil); a.status != http.StatusOK || !bytes.Equal(a.body, logoOf.body) {
			t.Errorf("%s: the logo of a name: %d", base, a.status)
		}
		for _, query := range []string{"/name/acme?fallback=404", "/name/tools?fallback=404&key=" + c.publishable, "/name/" + strings.Repeat("x", 200) + "?fallback=404&key=" + c.publishable} {
			if a := get(query, nil); a.status != http.StatusNotFound {
				t.Errorf("%s%s: %d, want 404", base, query, a.status)
			}
		}
		a := get("/search?q=acme&strategy=match", bearer(c.secret))
		if want := `[{"name":"acme","domain":"acme.com"}]`; a.status != http.StatusOK || strings.TrimSpace(string(a.body)) != want {
			t.Errorf("%s: a search: %d %s, want %s", base, a.status, a.body, want)
		}
		if a := get("/search?q=zzzzqqq", bearer(c.secret)); a.status != http.StatusOK || strings.TrimSpace(string(a.body)) != "[]" {
			t.Errorf("%s: a search without results: %d %s", base, a.status, a.body)
		}
		if a := get("/search?q=acme", bearer("sk_of_another_service")); a.status != http.StatusUnauthorized {
			t.Errorf("%s: a search with a token of the service: %d", base, a.status)
		}
	}
	if a := s.sendTo("clearbit.example.net", http.MethodGet, "/search?q=acme", bearer(c.secret)); a.status != http.StatusNotFound {
		t.Errorf("a search at another profile: %d", a.status)
	}
}

func TestProfiles_ThemeIsThePage_GrayHasNoColors(t *testing.T) {
	t.Parallel()
	s := start(t, onProfiles)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 256)))
	same := func(path, other string) {
		t.Helper()
		a, b := s.sendTo("logodev.example.net", http.MethodGet, path, nil), s.send(request{path: other})
		if a.status != http.StatusOK || !bytes.Equal(a.body, b.body) {
			t.Errorf("%s (%d) differs from %s (%d)", path, a.status, other, b.status)
		}
	}
	same("/acme.com?format=png&theme=dark", "/logo/acme.com?format=png&theme=light")
	same("/acme.com?format=png&theme=light", "/logo/acme.com?format=png&theme=dark")
	a := s.sendTo("clearbit.example.net", http.MethodGet, "/acme.com?greyscale=true", nil)
	img, _, err := image.Decode(bytes.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			if r, g, b, _ := img.At(x, y).RGBA(); r != g || g != b {
				t.Fatalf("the pixel %d,%d has a color", x, y)
			}
		}
	}
}

func TestProfiles_Misses_HaveTheirCacheTimes(t *testing.T) {
	t.Parallel()
	s := start(t, onProfiles)
	for path, want := range map[string]string{
		"/compat/clearbit/nowhere-here.com": "max-age=900", "/compat/google/s2/favicons?domain=nowhere-here.com": "max-age=900",
		"/compat/clearbit/192.168.1.1": "max-age=86400", "/compat/bitwarden/nas/icon.png": "max-age=86400", "/compat/besticon/icon?url=printer.lan": "max-age=86400",
		"/compat/brandfetch/192.168.1.1": "max-age=86400", "/compat/brandfetch/nas.local?fallback=404": "max-age=86400", "/compat/brandfetch/nowhere-here.com": "max-age=900",
		"/compat/clearbit/" + strings.Repeat("x", 300) + ".com": "max-age=86400",
	} {
		if a := s.sendTo("brands.example.com", http.MethodGet, path, nil); !strings.Contains(a.header.Get("Cache-Control"), want) {
			t.Errorf("%s: Cache-Control %q, want %s", path, a.header.Get("Cache-Control"), want)
		}
	}
	if a := s.sendTo("brands.example.com", http.MethodPost, "/compat/clearbit/acme.com", nil); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("POST: %d, Allow %q", a.status, a.header.Get("Allow"))
	}
	for _, path := range []string{"/compat/", "/compat/unknown/acme.com", "/compat/clearbit"} {
		if a := s.sendTo("brands.example.com", http.MethodGet, path, nil); a.status != http.StatusNotFound || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s", path, a.status, a.header.Get("Cache-Control"))
		}
	}
}

// An application's server asks for many logos from one address.
func TestProfiles_LimitOfAddress_IsASetting(t *testing.T) {
	t.Parallel()
	s := start(t, onProfiles, func(set *setup) {
		set.config.LogosPerAddress = 2 // after onProfiles
		set.config.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		set.config.UnlimitedLogos = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8::5/128")}
	})
	ask := func(path, client string) int {
		return s.sendTo("brands.example.com", http.MethodGet, path, http.Header{"X-Forwarded-For": {client}}).status
	}
	for i := range 5 {
		want := http.StatusNotFound
		if i >= 2 {
			want = http.StatusTooManyRequests
		}
		if got := ask(fmt.Sprintf("/compat/clearbit/no-brand-%d.com", i), "203.0.113.9"); got != want {
			t.Errorf("request %d of an address: %d, want %d", i, got, want)
		}
		if got := ask(fmt.Sprintf("/compat/clearbit/no-brand-%d.com", i), "198.51.100.7"); got != http.StatusNotFound {
			t.Errorf("request %d of an address without a limit: %d", i, got)
		}
		if got := ask(fmt.Sprintf("/compat/clearbit/no-brand-%d.com", i), "2001:db8::5"); got != http.StatusNotFound {
			t.Errorf("request %d of an IPv6 address without a limit: %d", i, got)
		}
		if got := ask("/logo/acme.com", "203.0.113.10"); got != http.StatusOK {
			t.Errorf("/logo, request %d: %d", i, got)
		}
	}
}

func TestProfiles_KeyOfHost_CrawlsUnknownDomains(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Growth, 50)
	s.finding("fresh.com", 0)
	changed := s.config
	changed.Registerer = prometheus.NewRegistry()
	changed.LogoHosts = []readapi.LogoHost{{Host: "logos.example.net", Profile: logo.Clearbit, Key: c.publishable}}
	var err error
	s.api, err = readapi.New(changed, s.deps)
	s.must(err)
	unused := changed
	unused.LogoHosts, unused.Registerer = []readapi.LogoHost{{Host: "logos.example.net", Profile: logo.Clearbit, Key: testmust.Get(apikey.Generate(apikey.Publishable, rand.Reader))(t)}}, prometheus.NewRegistry()
	withUnused, err := readapi.New(unused, s.deps)
	s.must(err)
	api := s.api
	s.api = withUnused
	if a := s.sendTo("logos.example.net", http.MethodGet, "/fresh.com", nil); a.status != http.StatusNotFound || a.header.Get("Cache-Control") != "private, max-age=60" || a.header.Get("X-Api-Key-Status") != "" {
		t.Errorf("by a key that cannot be used: %d, header %v", a.status, a.header)
	}
	s.api = api
	if a := s.sendTo("brands.example.com", http.MethodGet, "/compat/clearbit/fresh.com", nil); a.status != http.StatusNotFound || len(s.crawler.of("fresh.com")) != 0 {
		t.Errorf("without a key: %d, crawls %v", a.status, s.crawler.of("fresh.com"))
	}
	if a := s.sendTo("logos.example.net", http.MethodGet, "/fresh.com", nil); a.status != http.StatusNotFound || a.header.Get("Cache-Control") != soonKept {
		t.Errorf("while the crawl runs: %d, header %v", a.status, a.header)
	}
	for a := (answer{}); a.status != http.StatusOK; {
		if a = s.sendTo("logos.example.net", http.MethodGet, "/fresh.com", nil); a.status == http.StatusOK {
			a.is(t, "by the host's key", true, logoKept)
		}
	}
	if n := len(s.crawler.of("fresh.com")); n != 1 {
		t.Errorf("%d crawls, want 1", n)
	}
	for _, local := range []string{"/192.168.1.1", "/nas.local", "/intranet"} {
		if a := s.sendTo("logos.example.net", http.MethodGet, local, nil); a.status != http.StatusNotFound || len(s.crawler.of(local[1:])) != 0 {
			t.Errorf("%s: %d, crawls %v", local, a.status, s.crawler.of(local[1:]))
		}
	}
	c.awaitBalance(50)
	changed.LogosPerAddress, changed.Registerer = 1, prometheus.NewRegistry()
	s.api, err = readapi.New(changed, s.deps)
	s.must(err)
	statuses := map[int]int{}
	for range 3 {
		a := s.sendTo("logos.example.net", http.MethodGet, "/another-brand.com", nil)
		statuses[a.status]++
		if a.header.Get("X-Api-Key-Status") != "" {
			t.Errorf("a visitor without a key sees X-Api-Key-Status %s", a.header.Get("X-Api-Key-Status"))
		}
	}
	if statuses[http.StatusTooManyRequests] < 2 {
		t.Errorf("statuses %v: the key of the host lifts the limit of an address", statuses)
	}
}

func TestConfig_LogoHosts_AreChecked(t *testing.T) {
	t.Parallel()
	for want, hosts := range map[string][]readapi.LogoHost{
		"does not exist":      {{Host: "a.example", Profile: "clearbut"}},
		"two profiles":        {{Host: "a.example", Profile: logo.Clearbit}, {Host: "A.example", Profile: logo.Google}},
		"no publishable key":  {{Host: "a.example", Profile: logo.Clearbit, Key: "lh_sk_live_x"}},
		"nothing but logos":   {{Host: "brands.example.com", Profile: logo.Clearbit}},
		"b.example\" has two": {{Host: "b.example", Profile: logo.Clearbit}, {Host: "b.example:8443", Profile: logo.Google}},
		"a.example\" has two": {{Host: "a.example:443", Profile: logo.Clearbit}, {Host: "a.example", Profile: logo.Clearbit}},
	} {
		err := readapi.Config{BaseURL: "https://brands.example.com", LogoHosts: hosts}.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", hosts, err, want)
		}
	}
}
