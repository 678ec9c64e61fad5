package readapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/domain/plan"
	"letterhead/internal/testmust"
	"letterhead/readapi"
)

// sent opens a connection that sends bytes.
func (s *service) sent(text string) net.Conn {
	s.t.Helper()
	conn, err := s.pipes.dial()
	s.must(err)
	s.t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, text)
	s.must(err)
	return conn
}

func (s *service) answer(conn net.Conn) *http.Response {
	s.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	s.must(err)
	_, err = io.Copy(io.Discard, resp.Body)
	s.must(err)
	synctest.Wait() // the server may close its end
	return resp
}

func withBody(method, path, headers string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: in.the.bubble\r\n%sContent-Length: 1000\r\n\r\n", method, path, headers)
}

func TestRequest_BodyNeverSent_IsAnsweredImmediatelyAndClosed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Custom, 50)
		s.known("acme.com", record("acme"))
		key := "X-Api-Key: " + c.secret + "\r\n"
		for _, test := range []struct {
			sent string
			want int
		}{
			{withBody("POST", "/v1/me", ""), http.StatusMethodNotAllowed},
			{withBody("GET", "/v1/me", ""), http.StatusUnauthorized},
			{withBody("POST", "/v1/brands/batch", ""), http.StatusUnauthorized},
			{withBody("POST", "/v1/brands/batch", "X-Api-Key: lh_sk_nonsense\r\n"), http.StatusUnauthorized},
			{withBody("POST", "/mcp", ""), http.StatusUnauthorized},
			{withBody("POST", "/mcp", "Expect: 100-continue\r\n"), http.StatusUnauthorized},
			{withBody("GET", "/operators", ""), http.StatusOK},
			{withBody("GET", "/docs/errors", ""), http.StatusOK},
			{withBody("GET", "/nothing", ""), http.StatusNotFound},
			{withBody("GET", "/v1/me", "Expect: 100-continue\r\n"+key), http.StatusOK},
			{withBody("GET", "/v1/brands/acme.com", "Expect: 100-continue\r\n"+key), http.StatusOK},
		} {
			began := time.Now()
			conn := s.sent(test.sent)
			resp := s.answer(conn)
			_, err := conn.Read(make([]byte, 1))
			if resp.StatusCode != test.want || !resp.Close || err == nil {
				s.t.Errorf("%q: status %d, close %t, then %v; want %d and the end", test.sent, resp.StatusCode, resp.Close, err, test.want)
			}
			// Closing an unread body beyond the bytes that net/http reads takes half a second.
			if took := time.Since(began); took > time.Second {
				s.t.Errorf("%q kept the connection open for %s, want at most %v", test.sent, took, time.Second)
			}
		}
	}, operators)
}

// operators is a handler of another part.
func operators(set *setup) {
	set.extra = map[string]http.Handler{"/operators": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })}
}

func TestBody_TooSlow_Is400WithReason(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Custom, 50)
		s.known("acme.com", record("acme"))
		for _, target := range []string{"POST /v1/brands/batch", "POST /mcp", "GET /v1/brands/acme.com"} {
			began := time.Now()
			method, path, _ := strings.Cut(target, " ")
			conn := s.sent(withBody(method, path, "X-Api-Key: "+c.secret+"\r\n"))
			if resp := s.answer(conn); resp.StatusCode != http.StatusBadRequest || !resp.Close {
				s.t.Errorf("%s: status %d, close %t", path, resp.StatusCode, resp.Close)
			}
			if took := time.Since(began); took != readapi.BodyStartWithin {
				s.t.Errorf("%s: answered after %s, want %v", path, took, readapi.BodyStartWithin)
			}
		}
		if b := c.books(); b.balance() != 50 {
			s.t.Errorf("balance %d, want 50", b.balance())
		}
		// A body at the minimum rate is read to its end, and its connection serves the next request.
		conn := s.sent("POST /reads HTTP/1.1\r\nHost: x\r\nContent-Length: " + fmt.Sprint(8*readapi.MinBodyRate) + "\r\n\r\n")
		for range 8 {
			s.clock.add(time.Second)
			_, err := io.WriteString(conn, strings.Repeat("x", readapi.MinBodyRate))
			s.must(err)
		}
		if resp := s.answer(conn); resp.StatusCode != http.StatusOK || resp.Close {
			s.t.Errorf("a body at the minimum rate: status %d, close %t", resp.StatusCode, resp.Close)
		}
		_, err := io.WriteString(conn, whole)
		s.must(err)
		if resp := s.answer(conn); resp.StatusCode != http.StatusOK {
			s.t.Errorf("the next request: status %d, want %d", resp.StatusCode, http.StatusOK)
		}
	}, reads)
}

