package readapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxHeldBytes limits the bytes that are buffered on one connection; a larger answer is sent in several writes.
const maxHeldBytes = 256 << 10

// keptHeldBytes is the size up to which a connection keeps its buffer for the next answer.
const keptHeldBytes = 32 << 10

// Listener accepts the connections of a server made by NewServer; see NewListener.
type Listener struct {
	net.Listener
	close func() error
	open  *connections
}

// NewListener wraps a listener so that each answer of this API is sent in one write. net/http's own
// buffer is 4 KiB, and a record with its headers is larger: without this every such answer takes a
// second system call, which measured as the largest single cost of a look-up. The connection also
// records whether a first byte was written. The listener limits the open connections, and sends the
// answers of unrouted to requests that net/http rejects. Servers made by NewServer work without it, too.
func NewListener(l net.Listener, unrouted *Unrouted) *Listener {
	return &Listener{l, sync.OnceValue(l.Close), newConnections(openConns(), unrouted)}
}

// Close implements net.Listener. Later calls, of the server after Drain, return the result of the first.
func (l *Listener) Close() error { return l.close() }

// Collectors returns the listener's metrics.
func (l *Listener) Collectors() []prometheus.Collector {
	return []prometheus.Collector{l.open.evicted, l.open.refused}
}

// Accept implements net.Listener. It returns http.ErrServerClosed once a drain has closed the listener.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		if l.open.ending.Load() {
			err = http.ErrServerClosed
		}
		return nil, err
	}
	conn := &answerConn{Conn: c}
	for !l.open.admit(conn) {
		if l.open.ending.Load() {
			return nil, errors.Join(http.ErrServerClosed, c.Close())
		}
		time.Sleep(roomPoll)
	}
	return conn, nil
}

// answerConn is a client's connection that can buffer an answer until it is complete. Only the
// goroutine that serves the connection writes to it.
type answerConn struct {
	net.Conn
	held    []byte
	holding bool
	begun   bool        // the system took a byte of the answer that is, or was last, buffered
	linger  atomic.Bool // the request's body was not read: Close lingers
	start   []byte      // the first bytes of the request
	handled bool        // the request has reached the server's handler
	header  http.Header // reused by ownHeader
	past    bool        // the answer was sent past net/http, whose own is dropped

	among    *connections // the connections that include it; nil before it was admitted
	reserved bool         // it is in the reserve; changed under the lock of among
	keyed    atomic.Bool  // a valid key was checked on it; changed under the lock of among
	word     atomic.Int64
}

// errGone is the error of reading and writing on a connection that was closed to make room, or by a drain.
var errGone = errors.New("the server has closed the connection")

// setState records a change of use, and returns the previous state. It changes nothing on a connection that is gone.
func (c *answerConn) setState(to connState) (was connState) {
	for {
		word := c.word.Load()
		if was, _ = unpackState(word); was == gone || c.change(word, to) {
			return was
		}
	}
}

// change moves the connection from the state in word to another. It returns false, without effect, if
// the state has changed in the meantime.
func (c *answerConn) change(word int64, to connState) bool {
	return c.word.CompareAndSwap(word, packState(to, time.Now()))
}

// isGone reports whether the connection was closed to make room, or by a drain.
func (c *answerConn) isGone() bool {
	state, _ := unpackState(c.word.Load())
	return state == gone
}

// draining reports whether a drain has begun.
func (c *answerConn) draining() bool { return c.among != nil && c.among.ending.Load() }

// maxStart limits the bytes of a request that are kept to choose the form of its rejection.
const maxStart = 64

// Read records when a request begins, and whether the client or the server has to act next.
func (c *answerConn) Read(b []byte) (int, error) {
	word := c.word.Load()
	if state, at := unpackState(word); state == received {
		c.word.CompareAndSwap(word, packState(begun, at))
	}
	n, err := c.Conn.Read(b)
	if n == 0 {
		return n, err
	}
	word = c.word.Load()
	switch state, at := unpackState(word); state {
	case idle:
		if c.change(word, received) {
			c.noteStart(b[:n])
		}
	case received: // the search for room has seen the bytes before
		c.noteStart(b[:n])
	case begun:
		c.word.CompareAndSwap(word, packState(received, at))
	default:
	}
	return n, err
}

func (c *answerConn) noteStart(of []byte) {
	c.start = append(c.start[:0], of[:min(len(of), maxStart)]...)
}

func (c *answerConn) Close() error {
	if c.linger.CompareAndSwap(true, false) {
		linger(c.Conn)
	}
	if c.among != nil {
		c.among.leave(c)
	}
	return c.Conn.Close()
}

// Write buffers bytes, or writes them if the connection is not holding. What net/http writes before a request has
// reached the handler is its own rejection; Write sends one of ours instead.
func (c *answerConn) Write(b []byte) (int, error) {
	if !c.handled && c.among != nil {
		c.linger.Store(true)
		c.setState(begun) // the request ends here
		if _, err := c.write(c.among.unrouted.reject(c.start, rejectionOf(b))); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	switch {
	case c.past:
		return len(b), nil
	case !c.holding:
		return c.write(b)
	}
	if len(c.held)+len(b) > maxHeldBytes {
		if err := c.flush(); err != nil {
			return 0, err
		}
	}
	c.held = append(c.held, b...)
	return len(b), nil
}

// CloseWrite lets net/http close the sending side first, so that a client can still read the answer.
func (c *answerConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *answerConn) write(b []byte) (int, error) {
	was := c.setState(writing)
	if was == gone {
		return 0, errGone
	}
	n, err := c.Conn.Write(b)
	c.setState(was)
	return n, err
}

func (c *answerConn) hold() { c.holding, c.begun = true, false }

// letGo writes the buffered bytes. After an error the connection is closed.
func (c *answerConn) letGo() error {
	c.holding = false
	err := c.flush()
	if cap(c.held) > keptHeldBytes {
		c.held = nil
	}
	return err
}

func (c *answerConn) flush() error {
	n, err := c.write(c.held)
	c.begun = c.begun || n > 0
	c.held = c.held[:0]
	if err != nil {
		// net/http assumes that the answer was sent, and would continue in the middle of it.
		_ = c.Conn.Close()
	}
	return err
}

type connKey struct{}

// connOf returns the connection of a request, or nil if its listener was not made by NewListener.
func connOf(ctx context.Context) *answerConn {
	c, _ := ctx.Value(connKey{}).(*answerConn)
	return c
}

// withConn is the server's ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if own, ok := c.(*answerConn); ok {
		return context.WithValue(ctx, connKey{}, own)
	}
	return ctx
}

// whole sends an answer in one write if the connection supports it. It returns false if not a
// single byte was accepted: the client had left.
func (x *exchange) whole(send func()) (begun bool) {
	c := connOf(x.request.Context())
	if c == nil {
		send()
		return true
	}
	c.hold()
	send()
	var flushed error
	if !x.past {
		flushed = http.NewResponseController(x.ResponseWriter).Flush()
	}
	defer func() { c.past = x.past }()
	if errors.Join(flushed, c.letGo()) == nil || c.begun {
		return true
	}
	x.Status = statusClientGone
	return false
}

// deliver sends an answer of which the charges are final from its first byte on. It returns errClientGone if no byte
// was sent, because the caller left: then the charges are reversed.
func (x *exchange) deliver(send func()) error {
	if x.clientGone() || !x.whole(send) {
		return errClientGone
	}
	return nil
}
