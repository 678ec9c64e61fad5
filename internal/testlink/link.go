// Package testlink simulates network faults between a client and a server without changing the server.
// It is for tests only.
package testlink

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// chunk is the maximum number of bytes that are forwarded at a time.
	chunk = 32 << 10
	// dialTimeout limits connecting to the server.
	dialTimeout = 10 * time.Second
)

// Link is a TCP proxy between clients and a server. It is safe for concurrent use.
type Link struct {
	listener net.Listener
	server   string
	ended    sync.WaitGroup
	trips    atomic.Int64

	mu      sync.Mutex
	state   state
	changed chan struct{} // closed and replaced when state changes
	conns   map[net.Conn]struct{}
	// swallow is called for the data from the server while swallows is above zero.
	swallow  func(b []byte) bool
	swallows int
}

type state int

const (
	open state = iota
	hung
	refusing
	closed
)

// Open listens on a free local port and forwards to the server at host:port, which need not be running. Close ends it.
func Open(server string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, server: server, changed: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	l.ended.Go(l.accept)
	return l, nil
}

// Through is Open with a link that is closed when the test ends.
func Through(t testing.TB, server string) *Link {
	t.Helper()
	l, err := Open(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// ThroughURL is Through for the server of a URL with a port; it also returns the URL through the link.
func ThroughURL(t testing.TB, server string) (*Link, string) {
	t.Helper()
	at, err := url.Parse(server)
	if err != nil || at.Port() == "" {
		t.Fatal("the URL of the server is not well formed, or without a port") // may contain a password
	}
	l := Through(t, at.Host)
	at.Host = l.Address()
	return l, at.String()
}

// Address returns the address to which clients connect (host:port).
func (l *Link) Address() string { return l.listener.Addr().String() }

// RoundTrips returns the number of round trips on all connections. A round trip begins when a client sends
// data at the start of a connection or after data from the server.
func (l *Link) RoundTrips() int64 { return l.trips.Load() }

// Hang stops all data in both directions and keeps the connections open. New connections are accepted but
// reach the server only after Resume. It simulates a paused server, or a network that loses all packets.
func (l *Link) Hang() { l.set(hung) }

// Resume ends Hang or Refuse. Data delayed by Hang arrives if its connection is still open.
func (l *Link) Resume() { l.set(open) }

// Refuse immediately resets all existing and new connections, like a machine on which the server is not running.
func (l *Link) Refuse() { l.set(refusing) }

// Cut closes all existing connections, including hung ones. New connections are not affected.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.Close()
	}
}

// Swallow loses responses to requests that the server has processed. It calls is with all data that the
// server sends. If is returns true, the data is dropped and its connection is closed; after the given number
// of times Swallow ends. A response may arrive in several parts. The function must not call the link.
func (l *Link) Swallow(times int, is func(b []byte) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.swallow, l.swallows = is, times
}

// Close closes all connections and waits until all goroutines of the link have ended.
func (l *Link) Close() {
	_ = l.listener.Close()
	l.set(closed)
	l.ended.Wait()
}

func (l *Link) set(s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == closed {
		return
	}
	l.state = s
	close(l.changed)
	l.changed = make(chan struct{})
	if s == refusing || s == closed { // before data may pass again, so that delayed data is lost
		for conn := range l.conns {
			reset(conn)
		}
	}
}

// reset closes a connection so that the other side sees an error, not EOF.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // if this fails, a normal close is good enough
	}
	_ = conn.Close()
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client disconnected before it was accepted
		}
		l.ended.Go(func() { l.serve(client) })
	}
}

// serve forwards one connection.
func (l *Link) serve(client net.Conn) {
	if !l.keep(client) {
		return
	}
	defer l.drop(client)
	if !l.mayPass() {
		return
	}
	server, err := net.DialTimeout("tcp", l.server, dialTimeout)
	if err != nil {
		reset(client)
		return
	}
	if !l.keep(server) {
		return
	}
	defer l.drop(server)
	var spoke atomic.Bool // whether the client has sent data since the server did
	var both sync.WaitGroup
	both.Go(func() {
		l.carry(server, client, func([]byte) bool {
			if !spoke.Swap(true) {
				l.trips.Add(1)
			}
			return false
		})
	})
	both.Go(func() {
		l.carry(client, server, func(b []byte) bool {
			spoke.Store(false)
			return l.swallowed(b)
		})
	})
	both.Wait()
}

// keep registers a connection, unless the link rejects connections.
func (l *Link) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == refusing || l.state == closed {
		reset(conn)
		return false
	}
	l.conns[conn] = struct{}{}
	return true
}

func (l *Link) drop(conn net.Conn) {
	_ = conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

// carry forwards the data from one side until it ends or is lost, and then closes both.
func (l *Link) carry(to, from net.Conn, lost func(b []byte) bool) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, chunk)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if !l.mayPass() || lost(b[:n]) {
				return
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				l.mayPass() // closing a connection is delayed, too
			}
			return
		}
	}
}

// mayPass waits while the link hangs. It returns false if delayed data is lost.
func (l *Link) mayPass() bool {
	for {
		l.mu.Lock()
		now, changed := l.state, l.changed
		l.mu.Unlock()
		if now != hung {
			return now == open
		}
		<-changed
	}
}

func (l *Link) swallowed(b []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.swallows == 0 || !l.swallow(b) {
		return false
	}
	l.swallows--
	return true
}
