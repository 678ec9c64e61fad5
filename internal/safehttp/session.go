package safehttp

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/publicsuffix"
)

const (
	// maxCookies and maxCookieBytes limit the cookies that are kept from one response and sent with one request.
	maxCookies     = 50
	maxCookieBytes = 8 << 10
)

// Limits are the limits of one fetch. A zero field means the default. Values above the package's own
// limits are reduced to them.
type Limits struct {
	Body int64         // bytes after decompression; default MaxHTMLBytes
	Time time.Duration // default MaxFetchTime; the context's deadline counts as well
	// Hold, if not nil, is called before additional bytes of the body are kept in memory. If it returns false
	// the fetch ends with ErrBudget.
	Hold func(bytes int64) bool
}

func (l Limits) withDefaults() Limits {
	if l.Body <= 0 {
		l.Body = MaxHTMLBytes
	}
	l.Body = min(l.Body, maxBodyBytes)
	if l.Time <= 0 {
		l.Time = MaxFetchTime
	}
	return l
}

// Header is an additional request header, such as Accept or If-None-Match. It replaces a header of the
// client, except User-Agent, Accept-Encoding, Host and Cookie.
type Header struct{ Name, Value string }

// Response is a complete response.
type Response struct {
	StatusCode int
	Header     http.Header // of the last hop, as sent
	Body       []byte      // decompressed, at most Limits.Body bytes
	Truncated  bool        // the body exceeded a limit, or the server stopped early
	FinalURL   *url.URL    // URL of the last hop
	Redirects  []*url.URL  // the URLs that redirected, in order; empty without a redirect
}

// Session contains the cookies and the budget of one crawl. It has no connections, so it need not be
// closed. It is safe for concurrent use.
type Session struct {
	client     *Client
	jar        *cookiejar.Jar
	maxFetches int64
	maxBytes   int64
	fetches    atomic.Int64
	bytes      atomic.Int64
}

// NewSession returns a session without cookies, with the budget of a crawl.
func (c *Client) NewSession() *Session { return c.NewSessionWithin(sessionFetches, sessionBytes) }

// NewSessionWithin is NewSession with a different budget: the number of calls of Get, and of bytes of
// decompressed bodies.
func (c *Client) NewSessionWithin(fetches int, bytes int64) *Session {
	jar, _ := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List}) // never fails
	return &Session{client: c, jar: jar, maxFetches: int64(fetches), maxBytes: bytes}
}

// Fetched returns how many calls of Get and bytes of bodies the session has used.
func (s *Session) Fetched() (fetches int, bytes int64) {
	return int(s.fetches.Load()), s.bytes.Load()
}

// Get fetches rawURL and follows up to MaxRedirects redirects. Any HTTP status is a response, not an
// error. Errors are *Error; see the Err values. If the body exceeds its limit (ErrTooLarge) or the
// budget (ErrBudget), Get also returns the response.
func (s *Session) Get(ctx context.Context, rawURL string, limits Limits, headers ...Header) (*Response, error) {
	c := s.client
	began := c.cfg.Now()
	limits = limits.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, limits.Time)
	defer cancel()
	res, err := s.get(ctx, rawURL, limits, headers)
	size := 0
	if res != nil {
		size = len(res.Body)
	}
	took := c.cfg.Now().Sub(began)
	c.metrics.observe(took, size, err)
	c.cfg.Logger.DebugContext(ctx, "fetch", "url", redact(rawURL), "outcome", Reason(err),
		"bytes", size, "duration", took)
	return res, err
}

func (s *Session) get(ctx context.Context, rawURL string, limits Limits, headers []Header) (*Response, error) {
	u, err := CheckURL(rawURL)
	if err != nil {
		return nil, &Error{URL: redact(rawURL), Kind: ErrForbiddenURL, Err: err}
	}
	if s.fetches.Add(1) > s.maxFetches {
		return nil, &Error{URL: show(u), Kind: ErrBudget, Err: fmt.Errorf("%d fetches", s.maxFetches)}
	}
	var passed []*url.URL
	for {
		answer, err := s.roundTrip(ctx, u, headers)
		if err != nil {
			return nil, &Error{URL: show(u), Kind: classify(ctx, err), Err: err}
		}
		location := answer.Header.Get("Location")
		if !isRedirect(answer.StatusCode) || location == "" {
			res := &Response{StatusCode: answer.StatusCode, Header: answer.Header, FinalURL: u, Redirects: passed}
			return s.finish(ctx, res, answer, limits)
		}
		answer.Body.Close()
		passed = append(passed, u)
		if len(passed) > MaxRedirects {
			return nil, &Error{URL: show(u), Kind: ErrTooManyRedirects}
		}
		next, err := ResolveURL(u, location)
		if err != nil {
			return nil, &Error{URL: show(u), Kind: ErrBadRedirect, Err: err}
		}
		u = next
	}
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		return true
	}
	return false
}

