package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // decoders of the formats that the command writes
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

	"letterhead/internal/testmust"
)

// browserTimeout is the time limit of one test in Chromium. A cold start takes seconds on a busy machine.
const browserTimeout = 60 * time.Second

// openChromium starts Chromium with a new profile.
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
		t.Skip("Chromium is not installed")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(browserTimeout))
	allocator, closeBrowser := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(closeBrowser)
	browser, closeWindow := chromedp.NewContext(allocator)
	t.Cleanup(closeWindow)
	// A deadline of the first context would end the browser.
	if _, err := chromedp.Run(browser, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return browser
}

// openPage opens a page in a window of the given width in pixels and waits for its images. It returns the result of a
// script and stores a screenshot of the page as an artifact (go test -artifacts).
func openPage[T any](t *testing.T, browser context.Context, width int64, url, script string) T {
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
		const decodeImages = `Promise.all([...document.images].map(i => i.decode().catch(() => {}))).then(() => true)`
		if _, err = chromedp.Evaluate[bool](decodeImages, chromedp.EvalAwaitPromise)(ctx, target); err != nil {
			return result, err
		}
		if result, err = chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise)(ctx, target); err != nil {
			return result, err
		}
		screenshot, err := chromedp.FullScreenshot(100)(ctx, target)
		if err != nil {
			return result, err
		}
		return result, os.WriteFile(filepath.Join(t.ArtifactDir(), "page.png"), screenshot, 0o600)
	})
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return result
}

func TestLogos_InBrowser_AreShown(t *testing.T) {
	browser := openChromium(t)
	n := start(t, folder(t))
	t.Run("forty logos", func(t *testing.T) { checkFortyLogos(t, browser, n) })
	t.Run("keys from another origin", func(t *testing.T) { checkCrossOriginKeys(t, browser, n) })
	t.Run("missing logo", func(t *testing.T) { checkMissingLogo(t, browser, n) })
	t.Run("gallery", func(t *testing.T) { checkGallery(t, browser, n, 1280) })
	t.Run("gallery on a phone", func(t *testing.T) { checkGallery(t, browser, n, 390) })
	t.Run("first page", func(t *testing.T) { checkFirstPage(t, browser, n) })
}

// pageLogo is an image of a page.
type pageLogo struct {
	Src           string
	Width, Height int
	Visible       float64 // share of its pixels that differ clearly from the background
}

// readLogos is a script that returns the size of every image of a page and how much of it is visible on its background.
const readLogos = `(() => [...document.images].map(i => {
	const c = document.createElement('canvas');
	c.width = i.naturalWidth || 1; c.height = i.naturalHeight || 1;
	const g = c.getContext('2d');
	g.fillStyle = i.parentElement.className === 'dark' ? '#101418' : '#ffffff';
	g.fillRect(0, 0, c.width, c.height);
	const background = g.getImageData(0, 0, 1, 1).data;
	let visible = 0;
	if (i.naturalWidth > 0) {
		g.drawImage(i, 0, 0);
		const d = g.getImageData(0, 0, c.width, c.height).data;
		for (let p = 0; p < d.length; p += 4)
			if (Math.abs(d[p]-background[0]) + Math.abs(d[p+1]-background[1]) + Math.abs(d[p+2]-background[2]) > 60) visible++;
	}
	return {src: i.src, width: i.naturalWidth, height: i.naturalHeight, visible: visible / (c.width * c.height)};
}))()`

// checkFortyLogos shows logos on light and dark backgrounds in a page of another origin, the main use of the endpoint.
// Every image must load, have the requested size and be visible. The brands include some with black, white, yellow or
// many-colored ink, some unknown ones, and a sample of the starter index.
func checkFortyLogos(t *testing.T, browser context.Context, n *node) {
	const forty = 40
	domains := []string{
		"github.com", "apple.com", "ibm.com", "google.com", "snapchat.com", "unity.com",
		"nobody-knows-this.example.com", "xn--e1afmkfd.xn--p1ai", "xn--fsq.xn--fiqs8s",
	}
	index := strings.Split(strings.TrimSpace(ok(t, n.data, "brand", "list", "--json")), "\n")
	slices.Sort(index)
	for i, sample := 0, forty-len(domains); i < sample; i++ {
		var brand struct{ Domain string }
		decode(t, index[(2*i+1)*len(index)/(2*sample)], &brand) // evenly spaced
		domains = append(domains, brand.Domain)
	}
	formats := []string{"", "&format=png", "&format=svg", "&format=webp"}
	var page strings.Builder
	page.WriteString(`<!doctype html><meta charset="utf-8"><style>body{margin:0;font:0/0 a}div{display:flex;flex-wrap:wrap;gap:16px;padding:24px}.light{background:#fff}.dark{background:#101418}img{width:64px;height:64px;object-fit:contain}</style>`)
	for _, background := range []string{"light", "dark"} {
		fmt.Fprintf(&page, `<div class="%s">`, background)
		for i, domain := range domains {
			fmt.Fprintf(&page, `<img crossorigin="anonymous" alt="" src="%s/logo/%s?size=64&amp;background=%s%s">`, n.url, domain, background, strings.ReplaceAll(formats[i%len(formats)], "&", "&amp;"))
		}
		page.WriteString(`</div>`)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page.String())
	}))
	defer other.Close()
	logos := openPage[[]pageLogo](t, browser, 1000, other.URL, readLogos)
	if len(logos) != 2*forty {
		t.Fatalf("the page has %d images, want 40 on each background", len(logos))
	}
	for _, l := range logos {
		if !strings.Contains(l.Src, "format=svg") && max(l.Width, l.Height) != 64 || l.Width == 0 {
			t.Errorf("%s is %d × %d, want 64 pixels", l.Src, l.Width, l.Height)
		}
		if l.Visible < 0.05 {
			t.Errorf("%s: %.1f%% of the image is visible on its background, want at least 5%%", l.Src, 100*l.Visible)
		}
	}
}

