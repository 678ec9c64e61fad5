package readapi

import (
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"letterhead/domain/brand"
	"letterhead/internal/testmust"
	"letterhead/starter"
)

func testGallery(t *testing.T, logoHost string) *gallery {
	t.Helper()
	p := testmust.Get(newPages("https://brands.example.com/api", logoHost, "LetterheadBot/1.0", Operator{Name: "Letterhead"}))(t)
	return p.gallery
}

// galleryShown is the visible part of the gallery.
type galleryShown struct {
	sources  map[string]bool // of images, each of which is requested once
	images   int
	rejected string
	selected map[string]string
	code     []string
}

func showGallery(t *testing.T, g *gallery, sent url.Values) galleryShown {
	t.Helper()
	body := testmust.Get(g.page(sent))(t)
	s := galleryShown{sources: map[string]bool{}, selected: map[string]string{}}
	walk(t, body, func(n *html.Node) {
		switch n.Data {
		case "img":
			s.images++
			s.sources[attribute(n, "src")] = true
			if attribute(n, "alt") == "" {
				t.Errorf("%s has no text in its section", attribute(n, "src"))
			}
		case "p":
			if attribute(n, "class") == "rejected" {
				s.rejected = textOf(n)
			}
		case "input":
			s.selected[attribute(n, "name")] = attribute(n, "value")
		case "option":
			for _, a := range n.Attr {
				if a.Key == "selected" {
					s.selected[attribute(n.Parent, "name")] = attribute(n, "value")
				}
			}
		case "pre":
			s.code = append(s.code, textOf(n))
		case "script", "link", "iframe", "object", "embed", "base":
			t.Errorf("the page has a <%s>", n.Data)
		}
		for _, a := range n.Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
				t.Errorf("<%s> has %s, which the policy forbids", n.Data, a.Key)
			}
		}
	})
	return s
}

func TestGallery_Images_AreFewAndValid(t *testing.T) {
	for _, host := range []string{"", "logos.example.com:8443"} {
		g := testGallery(t, host)
		s := showGallery(t, g, url.Values{"domain": {"acme.com"}, "size": {"333"}})
		if len(s.sources) > maxGalleryLogos || s.images < 20 {
			t.Errorf("%d images from %d URLs", s.images, len(s.sources))
		}
		place := "../logo/"
		if host != "" {
			place = "https://" + host + "/"
		}
		for src := range s.sources {
			path, ours := strings.CutPrefix(src, place)
			if sentence := rejectedLogo("/" + path); !ours || sentence != "" {
				t.Errorf("%s: %s", src, sentence)
			}
		}
	}
}

func TestGallery_Form_ShowsTheRequestedLogo(t *testing.T) {
	g := testGallery(t, "")
	s := showGallery(t, g, url.Values{"domain": {" figma.com "}, "type": {"symbol"}, "size": {"200"}, "background": {"dark"}, "format": {"png"}, "fallback": {""}})
	const query = "/figma.com?type=symbol&size=200&background=dark&format=png"
	if !s.sources["../logo"+query] || s.rejected != "" {
		t.Errorf("the image is not shown (%q)", s.rejected)
	}
	if len(s.code) != 2 || s.code[0] != "https://brands.example.com/api/logo"+query {
		t.Fatalf("the page shows the URL %q", s.code)
	}
	// The snippet is meant to be pasted: its source must parse as the URL.
	var src string
	walk(t, []byte(s.code[1]), func(n *html.Node) {
		if n.Data == "img" {
			src = attribute(n, "src")
		}
	})
	if src != s.code[0] {
		t.Errorf("the snippet %s links to %s, want %v", s.code[1], src, s.code[0])
	}
	for name, want := range map[string]string{"domain": "figma.com", "type": "symbol", "size": "200", "background": "dark", "format": "png", "theme": "", "fallback": ""} {
		if s.selected[name] != want {
			t.Errorf("the form has %s %q, want %q", name, s.selected[name], want)
		}
	}
	if s := showGallery(t, g, nil); !s.sources["../logo/"+galleryDomain] {
		t.Error("no logo is shown without parameters")
	}
	if s := showGallery(t, g, url.Values{"domain": {"bücher.example.de"}}); !s.sources["../logo/b%C3%BCcher.example.de"] {
		t.Errorf("a domain in its own script: URLs %v", s.code)
	}
}

func TestGallery_InvalidInput_ExplainsTheFault(t *testing.T) {
	g := testGallery(t, "")
	_, onlySuffix := brand.RegistrableDomain("co.uk")
	for _, c := range []struct {
		sent url.Values
		want string // of the sentence
	}{
		{url.Values{"size": {"0"}}, "size"},
		{url.Values{"size": {`"><script>alert(1)</script>`}}, "size"},
		{url.Values{"domain": {"co.uk"}}, onlySuffix.(*brand.InvalidDomainError).Sentence},
		{url.Values{"domain": {"acme.com/icon"}}, "acme.com/icon"},
		{url.Values{"domain": {`"onerror=x`}}, `"onerror=x`},
		{url.Values{"domain": {".."}}, ""},
		{url.Values{"theme": {"blue"}}, "theme"},
		{url.Values{"format": {"gif"}}, "format"},
		{url.Values{"type": {"banner"}}, "type"},
		{url.Values{"fallback": {"none"}}, "fallback"},
		{url.Values{"background": {"<b>"}}, "background"},
	} {
		s := showGallery(t, g, c.sent)
		if s.rejected == "" || !strings.Contains(s.rejected, c.want) || len(s.code) != 0 {
			t.Errorf("%v: error %q, URLs %v", c.sent, s.rejected, s.code)
		}
		for name, sent := range c.sent {
			if s.selected[name] != sent[0] {
				t.Errorf("%v: the form has %s %q, want %q", c.sent, name, s.selected[name], sent[0])
			}
		}
	}
}

func TestGallery_ContentSecurityPolicy_AllowsImagesAndForm(t *testing.T) {
	for host, want := range map[string]string{"": "img-src 'self';", "logos.example.com": "img-src 'self' https://logos.example.com;"} {
		g := testGallery(t, host)
		for _, want := range []string{"default-src 'none'; " + want, "form-action 'self'", "base-uri 'none'", "style-src 'sha256-"} {
			if !strings.Contains(g.csp[0], want) {
				t.Errorf("logo host %q: the policy %s lacks %s", host, g.csp[0], want)
			}
		}
	}
}

// The first page shows each brand of its wall on the color of the brand.
func TestWall_Brands_HaveLogosAndColorsInTheStarterIndex(t *testing.T) {
	missing := map[string]bool{}
	for _, domain := range wallBrands {
		missing[domain] = true
	}
	testmust.Succeed(t, starter.Each(func(b starter.Brand) error {
		if len(b.Record.Logos) > 0 && len(b.Record.Colors) > 0 {
			delete(missing, b.Domain)
		}
		return nil
	}))
	if len(missing) > 0 {
		t.Errorf("without logo or color: %v", missing)
	}
}
