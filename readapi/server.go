package readapi

import (
	"io"
	"net/http"
	"time"
)

// Limits of one connection. A client that is slower or larger loses its connection.
const (
	// maxHeaderBytes bounds a request's line and headers. Ours are below 1 KiB; 16 KiB leaves room for
	// what proxies add.
	maxHeaderBytes = 16 << 10
	// readHeaderTimeout bounds how long a client may take to say what it wants.
	readHeaderTimeout = 5 * time.Second
	// maxRequestTimeout bounds the work for one request, with the longest live crawl that can be set (60 s).
	maxRequestTimeout = 70 * time.Second
	// writeTimeout bounds the work and the answer, and leaves 20 s for a slow reader. A batch, which may take longer,
	// moves its own deadline.
	writeTimeout = maxRequestTimeout + 20*time.Second
	// idleTimeout is longer than the 60 s after which common load balancers drop an idle connection, so
	// that it is they who close it and no request meets a closed connection.
	idleTimeout = 120 * time.Second
)

// NewServer returns a server for the handler with every limit set. The caller serves it on a listener from
// NewListener, and shuts it down.
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

// guard is what every request goes through on its connection, before the handler.
type guard struct{ handler http.Handler }

// ServeHTTP serves a request unless its connection is gone. An answer that leaves before the body was read ends the
// connection: waiting for a body that nobody wants would let a client that never sends one hold the connection.
func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn := connOf(r.Context())
	if conn == nil {
		g.handler.ServeHTTP(w, r)
		return
	}
	conn.among.handlers.Add(1)
	defer conn.among.handlers.Add(-1)
	if conn.isGone() {
		panic(http.ErrAbortHandler) // without having done anything
	}
	if conn.draining() {
		w.Header()["Connection"] = connectionClose
	}
	if r.ContentLength != 0 {
		body := &pacedBody{ReadCloser: r.Body, conn: conn, header: w.Header(), keep: !framingInDoubt(r)}
		r.Body = body
		w.Header()["Connection"] = connectionClose
		defer body.finish()
	}
	g.handler.ServeHTTP(w, r)
}

// Limits of a request's body.
const (
	// bodyStartWithin is how long a client may take to send the first byte of a body once it is wanted, and
	// the time by which the rest may be late at any moment.
	bodyStartWithin = 3 * time.Second
	// minBodyRate is what it must send from then on, in bytes a second: the largest body (256 KiB) has 19 s.
	minBodyRate = 16 << 10
)

// pacedBody is a body that must arrive at a rate. While a handler waits for it, its connection may be closed for
// another.
type pacedBody struct {
	io.ReadCloser
	conn   *answerConn
	header http.Header // of the answer
	keep   bool        // the connection may serve another request once the body is read

	since time.Time // of the wait for the first byte, then of that byte
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
	if err := b.conn.SetReadDeadline(due); err != nil {
		return 0, err
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

// finish makes net/http, which would read what is left of the body, find nothing.
func (b *pacedBody) finish() {
	if b.whole {
		return
	}
	b.conn.linger.Store(true)
	b.conn.setState(waiting) // what is left to do may end early
	_ = b.conn.SetReadDeadline(time.Unix(1, 0))
}
