package readapi_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"letterhead/domain/plan"
	"letterhead/internal/testmust"
	"letterhead/readapi"
)

// bounded is a server with few connections, in a bubble.
type bounded struct {
	pipes    *pipes
	listener *readapi.Listener
	finish   chan struct{} // of requests to /slow
	server   *http.Server
	served   chan error
}

// serveBounded serves with room for limit connections, in addition to a reserve of one.
func serveBounded(limit int) *bounded {
	b := &bounded{pipes: newPipes(), finish: make(chan struct{}), served: make(chan error, 1)}
	b.server = readapi.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "" {
			readapi.KeyChecked(r)
		}
		if r.URL.Path == "/slow" {
			<-b.finish
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	}))
	b.listener = readapi.NewSmallListener(b.pipes, limit+1)
	go func() { b.served <- b.server.Serve(b.listener) }()
	return b
}

func (b *bounded) close() {
	close(b.finish)
	b.server.Close()
	<-b.served
	time.Sleep(time.Second) // net/http lingers
	synctest.Wait()
}

// evicted returns how many connections were closed to make room.
func (b *bounded) evicted() (n float64) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(b.listener.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "letterhead_http_connections_evicted_total" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// held is a connection that a client keeps open.
type held struct {
	conn  net.Conn
	end   *pipe // the server's
	kind  string
	since time.Time // when it last sent something
}

// Kinds of connections by what the client sends.
var kinds = map[string]string{
	"silent": "",
	"header": "GET / HTTP/1.1\r\nX-Api-Key: k",
	"idle":   "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"body":   "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
	"busy":   "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n",
	"keyed":  "GET / HTTP/1.1\r\nHost: x\r\nX-Api-Key: k\r\n\r\n",
	"kept":   "POST / HTTP/1.1\r\nHost: x\r\nX-Api-Key: k\r\nContent-Length: 1000\r\n\r\n", // keyed, without its body
}

// hold connects and sends the bytes of a kind.
func (b *bounded) hold(kind string) *held {
	conn, end, err := b.pipes.dialFrom(nil)
	if err != nil {
		panic(err)
	}
	synctest.Wait()
	h := &held{conn, end, kind, time.Now()}
	go io.Copy(io.Discard, conn)
	h.send()
	return h
}

func (h *held) send() {
	h.since = time.Now()
	_, _ = io.WriteString(h.conn, kinds[h.kind])
	synctest.Wait()
}

func (h *held) open() bool { return !h.end.ended.Load() }

// isSafe reports whether a connection may never be closed to make room.
func (h *held) isSafe() bool { return h.kind == "busy" || h.kind == "keyed" || h.kind == "kept" }

func (h *held) isUnfinished() bool { return h.kind == "header" || h.kind == "body" }

// isEnding reports whether a request without its body was answered, and the connection is being closed.
func (h *held) isEnding() bool {
	return h.open() && (h.kind == "body" || h.kind == "kept") && time.Since(h.since) >= readapi.BodyStartWithin
}

// victim implements the rule: a request that was begun and not finished before an idle connection, and then the one
// that has waited longest.
func victim(all []*held) (best *held) {
	for _, h := range all {
		switch {
		case h.isSafe():
		case best == nil, h.isUnfinished() && !best.isUnfinished(), h.isUnfinished() == best.isUnfinished() && h.since.Before(best.since):
			best = h
		}
	}
	return best
}

// undated hides the test's deadline, which a bubble does not have, from rapid.
type undated struct{ *testing.T }

// TestConnections_AnySequence_ClosesTheVictimOnly compares the connections that a server closes with the rule.
func TestConnections_AnySequence_ClosesTheVictimOnly(t *testing.T) {
	t.Parallel()
	const limit, steps = 6, 25
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(undated{t}, func(r *rapid.T) {
			b := serveBounded(limit)
			defer b.close()
			var all []*held
			for step := range rapid.IntRange(1, steps).Draw(r, "steps") {
				if i := rapid.IntRange(-5, len(all)-1).Draw(r, "asks again"); i >= 0 && (all[i].kind == "idle" || all[i].kind == "keyed") {
					time.Sleep(time.Millisecond) // the resolution of a connection's word
					all[i].send()
					continue
				}
				for wait := true; wait; wait = slices.ContainsFunc(all, (*held).isEnding) {
					time.Sleep(readapi.IdleGrace) // so that each may be closed
					synctest.Wait()
				}
				all = slices.DeleteFunc(all, func(h *held) bool { return !h.open() })
				safe := 0
				for _, h := range all {
					if h.isSafe() {
						safe++
					}
				}
				among := []string{"silent", "header", "idle", "body", "busy", "keyed", "kept"}
				if safe == limit-1 {
					among = among[:4]
				}
				var out *held
				if len(all) == limit {
					out = victim(all)
				}
				added := b.hold(rapid.SampledFrom(among).Draw(r, "kind"))
				if !added.open() {
					r.Fatalf("step %d: the new connection was closed", step)
				}
				for _, h := range all {
					if h.open() == (h == out) {
						r.Fatalf("step %d: the connection %s since %s is open: %t", step, h.kind, h.since, h.open())
					}
				}
				all = append(all, added)
			}
		})
	})
}

