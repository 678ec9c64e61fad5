package readapi

import (
	"cmp"
	"context"
	"io"
	"log/slog"
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
	// maxConns limits the open connections: as many as running look-ups (maxLookups).
	maxConns = 8192
	// reserveShare and maxReserve set how many of them (1/16, at most 32) are reserved for health
	// checks, so that these are answered even if every other connection has a running request.
	reserveShare = 16
	maxReserve   = 32
	// addressShare is the part of the connections (1/4) that one client address may have.
	addressShare = 4
	// stalledWrite is how long a write may block before its connection may be closed to make room.
	stalledWrite = 2 * time.Second
	// waitGrace is how long a waiting connection is not closed for a client that has more connections
	// than its own. Its request may be in transit, or not yet read because the processors are busy.
	waitGrace = 2 * time.Second
	// maxScan limits the search among ties: once this many connections were compared, other clients
	// with equally many waiting connections are skipped.
	maxScan = 1024
	// boundLogEvery is the minimum interval between log lines about addresses that reached their
	// limit.
	boundLogEvery = time.Minute
	// maxDismissals limits the connections that are being answered with busyAnswer; further ones
	// are closed without an answer.
	maxDismissals = 32
	// lingerWithin is how long a connection that the server ends stays open for reading, so that bytes
	// in transit do not reset it before the client has read the answer.
	lingerWithin = 250 * time.Millisecond
	// maxLingerBytes limits the bytes that are read and dropped during that time.
	maxLingerBytes = 256 << 10
)

// openConns returns the maximum number of connections of a process: maxConns, or half of its limit of
// open files if that is less. The other half is for the stores and for crawls.
func openConns() int { return int(min(maxConns, openFiles()/2)) }

// connState is the current use of a connection.
type connState int64

const (
	waiting connState = iota // for a request, or for the rest of its headers
	reading                  // a handler waits for bytes of the body
	writing                  // a write is in progress
	serving                  // a handler is running
	gone                     // closed, or about to be: no request on it is served
)

// waits reports whether the server is blocked on the client, so that the connection may be closed to
// make room. A write qualifies only after stalledWrite.
func (s connState) waits() bool { return s < serving }

// stateBits is the width of the state in a connection's word; the other bits are the time of the
// change.
const stateBits = 3

func packState(s connState, at time.Time) int64 { return at.UnixMilli()<<stateBits | int64(s) }

func unpackState(word int64) (s connState, at time.Time) {
	return connState(word & (1<<stateBits - 1)), time.UnixMilli(word >> stateBits)
}

// connections are the open connections of a listener. If there is no room for another one, a waiting
// one is closed: one that waits for a request, for a request's body, or for a client that does not
// read its answer. It is the one that has waited longest, of the client with the most waiting
// connections. Refusing the new connection instead would let a client that keeps connections open lock
// others out. A connection whose request is being processed is never closed to make room, and one that
// has just begun to wait (waitGrace) is not closed for a client with more connections: otherwise a
// client whose many requests are all being processed would close those of the others.
type connections struct {
	limit     int            // without the reserve
	reserve   int            // in addition to it, for health checks
	byAddress int            // per client address
	proxies   []netip.Prefix // whose connections are those of many clients
	ending    atomic.Bool    // a drain has begun
	handlers  atomic.Int64   // running requests
	dismissal chan struct{}

	evicted, refused *prometheus.CounterVec
	logger           *slog.Logger

	mu       sync.Mutex
	open     int
	reserved int // the part of open that is in the reserve
	of       map[netip.Addr]*client
	bySize   [][]*client // at index n, the clients with n connections

	// Since the last log line about addresses at their limit.
	logged         time.Time
	refusedAtBound int
	closedAtBound  int
}

// client is a client address and its connections. A connection that counts for no address has its own
// client.
type client struct {
	address netip.Addr
	open    []*answerConn // in order of arrival
	waits   atomic.Int64  // how many of them are waiting
}

func newConnections(most int, proxies []netip.Prefix, logger *slog.Logger) *connections {
	reserve := min(maxReserve, most/reserveShare)
	limit := most - reserve
	c := &connections{
		limit: limit, reserve: reserve, byAddress: max(1, limit/addressShare), proxies: proxies,
		dismissal: make(chan struct{}, maxDismissals), of: map[netip.Addr]*client{}, logger: logger,
		evicted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "letterhead_http_connections_evicted_total", Help: "Connections closed to make room for others, by what they waited for: request, body or reader.",
		}, []string{"waiting_for"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "letterhead_http_connections_refused_total", Help: "Connections refused with 503, by the bound that was reached: address or all.",
		}, []string{"bound"}),
	}
	for _, bound := range []string{"address", "all"} {
		c.refused.WithLabelValues(bound) // start at 0, or Prometheus would miss the first increase
	}
	return c
}

