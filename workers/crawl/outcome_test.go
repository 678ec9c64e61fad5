package crawl_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/race"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl"
	"letterhead/workers/crawl/page"
)

// files is a site of fixed responses; any other path is 404.
type files map[string]http.HandlerFunc

func (f files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := f[r.URL.Path]; h != nil {
		h(w, r)
		return
	}
	http.NotFound(w, r)
}

// everywhere serves every path with the same handler.
func everywhere(h http.HandlerFunc) http.Handler { return h }

func html(body string) http.HandlerFunc { return typed("text/html; charset=utf-8", body) }

func typed(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Write([]byte(body))
	}
}

func status(code int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		w.Write([]byte(body))
	}
}

// icon returns a PNG with a colored ring on a transparent background.
func icon(side int, c color.NRGBA) http.HandlerFunc {
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			dx, dy := x-side/2, y-side/2
			if d := dx*dx + dy*dy; d < side*side/5 && d > side*side/20 {
				img.SetNRGBA(x, y, c)
			}
		}
	}
	var b bytes.Buffer
	png.Encode(&b, img)
	return typed("image/png", b.String())
}

var blue = color.NRGBA{0x0b, 0x5f, 0xff, 0xff}

const acmePage = `<!doctype html><title>Acme | Careful instruments</title><meta property="og:site_name" content="Acme"><meta name="description" content="Acme makes careful instruments for curious people."><link rel="icon" href="/icon.png" sizes="128x128"><h1>Instruments</h1>`

func TestCrawl_HomePage_DecidesOutcome(t *testing.T) {
	challenge := `<title>Just a moment...</title><script>window._cf_chl_opt={};</script><noscript>Enable JavaScript and cookies to continue</noscript>`
	for name, c := range map[string]struct {
		site http.Handler
		want string // outcome, or a name on success
	}{
		"a good page":      {files{"/": html(acmePage), "/icon.png": icon(128, blue)}, "Acme"},
		"no logo":          {files{"/": html(acmePage)}, "Acme"},
		"403":              {everywhere(status(403, "<title>403 Forbidden</title>")), brand.Blocked},
		"401":              {everywhere(status(401, "")), brand.Blocked},
		"451":              {everywhere(status(451, "")), brand.Blocked},
		"999":              {everywhere(status(999, "")), brand.Blocked},
		"challenge header": {everywhere(status(200, acmePage, "Cf-Mitigated", "challenge")), brand.Blocked},
		"429 for minutes":  {everywhere(status(429, "", "Retry-After", "120")), brand.Blocked},
		"503 challenge":    {everywhere(status(503, challenge)), brand.Blocked},
		"200 challenge":    {everywhere(html(challenge)), brand.Blocked},
		"waf 202":          {everywhere(status(202, "", "X-Amzn-Waf-Action", "challenge")), brand.Blocked},
		"500":              {everywhere(status(500, "<title>Internal Server Error</title>")), brand.FetchFailed},
		"503":              {everywhere(status(503, "try again")), brand.FetchFailed},
		"404":              {everywhere(status(404, "<title>Not Found</title>")), brand.NoData},
		"empty":            {everywhere(html("")), brand.NoData},
		"json":             {everywhere(typed("application/json", `{"name":"Acme"}`)), brand.NoData},
		"pdf":              {everywhere(typed("application/pdf", "%PDF-1.4\n%%EOF")), brand.NoData},
		"parked":           {everywhere(html(`<title>acme.com - This domain is for sale</title><p>The domain acme.com may be for sale.</p>`)), brand.NoData},
		"nginx":            {everywhere(html(`<title>Welcome to nginx!</title><h1>Welcome to nginx!</h1>`)), brand.NoData},
		"nothing said":     {everywhere(html(`<p>hello</p>`)), brand.NoData},
		"redirect loop":    {everywhere(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"a", http.StatusFound) }), brand.FetchFailed},
		"redirect to a private place": {everywhere(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1/", http.StatusFound)
		}), brand.FetchFailed},
		"redirect to nowhere": {everywhere(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://gone.example/", http.StatusFound)
		}), brand.FetchFailed},
		"blocked, icon for everybody": {blockedWithIcon{}, "Acme"},
		"json, icon for everybody":    {files{"/": typed("application/json", "{}"), "/favicon.ico": icon(64, blue)}, "Acme"},
		"soft 404 for icons":          {everywhere(html(acmePage)), "Acme"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.serve("acme.com", c.site)
			result, err := n.crawl("acme.com")
			if got := ending(result, err); got != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
			if name == "soft 404 for icons" && result != nil && result.Record.HasLogo() {
				t.Error("accepted a web page as a logo")
			}
			if name == "blocked, icon for everybody" && result != nil && (!result.Record.HasLogo() || result.Record.Complete) {
				t.Errorf("logo %t, complete %t; want a logo and a partial record", result.Record.HasLogo(), result.Record.Complete)
			}
		})
	}
}