// roundTrip sends one request and stores the cookies of its response.
func (s *Session) roundTrip(ctx context.Context, u *url.URL, headers []Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	req.Header.Set("Accept", "*/*")
	req.Header.Set("Accept-Language", "en,*;q=0.5")
	for _, h := range headers {
		req.Header.Set(h.Name, h.Value)
	}
	req.Header.Del("Cookie")
	req.Header.Del("Host")
	req.Header.Set("User-Agent", s.client.cfg.UserAgent)
	req.Header.Set("Accept-Encoding", "gzip")
	sent := 0
	for _, cookie := range s.jar.Cookies(u) {
		if sent += len(cookie.Name) + len(cookie.Value); sent > maxCookieBytes {
			break
		}
		req.AddCookie(cookie)
	}
	answer, err := s.client.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if cookies := answer.Cookies(); len(cookies) > 0 {
		s.jar.SetCookies(u, cookies[:min(len(cookies), maxCookies)])
	}
	return answer, nil
}

// finish reads the body of the last hop.
func (s *Session) finish(ctx context.Context, res *Response, answer *http.Response, limits Limits) (*Response, error) {
	defer answer.Body.Close()
	body, truncated, err := s.readBody(answer, limits)
	res.Body, res.Truncated = body, truncated
	if err == nil {
		return res, nil
	}
	failed := &Error{URL: show(res.FinalURL), Kind: classify(ctx, err), Err: err}
	if truncated {
		return res, failed
	}
	return nil, failed
}

// show formats a URL for logs and errors, without query and fragment, which may contain secrets.
func show(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: clip(u.Path)}).String()
}

func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "a URL that is not valid"
	}
	return show(u)
}

// Post sends a body to an https URL, and returns the response of its server without the body, which is not read: once
// the server has answered with a status, nothing can turn that into a failure. Post follows no redirect, and has no
// cookies: what it sends is only for the host of the URL. Any HTTP status is a response. Only the time of the limits
// counts. Errors are those of Get before the response, and ErrForbiddenURL for an http URL.
func (c *Client) Post(ctx context.Context, rawURL string, body []byte, limits Limits,
	headers ...Header) (*Response, error) {
	began := c.cfg.Now()
	limits = limits.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, limits.Time)
	defer cancel()
	res, err := c.post(ctx, rawURL, body, headers)
	c.metrics.observe(c.cfg.Now().Sub(began), 0, err)
	return res, err
}

func (c *Client) post(ctx context.Context, rawURL string, body []byte, headers []Header) (*Response, error) {
	u, err := CheckURL(rawURL)
	if err == nil && u.Scheme != "https" {
		err = forbidden("scheme %q", u.Scheme)
	}
	if err != nil {
		return nil, &Error{URL: redact(rawURL), Kind: ErrForbiddenURL, Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &Error{URL: show(u), Kind: ErrMalformed, Err: fmt.Errorf("%w: %w", ErrMalformed, err)}
	}
	for _, h := range headers {
		req.Header.Set(h.Name, h.Value)
	}
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	req.Header.Set("Accept-Encoding", "gzip")
	answer, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, &Error{URL: show(u), Kind: classify(ctx, err), Err: err}
	}
	if err := answer.Body.Close(); err != nil {
		c.cfg.Logger.Debug("the body of an answer was not closed", "host", u.Host, "error", err)
	}
	return &Response{StatusCode: answer.StatusCode, Header: answer.Header, FinalURL: u}, nil
}