// admit adds a connection, closing another one if necessary. It returns false if there is no room.
func (c *connections) admit(conn *answerConn) bool {
	address := c.boundedAddress(conn.Conn)
	c.mu.Lock()
	admitted, line := c.add(conn, address)
	c.mu.Unlock()
	if line != nil {
		c.logger.Warn("client address reached its connection limit", line...)
	}
	return admitted
}

// add implements admit while holding the lock. The line, if any, is for the log.
func (c *connections) add(conn *answerConn, address netip.Addr) (admitted bool, line []any) {
	has := 0
	if of := c.of[address]; of != nil {
		has = len(of.open)
	}
	if has >= c.byAddress {
		madeRoom := c.evictOf(c.of[address])
		line = c.atBound(address, madeRoom)
		if !madeRoom {
			c.refused.WithLabelValues("address").Inc()
			return false, line
		}
	}
	if c.full() && !c.evictFor(has) && c.reserved >= c.reserve {
		c.refused.WithLabelValues("all").Inc()
		return false, line
	}
	if c.full() {
		conn.reserved.Store(true)
		c.reserved++
	}
	of := c.of[address]
	if of == nil {
		of = &client{address: address}
		if address.IsValid() {
			c.of[address] = of
		}
	}
	conn.among, conn.client = c, of
	conn.word.Store(packState(waiting, time.Now()))
	of.waits.Add(1)
	of.open = append(of.open, conn)
	c.open++
	c.resized(of, len(of.open)-1)
	return true, line
}

// atBound counts a connection beyond the limit of its address. It returns what to log, at most once in
// boundLogEvery.
func (c *connections) atBound(address netip.Addr, madeRoom bool) []any {
	if madeRoom {
		c.closedAtBound++
	} else {
		c.refusedAtBound++
	}
	if !c.logged.IsZero() && time.Since(c.logged) < boundLogEvery {
		return nil
	}
	network := netip.PrefixFrom(address, min(address.BitLen(), addressBitsIPv6))
	line := []any{
		"address", network, "most", c.byAddress, "refused", c.refusedAtBound, "closed", c.closedAtBound,
		"hint", "if it is a reverse proxy or a load balancer, name it in LETTERHEAD_TRUSTED_PROXIES: its connections are then not bounded",
	}
	c.logged, c.refusedAtBound, c.closedAtBound = time.Now(), 0, 0
	return line
}

// boundedAddress returns the client address that a connection counts for; the zero Addr for a
// connection that counts for none, because it comes from a proxy or has no IP address. IPv6 counts by
// /64.
func (c *connections) boundedAddress(conn net.Conn) netip.Addr {
	address, ok := addressOf(conn.RemoteAddr().String())
	if !ok || isTrusted(address, c.proxies) {
		return netip.Addr{}
	}
	return visitorOf(address)
}

// full reports whether only the reserve is left. It needs the lock, as do the functions below.
func (c *connections) full() bool { return c.open-c.reserved >= c.limit }

// evictFor makes room for a client that has the given number of other connections. It closes the
// connection that has waited longest, of the client with the most waiting connections. It returns false
// if none may be closed.
func (c *connections) evictFor(has int) bool {
	for {
		longest, word := c.longest(has)
		if longest == nil {
			return false
		}
		if c.closeFor(longest, word) {
			return true
		}
	}
}

// evictOf closes the connection of a client that has waited longest. It returns false if none is
// waiting.
func (c *connections) evictOf(of *client) bool {
	for {
		longest, word, _ := of.longest(0)
		if longest == nil {
			return false
		}
		if c.closeFor(longest, word) {
			return true
		}
	}
}

// longest returns the connection to close for a client that has the given number of others, and its
// word; nil if none may be closed. A client has at most as many waiting connections as open ones, so the
// search ends at the clients that have fewer open than the best result so far has waiting.
func (c *connections) longest(has int) (longest *answerConn, word int64) {
	var most int64 // waiting connections of the client of longest
	var since time.Time
	scanned := 0
	for size := len(c.bySize) - 1; size > 0; size-- {
		for _, of := range c.bySize[size] {
			if int64(size) < most || int64(size) == most && scanned >= maxScan {
				return longest, word
			}
			waits := of.waits.Load()
			if waits == 0 || waits < most || waits == most && scanned >= maxScan {
				continue
			}
			scanned += size
			conn, seen, at := of.longest(has)
			if conn != nil && (waits > most || at.Before(since)) {
				longest, word, since, most = conn, seen, at, waits
			}
		}
	}
	return longest, word
}

