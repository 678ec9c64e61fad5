package browser

import (
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

	"letterhead/internal/safehttp"
)

// Limits of one page.
const (
	// MaxTime bounds the drawing of one page, the start of the browser included (about 2 s when cold).
	MaxTime = 15 * time.Second
	// maxRequests and maxBytes bound what is fetched for it.
	maxRequests = 48
	maxBytes    = 16 << 20
	// maxPending bounds the requests that are held at a time; more fail at once.
	maxPending = 64
	// maxAsked bounds the requests that are answered at all, be it with a refusal: a page that asks for more
	// never comes to rest.
	maxAsked = 500
	// quiet is how long nothing may happen before a page counts as drawn.
	quiet = 400 * time.Millisecond
	// stuck is the same for a page whose load event does not come.
	stuck = 2 * time.Second
	// look is how often that is looked at.
	look = 50 * time.Millisecond
	// reading is kept of the time for taking the document out.
	reading = 500 * time.Millisecond
	// heapMegabytes bounds the memory of scripts.
	heapMegabytes = 256
	// maxBrowsers bounds the browsers at a time: each takes some hundred megabytes.
	maxBrowsers = 8
)

// ErrNoBrowser: no browser is installed where it was looked for.
var ErrNoBrowser = errors.New("no browser is installed")

// ErrRoot: this process is root, for which Chromium has no sandbox, and the browser cannot be started as another
// user.
var ErrRoot = errors.New("no browser is started by root, for which Chromium has no sandbox, and the user nobody cannot be taken on; run as another user")

// names are the programs that are looked for, in this order.
var names = []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "headless-shell", "chrome"}

// Config configures a Browser.
type Config struct {
	// Path is the program. Default: the first of Chromium's usual names that is installed.
	Path string
	// Concurrent bounds the pages that are drawn at a time. Default 1.
	Concurrent int
	Logger     *slog.Logger // nil: none
}

// Browser draws pages. It is safe for concurrent use.
type Browser struct {
	cfg    Config
	client *safehttp.Client
	places chan struct{}
	// confine confines a browser before it starts.
	confine func(*exec.Cmd)
}

