package safehttp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/safehttp"
	"letterhead/internal/testmust"
)

func TestGet_PlainAnswer(t *testing.T) {
	n := newInternet(t)
	var seen *http.Request
	n.site("good.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		w.Header().Set("ETag", `"x"`)
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "hello")
	}))
	c := n.client(func(cfg *safehttp.Config) {
		cfg.UserAgent = "Mozilla/5.0 (compatible; LetterheadBot/1.0; +https://letterhead.example/bot)"
	})
	res, err := c.NewSession().Get(t.Context(), "http://GOOD.example?q=1#f", safehttp.Limits{}, safehttp.Header{Name: "If-None-Match", Value: `"y"`},
		safehttp.Header{Name: "User-Agent", Value: "Mozilla"}, safehttp.Header{Name: "Accept", Value: "image/*"}, safehttp.Header{Name: "Cookie", Value: "a=b"},
		safehttp.Header{Name: "Accept-Encoding", Value: "br"}, safehttp.Header{Name: "Host", Value: "other.example"})
	testmust.Succeed(t, err)
	if res.StatusCode != http.StatusTeapot || string(res.Body) != "hello" || res.Truncated || res.FinalURL.String() != "http://good.example/?q=1" || len(res.Redirects) != 0 || res.Header.Get("ETag") != `"x"` {
		t.Errorf("got %+v", res)
	}
	for name, want := range map[string]string{
		"User-Agent":      "Mozilla/5.0 (compatible; LetterheadBot/1.0; +https://letterhead.example/bot)",
		"Accept-Encoding": "gzip", "Accept": "image/*", "If-None-Match": `"y"`, "Cookie": "", "Referer": "",
	} {
		if got := seen.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if seen.Host != "good.example" || seen.Method != http.MethodGet {
		t.Errorf("%s to %s; want %v and %q", seen.Method, seen.Host, http.MethodGet, "good.example")
	}
}

func TestProxyEnvironment_IsIgnored(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:3128")
	}
	n := newInternet(t)
	n.site("good.example", text("hi"))
	get(t, n.client(nil), "http://good.example/", nil)
	if d := n.dials(); len(d) != 1 || d[0] != "tcp4 "+public+":80" {
		t.Errorf("dialed %v", d)
	}
}

func TestHTTPS(t *testing.T) {
	n := newInternet(t)
	n.name("good.example", public)
	n.serve(public+":443", n.http(text("hi"), certificate(t, nil, "good.example")))
	if res := get(t, n.client(nil), "https://good.example/", nil); string(res.Body) != "hi" {
		t.Errorf("body %q", res.Body)
	}
}

func TestHTTP2(t *testing.T) {
	n := newInternet(t)
	n.name("good.example", public)
	config := certificate(t, nil, "good.example")
	config.NextProtos = []string{"h2", "http/1.1"}
	var protocols sync.Map
	n.serve(public+":443", func(conn net.Conn) {
		one := &oneConn{conn: conn, closed: make(chan struct{})}
		server := &http.Server{ErrorLog: quiet, TLSConfig: config.Clone(), ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				one.Close()
			}
		}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			protocols.Store(r.Proto, true)
			if r.URL.Path == "/reset" {
				panic(http.ErrAbortHandler)
			}
			if r.URL.Path == "/header" {
				for i := range 70 { // 70 kB: beyond the limit, but not so far that the connection is closed
					w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("a", 1000))
				}
			}
			io.WriteString(w, strings.Repeat("x", 100_000))
		})}
		_ = server.ServeTLS(one, "", "") // ends with the connection
	})
	c := n.client(nil)
	var fetches sync.WaitGroup
	for range 16 { // more than the number of connections to one host
		fetches.Go(func() {
			if res, err := c.NewSession().Get(t.Context(), "https://good.example/", safehttp.Limits{}); err != nil || len(res.Body) != 100_000 {
				t.Errorf("Get failed or returned another length than 100,000 bytes: %v", err)
			}
		})
	}
	fetches.Wait()
	if _, used := protocols.Load("HTTP/2.0"); !used {
		t.Error("HTTP/2 was not used")
	}
	get(t, c, "https://good.example/reset", safehttp.ErrReset)
	get(t, c, "https://good.example/header", safehttp.ErrTooLarge)
}

