package readapi

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

// Limits of the open connections of a listener. Each is an open file.
const (
	// maxConns limits the open connections: as many as running look-ups (maxLookups).
	maxConns = 8192
	// reserveShare and maxReserve set how many of them (1/16, at most 32) are reserved for health checks, and for
	// answering other clients that there is no room.
	reserveShare = 16
	maxReserve   = 32
	// waitGrace is how long a connection must have waited for its client before it may be closed to make room. Until
	// then its request may be in transit, or not yet read because the processors are busy. idleGrace is the same
	// without a byte of a request: where the processors are busy, a client sends its first request long after it
	// connected.
	waitGrace = 100 * time.Millisecond
	idleGrace = 500 * time.Millisecond
	// stalledWrite is how long a write may block before the client counts as not reading.
	stalledWrite = 2 * time.Second
	// roomPoll is the interval between attempts to make room for a new connection, each of which reads all connections.
	// After attempts have failed for roomPatience, new connections get the reserve; a request there waits for room as
	// long again.
	roomPoll     = 20 * time.Millisecond
	roomPatience = time.Second
	// maxDismissals limits the connections that are being answered while they are closed; further ones are closed
	// without an answer.
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
	idle     connState = iota // waits for a request
	begun                     // waits for the rest of a request's headers, or for the client to read an early answer
	reading                   // a handler waits for bytes of the body
	writing                   // a write is in progress
	received                  // bytes of a request are being parsed; the time is that of its first byte
	serving                   // a handler is running
	gone                      // closed, or about to be: no request on it is served
)

// stateBits is the width of the state in a connection's word; the other bits are the time of the change.
const stateBits = 3

func packState(s connState, at time.Time) int64 { return at.UnixMilli()<<stateBits | int64(s) }

func unpackState(word int64) (s connState, at time.Time) {
	return connState(word & (1<<stateBits - 1)), time.UnixMilli(word >> stateBits)
}

// closable reports whether a connection may be closed to make room, in which class (the lowest is closed first), and
// since when it has waited for its client. A request that was begun and not finished comes first, an idle connection
// next, and last a client that may only be slow to read its answer.
func closable(word int64, now time.Time) (class int, since time.Time, ok bool) {
	state, since := unpackState(word)
	switch waited := now.Sub(since); {
	case state == begun, state == reading, state == writing && waited >= stalledWrite:
		return 0, since, waited >= waitGrace
	case state == idle:
		return 1, since, waited >= idleGrace
	case state == writing:
		return 2, since, waited >= waitGrace
	}
	return 0, since, false
}

// connections are the open connections of a listener. If there is no room for another one, the server closes one that
// waits for its client (see closable) and on which no key was checked: in the lowest class, the one that has waited
// longest. So clients without a key cannot keep others out, wherever they connect from. A connection on which a key was
// checked is never closed to make room. Instead, its answer ends it if such connections are more than three quarters of
// the limit; other answers end theirs if all open connections together are.
//
// Without room, new connections wait to be accepted, for at most roomPatience; then they get the reserve. A connection
// with bytes that the server has not read yet is not closed: on a busy machine, reading them may take long.
type connections struct {
	limit     int         // without the reserve
	reserve   int         // in addition to it
	ending    atomic.Bool // a drain has begun
	handlers  atomic.Int64
	taken     atomic.Int64 // open connections
	keyed     atomic.Int64 // those of them on which a key was checked
	dismissal chan struct{}
	unrouted  *Unrouted

	evicted *prometheus.CounterVec
	refused prometheus.Counter

	mu        sync.Mutex
	open      map[*answerConn]struct{}
	reserved  int       // the part of open that is in the reserve
	fullSince time.Time // when a new connection first found no room; zero once one did
}

func newConnections(most int, unrouted *Unrouted) *connections {
	reserve := min(maxReserve, max(1, most/reserveShare))
	return &connections{
		limit: max(1, most-reserve), reserve: reserve, unrouted: unrouted,
		dismissal: make(chan struct{}, maxDismissals), open: map[*answerConn]struct{}{},
		evicted: telemetry.Counters("letterhead_http_connections_evicted_total",
			"Connections closed to make room for others, by what they waited for: request, body or reader.", "waiting_for"),
		refused: telemetry.Counter("letterhead_http_connections_refused_total",
			"Connections whose request got 503 because there was no room."),
	}
}

// admit adds a connection, closing another one if necessary. It returns false if there is no room yet.
func (c *connections) admit(conn *answerConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.hasRoom(now) {
		c.fullSince = time.Time{}
	} else {
		if c.fullSince.IsZero() {
			c.fullSince = now
		}
		if now.Sub(c.fullSince) < roomPatience || c.reserved >= c.reserve && !c.evict(true, now) {
			return false
		}
		conn.reserved = true
		c.reserved++
	}
	conn.among = c
	conn.word.Store(packState(idle, now))
	c.open[conn] = struct{}{}
	c.taken.Add(1)
	return true
}

// hasRoom reports whether there is room outside the reserve, after closing a connection if necessary. It needs the
// lock, as do the functions below.
func (c *connections) hasRoom(now time.Time) bool {
	return len(c.open)-c.reserved < c.limit || c.evict(false, now)
}