// blockedWithIcon refuses its page and serves its icon.
type blockedWithIcon struct{}

func (blockedWithIcon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/favicon.ico" {
		icon(64, blue)(w, r)
		return
	}
	status(403, "<title>Attention Required! | Cloudflare</title>")(w, r)
}

// ending returns the name in a result, or the outcome of a failure.
func ending(result *crawl.Result, err error) string {
	var f *crawl.Failure
	switch {
	case errors.As(err, &f):
		return f.Outcome
	case err != nil:
		return err.Error()
	}
	return text(result.Record.Name)
}

func TestCrawl_ConnectionFault_DecidesOutcome(t *testing.T) {
	good := files{"/": html(acmePage), "/icon.png": icon(128, blue)}
	for name, c := range map[string]struct {
		build func(n *internet)
		want  string
	}{
		"no such domain": {func(*internet) {}, brand.DNS},
		"refused":        {func(n *internet) { n.serve("acme.com", good); n.refuse("acme.com") }, brand.FetchFailed},
		"silence":        {func(n *internet) { n.serve("acme.com", good); n.silent["acme.com"] = true }, brand.Timeout},
		"plain only":     {func(n *internet) { n.serve("acme.com", good); n.refuse("acme.com:443") }, "Acme"},
		"secure only":    {func(n *internet) { n.serve("acme.com", good); n.refuse("acme.com:80") }, "Acme"},
		"www only":       {func(n *internet) { n.serve("www.acme.com", good) }, "Acme"},
		"www works":      {func(n *internet) { n.serve("acme.com", good); n.refuse("acme.com"); n.serve("www.acme.com", good) }, "Acme"},
		"www plain only": {func(n *internet) { n.serve("www.acme.com", good); n.refuse("www.acme.com:443") }, "Acme"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			c.build(n)
			allowed := 20 * time.Second
			if c.want == brand.Timeout {
				allowed = 1200 * time.Millisecond
			}
			result, err := n.crawlTarget(crawl.Target{Domain: "acme.com"}, allowed)
			if got := ending(result, err); got != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
}

func TestImage_Slow_LosesOnlyImage(t *testing.T) {
	t.Parallel() // it waits for the end of the crawl
	n := newInternet(t)
	n.serve("acme.com", files{
		"/":            html(acmePage),
		"/icon.png":    func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"/favicon.ico": icon(64, blue),
	})
	result := testmust.Get(n.crawlTarget(crawl.Target{Domain: "acme.com"}, 15*time.Second))(t)
	if text(result.Record.Name) != "Acme" || len(result.Record.Logos) != 1 {
		t.Errorf("name %s, %d logos; want the fetched page and icon", text(result.Record.Name), len(result.Record.Logos))
	}
}

func TestFetch_RateLimited_RetriesOnce(t *testing.T) {
	n := newInternet(t)
	asked := 0
	n.serve("acme.com", files{"/": func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			status(429, "", "Retry-After", "0")(w, r)
			return
		}
		html(acmePage)(w, r)
	}})
	result, err := n.crawl("acme.com")
	if got := ending(result, err); got != "Acme" {
		t.Errorf("got %s", got)
	}
}

func TestRedirect_Record_KeepsRequestedDomain(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", everywhere(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://www.buyer.net/acme/", http.StatusMovedPermanently)
	}))
	n.serve("www.buyer.net", files{
		"/acme/":    html(`<title>Acme, part of Buyer</title><meta property="og:site_name" content="Buyer"><link rel=icon href=/icon.png sizes=128x128><a href="https://x.com/buyer">x</a>`),
		"/icon.png": icon(128, blue),
	})
	result := testmust.Get(n.crawl("acme.com"))(t)
	if result.FinalURL != "https://www.buyer.net/acme/" || !result.Record.HasLogo() {
		t.Errorf("from %s, logo %t", result.FinalURL, result.Record.HasLogo())
	}
}

