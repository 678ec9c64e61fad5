package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // decoders of what the command writes
	_ "image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	_ "golang.org/x/image/webp"
)

// browserTimeout bounds what a test does in Chromium; a cold start takes seconds on a busy machine.
const browserTimeout = 60 * time.Second

// openChromium starts a fresh Chromium.
func openChromium(t *testing.T) context.Context {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		t.Skip("Chromium is not installed: nothing was shown in a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()))
	allocator, closeBrowser := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(closeBrowser)
	browser, closeWindow := chromedp.NewContext(allocator)
	t.Cleanup(closeWindow)
	// Without a deadline, which would be that of the browser.
	if _, err := chromedp.Run(browser, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return browser
}

// see opens a page so many pixels wide, waits for its pictures, returns what a script's promise gives, and keeps a
// picture of the page (go test -artifacts).
func see[T any](t *testing.T, browser context.Context, width int64, url, script string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(browser, browserTimeout)
	defer cancel()
	result, err := chromedp.Run(ctx, func(ctx context.Context, target *chromedp.Target) (result T, err error) {
		if _, err = chromedp.EmulateViewport(width, 800)(ctx, target); err != nil {
			return result, err
		}
		if _, err = chromedp.Navigate(url)(ctx, target); err != nil {
			return result, err
		}
		const pictures = `Promise.all([...document.images].map(i => i.decode().catch(() => {}))).then(() => true)`
		if _, err = chromedp.Evaluate[bool](pictures, chromedp.EvalAwaitPromise)(ctx, target); err != nil {
			return result, err
		}
		if result, err = chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise)(ctx, target); err != nil {
			return result, err
		}
		picture, err := chromedp.FullScreenshot(100)(ctx, target)
		if err != nil {
			return result, err
		}
		return result, os.WriteFile(filepath.Join(t.ArtifactDir(), "page.png"), picture, 0o600)
	})
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return result
}

func TestLogos_InBrowser_AreShown(t *testing.T) {
	browser := openChromium(t)
	n := start(t, t.TempDir())
	t.Run("forty on a page", func(t *testing.T) { fortyLogosOnAPage(t, browser, n) })
	t.Run("keys of another origin", func(t *testing.T) { keysOfAnotherOrigin(t, browser, n) })
	t.Run("a missing one", func(t *testing.T) { aMissingLogo(t, browser, n) })
	t.Run("the gallery", func(t *testing.T) { theGallery(t, browser, n, 1280) })
	t.Run("the gallery on a phone", func(t *testing.T) { theGallery(t, browser, n, 390) })
}

// shownLogo is a picture as a page has it.
type shownLogo struct {
	Src           string
	Width, Height int
	Seen          float64 // share of its pixels that stand out from the ground
}

// readLogos tells of every picture of a page how large it is, and how much of it is seen on its ground.
const readLogos = `(() => [...document.images].map(i => {
	const c = document.createElement('canvas');
	c.width = i.naturalWidth || 1; c.height = i.naturalHeight || 1;
	const g = c.getContext('2d');
	g.fillStyle = i.parentElement.className === 'dark' ? '#101418' : '#ffffff';
	g.fillRect(0, 0, c.width, c.height);
	const ground = g.getImageData(0, 0, 1, 1).data;
	let seen = 0;
	if (i.naturalWidth > 0) {
		g.drawImage(i, 0, 0);
		const d = g.getImageData(0, 0, c.width, c.height).data;
		for (let p = 0; p < d.length; p += 4)
			if (Math.abs(d[p]-ground[0]) + Math.abs(d[p+1]-ground[1]) + Math.abs(d[p+2]-ground[2]) > 60) seen++;
	}
	return {src: i.src, width: i.naturalWidth, height: i.naturalHeight, seen: seen / (c.width * c.height)};
}))()`

// fortyLogosOnAPage is what the endpoint is for: a page of somebody else, on another origin, with
// logos on light and on dark. All are there, as large as they were asked for, and can be made out. Beside some whose
// ink is black, white, yellow or many-colored, and brands that nobody knows, they are a sample of the starter index.
func fortyLogosOnAPage(t *testing.T, browser context.Context, n *node) {
	const forty = 40
	domains := []string{
		"github.com", "apple.com", "ibm.com", "google.com", "snapchat.com", "unity.com",
		"nobody-knows-this.example.com", "xn--e1afmkfd.xn--p1ai", "xn--fsq.xn--fiqs8s",
	}
	index := strings.Split(strings.TrimSpace(ok(t, n.data, "brand", "list", "--json")), "\n")
	slices.Sort(index)
	for i, sample := 0, forty-len(domains); i < sample; i++ {
		var brand struct{ Domain string }
		decode(t, index[(2*i+1)*len(index)/(2*sample)], &brand) // each as far from the next
		domains = append(domains, brand.Domain)
	}
	formats := []string{"", "&format=png", "&format=svg", "&format=webp"}
	var page strings.Builder
	page.WriteString(`<!doctype html><meta charset="utf-8"><style>body{margin:0;font:0/0 a}div{display:flex;flex-wrap:wrap;gap:16px;padding:24px}.light{background:#fff}.dark{background:#101418}img{width:64px;height:64px;object-fit:contain}</style>`)
	for _, ground := range []string{"light", "dark"} {
		fmt.Fprintf(&page, `<div class="%s">`, ground)
		for i, domain := range domains {
			fmt.Fprintf(&page, `<img crossorigin="anonymous" alt="" src="%s/logo/%s?size=64&amp;background=%s%s">`, n.url, domain, ground, strings.ReplaceAll(formats[i%len(formats)], "&", "&amp;"))
		}
		page.WriteString(`</div>`)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page.String())
	}))
	defer other.Close()
	logos := see[[]shownLogo](t, browser, 1000, other.URL, readLogos)
	if len(logos) != 2*forty {
		t.Fatalf("the page has %d pictures", len(logos))
	}
	for _, l := range logos {
		if !strings.Contains(l.Src, "format=svg") && max(l.Width, l.Height) != 64 || l.Width == 0 {
			t.Errorf("%s is %d × %d", l.Src, l.Width, l.Height)
		}
		if l.Seen < 0.05 {
			t.Errorf("%s: %.1f%% of it can be made out on its ground", l.Src, 100*l.Seen)
		}
	}
}

