package readapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/web"
)

// messageNothingRan ends the sentence of a 503 for a request that reached no router.
const messageNothingRan = "nothing ran and nothing was charged. Send the request again after Retry-After."

// Unrouted answers requests that reach no router: all while a node is starting, those that are not
// well-formed, and those for which there is no room.
type Unrouted struct {
	// Ready answers /readyz. If it is nil, the path is answered like others.
	Ready http.Handler
	api   *API // only what an error needs
	admin bool // of the admin API, which has its own codes and is closed to pages of other sites
}

// NewUnrouted returns the answers of a server of the API with BaseURL, LogoHost and LogoHosts of a configuration.
func NewUnrouted(c Config, logger *slog.Logger) *Unrouted {
	baseURL := c.BaseURL
	u := newUnrouted(baseURL, logger)
	u.api.hosts = hostsOf(c)
	u.api.pages.docsURLs = docsURLs(baseURL)
	return u
}

// NewUnroutedAdmin returns the answers of a server of the admin API, for an API at a base URL.
func NewUnroutedAdmin(baseURL string, logger *slog.Logger) *Unrouted {
	u := newUnrouted(baseURL, logger)
	u.admin = true
	return u
}

func newUnrouted(baseURL string, logger *slog.Logger) *Unrouted {
	metrics, _ := newMetrics(nil) // which fails only in registering
	return &Unrouted{api: &API{
		Config: Config{Logger: logger, Now: time.Now, NewID: uuid.NewString}, metrics: metrics,
		secure: schemeOf(baseURL) == "https",
	}}
}

// ServeHTTP answers for a node that is starting: with 503, except for /healthz, because the process is running, and for
// preflights, without which a page could not read the 503.
func (u *Unrouted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := u.exchange(w, r)
	defer x.finish()
	switch path := r.URL.Path; {
	case path == "/healthz":
		x.closeToOtherSites()
		x.send(http.StatusOK, web.Text, []byte("ok\n"))
	case path == "/readyz" && u.Ready != nil:
		x.closeToOtherSites()
		u.Ready.ServeHTTP(x, r)
	case isPreflight(r) && !u.admin && !isDashboard(path):
		x.answerPreflight()
	default:
		u.fail(x, unavailable("The service is starting, so "+messageNothingRan, retryStarting, nil))
	}
}

func (u *Unrouted) exchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := u.api.newExchange(w, r)
	x.Route = "unrouted"
	x.setCommonHeaders()
	if u.admin {
		x.closeToOtherSites()
	}
	return x
}

// fail answers with a problem in the form of the path.
func (u *Unrouted) fail(x *exchange, p *Problem) {
	if !u.admin {
		x.setForm()
	} else if p.Code == CodeUpstreamFailed {
		p.Code = "unavailable" // the code of the admin API
	}
	x.fail(p)
}

// setForm sets the form of an error by the path, for requests that reach no endpoint.
func (x *exchange) setForm() {
	path, host := x.request.URL.EscapedPath(), x.request.Host
	x.topMessage = isV2(path)
	x.rpc = path == "/mcp"
	x.plain = strings.HasPrefix(path, logoPath) || strings.HasPrefix(path, compatPath) || strings.HasPrefix(path, "/cdn/") || x.api.hostOfLogos(host) != nil
	if isDashboard(path) {
		x.plain = true
		x.closeToOtherSites()
	}
}

// reject returns the whole answer to a request of which only the first bytes are known. They decide
// its form, as far as they can be parsed.
func (u *Unrouted) reject(start []byte, p *Problem) []byte {
	line, _, _ := bytes.Cut(start, []byte("\n"))
	method, target, _ := strings.Cut(string(line), " ")
	target, _, _ = strings.Cut(strings.TrimSuffix(target, "\r"), " ")
	path, _, _ := strings.Cut(target, "?")
	r := (&http.Request{Method: method, URL: &url.URL{Path: path}}).WithContext(context.Background())
	w := web.NewAnswer()
	w.Header().Set("Date", u.api.Now().UTC().Format(http.TimeFormat))
	x := u.exchange(w, r)
	u.fail(x, p)
	x.finish()
	whole := http.Response{
		StatusCode: w.Status, ProtoMajor: 1, ProtoMinor: 1, Header: w.Header(), Request: r, Close: true,
		Body: io.NopCloser(&w.Body), ContentLength: int64(w.Body.Len()),
	}
	var text bytes.Buffer
	_ = whole.Write(&text) // to memory, which does not fail
	return text.Bytes()
}

// rejectionOf returns the problem that a rejection of net/http, which is a whole answer, describes.
func rejectionOf(sent []byte) *Problem {
	p := web.Invalid("The request is not well-formed HTTP/1.1.")
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(sent)), nil)
	if err != nil {
		return p
	}
	switch p.Status = resp.StatusCode; p.Status {
	case http.StatusRequestHeaderFieldsTooLarge:
		p.Text = fmt.Sprintf("The request line and headers are larger than %d KiB. "+
			"Send a shorter URL, or fewer or shorter headers.", maxHeaderBytes>>10)
	case http.StatusNotImplemented:
		p.Text = "The Transfer-Encoding is not supported. Send the body with a Content-Length, or chunked."
	case http.StatusHTTPVersionNotSupported:
		p.Text = "The version of HTTP is not supported. Send HTTP/1.1."
	case http.StatusExpectationFailed:
		p.Text = "The only expectation that is supported is 100-continue. Send the request without Expect."
	default:
		if _, reason, ok := strings.Cut(resp.Status, ": "); ok {
			p.Text = fmt.Sprintf("The request is not well-formed HTTP/1.1: %s.", reason)
		}
	}
	return p
}