// checkCrossOriginKeys checks that scripts of other origins can send keys in headers, for which browsers send preflight
// requests, and read the status of the key. An invalid key must not break an image.
func checkCrossOriginKeys(t *testing.T, browser context.Context, n *node) {
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
		testmust.Succeed(t, err)
		return fmt.Sprintf(`ask(%q, %s)`, n.url+"/logo/google.com?size=32"+query, raw)
	}
	cases := []struct {
		name, call string
		status     string // X-Api-Key-Status
	}{
		{"no key", ask("", nil), ""},
		{"publishable, Authorization", ask("", map[string]string{"Authorization": "Bearer " + publishable}), ""},
		{"secret, X-Api-Key", ask("", map[string]string{"X-Api-Key": secret}), ""},
		{"publishable, in the URL", ask("&key="+publishable, nil), ""},
		{"invalid, Authorization", ask("", map[string]string{"Authorization": "Bearer lh_pk_nonsense"}), "invalid"},
		{"secret, in the URL", ask("&key="+secret, nil), "secret-key-in-url"},
		{"publishable, with tracing headers", ask("", map[string]string{"X-Api-Key": publishable, "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}), ""},
	}
	script := `(() => { const ask = (url, headers) => fetch(url, {headers: headers ?? {}, cache: 'no-store'}).then(async r => {
		const image = await createImageBitmap(await r.blob());
		return {status: r.status, key: r.headers.get('X-Api-Key-Status') ?? '', id: r.headers.get('X-Request-Id') ?? '', width: image.width};
	}).catch(e => ({failed: String(e)})); return Promise.all([`
	for _, c := range cases {
		script += c.call + ","
	}
	script += `]) })()`
	type answer struct {
		Status, Width   int
		Key, ID, Failed string
	}
	answers := openPage[[]answer](t, browser, 800, other.URL, script)
	if len(answers) != len(cases) {
		t.Fatalf("the script returned %d answers, want one for each case", len(answers))
	}
	for i, a := range answers {
		if a.Failed != "" || a.Status != http.StatusOK || a.Key != cases[i].status || a.ID == "" || a.Width == 0 {
			t.Errorf("%s: got %+v, want status 200 with key status %s", cases[i].name, a, cases[i].status)
		}
	}
}

// checkMissingLogo checks that an <img> shows an image with status 404, and that a script can read the status.
func checkMissingLogo(t *testing.T, browser context.Context, n *node) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html><title>another origin</title>")
	}))
	defer page.Close()
	type seen struct {
		Event         string
		Width, Status int
	}
	got := openPage[seen](t, browser, 800, page.URL, fmt.Sprintf(`(async () => {
		const url = %q;
		const image = new Image();
		const event = await new Promise(done => { image.onload = image.onerror = e => done(e.type); image.src = url; });
		return {event: event, width: image.naturalWidth, status: (await fetch(url)).status};
	})()`, n.url+"/logo/nobody-knows-this.com?size=32&fallback=404"))
	if got != (seen{"load", 32, http.StatusNotFound}) {
		t.Errorf("got %+v, want an image of 32 pixels with status 404", got)
	}
}

// checkGallery checks that the gallery's content security policy permits all its images, and that the page does not
// overflow horizontally.
func checkGallery(t *testing.T, browser context.Context, n *node, width int64) {
	type layout struct {
		Requested, Broken []string
		Overflow          int
	}
	page := openPage[layout](t, browser, width, n.url+"/docs/logos?domain=figma.com&size=512&background=dark&format=svg", `({
			requested: performance.getEntriesByType('resource').map(e => e.name),
			broken: [...document.images].filter(i => i.naturalWidth === 0).map(i => i.src),
			overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth})`)
	if len(page.Broken) != 0 || len(page.Requested) < 20 || len(page.Requested) > 40 || page.Overflow != 0 {
		t.Errorf("%d px wide: the page made %d requests, could not show %v and overflows by %d px", width, len(page.Requested), page.Broken, page.Overflow)
	}
}

