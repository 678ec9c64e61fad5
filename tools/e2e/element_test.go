package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"letterhead/internal/testmust"
)

// elementCases are elements of one page, with what each must show in light and in dark mode: the end of the image's
// URL, "content" for the content of the element, or "" for nothing. Every element has a box of size pixels.
var elementCases = []struct {
	attributes  string
	light, dark string
	alt         string
	size        int
}{
	{`domain="github.com" size="64"`, "/github.com?background=auto-light&size=64", "/github.com?background=auto-dark&size=64", "github.com", 64},
	{`domain="github.com" size="64" scheme="auto" alt="GitHub"`, "/github.com?background=auto-light&scheme=auto&size=64", "/github.com?background=auto-dark&scheme=auto&size=64", "GitHub", 64},
	{`domain="github.com" size="64" scheme="auto" background="0b5fff"`, "/github.com?background=0b5fff&size=64", "/github.com?background=0b5fff&size=64", "github.com", 64},
	{`domain="github.com" size="64" scheme="light" alt`, "/github.com?background=auto-light&size=64", "/github.com?background=auto-light&size=64", "", 64},
	{`domain="github.com" size="64" scheme="dark"`, "/github.com?background=auto-dark&size=64", "/github.com?background=auto-dark&size=64", "github.com", 64},
	{`domain="github.com" size="64" scheme="sepia"`, "/github.com?background=auto-light&size=64", "/github.com?background=auto-dark&size=64", "github.com", 64},
	{`domain="github.com" size="64" background="#0b5fff" scheme="dark"`, "/github.com?background=0b5fff&size=64", "/github.com?background=0b5fff&size=64", "github.com", 64},
	{`domain="github.com" size="64" theme="light" type="logo"`, "/github.com?type=logo&theme=light&size=64", "/github.com?type=logo&theme=light&size=64", "github.com", 64},
	{`domain=" Nobody-Knows-This.example.com " size="32"`, "/Nobody-Knows-This.example.com?background=auto-light&size=32", "/Nobody-Knows-This.example.com?background=auto-dark&size=32", "Nobody-Knows-This.example.com", 32},
	{`domain="пример.рф" size="32" fallback="transparent"`, "/%D0%BF%D1%80%D0%B8%D0%BC%D0%B5%D1%80.%D1%80%D1%84?fallback=transparent&background=auto-light&size=32", "/%D0%BF%D1%80%D0%B8%D0%BC%D0%B5%D1%80.%D1%80%D1%84?fallback=transparent&background=auto-dark&size=32", "пример.рф", 32},
	{`domain="nobody-knows-this.example.com" size="32" fallback="404"`, "/nobody-knows-this.example.com?fallback=404&background=auto-light&size=32", "/nobody-knows-this.example.com?fallback=404&background=auto-dark&size=32", "nobody-knows-this.example.com", 32},
	{`domain="github.com" size="5"`, "/github.com?background=auto-light&size=16", "/github.com?background=auto-dark&size=16", "github.com", 16},
	{`domain="github.com" size="48px"`, "/github.com?background=auto-light&size=48", "/github.com?background=auto-dark&size=48", "github.com", 48},
	{`domain="github.com" size="large"`, "/github.com?background=auto-light&size=128", "/github.com?background=auto-dark&size=128", "github.com", 128},
	{`domain="github.com" size="64" hidden`, "", "", "github.com", 0},
	{`domain="github.com" size="64" fallback="nonsense"`, "content", "content", "github.com", 64}, // 400
	{`domain="../docs?x=" size="64"`, "content", "content", "../docs?x=", 64},
	{`size="64"`, "content", "content", "", 64},
	{`domain="github.com" size="2000"`, "/github.com?background=auto-light&size=1024", "/github.com?background=auto-dark&size=1024", "github.com", 1024},
}

// shownElement is what an element shows, and its place and size.
type shownElement struct {
	Shown, Alt  string
	Early, Late []float64 // when the page was parsed, before an image was loaded, and at the end
}

