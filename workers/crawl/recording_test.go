package crawl_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A recording is raw requests and responses by turns, with a line of this between the pairs.
const pairEnd = "*************vcr*************"

// exchange is one recorded request with its answer.
type exchange struct {
	host, uri string
	scheme    string // of the request, as far as a redirect to it told; "" unknown
	status    int
	header    http.Header
	body      []byte
}

// recordedSite answers as one recorded host did.
type recordedSite []exchange

// ServeHTTP prefers an answer that was recorded for the request's scheme, and passes over redirects of a
// page to itself, which the recorder got for something that was not written down.
func (s recordedSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	var best *exchange
	for i, x := range s {
		if x.uri != r.URL.RequestURI() || x.scheme != "" && x.scheme != scheme && best != nil {
			continue
		}
		if to, err := url.Parse(x.header.Get("Location")); err == nil && x.status/100 == 3 && to.Scheme == scheme && strings.EqualFold(to.Host, r.Host) && to.RequestURI() == x.uri {
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

// play puts every host of a recording on the net.
func (n *internet) play(name string) {
	n.t.Helper()
	sites := map[string]recordedSite{}
	for _, x := range readRecording(n.t, filepath.Join("testdata", "recordings", name+".vcr.gz")) {
		sites[x.host] = append(sites[x.host], x)
	}
	for host, s := range sites {
		n.serve(host, s)
	}
}

var requestStart = regexp.MustCompile(`(?m)^(?:GET|HEAD) \S+ HTTP/1\.\d\r?\n`)

func readRecording(t testing.TB, file string) []exchange {
	t.Helper()
	data := unzip(t, file)
	var out []exchange
	scheme := map[string]string{}
	for len(bytes.TrimSpace(data)) > 0 {
		data = bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(data, "\r\n"), []byte(pairEnd)), "\r\n")
		if len(data) == 0 {
			break
		}
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			t.Fatalf("%s: request %d: %v", file, len(out)+1, err)
		}
		_, data, _ = bytes.Cut(data, blankLine(data))
		data = bytes.TrimLeft(data, "\r\n")
		x := exchange{host: strings.ToLower(request.Host), uri: request.URL.RequestURI()}
		x.scheme = scheme[x.host+x.uri]
		var rest []byte
		x.status, x.header, x.body, rest = readAnswer(t, file, data)
		data = rest
		if to, err := url.Parse(x.header.Get("Location")); err == nil && to.Host != "" {
			scheme[strings.ToLower(to.Host)+to.RequestURI()] = to.Scheme
		}
		out = append(out, x)
	}
	return out
}

func blankLine(data []byte) []byte {
	lf, crlf := bytes.Index(data, []byte("\n\n")), bytes.Index(data, []byte("\r\n\r\n"))
	if crlf >= 0 && (lf < 0 || crlf < lf) {
		return []byte("\r\n\r\n")
	}
	return []byte("\n\n")
}

// readAnswer reads one response. Its body ends where its length says, when a pair really ends there, or
// else at the next separator or request.
func readAnswer(t testing.TB, file string, data []byte) (status int, header http.Header, body, rest []byte) {
	t.Helper()
	head, after, _ := bytes.Cut(data, blankLine(data))
	lines := strings.Split(strings.ReplaceAll(string(head), "\r\n", "\n"), "\n")
	if _, err := fmt.Sscanf(strings.SplitN(lines[0], " ", 2)[1], "%d", &status); err != nil {
		t.Fatalf("%s: status line %q", file, lines[0])
	}
	header = http.Header{}
	for _, line := range lines[1:] {
		if k, v, ok := strings.Cut(line, ":"); ok {
			header.Add(strings.TrimSpace(k), strings.TrimSpace(v))
		}
	}
	end := len(after)
	if i := bytes.Index(after, []byte(pairEnd)); i >= 0 {
		end = i
	} else if at := requestStart.FindIndex(after); at != nil {
		end = at[0]
	}
	if n, err := strconv.Atoi(header.Get("Content-Length")); err == nil && n <= len(after) {
		next := bytes.TrimLeft(after[n:], "\r\n")
		if len(next) == 0 || bytes.HasPrefix(next, []byte(pairEnd)) || requestStart.Match(next[:min(len(next), 200)]) {
			return status, header, after[:n], after[n:]
		}
	}
	body = bytes.TrimSuffix(bytes.TrimSuffix(after[:end], []byte("\n")), []byte("\r"))
	if strings.EqualFold(header.Get("Transfer-Encoding"), "chunked") {
		if joined, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body))); err == nil {
			body = joined
		}
	}
	return status, header, body, after[end:]
}

func unzip(t testing.TB, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