// checkFirstPage types into the search of the first page. The logo of figma.com is taller than wide.
func checkFirstPage(t *testing.T, browser context.Context, n *node) {
	type page struct {
		Found     []string
		Distorted []string
	}
	got := openPage[page](t, browser, 1280, n.url+"/", `(async () => {
		const q = document.querySelector('#q'), found = document.querySelector('#found');
		const results = new Promise(done => new MutationObserver(() => found.querySelector('a') && done()).observe(found, {childList: true, subtree: true}));
		q.value = 'figm';
		q.dispatchEvent(new Event('input', {bubbles: true}));
		await results;
		for (const i of document.images) i.loading = 'eager';
		await Promise.all([...document.images].map(i => i.decode()));
		const asDrawn = i => getComputedStyle(i).objectFit === 'contain' ||
			i.clientWidth <= i.naturalWidth && Math.abs(i.clientWidth / i.clientHeight - i.naturalWidth / i.naturalHeight) < 0.05;
		return {found: [...found.querySelectorAll('a')].map(a => a.textContent.trim()), distorted: [...document.images].filter(i => !asDrawn(i)).map(i => i.src)};
	})()`)
	if len(got.Found) == 0 || !strings.Contains(got.Found[0], "figma.com") {
		t.Errorf("the search found %q, want figma.com first", got.Found)
	}
	if len(got.Distorted) != 0 {
		t.Errorf("the logos %v are not shown as they were drawn", got.Distorted)
	}
}

// letterheadIn runs a command with a folder as its working directory.
func letterheadIn(t *testing.T, folder, data string, args ...string) (stdout []byte, stderr string, code int) {
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

// The command and the endpoint return the same bytes, whether or not a server is running. Relative file names refer to
// the working directory of the command.
func TestLogoCommand_SameParameters_MatchesEndpoint(t *testing.T) {
	data, folder := folder(t), t.TempDir()
	n := start(t, data)
	cases := []struct {
		path    string
		file    string
		args    []string
		message string
		format  string // the name in package image; "" for a vector
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
			cases = cases[:2] // each command opens the folder, which is slow
		}
		for i, c := range cases {
			name := filepath.Join(folder, c.file)
			out, errs, code := letterheadIn(t, folder, data, append([]string{"logo", "-o", c.file}, c.args...)...)
			got, err := os.ReadFile(name)
			if code != 0 || err != nil || len(out) != 0 || !strings.Contains(errs, c.message) || !strings.Contains(errs, fmt.Sprintf("%s: ", c.file)) {
				t.Fatalf("served %t, logo %v: ended with %d: %q %q %v", served, c.args, code, out, errs, err)
			}
			if !bytes.Equal(got, wants[i]) {
				t.Errorf("served %t, logo %v: the %d bytes differ from the %d bytes of the endpoint", served, c.args, len(got), len(wants[i]))
			}
			if _, format, err := image.DecodeConfig(bytes.NewReader(got)); c.format != "" && (err != nil || format != c.format) {
				t.Errorf("served %t, logo %v: the format of the file is %q (%v)", served, c.args, format, err)
			}
		}
		out, errs, code := letterheadIn(t, folder, data, "logo", "google.com", "--size", "64")
		if code != 0 || !bytes.Equal(out, wants[0]) {
			t.Errorf("served %t: standard output got %d bytes, which differ from the endpoint (ended with %d: %s)", served, len(out), code, errs)
		}
		if served { // a device that is not a terminal accepts an image
			device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			testmust.Succeed(t, err)
			cmd := exec.Command(binary, "--data", data, "logo", "google.com")
			cmd.Env, cmd.Stdout = environ(), device
			if err := errors.Join(cmd.Run(), device.Close()); err != nil {
				t.Errorf("write to %s: %v", os.DevNull, err)
			}
		}
		before, err := os.ReadDir(folder)
		testmust.Succeed(t, err)
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
				continue // rejected before the folder is opened, as above
			}
			out, errs, code := letterheadIn(t, folder, data, append([]string{"logo"}, c.args...)...)
			if code != c.code || len(out) != 0 || !strings.HasPrefix(errs, "letterhead: ") || strings.Count(errs, "letterhead: ") != 1 {
				t.Errorf("served %t, logo %v: ended with %d, %d bytes and %q", served, c.args, code, len(out), errs)
			}
		}
		after, err := os.ReadDir(folder)
		if err != nil || len(after) != len(before) {
			t.Errorf("served %t: after the rejected commands the folder contains %v (%v)", served, after, err)
		}
	}
}