// Browsers send every visitor of these pages on.
func TestHomePage_SendsVisitorsOn_IsFollowed(t *testing.T) {
	for name, page := range map[string]string{
		"refresh":               `<meta http-equiv=refresh content="0; url=/en/">`,
		"refresh to a brand":    `<title>Away</title><meta http-equiv=refresh content="0; url=https://acme.com/en/">`,
		"location":              `<title></title><script>location="/en/"</script>`,
		"another domain":        `<script>window.location.href = "https://acme.com/en/";</script>`,
		"replace":               `<title>Loading</title><script>window.location.replace('/en/');</script>`,
		"assign":                `<script type="text/javascript"><!--` + "\n" + `document.location.assign("/en/");` + "\n" + `//--></script>`,
		"with words":            `<title>Redirecting...</title><h1>Redirecting...</h1><a href="/en/">Click here</a><script>self.location="/en/"</script>`,
		"escaped":               `<script>top.location.href="\/en\/"</script>`,
		"member by its text":    `<script>window["location"]["href"] = "\u002fen\x2f"</script>`,
		"joined":                `<script>location = location.protocol + "//" + location.host + "/en/" + location.search</script>`,
		"variable":              `<script>var next = "/en/"; setTimeout(function () { location.href = next; }, 300)</script>`,
		"template":              "<script>location.replace(`/en/`)</script>",
		"timer of text":         `<script>setTimeout("location.href='/en/'", 2000)</script>`,
		"when loaded":           `<script>window.onload = () => { location.href = "/en/" }</script>`,
		"on the body":           `<script>function go() { location.replace("/en/") }</script><body onload="go()">`,
		"listener":              `<script>document.addEventListener("DOMContentLoaded", function () { location.href = "/en/" })</script>`,
		"argument":              `<script>function go(to) { location = to } go("/en/")</script>`,
		"after other calls":     `<script>` + strings.Repeat(`track(1);`, 60) + ` location = "/en/"</script>`,
		"jQuery":                `<script>$(document).ready(function(){ window.location = "/en/"; });</script>`,
		"called at once":        `<script>(function(){try{location.replace("/en/")}catch(e){location.href="/no"}})();</script>`,
		"presents its owner":    `<title>Acme</title><meta property="og:site_name" content="Away"><script>location.replace("/en/")</script>`,
		"asks for scripts":      `<script>location.replace("/en/")</script><noscript>Please enable JavaScript</noscript>`,
		"the last of several":   `<script>location.href="/no"; location.href="/en/"</script>`,
		"two more redirects":    `<script>location="/two"</script>`,
		"after a condition":     `<script>if (/Mobile/.test(navigator.userAgent)) { location = "/no" } location = "/en/"</script>`,
		"before the refresh":    `<meta http-equiv=refresh content="3; url=/no"><script>location="/en/"</script>`,
		"frame of another site": `<title>Away</title><frameset rows="100%,*"><frame src="https://acme.com/en/"></frameset>`,
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.serve("acme.com", files{"/en/": html(acmePage)})
			n.serve("away.com", files{"/": html(page), "/en/": html(acmePage),
				"/two": html(`<meta http-equiv=refresh content="0; url=/three">`), "/three": html(`<script>location="https://acme.com/en/"</script>`),
				"/no": html(`<title>Wrong</title><meta property="og:site_name" content="Wrong"><p>Something`)})
			if got := ending(n.crawl("away.com")); got != "Acme" {
				t.Errorf("got %s", got)
			}
		})
	}
}