// longest returns the client's connection that has waited longest, its word, and since when; nil if
// none may be closed for a client that has the given number of connections.
func (of *client) longest(has int) (longest *answerConn, word int64, since time.Time) {
	for _, conn := range of.open {
		seen := conn.word.Load()
		state, at := unpackState(seen)
		waited := time.Since(at)
		if !state.waits() || state == writing && waited < stalledWrite || len(of.open) < has && waited < waitGrace {
			continue
		}
		if longest == nil || at.Before(since) {
			longest, word, since = conn, seen, at
		}
	}
	return longest, word, since
}

// closeFor closes a connection to make room. It returns false if the connection's word has changed: it
// has a request now.
func (c *connections) closeFor(conn *answerConn, word int64) bool {
	if !conn.change(word, gone) {
		return false
	}
	c.remove(conn)
	switch state, _ := unpackState(word); state {
	case waiting:
		c.evicted.WithLabelValues("request").Inc()
		_ = conn.Conn.Close() // its goroutine finds it closed
	case reading:
		c.evicted.WithLabelValues("body").Inc()
		c.dismiss(conn.Conn)
	default:
		c.evicted.WithLabelValues("reader").Inc()
		_ = conn.Conn.Close()
	}
	return true
}

// remove removes a connection that is gone.
func (c *connections) remove(conn *answerConn) {
	of := conn.client
	i := slices.Index(of.open, conn)
	if i < 0 {
		return
	}
	of.open = slices.Delete(of.open, i, i+1)
	c.open--
	c.resized(of, len(of.open)+1)
	if len(of.open) == 0 && of.address.IsValid() {
		delete(c.of, of.address)
	}
	if conn.reserved.Load() {
		c.reserved--
	}
}

// resized moves a client to its new place in bySize after the number of its connections has changed.
func (c *connections) resized(of *client, was int) {
	if was > 0 {
		c.bySize[was] = slices.DeleteFunc(c.bySize[was], func(other *client) bool { return other == of })
	}
	size := len(of.open)
	if size == 0 {
		return
	}
	if size >= len(c.bySize) {
		c.bySize = append(c.bySize, make([][]*client, size+1-len(c.bySize))...)
	}
	c.bySize[size] = append(c.bySize[size], of)
}

func (c *connections) leave(conn *answerConn) {
	conn.setState(gone)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(conn)
}

// mayServe reports whether a request other than a health check may be served on a connection: one in
// the reserve first needs room among the others.
func (c *connections) mayServe(conn *answerConn) bool {
	if !conn.reserved.Load() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.reserved.Load() && (!c.full() || c.evictFor(len(conn.client.open)-1) && !c.full()) {
		conn.reserved.Store(false)
		c.reserved--
	}
	return !conn.reserved.Load()
}

// busyAnswer is the answer on a connection that is closed for lack of room.
const busyAnswer = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n" +
	"Cache-Control: no-store\r\nConnection: close\r\nContent-Length: 63\r\n\r\n" +
	"Too many connections are open. Send the request again shortly.\n"

// dismiss answers 503 and closes the connection, without blocking the caller.
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

// linger closes the sending side and briefly drops what still arrives.
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
	// drainPoll is the interval between checks of the connections.
	drainPoll = 20 * time.Millisecond
	// cutWithin limits the wait for requests that were cut off, which free their credits.
	cutWithin = 3 * time.Second
)

// endQuiet closes the sending side of every connection that has been without a request for drainQuiet.
// The client sees the connection end, not a reset, even if a request is in transit; such a request is
// not served.
func (c *connections) endQuiet(since, now time.Time) (left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(since) < drainQuiet {
		return c.open
	}
	for _, clients := range c.bySize {
		for _, of := range clients {
			for _, conn := range of.open {
				conn.endIfQuiet(now)
			}
		}
	}
	return c.open
}

func (c *answerConn) endIfQuiet(now time.Time) {
	word := c.word.Load()
	if state, at := unpackState(word); state != waiting || now.Sub(at) < drainQuiet || !c.change(word, gone) {
		return
	}
	if err := c.CloseWrite(); err != nil {
		_ = c.Conn.Close()
		return
	}
	_ = c.Conn.SetReadDeadline(now.Add(lingerWithin)) // its goroutine closes it then, or when the client does
}

// Drain ends a server on this listener. It accepts no more connections, and every answer from now on
// has Connection: close. A connection without a request stays open for drainQuiet, so that a request
// in transit is still read and answered. Drain returns once every request that was read is answered.
// If ctx ends before that, it cuts the remaining connections and waits for their requests to free what
// they reserved.
func (l *Listener) Drain(ctx context.Context, server *http.Server) error {
	l.open.ending.Store(true)
	began := time.Now()
	closed := l.Close()
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
		return cmp.Or(closed, err)
	}
	return cmp.Or(closed, server.Close())
}
