// Package testlink makes the network's faults between a client and a server without touching the server. It
// is for tests only.
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
	// chunk is the most that is passed on at once, in bytes.
	chunk = 32 << 10
	// dialTimeout bounds the way to the server.
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
	changed chan struct{} // closed and made anew when state changes
	conns   map[net.Conn]struct{}
	// swallow is asked about what the server sends while swallows is above zero.
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

// Open listens on a free port of this machine and leads to the server at an address (host:port), which need
// not be there. Close ends it.
func Open(server string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, server: server, changed: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	l.ended.Go(l.accept)
	return l, nil
}

// Through is Open of a link that goes with the test.
func Through(t testing.TB, server string) *Link {
	t.Helper()
	l, err := Open(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// ThroughURL is Through to the server of a URL with a port; it returns the URL that leads through the link
// too.
func ThroughURL(t testing.TB, server string) (*Link, string) {
	t.Helper()
	at, err := url.Parse(server)
	if err != nil || at.Port() == "" {
		t.Fatal("the URL of the server is not well formed, or without a port") // it may hold a password
	}
	l := Through(t, at.Host)
	at.Host = l.Address()
	return l, at.String()
}

// Address is where clients connect to (host:port).
func (l *Link) Address() string { return l.listener.Addr().String() }

// RoundTrips counts the times that a client spoke, on any connection, first or after the server had spoken.
func (l *Link) RoundTrips() int64 { return l.trips.Load() }

// Hang lets nothing through any more, in either direction, and keeps the connections open; new ones are
// accepted and reach the server when the link opens. So does a paused server, and a network that loses
// everything.
func (l *Link) Hang() { l.set(hung) }

// Resume ends Hang and Refuse. What was held back by Hang arrives, where its connection still lives.
func (l *Link) Resume() { l.set(open) }

// Refuse resets all connections and every new one at once, as the machine of a server does that is not
// running.
func (l *Link) Refuse() { l.set(refusing) }

// Cut ends all connections, also hung ones, and changes nothing for new ones.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.Close()
	}
}

// Swallow asks about everything that the server sends, until it has said true some times: that does not
// arrive, and its connection is cut. So a reply is lost whose request was carried out. A reply may be
// passed on in several parts. is must not call the link.
func (l *Link) Swallow(times int, is func(b []byte) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.swallow, l.swallows = is, times
}

// Close ends all connections and waits until nothing of the link runs.
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
	if s == refusing || s == closed { // before anybody may pass again: what was held back is lost
		for conn := range l.conns {
			reset(conn)
		}
	}
}

// reset closes a connection so that the other side sees an error, not an end.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the close is a plain one, which is enough to go on
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
			continue // the client went before it was accepted
		}
		l.ended.Go(func() { l.serve(client) })
	}
}

// serve carries one connection.
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
	var spoke atomic.Bool // the client, since the server did
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

// keep notes a connection, unless the link takes none.
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

// carry passes on what one side sends until it ends or is lost, and then ends both.
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
				l.mayPass() // the end of a connection is held back too
			}
			return
		}
	}
}

// mayPass waits while the link hangs; false: what is held back never arrives.
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
