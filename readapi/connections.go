package readapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits of the open connections of a listener. Each is an open file.
const (
	// maxConns bounds the open connections: as many as look-ups under way (maxLookups).
	maxConns = 8192
	// reserveShare and maxReserve set how many of them (1/16, 32 at most) are kept for the health checks, so that
	// those are answered while a request is under way on every other connection.
	reserveShare = 16
	maxReserve   = 32
	// addressShare is the part of the connections (1/4) that one client address may have.
	addressShare = 4
	// stalledWrite is how long a write may block before its connection may be closed for another.
	stalledWrite = 2 * time.Second
	// maxScan bounds the connections that are compared to find the one to close.
	maxScan = 1024
	// maxDismissals bounds the connections that are being told that there is no room; past it they are closed
	// without an answer.
	maxDismissals = 32
	// lingerWithin is how long a connection that the server ends stays open for reading, so that bytes that are on
	// their way do not reset it before the client has read the answer.
	lingerWithin = 250 * time.Millisecond
	// maxLingerBytes bounds what is read and dropped meanwhile.
	maxLingerBytes = 256 << 10
)

// openConns returns the most connections that a process should hold: maxConns, or half of the files that it may
// have open if that is less. The other half is for the stores and for crawls.
func openConns() int { return int(min(maxConns, openFiles()/2)) }

// connState says what a connection is used for.
type connState int64

const (
	waiting connState = iota // for a request, or for the rest of its headers
	reading                  // a handler waits for bytes of the body
	writing                  // a write is under way
	serving                  // a handler is at work
	gone                     // closed, or about to be: no request on it is served any more
)

// stateBits is the room for the state in a connection's word; the time of the change has the rest.
const stateBits = 3

func packState(s connState, at time.Time) int64 { return at.UnixMilli()<<stateBits | int64(s) }

func unpackState(word int64) (s connState, at time.Time) {
	return connState(word & (1<<stateBits - 1)), time.UnixMilli(word >> stateBits)
}

// connections are the open connections of a listener. When there is no room for another one, one that waits is
// closed: for a request, for a request's body, or for a client that does not read its answer. It is the one that has
// waited longest of the client address with the most connections. Refusing the new connection instead would let a client that holds connections open lock others out.
// A connection whose request is being worked on is never closed for another.
type connections struct {
	limit     int            // without the reserve
	reserve   int            // on top of it, for health checks
	byAddress int            // of one client address
	proxies   []netip.Prefix // whose connections are those of many clients
	ending    atomic.Bool    // a drain has begun
	handlers  atomic.Int64   // requests under way
	dismissal chan struct{}

	evicted, refused *prometheus.CounterVec

	mu       sync.Mutex
	all      []*answerConn
	reserved int // of all, those that are in the reserve
	of       map[netip.Addr][]*answerConn
}

func newConnections(most int, proxies []netip.Prefix) *connections {
	reserve := min(maxReserve, most/reserveShare)
	limit := most - reserve
	return &connections{
		limit: limit, reserve: reserve, byAddress: max(1, limit/addressShare), proxies: proxies,
		dismissal: make(chan struct{}, maxDismissals), of: map[netip.Addr][]*answerConn{},
		evicted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "letterhead_http_connections_evicted_total", Help: "Connections closed to make room for others, by what they waited for: request, body or reader.",
		}, []string{"waiting_for"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "letterhead_http_connections_refused_total", Help: "Connections refused with 503, by the bound that was reached: address or all.",
		}, []string{"bound"}),
	}
}