// elementScript is loaded by the page after its elements.
const elementScript = `(() => {
	const place = e => { const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; };
	const shown = e => {
		const root = e.shadowRoot, content = root.querySelector("slot")?.assignedNodes().length > 0;
		const image = root.querySelector("img");
		if (e.hidden) return "";
		if (content) return "content";
		// A browser may take the image for dense screens if it has that already.
		return image?.complete && image.naturalWidth > 0 ? image.currentSrc.replace(/^.*?\/logo/, "")
			.replace(/size=(\d+)$/, (whole, n) => n == 2 * image.width ? "size=" + image.width : whole) : undefined;
	};
	const elements = [...document.querySelectorAll("brand-logo")], early = elements.map(place);
	window.settled = async () => {
		while (elements.some(e => shown(e) === undefined)) await new Promise(requestAnimationFrame);
		return elements.map((e, i) => ({Shown: shown(e), Early: early[i], Late: place(e),
			Alt: e.shadowRoot.querySelector("img")?.alt ?? e.getAttribute("alt") ?? e.getAttribute("domain") ?? ""}));
	};
	window.changed = async (e, name, value) => {
		value === null ? e.removeAttribute(name) : e.setAttribute(name, value);
		await new Promise(requestAnimationFrame);
		while (shown(e) === undefined) await new Promise(requestAnimationFrame);
		return {Shown: shown(e), Late: place(e)};
	};
})()`

// startElementPage serves the elements from another origin, whose policy allows only scripts and images of the node and
// elementScript.
func startElementPage(t *testing.T, n *node) string {
	t.Helper()
	var page strings.Builder
	fmt.Fprintf(&page, `<!doctype html><meta charset="utf-8"><script crossorigin src="%s/static/brand-logo.js"></script><body>`, n.url)
	for _, c := range elementCases {
		fmt.Fprintf(&page, `<brand-logo %s><b>content</b></brand-logo>`, c.attributes)
	}
	page.WriteString(`<script src="/measure.js"></script>`)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if r.URL.Path == "/measure.js" {
			h.Set("Content-Type", "text/javascript")
			fmt.Fprint(w, elementScript)
			return
		}
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cross-Origin-Embedder-Policy", "require-corp")
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self' "+n.url+"; img-src "+n.url+
			"; require-trusted-types-for 'script'; trusted-types 'none'")
		fmt.Fprint(w, page.String())
	}))
	t.Cleanup(other.Close)
	return other.URL
}

// prefer sets the color scheme that the browser reports to pages.
func prefer(t *testing.T, browser context.Context, scheme string) {
	t.Helper()
	_, err := chromedp.Run(browser, func(ctx context.Context, target *chromedp.Target) (cdp.Empty, error) {
		return cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	})
	testmust.Succeed(t, err)
}

func TestElement_InPageOfAnotherOrigin_FollowsSchemeWithoutShift(t *testing.T) {
	browser := openChromium(t)
	n := start(t, folder(t))
	url := startElementPage(t, n)
	for _, scheme := range []string{"light", "dark"} {
		prefer(t, browser, scheme)
		shown := openPage[[]shownElement](t, browser, 1200, url, `settled()`)
		if len(shown) != len(elementCases) {
			t.Fatalf("the page has %d elements, want %d", len(shown), len(elementCases))
		}
		for i, c := range elementCases {
			want := c.light
			if scheme == "dark" {
				want = c.dark
			}
			got := shown[i]
			if got.Shown != want || !strings.Contains(c.attributes, "hidden") && got.Alt != c.alt {
				t.Errorf("%s in %s mode: %q with text %q, want %q with %q", c.attributes, scheme, got.Shown, got.Alt, want, c.alt)
			}
			if size := float64(c.size); !slices.Equal(got.Early, got.Late) || got.Late[2] != size || got.Late[3] != size {
				t.Errorf("%s in %s mode: first at %v, at last at %v, want a square of %d", c.attributes, scheme, got.Early, got.Late, c.size)
			}
		}
	}
	prefer(t, browser, "light")
	for _, c := range []struct{ steps, want string }{
		{`["domain", "google.com"]`, "/google.com?background=auto-light&size=64"},
		{`["scheme", "dark"]`, "/github.com?background=auto-dark&size=64"},
		{`["size", "80"]`, "/github.com?background=auto-light&size=80"},
		{`["background", "ffcc00"]`, "/github.com?background=ffcc00&size=64"},
		{`["fallback", "x"]`, "content"},
		{`["fallback", "x"], ["fallback", null]`, "/github.com?background=auto-light&size=64"},
		{`["domain", null]`, "content"},
		{`["domain", null], ["domain", "google.com"]`, "/google.com?background=auto-light&size=64"},
		{`["scheme", "dark"], ["scheme", null]`, "/github.com?background=auto-light&size=64"},
	} {
		got := openPage[shownElement](t, browser, 1200, url, `(async () => { await settled(); let last;
			for (const [name, value] of [`+c.steps+`]) last = await changed(document.querySelector("brand-logo"), name, value);
			return last })()`)
		if got.Shown != c.want {
			t.Errorf("after %s: %q, want %q", c.steps, got.Shown, c.want)
		}
	}
}
