package readapi_test

import (
	"bytes"
	"encoding/json"
	"image"
	"net/http"
	"strings"
	"testing"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/imaging"
)

// Every answer with an image reports what was drawn, whether the image was drawn or cached, and so does a 304.
func TestLogo_Headers_DescribeTheDrawnFile(t *testing.T) {
	t.Parallel()
	s := start(t)
	themed := s.withLogo("acme", "png", inked(t, 256))
	light := "light"
	themed.Logos[0].Theme = &light
	s.known("themed.com", themed)
	other := s.withLogo("other", "svg", []byte(inkedSVG))
	other.Logos[0].Type, other.Logos[0].Theme = "other", nil
	s.known("other.com", other)
	wordmark := s.withLogo("wordmark", "svg", []byte(inkedSVG))
	dark := "dark"
	wordmark.Logos[0].Type, wordmark.Logos[0].Theme = "logo", &dark
	s.known("wordmark.com", wordmark)
	bare := record("Bare")
	bare.Logos = []eventschemas.Logo{}
	s.known("bare.com", bare)
	for _, c := range []struct {
		path, source, kind, theme string
		status                    int
	}{
		{"/logo/themed.com", "logo", "icon", "light", 200},
		{"/logo/themed.com/symbol?theme=dark&format=jpeg", "logo", "icon", "light", 200},
		{"/logo/themed.com?background=dark", "logo", "icon", "light", 200},
		{"/logo/other.com?format=svg", "logo", "other", "", 200},
		{"/logo/wordmark.com", "logo", "logo", "dark", 200},
		{"/logo/bare.com", "monogram", "", "", 200},
		{"/logo/unknown.com?theme=dark", "monogram", "", "", 200},
		{"/logo/unknown.com?fallback=transparent", "transparent", "", "", 200},
		{"/logo/unknown.com?fallback=404", "transparent", "", "", 404},
	} {
		first := s.send(request{path: c.path})
		same := http.Header{"If-None-Match": {first.header.Get("ETag")}}
		again := http.StatusNotModified
		if c.status == http.StatusNotFound {
			again = c.status
		}
		for what, a := range map[string]answer{
			"drawn": first, "cached": s.send(request{path: c.path}), "HEAD": s.send(request{method: http.MethodHead, path: c.path}),
			"conditional": s.send(request{path: c.path, header: same}),
		} {
			want := c.status
			if what == "conditional" {
				want = again
			}
			h := a.header
			if a.status != want || h.Get("X-Logo-Source") != c.source || h.Get("X-Logo-Type") != c.kind || h.Get("X-Logo-Theme") != c.theme {
				t.Errorf("%s, %s: status %d, source %q, type %q, theme %q; want %d and %+v", c.path, what, a.status,
					h.Get("X-Logo-Source"), h.Get("X-Logo-Type"), h.Get("X-Logo-Theme"), want, c)
			}
		}
	}
	refused := s.send(request{path: "/logo/themed.com?size=0"})
	if refused.plainly(t, http.StatusBadRequest); refused.header.Get("X-Logo-Source") != "" {
		t.Errorf("a 400 has the source %q", refused.header.Get("X-Logo-Source"))
	}
}

// The URLs that searches and agents hand out show square icons of a logo with another ratio.
func TestIconURLs_WideLogo_ShowSquares(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Growth, 50)
	data, err := imaging.EncodePNG(image.NewNRGBA(image.Rect(0, 0, 90, 30)))
	s.must(err)
	s.known("acme.com", s.withLogo("acme", "png", data))
	var first struct{ Results []struct{ Icon string } }
	s.must(json.Unmarshal(c.get("/v1/search?q=acme").body, &first))
	var second []struct{ Icon string }
	s.must(json.Unmarshal(c.get("/v2/search/acme").body, &second))
	tool := decodeExactly[struct {
		URL    string `json:"url"`
		Domain string `json:"domain"`
	}](t, c.agent(toolCall(1, "get_logo_url", `{"domain":"acme.com","type":"icon"}`)).one(t, 200).found(t))
	if len(first.Results) != 1 || len(second) != 1 {
		t.Fatalf("found %+v and %+v", first, second)
	}
	for _, url := range []string{first.Results[0].Icon, second[0].Icon, tool.URL} {
		a := s.send(request{path: strings.TrimPrefix(url, baseURL)})
		a.ok(t)
		img, _, err := image.DecodeConfig(bytes.NewReader(a.body))
		if err != nil || img.Width != 90 || img.Height != 90 {
			t.Errorf("%s is %d x %d, %v; want 90 x 90", url, img.Width, img.Height, err)
		}
	}
}