func TestReserve_AllConnectionsBusy_ServesHealthChecksOnly(t *testing.T) {
	t.Parallel()
	const limit = 32 // including a reserve of two
	var underWay, finish chan struct{}
	inBubble(t, func(s *service) {
		var busy []net.Conn
		for range limit - 2 {
			busy = append(busy, s.sent("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"))
			<-underWay
		}
		for range 5 {
			if resp := s.answer(s.sent("GET /operators HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); resp.StatusCode != http.StatusOK {
				s.t.Errorf("a health check: status %d, want %d", resp.StatusCode, http.StatusOK)
			}
			resp := s.answer(s.sent(whole))
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || resp.Header.Get("X-Request-Id") == "" || !resp.Close {
				s.t.Errorf("another request: status %d, header %v", resp.StatusCode, resp.Header)
			}
		}
		waits := s.sent("") // in the reserve, until its request finds room
		synctest.Wait()
		close(finish)
		for _, conn := range busy {
			s.answer(conn)
		}
		_, err := io.WriteString(waits, whole)
		s.must(err)
		if resp := s.answer(waits); resp.StatusCode != http.StatusOK {
			s.t.Errorf("a request once there is room: status %d, want %d", resp.StatusCode, http.StatusOK)
		}
	}, operators, func(set *setup) {
		set.maxConns = limit
		underWay, finish = make(chan struct{}), make(chan struct{}) // must be created in the bubble
		set.extra["/slow"] = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			underWay <- struct{}{}
			<-finish
		})
	})
}

func TestExtraHandlers_AnyRequest_HasNoCORSHeaders(t *testing.T) {
	t.Parallel()
	s := start(t, operators)
	for _, method := range []string{http.MethodGet, http.MethodOptions} {
		req, err := http.NewRequest(method, s.url+"/operators", nil)
		s.must(err)
		req.Header.Set("Origin", "https://example.com")
		req.Header.Set("Access-Control-Request-Method", "GET")
		resp, err := s.transport.RoundTrip(req)
		s.must(err)
		resp.Body.Close()
		for name := range resp.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: %s is set", method, name)
			}
		}
	}
}

// TestDrain_RequestsThatWereRead_AreAnswered covers the kinds of connections during a drain: serving,
// idle and used again, idle and unused.
// Rule 2.
func TestDrain_RequestsThatWereRead_AreAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pipes, underWay, finish := newPipes(), make(chan struct{}), make(chan struct{})
		var served int
		server := readapi.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			served++
			if r.URL.Path == "/slow" {
				close(underWay)
				<-finish
			}
		}))
		listener := readapi.NewSmallListener(pipes, 10)
		done := make(chan error)
		go func() { done <- server.Serve(listener) }()
		dial := func() net.Conn {
			conn := testmust.Get(pipes.dial())(t)
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		ask := func(conn net.Conn, path string) (*http.Response, error) {
			if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				return nil, err
			}
			return http.ReadResponse(bufio.NewReader(conn), nil)
		}
		used, left, working := dial(), dial(), dial()
		for _, conn := range []net.Conn{used, left} {
			if resp, err := ask(conn, "/"); err != nil || resp.Close {
				t.Fatal(resp, err)
			}
		}
		slow := make(chan *http.Response, 1)
		go func() {
			resp, _ := ask(working, "/slow")
			slow <- resp
		}()
		<-underWay
		time.Sleep(time.Hour / 60) // in the bubble; a long idle time is no reason to end a connection immediately
		drained := make(chan error)
		go func() { drained <- listener.Drain(context.Background(), server) }()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v, want ErrServerClosed", err)
		}
		time.Sleep(readapi.DrainQuiet - time.Millisecond)
		if resp, err := ask(used, "/"); err != nil || !resp.Close {
			t.Errorf("a request on an idle connection: %v, %v; want an answer with Connection: close", resp, err)
		}
		if n, err := left.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("a connection without a request: %d bytes, %v; want 0 and %v", n, err, io.EOF)
		}
		synctest.Wait()
		select {
		case <-drained:
			t.Error("the drain ended while a request was in progress")
		default:
		}
		close(finish)
		if resp := <-slow; resp == nil || resp.StatusCode != http.StatusOK {
			t.Errorf("request in progress during the drain: %v", resp)
		}
		if err := <-drained; err != nil || served != 4 {
			t.Errorf("drain: %v, %d requests served; want 4", err, served)
		}
	})
}

// lateListener returns from Accept only when the server closes the listener, as on a busy machine.
type lateListener struct {
	*readapi.Listener
	closed chan struct{}
}

func (l *lateListener) Accept() (net.Conn, error) {
	<-l.closed
	return l.Listener.Accept()
}

func (l *lateListener) Close() error {
	defer close(l.closed)
	return l.Listener.Close()
}

func TestDrain_AcceptReturnsLate_Succeeds(t *testing.T) {
	inner := testmust.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	late := &lateListener{readapi.NewSmallListener(inner, 0), make(chan struct{})}
	serving := make(chan struct{})
	server := readapi.NewServer(http.NotFoundHandler())
	server.BaseContext = func(net.Listener) context.Context { close(serving); return context.Background() }
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(late) }()
	<-serving
	if err := late.Drain(t.Context(), server); err != nil {
		t.Errorf("Drain fails: %v", err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve returned %v, want %v", err, http.ErrServerClosed)
	}
}
