package testnet_test

import (
	"bytes"
	"context"
	"image/png"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"letterhead/internal/safehttp"
	"letterhead/internal/testcert"
	"letterhead/internal/testmust"
	"letterhead/internal/testnet"
)

// browser is the production client on a test network.
type browser struct {
	t       *testing.T
	net     *testnet.Internet
	session *safehttp.Session
}

// newInternet returns an empty internet and the authority of its hosts.
func newInternet(t *testing.T) (*testnet.Internet, *testcert.Authority) {
	t.Helper()
	authority := testmust.Get(testcert.NewAuthority())(t)
	n := testmust.Get(testnet.New(authority))(t)
	t.Cleanup(n.Close)
	return n, authority
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	n, _ := newInternet(t)
	c := testmust.Get(n.Client())(t)
	t.Cleanup(c.Close)
	return &browser{t, n, c.NewSession()}
}

func (b *browser) get(address string) *safehttp.Response {
	b.t.Helper()
	r, err := b.session.Get(b.t.Context(), address, safehttp.Limits{Body: 1 << 20})
	if err != nil {
		b.t.Fatalf("%s: %v", address, err)
	}
	return r
}

func (b *browser) status(address string, want int) {
	b.t.Helper()
	if r := b.get(address); r.StatusCode != want {
		b.t.Errorf("%s: status %d, want %d", address, r.StatusCode, want)
	}
}

const page = `<!doctype html><link rel="icon" sizes="48x48" href="/favicon-48.png"><link rel="stylesheet" href="/site.css">
<img src="https://cdn.acme.com/logo.png?v=2&amp;w=300"><img src="/pictures/team%20photo.jpg" width="300" height="200">
<script type="application/ld+json">{"logo":"https:\/\/img.acme.com\/mark.svg"}</script>`

func TestSavedPage_DistinctImagePerURL(t *testing.T) {
	b := newBrowser(t)
	at, _ := url.Parse("https://www.acme.com/start?lang=en")
	b.net.ServeSaved(testnet.Saved{URL: at, Body: []byte(page)})
	if r := b.get(at.String()); string(r.Body) != page {
		t.Errorf("the page is %.60q, want it unchanged", r.Body)
	}
	icon := b.get("https://www.acme.com/favicon-48.png").Body
	if config, err := png.DecodeConfig(bytes.NewReader(icon)); err != nil || config.Width != 48 || config.Height != 48 {
		t.Errorf("the icon is %d×%d (%v), want what the page declares", config.Width, config.Height, err)
	}
	logo := b.get("https://cdn.acme.com/logo.png?v=2&w=300").Body
	if config, err := png.DecodeConfig(bytes.NewReader(logo)); err != nil || config.Width <= 2*config.Height {
		t.Errorf("the logo is %d×%d (%v), want the aspect ratio of a header", config.Width, config.Height, err)
	}
	photo := b.get("https://www.acme.com/pictures/team%20photo.jpg").Body
	if bytes.Equal(icon, logo) || bytes.Equal(logo, photo) || !bytes.Equal(logo, b.get("https://cdn.acme.com/logo.png?v=2&w=300").Body) {
		t.Error("two URLs have the same image, or one URL has two")
	}
	if mark := b.get("https://img.acme.com/mark.svg"); !strings.HasPrefix(string(mark.Body), "<svg") {
		t.Errorf("the SVG is %.40q", mark.Body)
	}
	for _, missing := range []string{"https://www.acme.com/favicon.ico", "https://www.acme.com/site.css", "https://www.acme.com/other.png", "https://www.acme.com/about"} {
		b.status(missing, 404)
	}
}

func TestFolder_RoutesFilesRedirects(t *testing.T) {
	b := newBrowser(t)
	folder := fstest.MapFS{
		"site.json": {Data: []byte(`{"hosts":["acme.com"],"routes":{"/":{"file":"home.html","headers":{"X-Made-By":"us"}},"/gone":{"body":"away","status":410}},
			"redirects":{"www.acme.com":"https://acme.com","http://acme.com":"https://acme.com"},"txt":{"default._bimi.acme.com":"v=BIMI1"}}`)},
		"home.html":        {Data: []byte("<h1>Acme</h1>")},
		"about/index.html": {Data: []byte("About us")},
		"logo.svg":         {Data: []byte("<svg/>")},
	}
	testmust.Succeed(t, b.net.ServeFolder(folder))
	home := b.get("http://www.acme.com/")
	if home.FinalURL.String() != "https://acme.com/" || string(home.Body) != "<h1>Acme</h1>" || home.Header.Get("X-Made-By") != "us" {
		t.Errorf("home is %s, body %q, header %v", home.FinalURL, home.Body, home.Header)
	}
	if kind := b.get("https://acme.com/logo.svg").Header.Get("Content-Type"); kind != "image/svg+xml" {
		t.Errorf("the logo's type is %s, want %q", kind, "image/svg+xml")
	}
	if text := string(b.get("https://acme.com/about").Body); text != "About us" {
		t.Errorf("the page /about is %q, want %q", text, "About us")
	}
	b.status("https://acme.com/gone", 410)
	b.status("https://acme.com/site.json", 404)
	if texts, err := b.net.LookupTXT(context.Background(), "default._bimi.acme.com."); err != nil || len(texts) != 1 || texts[0] != "v=BIMI1" {
		t.Errorf("TXT records = %v, %v", texts, err)
	}
	if _, err := b.session.Get(t.Context(), "https://other.com/", safehttp.Limits{Body: 1}); err == nil {
		t.Error("a host without a site exists")
	}
}

func TestRecording_Responses(t *testing.T) {
	b := newBrowser(t)
	recording := "GET / HTTP/1.1\r\nHost: acme.com\r\n\r\nHTTP/1.1 301 Moved\r\nLocation: https://www.acme.com/\r\nContent-Length: 0\r\n\r\n" +
		"\n*************vcr*************\nGET / HTTP/1.1\r\nHost: www.acme.com\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<h1>A\r\n0\r\n\r\n"
	testmust.Succeed(t, b.net.Play([]byte(recording)))
	home := b.get("https://acme.com/")
	if home.FinalURL.Host != "www.acme.com" || string(home.Body) != "<h1>A" {
		t.Errorf("home is %s, body %q", home.FinalURL, home.Body)
	}
	b.status("https://www.acme.com/favicon.ico", 404)
}

func FuzzRecording(f *testing.F) {
	for _, seed := range []string{
		"", "GET / HTTP/1.1\r\nHost: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
		"GET / HTTP/1.1\nHost: a\n\nHTTP/1.1 -1 x\n\n", "GET / HTTP/1.1\r\n\r\nHTTP/1.1\r\n\r\n", "*************vcr*************",
	} {
		f.Add([]byte(seed))
	}
	authority := testmust.Get(testcert.NewAuthority())(f)
	n := testmust.Get(testnet.New(authority))(f)
	f.Cleanup(n.Close)
	f.Fuzz(func(_ *testing.T, data []byte) { n.Play(data) })
}
