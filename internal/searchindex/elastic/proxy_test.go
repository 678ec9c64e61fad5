package elastic_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"letterhead/internal/testmust"
)

// fault manipulates one exchange and reports whether it responded; if not, the cluster gets the request.
type fault func(w http.ResponseWriter, r *http.Request) bool

// proxy is between an index and the cluster.
type proxy struct {
	*httptest.Server
	t       *testing.T
	forward http.Handler

	mu    sync.Mutex
	fault fault
	seen  []string // method and path of each request
}

func newProxy(t *testing.T, server string) *proxy {
	target := testmust.Get(url.Parse(server))(t)
	p := &proxy{t: t, forward: httputil.NewSingleHostReverseProxy(target)}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Server.Close)
	return p
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.seen = append(p.seen, r.Method+" "+r.URL.Path)
	f := p.fault
	p.mu.Unlock()
	if f == nil || !f(w, r) {
		p.forward.ServeHTTP(w, r)
	}
}

// set installs a fault, nil for none, and clears the recorded requests.
func (p *proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.seen = f, nil
}

// count returns the number of recorded requests to paths with this suffix.
func (p *proxy) count(end string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, s := range p.seen {
		if strings.HasSuffix(s, end) {
			n++
		}
	}
	return n
}

// on limits a fault to paths with this suffix, and to the first few of them.
func on(end string, times int, f fault) fault {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, end) {
			return false
		}
		mu.Lock()
		times--
		hit := times >= 0
		mu.Unlock()
		return hit && f(w, r)
	}
}

const always = 1 << 30

// answers rejects the whole request.
func answers(status int) fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"type":"made_up","reason":"fault of the test"},"status":%d}`, status)
		return true
	}
}

// hangs sends no response until the client has disconnected.
func hangs(_ http.ResponseWriter, r *http.Request) bool {
	io.Copy(io.Discard, r.Body) // the server notices a disconnected client only after its body
	<-r.Context().Done()
	return true
}

// cuts closes the connection in the middle of a response, after the cluster has processed the request.
func (p *proxy) cuts(w http.ResponseWriter, r *http.Request) bool {
	rec := httptest.NewRecorder()
	p.forward.ServeHTTP(rec, r)
	whole := rec.Body.Bytes()
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		p.t.Error(err)
		return true
	}
	defer connection.Close()
	fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nX-Elastic-Product: Elasticsearch\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(whole), whole[:len(whole)/2])
	return true
}

// rejectsItems lets the cluster process a bulk request without some of its documents, and reports a
// status for these, like a shard with a full queue.
func (p *proxy) rejectsItems(status int, reject func(domain string) bool) fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			p.t.Error(err)
			return true
		}
		lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
		var kept []byte
		rejected := make([]bool, 0, len(lines)/2)
		for i := 0; i+1 < len(lines); i += 2 {
			var head struct {
				Index struct {
					ID string `json:"_id"`
				}
			}
			if err := json.Unmarshal(lines[i], &head); err != nil {
				p.t.Errorf("bulk line %s: %v", lines[i], err)
			}
			no := reject(head.Index.ID)
			rejected = append(rejected, no)
			if !no {
				kept = append(append(append(append(kept, lines[i]...), '\n'), lines[i+1]...), '\n')
			}
		}
		var results []json.RawMessage
		if len(kept) > 0 {
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(kept)), int64(len(kept))
			r.Header.Del("Accept-Encoding")
			rec := httptest.NewRecorder()
			p.forward.ServeHTTP(rec, r)
			var answer struct{ Items []json.RawMessage }
			if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil {
				p.t.Errorf("bulk answer %s: %v", rec.Body, err)
			}
			results = answer.Items
		}
		var items []json.RawMessage
		for _, no := range rejected {
			if no {
				items = append(items, fmt.Appendf(nil, `{"index":{"status":%d,"error":{"type":"es_rejected_execution_exception","reason":"fault of the test"}}}`, status))
				continue
			}
			items, results = append(items, results[0]), results[1:]
		}
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		if err := json.NewEncoder(w).Encode(map[string]any{"items": items}); err != nil {
			p.t.Error(err)
		}
		return true
	}
}

// deadAddress returns an address without a listener.
func deadAddress(t *testing.T) string {
	l := testmust.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return "http://" + l.Addr().String()
}