const (
	// maxLayers limits how often a body is decompressed. Some servers compress files that are already compressed.
	maxLayers = 2
	// wireSlack is how much longer than the limit a compressed body may be. Without this limit empty gzip
	// members and blocks could go on forever, because they decompress to nothing.
	wireSlack = 64 << 10
	chunkSize = 32 << 10
)

// readBody reads at most limits.Body bytes after decompression. If truncated is true, body is only the beginning of the
// response: either err is ErrTooLarge or ErrBudget, or the server stopped early and err is nil.
func (s *Session) readBody(answer *http.Response, limits Limits) (body []byte, truncated bool, err error) {
	limit := limits.Body
	wire := &cappedReader{r: answer.Body, left: limit + wireSlack}
	decoded, err := decode(wire, answer.Header)
	if err != nil {
		return nil, false, err
	}
	chunk := make([]byte, chunkSize)
	for {
		// One byte beyond the limit distinguishes a body that ends there from a longer one.
		n, err := decoded.Read(chunk[:min(chunkSize, limit+1-int64(len(body)))])
		if s.bytes.Add(int64(n)) > s.maxBytes {
			return body, true, fmt.Errorf("%w: %d bytes", ErrBudget, s.maxBytes)
		}
		if int64(len(body)+n) > limit {
			return append(body, chunk[:n-1]...), true, fmt.Errorf("%w: body of more than %d bytes", ErrTooLarge, limit)
		}
		if n > 0 && limits.Hold != nil && !limits.Hold(int64(n)) {
			return body, true, fmt.Errorf("%w: no memory for a longer body", ErrBudget)
		}
		body = append(body, chunk[:n]...)
		switch {
		case err == nil:
		case err == io.EOF:
			return body, false, nil
		// It ended too early, or other data follows a complete gzip member.
		case len(body) > 0 && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrHeader)):
			// The Content-Length was wrong or the gzip trailer is missing. Like browsers, use the received part.
			return body, true, nil
		default:
			return body, false, bodyError(err)
		}
	}
}

// bodyError marks decoding errors with ErrMalformed. Other errors are network errors.
func bodyError(err error) error {
	if errors.As(err, new(flate.CorruptInputError)) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return err
}

// cappedReader fails with ErrTooLarge after a number of bytes.
type cappedReader struct {
	r    io.Reader
	left int64
}

func (c *cappedReader) Read(p []byte) (int, error) {
	if c.left <= 0 {
		// One more byte distinguishes a body that ends here from a longer one.
		var one [1]byte
		if n, err := c.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("%w: compressed body", ErrTooLarge)
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// decode decompresses a body. It does not trust Content-Encoding completely: a body that is declared as
// gzip but is not passes unchanged, and a text that is still gzip after one layer is decompressed once
// more. Encodings that were not requested are ErrMalformed.
func decode(r io.Reader, header http.Header) (io.Reader, error) {
	declared, err := encodings(header)
	if err != nil {
		return nil, err
	}
	layers := declared
	if isText(header.Get("Content-Type")) {
		layers = min(declared+1, maxLayers)
	}
	for range layers {
		buffered := bufio.NewReader(r)
		r = buffered
		// The first Read returns this error again.
		if magic, _ := buffered.Peek(2); len(magic) < 2 || magic[0] != 0x1f || magic[1] != 0x8b {
			return r, nil
		}
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, bodyError(err)
		}
		r = unzipped
	}
	return r, nil
}

// encodings returns the number of gzip layers in the header.
func encodings(header http.Header) (int, error) {
	count := 0
	for _, line := range header.Values("Content-Encoding") {
		for name := range strings.SplitSeq(line, ",") {
			switch name = strings.ToLower(strings.TrimSpace(name)); name {
			case "", "identity":
			case "gzip", "x-gzip":
				count++
			default:
				return 0, fmt.Errorf("%w: content encoding %q", ErrMalformed, clip(name))
			}
		}
	}
	if count > maxLayers {
		return 0, fmt.Errorf("%w: %d content encodings", ErrMalformed, count)
	}
	return count, nil
}

func isText(contentType string) bool {
	kind := strings.ToLower(contentType)
	return strings.HasPrefix(kind, "text/") || strings.Contains(kind, "xml") || strings.Contains(kind, "json") ||
		strings.Contains(kind, "javascript")
}