// New returns a Browser whose pages fetch with a client. Errors: ErrNoBrowser, ErrRoot, and what is wrong
// with the configuration.
func New(cfg Config, client *safehttp.Client) (*Browser, error) {
	if cfg.Concurrent == 0 {
		cfg.Concurrent = 1
	}
	if cfg.Concurrent < 0 || cfg.Concurrent > maxBrowsers {
		return nil, fmt.Errorf("browser: Concurrent is %d, must be 1 to %d", cfg.Concurrent, maxBrowsers)
	}
	if client == nil {
		return nil, errors.New("browser: a client is needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if cfg.Path, err = find(cfg.Path); err != nil {
		return nil, err
	}
	confine, err := confinement()
	if err != nil {
		return nil, fmt.Errorf("browser: %w", err)
	}
	return &Browser{cfg: cfg, client: client, places: make(chan struct{}, cfg.Concurrent), confine: confine}, nil
}

// find returns the path of a program, or of the first usual one.
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

// Render draws a page and returns its document as it stands when nothing happens any more, or when the time
// is nearly over, and the address that it is at by then. Errors: what the browser said, ctx.Err().
func (b *Browser) Render(ctx context.Context, address *url.URL) ([]byte, *url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, MaxTime)
	defer cancel()
	select {
	case b.places <- struct{}{}:
		defer func() { <-b.places }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	ctx, stop := chromedp.NewExecAllocator(ctx, b.options()...)
	defer stop() // waits for the end of the process and of its children
	ctx, closeTab := chromedp.NewContext(ctx, chromedp.WithErrorf(b.debugf), chromedp.WithLogf(b.debugf))
	defer closeTab()
	if err := chromedp.Do(ctx); err != nil {
		return nil, nil, fmt.Errorf("start the browser: %w", err)
	}
	held := newHolder(b.client.NewSessionWithin(maxRequests, maxBytes), b.cfg.Logger)
	html, at, err := b.draw(ctx, held, address)
	if err != nil {
		return nil, nil, fmt.Errorf("draw the page: %w", err)
	}
	return html, at, nil
}

// debugf takes what the browser's driver says.
func (b *Browser) debugf(format string, args ...any) {
	b.cfg.Logger.Debug("browser", "says", fmt.Sprintf(format, args...))
}

// options are the switches of the program. Those about the network let nothing out that is not held and
// answered here; those about features spare time.
func (b *Browser) options() []chromedp.ExecAllocatorOption {
	out := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(b.cfg.Path), chromedp.Headless, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.DisableGPU,
		chromedp.NoInheritEnv, chromedp.Env("PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"),
		chromedp.ModifyCmdFunc(b.confine),
		chromedp.WindowSize(1280, 900),
	}
	for name, value := range map[string]any{
		// Said in so many words, for the driver takes the sandbox away from root unless it is.
		"no-sandbox": false,
		// Nobody listens there; a request that is not held goes nowhere, loopback included.
		"proxy-server":                           "http://127.0.0.1:9",
		"proxy-bypass-list":                      "<-loopback>",
		"host-resolver-rules":                    "MAP * ~NOTFOUND",
		"force-webrtc-ip-handling-policy":        "disable_non_proxied_udp",
		"disable-quic":                           true,
		"disable-background-networking":          true,
		"disable-component-update":               true,
		"disable-domain-reliability":             true,
		"disable-client-side-phishing-detection": true,
		"disable-sync":                           true,
		"disable-default-apps":                   true,
		"disable-extensions":                     true,
		"disable-breakpad":                       true,
		"disable-dev-shm-usage":                  true,
		"block-new-web-contents":                 true,
		"disable-hang-monitor":                   true,
		"disable-prompt-on-repost":               true,
		"disable-features":                       "HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,HttpsFirstModeV2,Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,InterestFeedContentSuggestions,WebTransport,Prerender2,SpeculationRulesPrefetchFuture,AutofillServerCommunication,CertificateTransparencyComponentUpdater",
		"no-pings":                               true,
		"mute-audio":                             true,
		"metrics-recording-only":                 true,
		"password-store":                         "basic",
		"renderer-process-limit":                 "1",
		"js-flags":                               fmt.Sprintf("--max-old-space-size=%d", heapMegabytes),
	} {
		out = append(out, chromedp.Flag(name, value))
	}
	return out
}

// disarm takes from pages what would open a connection that is not a request, or outlive the page. It is
// the first line only: what it misses finds no network.
const disarm = `(() => {
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebSocket", "WebTransport", "EventSource", "SharedWorker"]) {
    try { Object.defineProperty(window, name, {value: undefined, writable: false, configurable: false}); } catch (e) {}
  }
  try { Object.defineProperty(Navigator.prototype, "serviceWorker", {get: () => undefined, configurable: false}); } catch (e) {}
  try { Navigator.prototype.sendBeacon = () => true; } catch (e) {}
})();`

// draw opens the page and waits until it is drawn.
func (b *Browser) draw(ctx context.Context, held *holder, address *url.URL) ([]byte, *url.URL, error) {
	target := chromedp.FromContext(ctx).Target
	if err := chromedp.Listen(ctx, func(ev any) { held.event(ctx, target, ev) }); err != nil {
		return nil, nil, err
	}
	everything := []*fetch.RequestPattern{{URLPattern: "*", RequestStage: fetch.RequestStageRequest}}
	if _, err := cdp.Call(ctx, target, fetch.Enable, fetch.EnableParams{Patterns: everything}); err != nil {
		return nil, nil, err
	}
	if _, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: disarm}); err != nil {
		return nil, nil, err
	}
	if _, err := chromedp.CallBrowser(ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorDeny}); err != nil {
		return nil, nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, time.Until(deadlineOf(ctx))-reading)
	defer cancel()
	if _, err := cdp.Call(waiting, target, page.Navigate, page.NavigateParams{URL: address.String()}); err != nil {
		return nil, nil, err
	}
	held.rest(waiting)
	return document(ctx)
}

func deadlineOf(ctx context.Context) time.Time {
	deadline, _ := ctx.Deadline() // Render sets one
	return deadline
}

// document takes the document out of the page.
func document(ctx context.Context) ([]byte, *url.URL, error) {
	html, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(`"<!doctype html>" + document.documentElement.outerHTML.slice(0, %d)`, safehttp.MaxHTMLBytes)))
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