// evict closes a connection inside or outside the reserve. It returns false if none may be closed yet.
func (c *connections) evict(reserved bool, now time.Time) bool {
	for {
		first, word := c.firstToClose(reserved, now)
		state, _ := unpackState(word)
		switch {
		case first == nil:
			return false
		case state == idle && hasBytes(first.Conn):
			first.change(word, received) // its goroutine has not had a processor yet
		case first.change(word, gone): // else it has a request now
			c.remove(first)
			c.end(first, state)
			return true
		}
	}
}

// firstToClose returns the connection to close first, with its word, or nil.
func (c *connections) firstToClose(reserved bool, now time.Time) (first *answerConn, word int64) {
	var class int
	var since time.Time
	for conn := range c.open {
		seen := conn.word.Load() // before keyed: a connection whose key is being checked does not wait
		if conn.reserved != reserved || conn.keyed.Load() {
			continue
		}
		itsClass, itsSince, ok := closable(seen, now)
		if ok && (first == nil || itsClass < class || itsClass == class && itsSince.Before(since)) {
			first, word, class, since = conn, seen, itsClass, itsSince
		}
	}
	return first, word
}

// end closes a connection that was removed in a state.
func (c *connections) end(conn *answerConn, state connState) {
	switch state {
	case reading:
		c.evicted.WithLabelValues("body").Inc()
		c.dismiss(conn)
		return
	case writing:
		c.evicted.WithLabelValues("reader").Inc()
	default:
		c.evicted.WithLabelValues("request").Inc()
	}
	_ = conn.Conn.Close() // its goroutine finds it closed
}

// remove removes a connection that is gone, unless that was done.
func (c *connections) remove(conn *answerConn) {
	if _, open := c.open[conn]; !open {
		return
	}
	delete(c.open, conn)
	c.taken.Add(-1)
	if conn.reserved {
		c.reserved--
	}
	if conn.keyed.Load() {
		c.keyed.Add(-1)
	}
}

func (c *connections) leave(conn *answerConn) {
	conn.setState(gone)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(conn)
}

// mayServe reports whether a request other than a health check may be served on a connection: one in
// the reserve first needs room among the others, and waits for it, at most for roomPatience.
func (c *connections) mayServe(conn *answerConn) bool {
	for began := time.Now(); conn.reserved; time.Sleep(roomPoll) { // only this goroutine changes it now
		if now := time.Now(); !c.leaveReserve(conn, now) || conn.reserved && now.Sub(began) > roomPatience {
			c.refused.Inc()
			return false
		}
	}
	return true
}

// leaveReserve gives a connection in the reserve room among the others if there is any. It returns false if there is
// none and such connections have taken more than half of the reserve, whose rest is for health checks.
func (c *connections) leaveReserve(conn *answerConn, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.isGone() || !c.hasRoom(now) {
		return c.reserved <= max(1, c.reserve/2)
	}
	conn.reserved = false
	c.reserved--
	return true
}

// keyChecked records that a valid key was checked on a connection, which may be nil.
func (c *answerConn) keyChecked() {
	if c == nil || c.among == nil || c.keyed.Load() {
		return
	}
	c.among.mu.Lock()
	defer c.among.mu.Unlock()
	if !c.isGone() {
		c.keyed.Store(true)
		c.among.keyed.Add(1)
	}
}

// endsWithAnswer reports whether the connection should end with the next answer, because of a drain or because too many
// are open. It is false for a nil connection.
func (c *answerConn) endsWithAnswer() bool {
	if c == nil || c.among == nil {
		return false
	}
	open := &c.among.taken
	if c.keyed.Load() {
		open = &c.among.keyed
	}
	return c.draining() || open.Load() > int64(c.among.limit)*3/4
}

// dismiss answers 503 and closes the connection, without blocking the caller.
func (c *connections) dismiss(conn *answerConn) {
	select {
	case c.dismissal <- struct{}{}:
	default:
		_ = conn.Conn.Close()
		return
	}
	go func() {
		defer func() { <-c.dismissal }()
		_ = conn.SetDeadline(time.Now().Add(lingerWithin))
		if _, err := conn.Conn.Write(c.unrouted.reject(conn.start, crowded(errOverloaded))); err == nil {
			linger(conn.Conn)
		}
		_ = conn.Conn.Close()
	}()
}

// crowded is the answer without room for a request.
func crowded(cause error) *Problem {
	return unavailable("Too many connections are open, so "+messageNothingRan, retryBusy, cause)
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
		conn.handled, conn.past = false, false
		conn.setState(idle)
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

// endQuiet closes the sending side of every connection that has been without a request for drainQuiet. The client sees
// the connection end, not a reset, even if a request is in transit; such a request is not served.
func (c *connections) endQuiet(since, now time.Time) (left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(since) < drainQuiet {
		return len(c.open)
	}
	for conn := range c.open {
		conn.endIfQuiet(now)
	}
	return len(c.open)
}

func (c *answerConn) endIfQuiet(now time.Time) {
	word := c.word.Load()
	if state, at := unpackState(word); state > begun || now.Sub(at) < drainQuiet || !c.change(word, gone) {
		return
	}
	if err := c.CloseWrite(); err != nil {
		_ = c.Conn.Close()
		return
	}
	_ = c.Conn.SetReadDeadline(now.Add(lingerWithin)) // its goroutine closes it then, or when the client does
}

// Drain ends a server on this listener. It accepts no more connections, and every answer from now on has Connection:
// close. A connection without a request stays open for drainQuiet, so that a request in transit is still read and
// answered. Drain returns once every request that was read is answered. If ctx ends before that, it cuts the remaining
// connections and waits for their requests to free what they reserved.
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