func TestRedirects(t *testing.T) {
	n := newInternet(t)
	n.name("start.example", public)
	n.name("end.example", "93.184.216.35")
	n.serve(public+":80", n.http(redirectTo("https://end.example/a?b=c#d"), nil))
	n.serve("93.184.216.35:443", n.http(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a":
			w.Header().Set("Location", "//end.example/b/../c")
			w.WriteHeader(http.StatusPermanentRedirect)
			io.WriteString(w, strings.Repeat("x", 1<<20)) // the body is not read
		case "/c":
			io.WriteString(w, "arrived with "+r.Referer())
		}
	}), certificate(t, nil, "end.example")))
	res := get(t, n.client(nil), "http://start.example/", nil)
	if string(res.Body) != "arrived with " || res.FinalURL.String() != "https://end.example/c" || len(res.Redirects) != 2 || res.Redirects[1].String() != "https://end.example/a?b=c" {
		t.Errorf("got %q from %s after the redirects %v", res.Body, res.FinalURL, res.Redirects)
	}
}

func TestRedirect_WithoutTarget_IsResponse(t *testing.T) {
	n := newInternet(t)
	n.site("good.example", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) }))
	if res := get(t, n.client(nil), "http://good.example/", nil); res.StatusCode != http.StatusFound {
		t.Errorf("got %+v", res)
	}
}

func TestRedirect_TooMany_Fails(t *testing.T) {
	for name, target := range map[string]func(*http.Request) string{
		"loop":                    func(*http.Request) string { return "/" },
		"circle":                  func(r *http.Request) string { return map[bool]string{true: "/b", false: "/a"}[r.URL.Path == "/a"] },
		"query that always grows": func(r *http.Request) string { return "/?x=" + r.URL.Query().Get("x") + "1" },
		"chain of 30": func(r *http.Request) string {
			hop := 0
			fmt.Sscanf(r.URL.Path, "/%d", &hop)
			return fmt.Sprintf("/%d", hop+1)
		},
	} {
		n := newInternet(t)
		var requests atomic.Int64
		n.site("loop.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			http.Redirect(w, r, target(r), http.StatusFound)
		}))
		get(t, n.client(nil), "http://loop.example/", safehttp.ErrTooManyRedirects)
		if got := requests.Load(); got != safehttp.MaxRedirects+1 {
			t.Errorf("%s: %d requests", name, got)
		}
	}
	n := newInternet(t)
	n.site("five.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/xxxxx" {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		}
	}))
	if res := get(t, n.client(nil), "http://five.example/", nil); len(res.Redirects) != safehttp.MaxRedirects {
		t.Errorf("%d redirects, want %d", len(res.Redirects), safehttp.MaxRedirects)
	}
}

func TestCookies_LiveForSession(t *testing.T) {
	n := newInternet(t)
	n.site("cookie.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie("seen"); err != nil || c.Value != "1" {
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1", Path: "/"})
			if r.URL.Query().Has("stay") {
				io.WriteString(w, "new")
				return
			}
			http.Redirect(w, r, r.URL.RequestURI(), http.StatusFound)
			return
		}
		io.WriteString(w, "known")
	}))
	n.name("other.example", public)
	c := n.client(nil)
	s := c.NewSession()
	if res, err := s.Get(t.Context(), "http://cookie.example/", safehttp.Limits{}); err != nil || string(res.Body) != "known" {
		t.Fatalf("a redirect that sets a cookie: %v", err)
	}
	for url, want := range map[string]string{"http://cookie.example/?stay": "known", "http://other.example/?stay": "new"} {
		if res, err := s.Get(t.Context(), url, safehttp.Limits{}); err != nil || string(res.Body) != want {
			t.Errorf("%s in the same session: %v", url, err)
		}
	}
	if res := get(t, c, "http://cookie.example/?stay", nil); string(res.Body) != "new" {
		t.Errorf("another session sends the cookies of the first: body %s", res.Body)
	}
}

func TestCookieFlood_IsLimited(t *testing.T) {
	n := newInternet(t)
	var most atomic.Int64
	n.site("cookie.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), int64(len(r.Header.Get("Cookie")))))
		for i := range 500 {
			http.SetCookie(w, &http.Cookie{Name: fmt.Sprintf("c%d%s", i, r.URL.Query().Get("n")), Value: strings.Repeat("v", 100), Path: "/"})
		}
	}))
	s := n.client(nil).NewSession()
	for i := range 10 {
		testmust.Succeed(t, testmust.Err(s.Get(t.Context(), fmt.Sprintf("http://cookie.example/?n=%d", i), safehttp.Limits{})))
	}
	if got := most.Load(); got == 0 || got > 16<<10 {
		t.Errorf("%d bytes of cookies in one request", got)
	}
}

