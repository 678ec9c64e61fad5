package readapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/domain/plan"
	"letterhead/readapi"
)

// The bytes that slow clients send, and no more.
const (
	halfAHeader = "GET /v1/me HTTP/1.1\r\nHost: x\r\nX-Api-Key: lh_"
	halfABody   = "POST /reads HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nhalf"
	whole       = "GET /docs/errors HTTP/1.1\r\nHost: x\r\n\r\n"
)

// reads is an endpoint that reads its body, like those with a body do.
func reads(set *setup) {
	set.extra = map[string]http.Handler{"/reads": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})}
}

// TestServer_SlowClients_AreDisconnected keeps 150 connections open in every way, serves another client
// meanwhile, and checks that each kind is closed at its own limit and not before.
func TestServer_SlowClients_AreDisconnected(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Custom, 50)
		began := s.clock.now()
		held := func(sent string, reads bool) {
			conn, err := s.pipes.dial()
			s.must(err)
			s.t.Cleanup(func() { conn.Close() })
			go io.WriteString(conn, sent)
			if reads {
				go io.Copy(io.Discard, conn)
			}
		}
		const each = 30
		for range each {
			held("", false)          // sends nothing
			held(halfAHeader, false) // slow to send its headers
			held(halfABody, true)    // slow to send its body
			held(whole, false)       // never reads its answer
			held(whole, true)        // stays open for the next request
		}
		synctest.Wait()
		limits := readapi.NewServer(nil)
		for _, step := range []struct {
			after time.Duration
			left  int64
		}{
			{readapi.BodyStartWithin + 4*time.Second/readapi.MinBodyRate, 4 * each},
			{limits.ReadHeaderTimeout, 2 * each},
			{limits.WriteTimeout, each},
			{limits.IdleTimeout, 0},
		} {
			s.clock.add(step.after - time.Millisecond - s.clock.now().Sub(began))
			synctest.Wait()
			before := s.pipes.open.Load()
			c.get("/v1/me").ok(s.t)
			s.clock.add(2*time.Millisecond + time.Second) // net/http lingers before it closes a connection with unread bytes
			synctest.Wait()
			if now := s.pipes.open.Load(); before <= now || now-1 != step.left {
				s.t.Errorf("%s later %d connections are open, %d before; want %d and the client's own", step.after, now, before, step.left)
			}
		}
	}, reads)
}

// A byte per second does not extend the limit.
func TestServer_TricklingClient_IsDisconnected(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		limits := readapi.NewServer(nil)
		for _, c := range []struct {
			name, start string
			limit       time.Duration
		}{
			{"headers", "GET /v1/me HTTP/1.1\r\nX-Junk: ", limits.ReadHeaderTimeout},
			{"body", halfABody, readapi.BodyStartWithin},
		} {
			conn, err := s.pipes.dial()
			s.must(err)
			go io.Copy(io.Discard, conn)
			began := s.clock.now()
			_, err = io.WriteString(conn, c.start)
			s.must(err)
			for err == nil && s.clock.now().Sub(began) < time.Hour {
				s.clock.add(time.Second)
				_, err = io.WriteString(conn, "x")
			}
			if took := s.clock.now().Sub(began); took < c.limit || took > c.limit+2*time.Second {
				s.t.Errorf("%s: disconnected after %s, the limit is %s", c.name, took, c.limit)
			}
			conn.Close()
		}
	}, reads)
}

// TestConnections_HeldOpen_OthersAreServed is TestServer_SlowClients_AreDisconnected over real sockets, without waiting
// for their end.
func TestConnections_HeldOpen_OthersAreServed(t *testing.T) {
	t.Parallel()
	s := start(t, reads)
	s.known("acme.com", record("acme"))
	c := s.account(plan.Custom, 500)
	for i := range 150 {
		sent := []string{"", halfAHeader, halfABody, whole}[i%4]
		if i%30 == 0 {
			sent = strings.Repeat(whole, 50) // more than is buffered, and never read
		}
		conn := s.dial("")
		defer conn.Close()
		go io.WriteString(conn, sent)
	}
	together(20, func(int) {
		for _, path := range []string{"/v1/brands/acme.com", "/v1/search?q=acme", "/v1/me"} {
			c.get(path).ok(t)
		}
	})
}