// Browsers stay on these pages, or do not show another one for certain.
func TestHomePage_KeepsVisitors_IsRead(t *testing.T) {
	const own = `<title>Stay</title><meta property="og:site_name" content="Stay"><p>Something about us`
	for name, script := range map[string]string{
		"a condition":       `if (screen.width < 700) location = "/en/"`,
		"a choice":          `screen.width < 700 ? location.replace("/en/") : 0; screen.width < 700 && location.replace("/en/")`,
		"no call":           `function go() { location = "/en/" }`,
		"a click":           `document.addEventListener("click", function () { location = "/en/" })`,
		"after a condition": `(function () { if (navigator.onLine) { return } location = "/en/" })()`,
		"a comment":         `// location = "/en/"`,
		"a text":            `var s = 'location = "/en/"'`,
		"with a cookie":     `document.cookie = "seen=1"; location = "/en/"`,
		"another member":    `video.location = "/en/"`,
		"not a web URL":     `location = "mailto:us@stay.com"`,
		"its own part":      `location = "#about"`,
		"itself":            `location = location.href`,
		"late":              `setTimeout(function () { location = "/en/" }, 60000)`,
		"no script":         `</script><noscript><meta http-equiv=refresh content="0;url=https://acme.com/en/"></noscript><script>`,
		"endless calls":     `function f() { f(); f(); } f()`,
		"a condition above": `(function () { try { if (navigator.onLine) return } catch (e) {} location = "/en/" })()`,
		"a loop above":      `(function () { for (var c of document.cookie) { if (c) return } location = "/en/" })()`,
		"an argument":       `var url = "/en/"; function go(url) { location = url } go(screen.name)`,
		"for old browsers":  `</script><script nomodule>location = "/en/"`,
		"beside a source":   `</script><script src=x.js>location = "/en/"`,
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.serve("acme.com", files{"/en/": html(acmePage)})
			n.serve("stay.com", files{"/": html(own + "<script>" + script + "</script>"), "/en/": html(acmePage)})
			if got := ending(n.crawl("stay.com")); got != "Stay" {
				t.Errorf("got %s", got)
			}
		})
	}
}

// A page may send the crawler only where a redirect may.
//
// Rule 11.
func TestHomePage_SendsVisitorsOn_WithinLimits(t *testing.T) {
	for name, page := range map[string]string{
		"private address": `<script>location = "http://169.254.169.254/latest/"</script>`,
		"another port":    `<script>location = "http://away.com:8080/en/"</script>`,
		"a missing host":  `<title>Away</title><meta http-equiv=refresh content="0; url=https://gone.example/">`,
		"in circles":      `<script>location = "/again"</script>`,
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.serve("away.com", files{"/": html(page), "/again": html(`<script>location = "/"</script>`), "/en/": html(acmePage)})
			n.serve("169.254.169.254", files{"/latest/": html(acmePage)}) // reached if nothing guards it
			if got := ending(n.crawl("away.com")); got != "fetch_failed" {
				t.Errorf("got %s", got)
			}
			n.wantsNot(t, "169.254.169.254/latest/")
		})
	}
}

func TestFrameset_FramesOfSite_AreRead(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", files{
		"/":              html(`<title>Acme</title><frameset rows="80,*"><frame src="top/head.html"><frame src="main.html"><frame src="https://other.com/ad.html"></frameset>`),
		"/top/head.html": html(`<link rel=stylesheet href=head.css><body><a href="../main.html"><img src="logo.png" alt="Acme"></a>`),
		"/top/head.css":  typed("text/css", `body { font-family: Lora }`),
		"/top/logo.png":  icon(256, blue),
		"/main.html":     html(`<h1>Welcome</h1><a href="https://www.instagram.com/acme">Instagram</a>`),
	})
	n.serve("other.com", files{"/ad.html": html(`<img src="/logo.png" alt="Acme logo">`)})
	result := testmust.Get(n.crawl("acme.com"))(t)
	if !result.Record.HasLogo() || len(result.Record.Links) != 1 || len(result.Record.Fonts) == 0 {
		t.Errorf("logo %t, links %v, fonts %v", result.Record.HasLogo(), result.Record.Links, result.Record.Fonts)
	}
	n.wantsNot(t, "other.com/ad.html")
}