// However many clients without a key connect, a connection whose key was checked stays, whatever it does, and so does
// one whose request arrives within IdleGrace.
func TestConnections_ManyClientsWithoutKey_CloseNoneWithKey(t *testing.T) {
	t.Parallel()
	const limit, attackers = 8, 2000
	synctest.Test(t, func(t *testing.T) {
		b := serveBounded(limit)
		defer b.close()
		keyed := b.hold("keyed")
		connect := func() (net.Conn, *pipe) {
			conn, end, err := b.pipes.dialFrom(nil)
			testmust.Succeed(t, err)
			go io.Copy(io.Discard, conn)
			return conn, end
		}
		for i := range attackers {
			conn, _ := connect()
			go io.WriteString(conn, kinds[[]string{"silent", "header", "idle", "body"}[i%4]])
			if i%100 == 0 {
				_, end := connect()
				connect()
				time.Sleep(readapi.IdleGrace / 2) // its request is in transit
				if end.ended.Load() {
					t.Fatal("a new connection was closed before its request could arrive")
				}
				keyed.send()
			}
		}
		if !keyed.open() {
			t.Error("a connection whose key was checked was closed")
		}
		if b.evicted() < attackers/2 {
			t.Errorf("%v connections were closed to make room, want most of %d", b.evicted(), attackers)
		}
	})
}

// A client that keeps connections with a valid key open takes at most three quarters of them: further answers end
// theirs.
func TestConnections_MostAreTaken_AnswersEndTheirs(t *testing.T) {
	t.Parallel()
	const limit = 16
	inBubble(t, func(s *service) {
		c := s.account(plan.Custom, 50)
		for _, key := range []string{"", "X-Api-Key: " + c.secret + "\r\n"} {
			kept := 0
			var conns []net.Conn
			for range limit {
				conn := s.sent("GET /v1/me HTTP/1.1\r\nHost: x\r\n" + key + "\r\n")
				if resp := s.answer(conn); !resp.Close {
					kept++
				}
				conns = append(conns, conn)
			}
			if want := limit * 3 / 4; kept != want {
				s.t.Errorf("with key %q, %d of %d connections were kept, want %d", key, kept, limit, want)
			}
			for _, conn := range conns {
				conn.Close()
			}
			synctest.Wait()
		}
	}, func(set *setup) { set.maxConns = limit + 1 })
}

// Without room, a request is answered with the error body in the form of its path.
func TestConnections_NoRoom_RequestGetsErrorBody(t *testing.T) {
	t.Parallel()
	var underWay, finish chan struct{}
	inBubble(t, func(s *service) {
		busy := s.sent("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
		<-underWay
		for _, c := range unroutedForms {
			conn := s.sent(c.method + " " + c.path + " HTTP/1.1\r\nHost: x\r\n\r\n")
			checkUnrouted(s.t, conn, c, http.StatusServiceUnavailable, "upstream_failed")
		}
		close(finish)
		s.answer(busy)
		if resp := s.answer(s.sent(whole)); resp.StatusCode != http.StatusOK {
			s.t.Errorf("a request once there is room: status %d, want %d", resp.StatusCode, http.StatusOK)
		}
	}, func(set *setup) {
		set.maxConns = 2
		underWay, finish = make(chan struct{}), make(chan struct{}) // must be created in the bubble
		set.extra = map[string]http.Handler{"/slow": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			underWay <- struct{}{}
			<-finish
		})}
	})
}

