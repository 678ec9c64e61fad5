package readapi

import (
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// Limits of one connection. A slower or larger client loses its connection.
const (
	// maxHeaderBytes limits a request's line and headers. Ours are below 1 KiB; 16 KiB leaves room for
	// headers that proxies add.
	maxHeaderBytes = 16 << 10
	// readHeaderTimeout limits the time in which a client must send its headers.
	readHeaderTimeout = 5 * time.Second
	// maxRequestTimeout limits the work for one request, including the longest possible live crawl (60 s).
	maxRequestTimeout = 70 * time.Second
	// writeTimeout limits the work and the answer, and leaves 20 s for a slow reader. A batch, which
	// may take longer, moves its own deadline.
	writeTimeout = maxRequestTimeout + 20*time.Second
	// idleTimeout is longer than the 60 s after which common load balancers drop an idle connection,
	// so that they close it first and no request meets a closed connection.
	idleTimeout = 120 * time.Second
)

// NewServer returns a server for the handler with every limit set. The caller serves it on a listener
// from NewListener, and shuts it down.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           guard{handler},
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: readHeaderTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		ConnContext:       withConn,
		ConnState:         noteState,
		// OPTIONS * is answered like any other request, with a request id.
		DisableGeneralOptionsHandler: true,
	}
}

// guard handles every request on its connection before the handler.
type guard struct{ handler http.Handler }

// ServeHTTP serves a request unless its connection is gone. An answer that is sent before the body was read ends the
// connection: waiting for an unneeded body would let a client that never sends one occupy the connection.
func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn := connOf(r.Context())
	if conn == nil {
		g.handler.ServeHTTP(w, r)
		return
	}
	conn.handled = true
	conn.among.handlers.Add(1)
	defer conn.among.handlers.Add(-1)
	if conn.isGone() {
		panic(http.ErrAbortHandler) // nothing was done
	}
	if conn.draining() {
		w.Header()["Connection"] = connectionClose
	}
	if r.ContentLength != 0 {
		body := &pacedBody{ReadCloser: r.Body, conn: conn, header: w.Header(), keep: !framingAmbiguous(r)}
		r.Body = body
		w.Header()["Connection"] = connectionClose
		defer body.finish()
	}
	g.handler.ServeHTTP(w, r)
}

// Limits of a request's body.
const (
	// bodyStartWithin is how long a client may take to send the first byte of a body once the handler
	// reads it, and by how much the rest may be late at any time.
	bodyStartWithin = 3 * time.Second
	// minBodyRate is the required rate from then on, in bytes per second: a batch of 256 KiB has 19 s. A
	// webhook may be larger (maxWebhookBody), and must also arrive within webhookWithin.
	minBodyRate = 16 << 10
)

// pacedBody is a body that must arrive at a minimum rate. While a handler waits for it, its connection
// may be closed to make room if no key was checked.
type pacedBody struct {
	io.ReadCloser
	conn   *answerConn
	header http.Header // of the answer
	keep   bool        // the connection may serve another request once the body is read

	limit time.Duration // for the whole body; 0 if only the rate limits it
	until time.Time     // end of that time

	ended atomic.Bool // by cut

	since time.Time // start of the wait for the first byte, then time of that byte
	read  int64
	whole bool
}

// Read implements io.Reader. Errors: errGone, os.ErrDeadlineExceeded, and those of the connection.
func (b *pacedBody) Read(p []byte) (int, error) {
	if b.conn.setState(reading) == gone {
		return 0, errGone
	}
	if b.since.IsZero() {
		b.since = time.Now()
	}
	due := b.since.Add(bodyStartWithin + time.Duration(b.read)*time.Second/minBodyRate)
	if b.limit > 0 && due.After(b.until) {
		due = b.until
	}
	if err := b.conn.SetReadDeadline(due); err != nil {
		return 0, err
	}
	if b.ended.Load() { // cut may have set its deadline before this one
		return 0, os.ErrDeadlineExceeded
	}
	n, err := b.ReadCloser.Read(p)
	if b.read == 0 && n > 0 {
		b.since = time.Now()
	}
	b.read += int64(n)
	if b.conn.setState(serving) == gone {
		return 0, errGone
	}
	if err == io.EOF && !b.whole {
		b.whole = true
		if b.keep && !b.conn.draining() {
			delete(b.header, "Connection")
		}
	}
	return n, err
}

// cut ends the reading of the body, also from another goroutine.
func (b *pacedBody) cut() {
	b.ended.Store(true)
	_ = b.conn.SetReadDeadline(time.Unix(1, 0)) // fails only if the connection is closed
}

// limitBody limits the time in which the whole body of a request must arrive, from now on.
func (x *exchange) limitBody(limit time.Duration) {
	if body, ok := x.request.Body.(*pacedBody); ok {
		body.limit, body.until = limit, time.Now().Add(limit)
	}
}

// finish keeps net/http, which would read the rest of the body, from waiting for it.
func (b *pacedBody) finish() {
	if b.whole {
		return
	}
	b.conn.linger.Store(true)
	b.conn.setState(begun) // the remaining work may be cut short
	_ = b.conn.SetReadDeadline(time.Unix(1, 0))
}