// Rule 12.
func TestCrawl_HostilePage_StaysWithinLimits(t *testing.T) {
	long := strings.Repeat("<p>and on it goes</p>\n", 300_000) // 6 MB
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write([]byte(acmePage))
	for range 64 {
		z.Write(bytes.Repeat([]byte("<p>x</p>"), 1<<17)) // 64 MB
	}
	z.Close()
	for name, c := range map[string]struct {
		home http.HandlerFunc
		want string
	}{
		"600 nested elements": {html(`<title>Nested Lab</title><meta property=og:site_name content='Nested Lab'><link rel=icon href=/icon.png>` + strings.Repeat("<div>", 600)), "Nested Lab"},
		"longer than read":    {html(acmePage + long), "Acme"},
		"gzip bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb.Bytes())
		}, "Acme"},
		"base to another host":    {html(`<base href="//evil.example/">` + acmePage), "Acme"},
		"markup in values":        {html(`<title>&lt;script&gt;alert(1)&lt;/script&gt;</title><meta name=description content="Acme makes &lt;b&gt;careful&lt;/b&gt; instruments.">`), "Acme"},
		"cyclic linked data":      {html(acmePage + `<script type="application/ld+json">{"@graph":[{"@id":"a","@type":"Organization","name":"Acme","url":"https://acme.com","logo":{"@id":"b"}},{"@id":"b","logo":{"@id":"a"}}]}</script>`), "Acme"},
		"deep linked data":        {html(acmePage + `<script type="application/ld+json">` + strings.Repeat(`{"a":`, 100_000) + `</script>`), "Acme"},
		"images at private hosts": {html(acmePage + `<link rel=icon href="http://127.0.0.1/a.png"><link rel=icon href="file:///etc/passwd"><meta property="og:image" content="http://169.254.169.254/x.png"><link rel=manifest href="http://10.0.0.1/m.json">`), "Acme"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.serve("acme.com", files{"/": c.home, "/icon.png": icon(64, blue)})
			result, err := n.crawl("acme.com")
			if got := ending(result, err); got != c.want {
				t.Fatalf("got %s (%v), want %s", got, err, c.want)
			}
			encoded := testmust.Get(eventschemas.Encode(eventschemas.CrawlSucceeded{CrawlID: "c", Record: result.Record, Evidence: result.Evidence, FinalURL: result.FinalURL}))(t)
			if err := eventschemas.ValidateJSON(encoded.Type, encoded.SchemaVersion, encoded.Data); err != nil {
				t.Errorf("the event does not match its schema: %v", err)
			}
			if len(encoded.Data) > 64<<10 {
				t.Errorf("the event has %d bytes", len(encoded.Data))
			}
		})
	}
}

// Rule 11.
func TestCrawl_PrivateAddress_IsNotRequested(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", files{"/": html(acmePage + `<link rel=icon href="http://10.0.0.1/icon.png"><link rel=icon href="http://[::1]/icon.png"><link rel="icon" href="http://localhost/icon.png">`), "/icon.png": icon(64, blue)})
	testmust.Succeed(t, testmust.Err(n.crawl("acme.com")))
	for _, r := range n.requests() {
		if !strings.HasPrefix(r, "acme.com/") {
			t.Errorf("requested %s", r)
		}
	}
}

func TestAdultSite_Record_IsEmpty(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", files{"/": html(acmePage + `<meta name="rating" content="RTA-5042-1996-1400-1577-RTA">`), "/icon.png": icon(64, blue)})
	result := testmust.Get(n.crawl("acme.com"))(t)
	r := result.Record
	if !r.NSFW || r.Restriction == nil || r.Restriction.Code != "nsfw" || r.Name != nil || r.HasLogo() || r.Company != nil || r.QualityScore != 0 {
		t.Errorf("record is %+v", r)
	}
	if slices.ContainsFunc(n.requests(), func(s string) bool { return strings.HasSuffix(s, "icon.png") }) {
		t.Error("its icon was fetched")
	}
}

func TestDataSet_Logos_AreKept(t *testing.T) {
	known := &eventschemas.Record{
		Name:   ptr("Acme"),
		Logos:  []eventschemas.Logo{{Type: "symbol", Formats: []eventschemas.Asset{{ID: strings.Repeat("a", 64), Format: "svg", Size: 10}}, Tags: []string{}}},
		Colors: []eventschemas.Color{{Hex: "#aa2211", Type: "accent", Brightness: 60}},
	}
	n := newInternet(t)
	n.serve("acme.com", files{"/": html(acmePage), "/icon.png": icon(128, blue)})
	result, err := n.crawlTarget(crawl.Target{Domain: "acme.com", Known: known}, 10*time.Second)
	testmust.Succeed(t, err)
	if len(result.Record.Logos) != 2 || result.Record.Logos[1].Formats[0].ID != known.Logos[0].Formats[0].ID {
		t.Errorf("logos are %+v, want the site's and then the data set's", result.Record.Logos)
	}
	n.serve("blocked.com", everywhere(status(403, "")))
	result, err = n.crawlTarget(crawl.Target{Domain: "blocked.com", Known: known}, 10*time.Second)
	if err != nil {
		t.Fatalf("blocked site in a data set: %v", err)
	}
	if text(result.Record.Name) != "Acme" || !result.Record.HasLogo() || result.Record.Complete {
		t.Errorf("record is %+v, want the data set's, partial", result.Record)
	}
}