// admit adds a connection, closing another one if it must. It reports false if there is no room.
func (c *connections) admit(conn *answerConn) bool {
	conn.address = c.boundedAddress(conn.Conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.address.IsValid() && len(c.of[conn.address]) >= c.byAddress && !c.evict(c.of[conn.address]) {
		c.refused.WithLabelValues("address").Inc()
		return false
	}
	if c.full() && !c.evict(c.all) && c.reserved >= c.reserve {
		c.refused.WithLabelValues("all").Inc()
		return false
	}
	if c.full() {
		conn.reserved.Store(true)
		c.reserved++
	}
	conn.among = c
	conn.setState(waiting)
	c.all = append(c.all, conn)
	if conn.address.IsValid() {
		c.of[conn.address] = append(c.of[conn.address], conn)
	}
	return true
}

// boundedAddress returns the client address that a connection counts for; the zero Addr for one that counts for
// none, because a proxy has it or because it has no IP address. IPv6 counts by /64.
func (c *connections) boundedAddress(conn net.Conn) netip.Addr {
	address, ok := addressOf(conn.RemoteAddr().String())
	if !ok || isTrusted(address, c.proxies) {
		return netip.Addr{}
	}
	return visitorOf(address)
}

// full reports whether only the reserve is left. It needs the lock, as do the functions below.
func (c *connections) full() bool { return len(c.all)-c.reserved >= c.limit }

// evict closes one of the given connections that waits: of the client address that has the most, the one that has
// waited longest. It reports false if none waits.
func (c *connections) evict(among []*answerConn) bool {
	for {
		var longest *answerConn
		var word int64
		var since time.Time
		var most int
		for i, conn := range among {
			if i >= maxScan && longest != nil {
				break
			}
			seen := conn.word.Load()
			state, at := unpackState(seen)
			if state == serving || state == gone || state == writing && time.Since(at) < stalledWrite {
				continue
			}
			share := 1 // of a proxy, which speaks for many clients
			if conn.address.IsValid() {
				share = len(c.of[conn.address])
			}
			if longest == nil || share > most || share == most && at.Before(since) {
				longest, word, since, most = conn, seen, at, share
			}
		}
		if longest == nil {
			return false
		}
		if !longest.word.CompareAndSwap(word, packState(gone, time.Now())) {
			continue // it has a request now
		}
		c.remove(longest)
		switch state, _ := unpackState(word); state {
		case waiting:
			c.evicted.WithLabelValues("request").Inc()
			_ = longest.Conn.Close() // its goroutine finds it closed
		case reading:
			c.evicted.WithLabelValues("body").Inc()
			c.dismiss(longest.Conn)
		default:
			c.evicted.WithLabelValues("reader").Inc()
			_ = longest.Conn.Close()
		}
		return true
	}
}

func (c *connections) remove(conn *answerConn) {
	i := slices.Index(c.all, conn)
	if i < 0 {
		return
	}
	// Those left stay roughly in the order of arrival, so that a scan begins with the oldest.
	c.all = slices.Delete(c.all, i, i+1)
	if conn.reserved.Load() {
		c.reserved--
	}
	if !conn.address.IsValid() {
		return
	}
	rest := slices.DeleteFunc(c.of[conn.address], func(other *answerConn) bool { return other == conn })
	if len(rest) == 0 {
		delete(c.of, conn.address)
	} else {
		c.of[conn.address] = rest
	}
}

func (c *connections) leave(conn *answerConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(conn)
}

// mayServe reports whether a request that is no health check may be served on a connection: one in the reserve needs
// room among the others first.
func (c *connections) mayServe(conn *answerConn) bool {
	if !conn.reserved.Load() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.reserved.Load() && (!c.full() || c.evict(c.all) && !c.full()) {
		conn.reserved.Store(false)
		c.reserved--
	}
	return !conn.reserved.Load()
}

// busyAnswer is the answer on a connection that is closed because there is no room for it.
const busyAnswer = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n" +
	"Cache-Control: no-store\r\nConnection: close\r\nContent-Length: 63\r\n\r\n" +
	"Too many connections are open. Send the request again shortly.\n"

// dismiss answers 503 and closes, without making anybody wait.
func (c *connections) dismiss(conn net.Conn) {
	select {
	case c.dismissal <- struct{}{}:
	default:
		_ = conn.Close()
		return
	}
	go func() {
		defer func() { <-c.dismissal }()
		_ = conn.SetDeadline(time.Now().Add(lingerWithin))
		if _, err := io.WriteString(conn, busyAnswer); err == nil {
			linger(conn)
		}
		_ = conn.Close()
	}()
}

// linger ends the sending half and drops what still arrives, for a moment.
func linger(conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(lingerWithin))
	_, _ = io.CopyN(io.Discard, conn, maxLingerBytes)
}

// noteState is the server's ConnState hook: a connection is active from the end of a request's headers to the
// end of its answer.
func noteState(c net.Conn, state http.ConnState) {
	conn, ok := c.(*answerConn)
	if !ok {
		return
	}
	switch state {
	case http.StateActive:
		conn.setState(serving)
	case http.StateIdle:
		conn.setState(waiting)
	}
}

// Limits of a drain.
const (
	// drainQuiet is how long a connection must have been without a request before a drain ends it. A client that
	// sends its next request within that time learns from the answer that the connection ends.
	drainQuiet = 500 * time.Millisecond
	// drainPoll is the time between two looks at the connections.
	drainPoll = 20 * time.Millisecond
	// cutWithin bounds the wait for requests that were cut off, which return their credits.
	cutWithin = 3 * time.Second
)

// endQuiet ends the sending half of every connection that has been without a request for drainQuiet. The client
// sees the connection end, not a reset, even if a request is on its way; such a request is not served.
func (c *connections) endQuiet(since, now time.Time) (left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.all {
		word := conn.word.Load()
		state, at := unpackState(word)
		if state != waiting || now.Sub(at) < drainQuiet || now.Sub(since) < drainQuiet ||
			!conn.word.CompareAndSwap(word, packState(gone, now)) {
			continue
		}
		if err := conn.CloseWrite(); err != nil {
			_ = conn.Conn.Close()
			continue
		}
		_ = conn.Conn.SetReadDeadline(now.Add(lingerWithin)) // its goroutine closes it then, or when the client does
	}
	return len(c.all)
}

// Drain ends a server on this listener. It accepts no more connections, and every answer from now on says
// Connection: close. A connection without a request stays open for drainQuiet, so that a request on its way is still
// read and answered. Drain returns once every request that was read is answered. If ctx ends before that, it cuts the
// connections that are left and waits for their requests to return what they took.
func (l *Listener) Drain(ctx context.Context, server *http.Server) error {
	l.open.ending.Store(true)
	began := time.Now()
	_ = l.Close()
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	for l.open.endQuiet(began, time.Now()) > 0 || l.open.handlers.Load() > 0 {
		select {
		case <-poll.C:
			continue
		case <-ctx.Done():
		}
		err := server.Close()
		for cut := time.Now(); l.open.handlers.Load() > 0 && time.Since(cut) < cutWithin; {
			<-poll.C
		}
		return err
	}
	return server.Close()
}
