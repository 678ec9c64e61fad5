package readapi

import (
	"context"
	"errors"
	"net"
	"net/http"
)

// maxHeldBytes bounds what is held back on one connection; a larger answer leaves in several writes.
const maxHeldBytes = 256 << 10

// keptHeldBytes is the size up to which a connection keeps its buffer for the next answer.
const keptHeldBytes = 32 << 10

// NewListener wraps a listener so that answers of this API leave each in one write. net/http's own buffer
// is 4 KiB, and a record with its headers is larger: without this every such answer takes a second system
// call, which measured as the largest single cost of a look-up. It also tells exactly whether a first byte
// was written. And it bounds the connections that are open (mostConns). It is for servers made by NewServer,
// which do without otherwise.
func NewListener(l net.Listener) net.Listener { return listener{l, newCrowd(mostConns())} }

type listener struct {
	net.Listener
	crowd *crowd
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	own := &answerConn{Conn: c, crowd: l.crowd}
	if !l.crowd.join(own) {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	return own, nil
}

func (l listener) Close() error {
	l.crowd.end()
	return l.Listener.Close()
}

// answerConn is a client's connection that can hold an answer back until it is whole. Only the goroutine
// that serves the connection writes to it.
type answerConn struct {
	net.Conn
	held    []byte
	holding bool
	begun   bool // the system took a byte of the answer that is, or was last, held back

	crowd *crowd
	place place
}

func (c *answerConn) Close() error {
	c.crowd.leave(c)
	return c.Conn.Close()
}

// Write holds bytes back, or lets them through.
func (c *answerConn) Write(b []byte) (int, error) {
	if !c.holding {
		return c.Conn.Write(b)
	}
	if len(c.held)+len(b) > maxHeldBytes {
		if err := c.flush(); err != nil {
			return 0, err
		}
	}
	c.held = append(c.held, b...)
	return len(b), nil
}

// CloseWrite lets net/http end its side first, so that a client still reads what was sent.
func (c *answerConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *answerConn) hold() { c.holding, c.begun = true, false }

// letGo writes what is held back. An error means that the connection is closed.
func (c *answerConn) letGo() error {
	c.holding = false
	err := c.flush()
	if cap(c.held) > keptHeldBytes {
		c.held = nil
	}
	return err
}

func (c *answerConn) flush() error {
	n, err := c.Conn.Write(c.held)
	c.begun = c.begun || n > 0
	c.held = c.held[:0]
	if err != nil {
		// net/http believes that the answer is out, and would go on in the middle of it.
		_ = c.Conn.Close()
	}
	return err
}

type connKey struct{}

// withConn is the server's ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if own, ok := c.(*answerConn); ok {
		return context.WithValue(ctx, connKey{}, own)
	}
	return ctx
}

// sendWhole sends an answer in one write where the connection can do that. It returns false when not one
// byte of it was taken: the client had gone.
func (x *exchange) sendWhole(status int, contentType []string, body []byte) (begun bool) {
	return x.whole(func() { x.send(status, contentType, body) })
}

// whole is sendWhole for an answer that is written piece by piece.
func (x *exchange) whole(send func()) (begun bool) {
	c, ok := x.request.Context().Value(connKey{}).(*answerConn)
	if !ok {
		send()
		return true
	}
	c.hold()
	send()
	flushed := http.NewResponseController(x.ResponseWriter).Flush()
	if errors.Join(flushed, c.letGo()) == nil || c.begun {
		return true
	}
	x.status = statusClientGone
	return false
}