func zip(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	z.Close()
	return b.Bytes()
}

func TestEncodings(t *testing.T) {
	page := []byte(strings.Repeat("<p>hello</p>", 500))
	packed := zip(page)
	answer := func(header string, body []byte) string {
		return "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + header + "\r\n\r\n" + string(body)
	}
	for name, c := range map[string]struct {
		raw       string
		want      []byte
		truncated bool
		err       error
	}{
		"plain":                        {answer("Content-Length: 6000", page), page, false, nil},
		"gzip":                         {answer("Content-Encoding: gzip", packed), page, false, nil},
		"x-gzip in capitals":           {answer("Content-Encoding: X-GZip", packed), page, false, nil},
		"identity":                     {answer("Content-Encoding: identity", page), page, false, nil},
		"double gzip, declared":        {answer("Content-Encoding: gzip, gzip", zip(packed)), page, false, nil},
		"double gzip in two headers":   {answer("Content-Encoding: gzip\r\nContent-Encoding: gzip", zip(packed)), page, false, nil},
		"double gzip, declared once":   {answer("Content-Encoding: gzip", zip(packed)), page, false, nil},
		"undeclared gzip":              {answer("X: y", packed), page, false, nil},
		"triple gzip, declared":        {answer("Content-Encoding: gzip, gzip, gzip", zip(zip(packed))), nil, false, safehttp.ErrMalformed},
		"gzip declared, but plain":     {answer("Content-Encoding: gzip", page), page, false, nil},
		"gzip declared, nothing sent":  {answer("Content-Encoding: gzip\r\nContent-Length: 0", nil), nil, false, nil},
		"brotli unasked":               {answer("Content-Encoding: br", page), nil, false, safehttp.ErrMalformed},
		"zstd unasked":                 {answer("Content-Encoding: zstd", page), nil, false, safehttp.ErrMalformed},
		"gzip cut off":                 {answer("Content-Encoding: gzip", packed[:len(packed)-9]), page, true, nil},
		"garbage after gzip":           {answer("Content-Encoding: gzip", append(packed[:len(packed):len(packed)], "<!-- sent by a tired server -->"...)), page, true, nil},
		"two members":                  {answer("Content-Encoding: gzip", append(packed[:len(packed):len(packed)], packed...)), append(page[:len(page):len(page)], page...), false, nil},
		"broken gzip":                  {answer("Content-Encoding: gzip", append(packed[:12:12], bytes.Repeat([]byte{0xff}, 50)...)), nil, false, safehttp.ErrMalformed},
		"wrong checksum":               {answer("Content-Encoding: gzip", append(packed[:len(packed)-8:len(packed)-8], 1, 2, 3, 4, 5, 6, 7, 8)), nil, false, safehttp.ErrMalformed},
		"length too large":             {answer("Content-Length: 9000", page), page, true, nil},
		"length too small":             {answer("Connection: close\r\nContent-Length: 12", page), page[:12], false, nil},
		"length of the unpacked body":  {answer("Content-Encoding: gzip\r\nContent-Length: 6000", packed), page, true, nil},
		"length, and nothing":          {answer("Content-Length: 10", nil), nil, false, safehttp.ErrReset},
		"two lengths":                  {answer("Content-Length: 10\r\nContent-Length: 20", page), nil, false, safehttp.ErrMalformed},
		"broken chunks":                {answer("Transfer-Encoding: chunked", []byte("zz\r\nhello")), nil, false, safehttp.ErrMalformed},
		"chunks that end early":        {answer("Transfer-Encoding: chunked", []byte("5\r\nhello\r\n")), []byte("hello"), true, nil},
		"not HTTP":                     {"SSH-2.0-OpenSSH_9.6\r\n", nil, false, safehttp.ErrMalformed},
		"no header end":                {"HTTP/1.1 200 OK\r\nA: b\r\n", nil, false, safehttp.ErrReset},
		"nothing at all":               {"", nil, false, safehttp.ErrReset},
		"a status of four digits":      {"HTTP/1.1 2000 OK\r\n\r\n", nil, false, safehttp.ErrMalformed},
		"no content":                   {"HTTP/1.1 204 No Content\r\n\r\n", nil, false, nil},
		"a flood of interim responses": {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100_000), nil, false, safehttp.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.name("bytes.example", public)
			n.serve(public+":80", raw(c.raw))
			res := get(t, n.client(nil), "http://bytes.example/?secret", c.err)
			if c.err == nil && (!bytes.Equal(res.Body, c.want) || res.Truncated != c.truncated) {
				t.Errorf("%d bytes, truncated %v; want %d, %v", len(res.Body), res.Truncated, len(c.want), c.truncated)
			}
		})
	}
}

