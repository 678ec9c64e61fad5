package browser_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/internal/safehttp"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl/browser"
)

// waitLimit limits one page; a cold start takes some seconds on a busy machine.
const waitLimit = 14 * time.Second

// net80 is a test network of plain sites, below the guard of safehttp.
type net80 struct {
	listener net.Listener
	mu       sync.Mutex
	sites    map[string]http.HandlerFunc
	asked    []string
}

func newNet(t *testing.T) *net80 {
	t.Helper()
	l := testmust.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	n := &net80{listener: l, sites: map[string]http.HandlerFunc{}}
	server := &http.Server{Handler: n, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return n
}

func (n *net80) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	n.asked = append(n.asked, r.Host+r.URL.Path)
	site := n.sites[r.Host]
	n.mu.Unlock()
	if site == nil {
		http.NotFound(w, r)
		return
	}
	site(w, r)
}

func (n *net80) requests() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.asked...)
}

func (n *net80) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sites[host] == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr("45.90.0.1")}, nil
}

func (n *net80) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", n.listener.Addr().String())
}

// newBrowser skips a test if no browser is installed.
func newBrowser(t *testing.T, n *net80) *browser.Browser {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	client := testmust.Get(safehttp.New(safehttp.Config{Resolver: n, Dial: n.dial, OwnAddrs: func() ([]netip.Addr, error) { return nil, nil }}))(t)
	t.Cleanup(client.Close)
	b, err := browser.New(browser.Config{}, client)
	if errors.Is(err, browser.ErrNoBrowser) {
		t.Skip("no browser is installed:", err)
	}
	testmust.Succeed(t, err)
	return b
}

func render(t *testing.T, b *browser.Browser, address string, allowed time.Duration) (string, string, error) {
	t.Helper()
	u := testmust.Get(url.Parse(address))(t)
	ctx, cancel := context.WithTimeout(t.Context(), allowed)
	defer cancel()
	html, at, err := b.Render(ctx, u)
	if err != nil {
		return "", "", err
	}
	return string(html), at.String(), nil
}