// A connection that is closed while its body is awaited is answered with the error body.
func TestConnections_WaitingForBodyWithoutKey_IsAnsweredAndClosed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		held := s.sent(withBody("POST", "/reads", ""))
		synctest.Wait()
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			checkUnrouted(s.t, held, unroutedForm{method: "POST", path: "/reads"}, http.StatusServiceUnavailable, "upstream_failed")
		}()
		if resp := s.answer(s.sent(whole)); resp.StatusCode != http.StatusOK {
			s.t.Errorf("a request while the only connection waits for a body: status %d, want %d", resp.StatusCode, http.StatusOK)
		}
		<-answered
		s.clock.add(time.Second) // net/http lingers
	}, reads, func(set *setup) { set.maxConns = 2 })
}

// unroutedForm is a request with the form of its answer when it reaches no router.
type unroutedForm struct {
	method, path string
	form         string // "" is the error body; message adds it at the top level; plain, rpc and none
}

var unroutedForms = []unroutedForm{
	{"GET", "/v1/me", ""},
	{"GET", "/", ""},
	{"POST", "/v1/brands/batch", ""},
	{"GET", "/v2/brands/acme.com", "message"},
	{"HEAD", "/v1/brands/acme.com", "none"},
	{"GET", "/logo/acme.com", "plain"},
	{"GET", "/cdn/a.png", "plain"},
	{"POST", "/mcp", "rpc"},
}

// checkUnrouted reads an answer and the end of its connection.
func checkUnrouted(t testing.TB, conn net.Conn, c unroutedForm, status int, code string) {
	t.Helper()
	text, _ := io.ReadAll(conn)
	head, body, _ := strings.Cut(string(text), "\r\n\r\n")
	resp := readHead(t, head)
	if resp.StatusCode != status || !resp.Close {
		t.Errorf("%s %s: status %d, close %t; want %d and the end", c.method, c.path, resp.StatusCode, resp.Close, status)
	}
	for _, name := range []string{"X-Request-Id", "Date"} {
		if resp.Header.Get(name) == "" {
			t.Errorf("%s %s: no %s", c.method, c.path, name)
		}
	}
	if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "*" {
		t.Errorf("%s %s: Access-Control-Allow-Origin %q, want *", c.method, c.path, got)
	}
	if got := resp.Header.Get("Access-Control-Expose-Headers"); !strings.Contains(got, "X-Request-Id") {
		t.Errorf("%s %s: Access-Control-Expose-Headers %q", c.method, c.path, got)
	}
	if got := resp.Header.Get("Retry-After"); (got != "") != (status == http.StatusServiceUnavailable) {
		t.Errorf("%s %s: Retry-After %q", c.method, c.path, got)
	}
	var sent struct {
		JSONRPC string
		Message string
		Error   struct {
			Code    any
			Message string
			Docs    string
			Data    struct{ Code string }
		}
	}
	if c.form != "none" && c.form != "plain" {
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Errorf("%s %s: %v in %q", c.method, c.path, err, body)
			return
		}
	}
	right := false
	switch c.form {
	case "none":
		right = body == ""
	case "plain":
		right = strings.HasSuffix(body, ".\n") && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain")
	case "rpc":
		right = sent.JSONRPC == "2.0" && sent.Error.Data.Code == code
	default:
		right = sent.Error.Code == code && sent.Error.Docs == "https://brands.example.com/docs/errors#"+code && (sent.Message == sent.Error.Message) == (c.form == "message")
	}
	if !right {
		t.Errorf("%s %s: the body is %q", c.method, c.path, body)
	}
}

// readHead parses the head of an answer.
func readHead(t testing.TB, head string) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(head+"\r\n\r\n")), &http.Request{Method: http.MethodHead})
	if err != nil {
		t.Fatalf("%v in %q", err, head)
	}
	return resp
}