func ptr[T any](v T) *T { return &v }

func TestOnce_SamePage_SameRecord(t *testing.T) {
	var first []byte
	times := 5
	if race.Enabled {
		times = 2
	}
	for i := range times {
		n := newInternet(t)
		testmust.Succeed(t, n.ServeFolder(os.DirFS("../../tools/accuracy/sites/wp-elementor-physio")))
		result := testmust.Get(n.crawl("vitalhaven-physio.com"))(t)
		encoded := testmust.Get(eventschemas.Encode(eventschemas.CrawlSucceeded{CrawlID: "c", Record: result.Record, Evidence: result.Evidence}))(t)
		if i == 0 {
			first = encoded.Data
		} else if !bytes.Equal(first, encoded.Data) {
			t.Fatalf("run %d differs:\n%s\n%s", i, first, encoded.Data)
		}
	}
}

func TestOnce_Subdomain_IsCrawled(t *testing.T) {
	n := newInternet(t)
	n.serve("shop.acme.com", files{"/": html(acmePage), "/icon.png": icon(64, blue)})
	result, stats, err := crawl.Once(t.Context(), config(t), n.client(), "shop.acme.com")
	testmust.Succeed(t, err)
	if text(result.Record.Name) != "Acme" || !result.Record.HasLogo() || stats.Requests < 2 || stats.Bytes == 0 {
		t.Errorf("name %s, logo %t, %+v", text(result.Record.Name), result.Record.HasLogo(), stats)
	}
	n.serve("plain.acme.com", files{"/": html(acmePage)})
	n.refuse("plain.acme.com:443")
	n.serve("www.beta.com", files{"/": html(acmePage)})
	for address, want := range map[string]string{"plain.acme.com": "Acme", "https://plain.acme.com/": brand.FetchFailed, "http://plain.acme.com/": "Acme", "beta.com": "Acme", "https://beta.com": brand.DNS} {
		result, _, err := crawl.Once(t.Context(), config(t), n.client(), address)
		if got := ending(result, err); got != want {
			t.Errorf("%s: got %s (%v), want %s", address, got, err, want)
		}
	}
	for _, address := range []string{"", "co.uk", "http://127.0.0.1/", "localhost", "https://a b/", "%zz"} {
		if _, _, err := crawl.Once(t.Context(), config(t), n.client(), address); !errors.Is(err, brand.ErrInvalidDomain) {
			t.Errorf("%q: %v, want brand.ErrInvalidDomain", address, err)
		}
	}
}

func TestRead_SavedPage_FetchesNothing(t *testing.T) {
	data := `<link rel="icon" href="data:image/svg+xml,` + url.PathEscape(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><circle cx="32" cy="32" r="30" fill="#0b5fff"/></svg>`) + `">`
	result, err := crawl.Read(t.Context(), config(t), crawl.SavedPage{URL: "https://acme.com/", Body: []byte(acmePage + data)})
	testmust.Succeed(t, err)
	if text(result.Record.Name) != "Acme" || len(result.Record.Logos) != 1 || result.Record.Logos[0].Formats[0].Format != "svg" {
		t.Errorf("name %s, logos %+v; want the inline logo", text(result.Record.Name), result.Record.Logos)
	}
	if len(result.Trials) < 2 {
		t.Errorf("trials %+v, want the candidates that were not fetched too", result.Trials)
	}
	_, err = crawl.Read(t.Context(), config(t), crawl.SavedPage{URL: "https://acme.com/", Body: []byte(`<title>Welcome to nginx!</title>`)})
	var f *crawl.Failure
	if !errors.As(err, &f) || f.Outcome != brand.NoData {
		t.Errorf("placeholder page: %v", err)
	}
	if _, err := crawl.Read(t.Context(), config(t), crawl.SavedPage{URL: "https://acme.com/", Body: bytes.Repeat([]byte("<p>"), page.MaxBytes)}); err == nil {
		t.Error("a page of paragraphs gave a record")
	}
}