func TestRender_App_ReturnsRenderedPage(t *testing.T) {
	n := newNet(t)
	n.sites["acme.com"] = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://www.acme.com/en/", http.StatusFound)
	}
	n.sites["www.acme.com"] = func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/en/":
			io.WriteString(w, `<!doctype html><title>loading</title><link rel=stylesheet href=/app.css><div id=root></div><script src="app.js"></script>`)
		case "/en/app.js":
			w.Header().Set("Content-Type", "text/javascript")
			io.WriteString(w, `fetch("/api/brand.json").then(r => r.json()).then(b => {
				document.title = b.name;
				document.getElementById("root").innerHTML = '<header><a href="/"><img src="/logo.svg" alt="' + b.name + '" onerror="this.remove()"></a></header><h1>Careful instruments</h1>';
				fetch("http://api.acme.net/more").then(r => r.text()).then(t => { document.body.append(t) });
			})`)
		case "/api/brand.json":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"name": "Acme"}`)
		default:
			http.NotFound(w, r)
		}
	}
	n.sites["api.acme.net"] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		io.WriteString(w, "founded in 1999")
	}
	html, at, err := render(t, newBrowser(t, n), "http://acme.com/", waitLimit)
	testmust.Succeed(t, err)
	if at != "http://www.acme.com/en/" {
		t.Errorf("final URL %s, want http://www.acme.com/en/", at)
	}
	for _, want := range []string{"<title>Acme</title>", "<h1>Careful instruments</h1>", `src="/logo.svg"`, "founded in 1999"} {
		if !strings.Contains(html, want) {
			t.Errorf("the document has no %s:\n%s", want, html)
		}
	}
	for _, r := range n.requests() {
		if strings.HasSuffix(r, ".svg") || strings.HasSuffix(r, ".css") {
			t.Errorf("%s was fetched by the browser, not by the crawl", r)
		}
	}
}

// Rule 11.
func TestRender_Requests_OnlyThroughGuard(t *testing.T) {
	var reached atomic.Int32
	private := testmust.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer private.Close()
	go func() {
		for {
			conn, err := private.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			conn.Close()
		}
	}()
	there := private.Addr().String()
	n := newNet(t)
	n.sites["acme.com"] = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/worker.js" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprintf(w, `try { new WebSocket("ws://%[1]s/w") } catch (e) {}; fetch("http://%[1]s/w").catch(() => {}); importScripts("http://%[1]s/i");`, there)
			return
		}
		fmt.Fprintf(w, `<!doctype html><title>Acme</title><link rel=prefetch href="http://%[1]s/p"><link rel=preconnect href="http://%[1]s"><link rel=dns-prefetch href="//%[1]s">
			<script type=speculationrules>{"prefetch":[{"source":"list","urls":["http://%[1]s/s"]}]}</script>
			<img src="http://%[1]s/img"><iframe src="http://%[1]s/f"></iframe><object data="http://%[1]s/o"></object><video src="http://%[1]s/v" autoplay></video><a href="http://%[1]s/d" download id=d ping="http://%[1]s/ping">x</a>
			<script>
			const out = [];
			out.push("rtc:" + typeof RTCPeerConnection, "ws:" + typeof WebSocket, "sw:" + typeof navigator.serviceWorker);
			for (const u of ["http://%[1]s/a", "http://localhost/b", "http://10.0.0.1/c", "http://169.254.169.254/latest", "file:///etc/passwd", "ftp://%[1]s/"]) {
				fetch(u, {mode: "no-cors"}).then(() => { document.body.append(" leaked:" + u) }).catch(() => {});
			}
			fetch("/post", {method: "POST", body: "x"}).then(() => { document.body.append(" posted") }).catch(() => {});
			try { new Worker("/worker.js") } catch (e) {}
			try { const f = document.createElement("iframe"); document.body.append(f); new f.contentWindow.WebSocket("ws://%[1]s/x") } catch (e) {}
			try { const f = document.createElement("iframe"); document.body.append(f); const p = new f.contentWindow.RTCPeerConnection({iceServers:[{urls:"turn:%[1]s?transport=tcp",username:"u",credential:"c"}]}); p.createDataChannel("x"); p.createOffer().then(o => p.setLocalDescription(o)) } catch (e) {}
			try { window.open("http://%[1]s/win") } catch (e) {}
			try { document.getElementById("d").click() } catch (e) {}
			try { navigator.sendBeacon("http://%[1]s/beacon", "x") } catch (e) {}
			document.body.append(out.join(" "));
			alert("stop");
			</script>`, there)
	}
	html, _, err := render(t, newBrowser(t, n), "http://acme.com/", waitLimit)
	testmust.Succeed(t, err)
	if got := reached.Load(); got != 0 {
		t.Errorf("%d connections reached a private address", got)
	}
	for _, bad := range []string{"leaked:", "posted"} {
		if strings.Contains(html, "> "+bad) || strings.Contains(html, " "+bad+"h") {
			t.Errorf("the page shows %q", bad)
		}
	}
	if !strings.Contains(html, "rtc:undefined ws:undefined sw:undefined") {
		t.Errorf("the page has sockets or workers:\n%s", html)
	}
	for _, r := range n.requests() {
		if !strings.HasPrefix(r, "acme.com/") {
			t.Errorf("requested %s", r)
		}
	}
}

func TestRender_EndlessPage_Ends(t *testing.T) {
	n := newNet(t)
	n.sites["busy.com"] = func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `<!doctype html><title>Busy</title><script>setInterval(() => fetch("/again?" + Math.random()), 5)</script>`)
	}
	n.sites["hung.com"] = func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `<!doctype html><title>Hung</title><script>while (true) {}</script>`)
	}
	// The browser's profile, which identifies its processes, is in the folder for temporary files.
	dir := temporary(t)
	b := newBrowser(t, n)
	html, _, err := render(t, b, "http://busy.com/", waitLimit)
	if err != nil || !strings.Contains(html, "<title>Busy</title>") {
		t.Errorf("endless page: %v, %q", err, html)
	}
	if asked := len(n.requests()); asked > 60 {
		t.Errorf("%d requests, want at most 60", asked)
	}
	if _, _, err := render(t, b, "http://hung.com/", 4*time.Second); err == nil {
		t.Error("a page with an endless script was rendered")
	}
	if left := processesNaming(t, dir); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "chromedp-runner*")); len(left) > 0 {
		t.Errorf("profiles are left: %v", left)
	}
}

// temporary creates a folder for temporary files that every user may enter, like the usual one, and returns it.
func temporary(t *testing.T) string {
	t.Helper()
	dir := testmust.Get(os.MkdirTemp("", "b"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	testmust.Succeed(t, os.Chmod(dir, 0o755))
	t.Setenv("TMPDIR", dir)
	return dir
}

// processesNaming lists the processes whose command line names a folder.
func processesNaming(t *testing.T, dir string) []string {
	t.Helper()
	lines := testmust.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	var out []string
	for _, file := range lines {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), dir) {
			out = append(out, file)
		}
	}
	return out
}

func TestNew_NoBrowser_Fails(t *testing.T) {
	client := testmust.Get(safehttp.New(safehttp.Config{}))(t)
	defer client.Close()
	if _, err := browser.New(browser.Config{Path: filepath.Join(t.TempDir(), "nothing")}, client); !errors.Is(err, browser.ErrNoBrowser) {
		t.Errorf("got %v, want ErrNoBrowser", err)
	}
}