// keysOfAnotherOrigin: scripts of other origins send keys in headers, which a browser asks for
// leave first, and read what became of the key. A key never breaks a picture.
func keysOfAnotherOrigin(t *testing.T, browser context.Context, n *node) {
	acc, secret := account(t, n.data, "growth")
	publishable := ""
	for _, k := range acc.Keys {
		if k.Kind == "publishable" {
			publishable = k.Key
		}
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html><title>another origin</title>")
	}))
	defer other.Close()
	ask := func(query string, header map[string]string) string {
		raw, err := json.Marshal(header)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`ask(%q, %s)`, n.url+"/logo/google.com?size=32"+query, raw)
	}
	cases := []struct {
		name, call string
		status     string // X-Api-Key-Status
	}{
		{"no key", ask("", nil), ""},
		{"publishable, Authorization", ask("", map[string]string{"Authorization": "Bearer " + publishable}), ""},
		{"secret, X-Api-Key", ask("", map[string]string{"X-Api-Key": secret}), ""},
		{"publishable, in the address", ask("&key="+publishable, nil), ""},
		{"not valid, Authorization", ask("", map[string]string{"Authorization": "Bearer lh_pk_nonsense"}), "invalid"},
		{"secret, in the address", ask("&key="+secret, nil), "secret-key-in-url"},
		{"publishable, with what tools add", ask("", map[string]string{"X-Api-Key": publishable, "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}), ""},
	}
	script := `(() => { const ask = (url, headers) => fetch(url, {headers: headers ?? {}, cache: 'no-store'}).then(async r => {
		const picture = await createImageBitmap(await r.blob());
		return {status: r.status, key: r.headers.get('X-Api-Key-Status') ?? '', id: r.headers.get('X-Request-Id') ?? '', width: picture.width};
	}).catch(e => ({failed: String(e)})); return Promise.all([`
	for _, c := range cases {
		script += c.call + ","
	}
	script += `]) })()`
	type answer struct {
		Status, Width   int
		Key, ID, Failed string
	}
	answers := see[[]answer](t, browser, 800, other.URL, script)
	if len(answers) != len(cases) {
		t.Fatalf("%d answers", len(answers))
	}
	for i, a := range answers {
		if a.Failed != "" || a.Status != http.StatusOK || a.Key != cases[i].status || a.ID == "" || a.Width == 0 {
			t.Errorf("%s: %+v", cases[i].name, a)
		}
	}
}

// aMissingLogo: a picture with status 404 is a picture to an <img>, and a script sees the status.
func aMissingLogo(t *testing.T, browser context.Context, n *node) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html><title>another origin</title>")
	}))
	defer page.Close()
	type seen struct {
		Event         string
		Width, Status int
	}
	got := see[seen](t, browser, 800, page.URL, fmt.Sprintf(`(async () => {
		const url = %q;
		const image = new Image();
		const event = await new Promise(done => { image.onload = image.onerror = e => done(e.type); image.src = url; });
		return {event: event, width: image.naturalWidth, status: (await fetch(url)).status};
	})()`, n.url+"/logo/nobody-knows-this.com?size=32&fallback=404"))
	if got != (seen{"load", 32, http.StatusNotFound}) {
		t.Errorf("%+v", got)
	}
}

// theGallery: what the policy of the page allows is what it needs, at any width, and nothing on it
// hangs over.
func theGallery(t *testing.T, browser context.Context, n *node, width int64) {
	type looks struct {
		Asked, Broken []string
		Overflow      int
	}
	page := see[looks](t, browser, width, n.url+"/docs/logos?domain=figma.com&size=512&background=dark&format=svg", `({
			asked: performance.getEntriesByType('resource').map(e => e.name),
			broken: [...document.images].filter(i => i.naturalWidth === 0).map(i => i.src),
			overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth})`)
	if len(page.Broken) != 0 || len(page.Asked) < 40 || len(page.Asked) > 60 || page.Overflow != 0 {
		t.Errorf("%d px wide: %d requests, not shown %v, %d px hang over", width, len(page.Asked), page.Broken, page.Overflow)
	}
}

