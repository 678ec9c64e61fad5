package testnet

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// A recording alternates raw requests and responses, with this line between the pairs.
const pairEnd = "*************vcr*************"

// maxExchanges limits the pairs of one recording.
const maxExchanges = 1000

// exchange is a recorded request and its response.
type exchange struct {
	host, uri string
	scheme    string // of the request, if a redirect to it shows the scheme; otherwise ""
	status    int
	header    http.Header
	body      []byte
}

// Play serves every host of a recording. It fails if the recording cannot be parsed.
func (n *Internet) Play(recording []byte) error {
	exchanges, err := readRecording(recording)
	if err != nil {
		return err
	}
	sites := map[string]recordedSite{}
	for _, x := range exchanges {
		sites[x.host] = append(sites[x.host], x)
	}
	for host, s := range sites {
		n.Serve(host, s)
	}
	return nil
}

// recordedSite responds like one recorded host.
type recordedSite []exchange

// ServeHTTP prefers a response recorded for the request's scheme, and skips
// redirects of a page to itself, whose cause was not recorded.
func (s recordedSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	var best *exchange
	for i, x := range s {
		if x.uri != r.URL.RequestURI() || x.scheme != "" && x.scheme != scheme && best != nil || x.leadsToItself(scheme, r.Host) {
			continue
		}
		if best == nil || best.scheme != scheme && x.scheme == scheme {
			best = &s[i]
		}
	}
	if best == nil {
		http.NotFound(w, r)
		return
	}
	for _, name := range []string{"Content-Type", "Location", "Etag", "Last-Modified", "Set-Cookie"} {
		if v := best.header.Values(name); len(v) > 0 {
			w.Header()[name] = v
		}
	}
	w.WriteHeader(best.status)
	w.Write(best.body)
}

func (x *exchange) leadsToItself(scheme, host string) bool {
	to, err := url.Parse(x.header.Get("Location"))
	return err == nil && x.status/100 == 3 && to.Scheme == scheme && strings.EqualFold(to.Host, host) && to.RequestURI() == x.uri
}

var requestStart = regexp.MustCompile(`(?m)^(?:GET|HEAD) \S+ HTTP/1\.\d\r?\n`)

func readRecording(data []byte) ([]exchange, error) {
	var out []exchange
	scheme := map[string]string{}
	for len(out) < maxExchanges {
		data = bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(data, "\r\n"), []byte(pairEnd)), "\r\n")
		if len(bytes.TrimSpace(data)) == 0 {
			return out, nil
		}
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return nil, fmt.Errorf("recorded request %d: %w", len(out)+1, err)
		}
		_, data, _ = bytes.Cut(data, blankLine(data))
		data = bytes.TrimLeft(data, "\r\n")
		x := exchange{host: strings.ToLower(request.Host), uri: request.URL.RequestURI()}
		x.scheme = scheme[x.host+x.uri]
		if data, err = x.readAnswer(data); err != nil {
			return nil, fmt.Errorf("recorded response %d: %w", len(out)+1, err)
		}
		if to, err := url.Parse(x.header.Get("Location")); err == nil && to.Host != "" {
			scheme[strings.ToLower(to.Host)+to.RequestURI()] = to.Scheme
		}
		out = append(out, x)
	}
	return nil, fmt.Errorf("more than %d recorded pairs", maxExchanges)
}

func blankLine(data []byte) []byte {
	lf, crlf := bytes.Index(data, []byte("\n\n")), bytes.Index(data, []byte("\r\n\r\n"))
	if crlf >= 0 && (lf < 0 || crlf < lf) {
		return []byte("\r\n\r\n")
	}
	return []byte("\n\n")
}

// readAnswer reads one response and returns the data after it. The body ends after its declared length, if a pair ends
// there, or otherwise at the next separator or request.
func (x *exchange) readAnswer(data []byte) (rest []byte, err error) {
	head, after, _ := bytes.Cut(data, blankLine(data))
	lines := strings.Split(strings.ReplaceAll(string(head), "\r\n", "\n"), "\n")
	_, status, _ := strings.Cut(lines[0], " ")
	if _, err := fmt.Sscanf(status, "%d", &x.status); err != nil || x.status < 200 || x.status > 999 {
		return nil, fmt.Errorf("status line %.60q", lines[0])
	}
	x.header = http.Header{}
	for _, line := range lines[1:] {
		if k, v, ok := strings.Cut(line, ":"); ok {
			x.header.Add(strings.TrimSpace(k), strings.TrimSpace(v))
		}
	}
	end := len(after)
	if i := bytes.Index(after, []byte(pairEnd)); i >= 0 {
		end = i
	} else if at := requestStart.FindIndex(after); at != nil {
		end = at[0]
	}
	if n, err := strconv.Atoi(x.header.Get("Content-Length")); err == nil && n >= 0 && n <= len(after) {
		next := bytes.TrimLeft(after[n:], "\r\n")
		if len(next) == 0 || bytes.HasPrefix(next, []byte(pairEnd)) || requestStart.Match(next[:min(len(next), 200)]) {
			x.body = after[:n]
			return after[n:], nil
		}
	}
	x.body = bytes.TrimSuffix(bytes.TrimSuffix(after[:end], []byte("\n")), []byte("\r"))
	if strings.EqualFold(x.header.Get("Transfer-Encoding"), "chunked") {
		if joined, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(x.body))); err == nil {
			x.body = joined
		}
	}
	return after[end:], nil
}
