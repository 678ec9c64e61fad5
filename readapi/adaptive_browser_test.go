//go:build tour

package readapi_test

import (
	"bytes"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"letterhead/eventschemas"
)

// An SVG of scheme=auto follows the preference of the browser, and color-scheme of the page that shows it.
func TestLogo_SchemeAuto_InABrowserFollowsTheScheme(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("Chromium is missing: the inks of scheme=auto were not looked at")
	}
	s := start(t)
	dark := s.withLogo("acme", "svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40"><path fill="#222222" d="M0 0h40v20H0z"/></svg>`))
	light := s.withLogo("acme", "svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40"><path fill="#dddddd" d="M0 0h40v20H0z"/></svg>`))
	for i, theme := range []string{"dark", "light"} {
		[]*eventschemas.Record{&dark, &light}[i].Logos[0].Theme = &theme
	}
	dark.Logos = append(dark.Logos, light.Logos...)
	s.known("acme.com", dark)
	if a := s.send(request{path: "/logo/acme.com?scheme=auto"}); a.header.Get("Content-Type") != "image/svg+xml" {
		t.Fatalf("%d %s %s", a.status, a.header.Get("Content-Type"), a.body)
	}
	const image = `<img src="/logo/acme.com?scheme=auto" style="position:absolute;left:0;top:0;width:40px;height:40px">`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			s.api.Handler().ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><body style="margin:0">` + image + `<div style="position:absolute;left:50px;color-scheme:dark">` + image +
			`</div><div style="position:absolute;left:100px;color-scheme:light">` + image + `</div>`))
	}))
	defer server.Close()
	darkInk, lightInk := color.NRGBA{0x22, 0x22, 0x22, 0xff}, color.NRGBA{0xdd, 0xdd, 0xdd, 0xff}
	for _, c := range []struct {
		name, preference string
		first            color.NRGBA
	}{{"light", "1", darkInk}, {"dark", "0", lightInk}} {
		file := filepath.Join(t.TempDir(), "page.png")
		out, err := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
			"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(),
			"--blink-settings=preferredColorScheme="+c.preference, "--hide-scrollbars", "--window-size=800,600", "--virtual-time-budget=5000",
			"--screenshot="+file, server.URL).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		data, err := os.ReadFile(file)
		s.must(err)
		page, err := png.Decode(bytes.NewReader(data))
		s.must(err)
		// The ink is in the middle of its square.
		for x, want := range map[int]color.NRGBA{20: c.first, 70: lightInk, 120: darkInk} {
			if got := color.NRGBAModel.Convert(page.At(x, 20)); got != want {
				t.Errorf("the browser prefers %s: %v at %d, want %v: %s", c.name, got, x, want, s.send(request{path: "/logo/acme.com?scheme=auto"}).body)
			}
		}
	}
}