// in runs a command line in a folder.
func in(t *testing.T, folder, data string, args ...string) (stdout []byte, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"--data", data}, args...)...)
	cmd.Env, cmd.Dir = environ(), folder
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.Bytes(), errs.String(), cmd.ProcessState.ExitCode()
}

// The command gives what the endpoint gives, byte by byte, whether a server draws it or nobody serves; and a file
// lies where the caller stands.
func TestLogoCommand_SameParameters_MatchesEndpoint(t *testing.T) {
	data, folder := t.TempDir(), t.TempDir()
	n := start(t, data)
	cases := []struct {
		path   string
		file   string
		args   []string
		told   string
		format string // as image.Decode knows it; "" for a vector
	}{
		{"/logo/google.com?size=64&format=png", "g.png", []string{"google.com", "--size", "64"}, "png, ", "png"},
		{"/logo/gitlab.com/logo?format=jpeg&background=dark", "g.jpg", []string{"gitlab.com", "--type", "logo", "--background", "dark"}, "jpeg, ", "jpeg"},
		{"/logo/www.github.com?format=webp&theme=light", "h.webp", []string{"www.github.com", "--theme", "light"}, "light ink (svg)", "webp"},
		{"/logo/docker.com?format=svg", "d.svg", []string{"docker.com"}, "a vector", ""},
		{"/logo/nobody-knows-this.com?size=32", "n.png", []string{"nobody-knows-this.com", "--size", "32"}, "fallback: monogram", "png"},
		{"/logo/nobody-knows-this.com?format=webp&fallback=transparent", "t.webp", []string{"nobody-knows-this.com", "--fallback", "transparent"}, "fallback: transparent", "webp"},
	}
	wants := make([][]byte, len(cases))
	for i, c := range cases {
		wants[i] = n.want(http.StatusOK, c.path, "").body
	}
	for _, served := range []bool{true, false} {
		if !served {
			n.stop()
			cases = cases[:2] // each opens the folder
		}
		for i, c := range cases {
			name := filepath.Join(folder, c.file)
			out, errs, code := in(t, folder, data, append([]string{"logo", "-o", c.file}, c.args...)...)
			got, err := os.ReadFile(name)
			if code != 0 || err != nil || len(out) != 0 || !strings.Contains(errs, c.told) || !strings.Contains(errs, fmt.Sprintf("%s: ", c.file)) {
				t.Fatalf("served %t, %v: ended with %d: %q %q %v", served, c.args, code, out, errs, err)
			}
			if !bytes.Equal(got, wants[i]) {
				t.Errorf("served %t, %v: %d bytes, the endpoint answered %d others", served, c.args, len(got), len(wants[i]))
			}
			if _, format, err := image.DecodeConfig(bytes.NewReader(got)); c.format != "" && (err != nil || format != c.format) {
				t.Errorf("served %t, %v: the file is %q (%v)", served, c.args, format, err)
			}
		}
		out, errs, code := in(t, folder, data, "logo", "google.com", "--size", "64")
		if code != 0 || !bytes.Equal(out, wants[0]) {
			t.Errorf("served %t: standard output gets %d bytes (ended with %d: %s)", served, len(out), code, errs)
		}
		if served { // a device that is no terminal takes a picture like a file
			device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(binary, "--data", data, "logo", "google.com")
			cmd.Env, cmd.Stdout = environ(), device
			if err := errors.Join(cmd.Run(), device.Close()); err != nil {
				t.Errorf("into %s: %v", os.DevNull, err)
			}
		}
		before, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			code int
			args []string
		}{
			{2, []string{"co.uk", "-o", "x.png"}}, {2, []string{"google.com", "-o", "x.gif"}}, {2, []string{"google.com", "--size", "0", "-o", "x.png"}},
			{2, []string{"google.com", "--theme", "blue", "-o", "x.png"}}, {2, []string{"google.com", "--type", "banner", "-o", "x.png"}},
			{2, []string{"google.com", "--format", "gif"}}, {2, []string{"-o", "x.png"}}, {2, []string{"google.com", "--fallback", "none", "-o", "x.png"}},
			{1, []string{"nobody-knows-this.com", "--fallback", "404", "-o", "x.png"}}, {1, []string{"google.com", "-o", "no-such-folder/x.png"}},
			{1, []string{"google.com", "--format", "png", "-o", "."}},
		} {
			if !served && c.code == 2 {
				continue // the same as above: refused before a folder is opened
			}
			out, errs, code := in(t, folder, data, append([]string{"logo"}, c.args...)...)
			if code != c.code || len(out) != 0 || !strings.HasPrefix(errs, "letterhead: ") || strings.Count(errs, "letterhead: ") != 1 {
				t.Errorf("served %t, logo %v: ended with %d: %d bytes and %q", served, c.args, code, len(out), errs)
			}
		}
		after, err := os.ReadDir(folder)
		if err != nil || len(after) != len(before) {
			t.Errorf("served %t: refused commands left %v (%v)", served, after, err)
		}
	}
}
