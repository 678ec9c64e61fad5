package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"letterhead/internal/delay"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/table"
)

// Limits of one page.
const (
	maxTime = 15 * time.Second // limits rendering one page, including the start of the browser (about 2 s if cold)
	// maxRequests and maxBytes limit the fetches for one page.
	maxRequests = 48
	maxBytes    = 16 << 20
	// maxPending limits the requests that are held concurrently; further ones fail immediately.
	maxPending = 64
	// maxAsked limits the requests that are answered or rejected: a page with more never becomes idle.
	maxAsked      = 500
	quiet         = 400 * time.Millisecond // how long a page must be idle to count as rendered
	stuck         = 2 * time.Second        // the same for a page without a load event
	look          = 50 * time.Millisecond  // the interval of that check
	reading       = 500 * time.Millisecond // the time reserved for extracting the document
	heapMegabytes = 256                    // limits the memory of scripts
)

// ErrNoBrowser: no browser is installed at the expected path.
var ErrNoBrowser = errors.New("no browser is installed")

// ErrRoot: this process runs as root, for which Chromium has no sandbox, and cannot start the browser as another user.
var ErrRoot = errors.New("the browser is not started as root, for which Chromium has no sandbox, and switching to the user nobody failed; run as another user")

// names are the programs to search for, in this order.
var names = []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome",
	"headless-shell", "chrome"}

// Config configures a Browser.
type Config struct {
	// Path is the path of the program. Default: the first installed one of Chromium's usual names.
	Path   string
	Logger *slog.Logger // nil: none
}

// Browser renders pages, one at a time, because a browser takes some hundred megabytes. It is safe for concurrent use.
type Browser struct {
	cfg     Config
	client  *safehttp.Client
	place   chan struct{}
	confine func(*exec.Cmd) // confines a browser before it starts
}

// New returns a Browser whose pages fetch with a client. Errors: ErrNoBrowser, ErrRoot, ErrTempDir.
func New(cfg Config, client *safehttp.Client) (*Browser, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	var err error
	if cfg.Path, err = find(cfg.Path); err != nil {
		return nil, err
	}
	confine, err := confinement()
	if err != nil {
		return nil, fmt.Errorf("browser: %w", err)
	}
	return &Browser{cfg: cfg, client: client, place: make(chan struct{}, 1), confine: confine}, nil
}

// find returns the path of a program, or of the first usual one that is installed.
func find(path string) (string, error) {
	candidates := names
	if path != "" {
		candidates = []string{path}
	}
	for _, name := range candidates {
		if found, err := exec.LookPath(name); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%w: looked for %s", ErrNoBrowser, strings.Join(candidates, ", "))
}

// Render renders a page and returns its document once the page is idle, or when the time is nearly over, and its URL at
// that point. Errors: as the browser, ctx.Err().
func (b *Browser) Render(ctx context.Context, address *url.URL) ([]byte, *url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if err := delay.Send(ctx, b.place, struct{}{}); err != nil {
		return nil, nil, err
	}
	defer func() { <-b.place }()
	ctx, stop := chromedp.NewExecAllocator(ctx, b.options()...)
	defer stop() // waits for the process and its children
	ctx, closeTab := chromedp.NewContext(ctx, chromedp.WithErrorf(b.debugf), chromedp.WithLogf(b.debugf))
	defer closeTab()
	if err := chromedp.Do(ctx); err != nil {
		return nil, nil, fmt.Errorf("start the browser: %w", err)
	}
	session := b.client.NewSessionWithin(maxRequests, maxBytes)
	held := &holder{session: session, logger: b.cfg.Logger, changed: time.Now(), moved: map[string]*safehttp.Response{}}
	html, at, err := b.draw(ctx, held, address)
	if err != nil {
		return nil, nil, fmt.Errorf("render the page: %w", err)
	}
	return html, at, nil
}

// debugf receives the messages of the browser's driver.
func (b *Browser) debugf(format string, args ...any) {
	b.cfg.Logger.Debug("browser", "says", fmt.Sprintf(format, args...))
}

// switches are switches of the program: network switches block everything that is not intercepted here, and feature
// switches save time.
var switches = table.Of("browser").Map("switches")

// options returns the options of the program.
func (b *Browser) options() []chromedp.ExecAllocatorOption {
	out := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(b.cfg.Path), chromedp.Headless, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.DisableGPU,
		chromedp.NoInheritEnv, chromedp.Env("PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"),
		chromedp.ModifyCmdFunc(b.confine),
		chromedp.WindowSize(1280, 900),
		chromedp.Flag("js-flags", fmt.Sprintf("--max-old-space-size=%d", heapMegabytes)),
	}
	for name, text := range switches {
		value := any(text)
		if text == "true" || text == "false" {
			value = text == "true"
		}
		out = append(out, chromedp.Flag(name, value))
	}
	return out
}

// disarm removes from pages the features that open connections other than requests, or that outlive the page. It is
// only the first line of defense: anything that it misses has no network.
const disarm = `(() => {
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebSocket", "WebTransport", "EventSource", "SharedWorker"]) {
    try { Object.defineProperty(window, name, {value: undefined, writable: false, configurable: false}); } catch (e) {}
  }
  try { Object.defineProperty(Navigator.prototype, "serviceWorker", {get: () => undefined, configurable: false}); } catch (e) {}
  try { Navigator.prototype.sendBeacon = () => true; } catch (e) {}
})();`

// draw opens the page and waits until it is rendered.
func (b *Browser) draw(ctx context.Context, held *holder, address *url.URL) ([]byte, *url.URL, error) {
	target := chromedp.FromContext(ctx).Target
	if err := chromedp.Listen(ctx, func(ev any) { held.event(ctx, target, ev) }); err != nil {
		return nil, nil, err
	}
	everything := []*fetch.RequestPattern{{URLPattern: "*", RequestStage: fetch.RequestStageRequest}}
	if _, err := cdp.Call(ctx, target, fetch.Enable, fetch.EnableParams{Patterns: everything}); err != nil {
		return nil, nil, err
	}
	if _, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: disarm}); err != nil {
		return nil, nil, err
	}
	if _, err := chromedp.CallBrowser(ctx, browser.SetDownloadBehavior,
		browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorDeny}); err != nil {
		return nil, nil, err
	}
	deadline, _ := ctx.Deadline() // Render sets one
	waiting, cancel := context.WithDeadline(ctx, deadline.Add(-reading))
	defer cancel()
	if _, err := cdp.Call(waiting, target, page.Navigate, page.NavigateParams{URL: address.String()}); err != nil {
		return nil, nil, err
	}
	held.rest(waiting)
	return document(ctx)
}

// document extracts the document from the page.
func document(ctx context.Context) ([]byte, *url.URL, error) {
	html, err := chromedp.Run(ctx, chromedp.Evaluate[string](
		fmt.Sprintf(`"<!doctype html>" + document.documentElement.outerHTML.slice(0, %d)`, safehttp.MaxHTMLBytes)))
	if err != nil {
		return nil, nil, err
	}
	location, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		return nil, nil, err
	}
	at, err := safehttp.CheckURL(location)
	if err != nil {
		return nil, nil, err
	}
	return []byte(html), at, nil
}