func TestBinaryGzip_IsUnchanged(t *testing.T) {
	n := newInternet(t)
	svgz := zip([]byte("<svg/>"))
	n.name("bytes.example", public)
	n.serve(public+":80", raw("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n"+string(svgz)))
	if res := get(t, n.client(nil), "http://bytes.example/", nil); !bytes.Equal(res.Body, svgz) {
		t.Errorf("body %q", res.Body)
	}
}

// TestBody_DecompressionBomb_EndsAtLimit serves endless bodies and measures the memory that the client uses.
func TestBody_DecompressionBomb_EndsAtLimit(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		body   func(io.Writer)
	}{
		"endless body": {"", func(w io.Writer) { io.Copy(w, endless{}) }},
		"endless chunks": {"Transfer-Encoding: chunked\r\n", func(w io.Writer) {
			for _, err := io.WriteString(w, "4\r\nabcd\r\n"); err == nil; _, err = io.WriteString(w, "4\r\nabcd\r\n") {
			}
		}},
		"gzip bomb": {"Content-Encoding: gzip\r\n", func(w io.Writer) {
			z, _ := gzip.NewWriterLevel(w, gzip.BestCompression)
			io.CopyN(z, endless{}, 10<<30)
		}},
		"double gzip bomb": {"Content-Encoding: gzip, gzip\r\n", func(w io.Writer) {
			w.Write(zip(bytes.Repeat(zip(bytes.Repeat([]byte("a"), 1<<20)), 10_000))) // 10 GB in about 50 kB
		}},
		"empty gzip members for ever": {"Content-Encoding: gzip\r\n", func(w io.Writer) {
			empty := bytes.Repeat(zip(nil), 1000)
			for _, err := w.Write(empty); err == nil; _, err = w.Write(empty) {
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.name("bomb.example", public)
			n.serve(public+":80", read(func(conn net.Conn) {
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"+c.header+"\r\n")
				c.body(conn)
			}))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			const limit = 1 << 20
			res, err := n.client(nil).NewSession().Get(t.Context(), "http://bomb.example/", safehttp.Limits{Body: limit, Time: time.Hour})
			runtime.ReadMemStats(&after)
			if !errors.Is(err, safehttp.ErrTooLarge) {
				t.Fatalf("error = %v, want ErrTooLarge", err)
			}
			if res != nil && (len(res.Body) != limit || !res.Truncated) {
				t.Errorf("%d bytes, truncated %v", len(res.Body), res.Truncated)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 { // client and server
				t.Errorf("%d MiB were allocated for a body of 1 MiB", used>>20)
			}
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func TestBody_AtItsLimit_IsComplete(t *testing.T) {
	n := newInternet(t)
	n.site("good.example", text(strings.Repeat("x", 1000)))
	c := n.client(nil)
	if res, err := c.NewSession().Get(t.Context(), "http://good.example/", safehttp.Limits{Body: 1000}); err != nil || res.Truncated || len(res.Body) != 1000 {
		t.Errorf("a body of exactly the limit: %v", err)
	}
	res, err := c.NewSession().Get(t.Context(), "http://good.example/", safehttp.Limits{Body: 999})
	if !errors.Is(err, safehttp.ErrTooLarge) || res == nil || len(res.Body) != 999 || !res.Truncated || res.StatusCode != 200 {
		t.Errorf("a body one byte over the limit: %+v, %v", res, err)
	}
	if _, err := c.NewSession().Get(t.Context(), "http://good.example/", safehttp.Limits{Body: 1 << 40}); err != nil { // reduced to the package's own limit
		t.Error(err)
	}
}

func TestHeader_Huge_Fails(t *testing.T) {
	n := newInternet(t)
	n.name("header.example", public)
	n.serve(public+":80", read(func(conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Huge: ")
		io.Copy(conn, endless{})
	}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	get(t, n.client(nil), "http://header.example/", safehttp.ErrTooLarge)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("%d KiB allocated", used>>10)
	}
}

func TestSessionBudget(t *testing.T) {
	n := newInternet(t)
	n.site("good.example", text(strings.Repeat("x", 1000)))
	c := n.client(nil)
	s := c.NewSessionWithin(4, 2500)
	for i := range 2 {
		if _, err := s.Get(t.Context(), "http://good.example/", safehttp.Limits{}); err != nil {
			t.Fatalf("fetch %d: %v", i, err)
		}
	}
	res, err := s.Get(t.Context(), "http://good.example/", safehttp.Limits{})
	if !errors.Is(err, safehttp.ErrBudget) || res == nil || len(res.Body) > 500 {
		t.Errorf("get beyond the byte budget: %v, %+v; want ErrBudget and at most 500 bytes", err, res)
	}
	if fetches, size := s.Fetched(); fetches != 3 || size != 3000 {
		t.Errorf("fetched %d, %d bytes; want 3 and 3000", fetches, size)
	}
	s = c.NewSessionWithin(4, 2500)
	for i := range 5 {
		_, err := s.Get(t.Context(), "http://good.example/", safehttp.Limits{Body: 10})
		if want := map[bool]error{true: safehttp.ErrBudget, false: safehttp.ErrTooLarge}[i == 4]; !errors.Is(err, want) {
			t.Errorf("fetch %d: %v, want %v", i, err, want)
		}
	}
	if _, err := c.NewSession().Get(t.Context(), "http://good.example/", safehttp.Limits{}); err != nil {
		t.Errorf("get in a new session: %v", err)
	}
}

func TestConnectionErrors(t *testing.T) {
	good := certificate(t, nil, "tls.example")
	expired := certificate(t, func(c *x509.Certificate) { c.NotAfter = time.Unix(1000, 0) }, "tls.example")
	other := certificate(t, nil, "other.example")
	n := newInternet(t)
	fail := func(err error) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: err}
		}
	}
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		dial  func(context.Context, string, string) (net.Conn, error)
		url   string
		want  error
	}{
		{name: "refused", url: "http://tls.example/", want: safehttp.ErrRefused},
		{name: "no route", dial: fail(syscall.ENETUNREACH), url: "http://tls.example/", want: safehttp.ErrUnreachable},
		{name: "host down", dial: fail(syscall.EHOSTUNREACH), url: "http://tls.example/", want: safehttp.ErrUnreachable},
		{name: "reset while connecting", dial: fail(syscall.ECONNRESET), url: "http://tls.example/", want: safehttp.ErrReset},
		{name: "kernel gave up", dial: fail(syscall.ETIMEDOUT), url: "http://tls.example/", want: safehttp.ErrTimeout},
		{name: "closed at once", serve: func(net.Conn) {}, url: "http://tls.example/", want: safehttp.ErrReset},
		{name: "closed in the handshake", serve: func(net.Conn) {}, url: "https://tls.example/", want: safehttp.ErrReset},
		{name: "expired", serve: n.http(text("x"), expired), url: "https://tls.example/", want: safehttp.ErrTLS},
		{name: "another host's", serve: n.http(text("x"), other), url: "https://tls.example/", want: safehttp.ErrTLS},
		{name: "plain HTTP", serve: n.http(text("x"), nil), url: "https://tls.example/", want: safehttp.ErrTLS},
		{name: "garbage", serve: func(c net.Conn) { c.Read(make([]byte, 5)); io.WriteString(c, "garbage in place of TLS") }, url: "https://tls.example/", want: safehttp.ErrTLS},
		{name: "old TLS", serve: n.http(text("x"), func() *tls.Config { c := good.Clone(); c.MaxVersion = tls.VersionTLS11; return c }()), url: "https://tls.example/", want: safehttp.ErrTLS},
	} {
		n := newInternet(t)
		n.name("tls.example", public)
		if c.serve != nil {
			n.serve(public+":80", c.serve)
			n.serve(public+":443", c.serve)
		}
		client := n.client(func(cfg *safehttp.Config) {
			if c.dial != nil {
				cfg.Dial = c.dial
			}
		})
		if _, err := client.NewSession().Get(t.Context(), c.url, safehttp.Limits{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v (%s), want %v", c.name, err, safehttp.Reason(err), c.want)
		}
	}
	n.name("tls.example", public)
	n.serve(public+":443", n.http(text("x"), good))
	untrusting := n.client(func(cfg *safehttp.Config) { cfg.RootCAs = x509.NewCertPool() })
	get(t, untrusting, "https://tls.example/", safehttp.ErrTLS)
	get(t, n.client(nil), "https://tls.example/", nil)
}

func TestDNSErrors(t *testing.T) {
	n := newInternet(t)
	n.names["empty.example"] = func(int) ([]netip.Addr, error) { return nil, nil }
	n.names["servfail.example"] = func(int) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	}
	n.names["slow.example"] = func(int) ([]netip.Addr, error) { return nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true} }
	c := n.client(nil)
	for host, want := range map[string]safehttp.DNSError{
		"nxdomain.example": {NotFound: true}, "empty.example": {NotFound: true}, "servfail.example": {}, "slow.example": {Timeout: true},
	} {
		_, err := c.NewSession().Get(t.Context(), "https://"+host+"/", safehttp.Limits{})
		var dns *safehttp.DNSError
		if !errors.Is(err, safehttp.ErrDNS) || !errors.As(err, &dns) || dns.NotFound != want.NotFound || dns.Timeout != want.Timeout || dns.Host != host {
			t.Errorf("%s: %v, %+v", host, err, dns)
		}
		reason := map[bool]string{true: "dns_not_found", false: "dns_failed"}[want.NotFound]
		if got := safehttp.Reason(err); got != reason {
			t.Errorf("%s: reason %s, want %v", host, got, reason)
		}
	}
}

func TestDial_FirstAddressFails_TriesSecond(t *testing.T) {
	n := newInternet(t)
	n.name("two.example", "93.184.216.30", "2606:4700::1", public)
	n.serve(public+":80", n.http(text("hi"), nil))
	get(t, n.client(nil), "http://two.example/", nil)
	want := []string{"tcp4 93.184.216.30:80", "tcp6 [2606:4700::1]:80", "tcp4 " + public + ":80"}
	if d := n.dials(); fmt.Sprint(d) != fmt.Sprint(want) {
		t.Errorf("dialed %v, want %v", d, want)
	}
}

func TestManyAddresses_AreLimited(t *testing.T) {
	n := newInternet(t)
	n.names["many.example"] = func(int) ([]netip.Addr, error) {
		var list []netip.Addr
		for i := range 200 {
			list = append(list, netip.AddrFrom4([4]byte{45, 1, 1, byte(i)}))
		}
		return list, nil
	}
	get(t, n.client(nil), "http://many.example/", safehttp.ErrRefused)
	if d := n.dials(); len(d) > 6 {
		t.Errorf("%d addresses were dialed, want at most 6", len(d))
	}
}

func TestConfig(t *testing.T) {
	_, err := safehttp.New(safehttp.Config{UserAgent: "a\r\nX: y", Denied: []netip.Prefix{{}}})
	if err == nil || len(strings.Split(err.Error(), "\n")) != 2 {
		t.Errorf("New() = %v, want two errors", err)
	}
}

func TestMetrics(t *testing.T) {
	n := newInternet(t)
	n.site("good.example", text("hello"))
	registry := prometheus.NewRegistry()
	c := n.client(func(cfg *safehttp.Config) { cfg.Registerer = registry })
	get(t, c, "http://good.example/", nil)
	get(t, c, "http://nxdomain.example/", safehttp.ErrDNS)
	families := testmust.Get(registry.Gather())(t)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	want := map[string]float64{
		"letterhead_fetches_total ok": 1, "letterhead_fetches_total dns_not_found": 1, "letterhead_fetch_bytes_total": 5, "letterhead_fetch_duration_seconds": 2,
	}
	if !maps.Equal(got, want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
	if _, err := safehttp.New(safehttp.Config{Registerer: registry}); err == nil {
		t.Error("two clients registered the same metrics")
	}
}

func BenchmarkGet(b *testing.B) {
	t := &testing.T{}
	n := &internet{t: t, names: map[string]func(int) ([]netip.Addr, error){}, asked: map[string]int{}, hosts: map[string]func(net.Conn){}}
	n.site("good.example", text(strings.Repeat("<p>hello</p>", 1000)))
	c := testmust.Get(safehttp.New(safehttp.Config{Resolver: n, Dial: n.dial}))(b)
	defer c.Close()
	for b.Loop() {
		testmust.Succeed(b, testmust.Err(c.NewSession().Get(b.Context(), "http://good.example/", safehttp.Limits{})))
	}
}
