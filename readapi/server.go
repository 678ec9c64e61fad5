package readapi

import (
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
	// readTimeout bounds the whole request, body included.
	readTimeout = 15 * time.Second
	// maxRequestTimeout bounds the work for one request, with the longest live crawl that can be set (60 s).
	maxRequestTimeout = 70 * time.Second
	// writeTimeout bounds the work and the answer, and leaves 20 s for a slow reader. A batch, which may take longer,
	// moves its own deadline.
	writeTimeout = maxRequestTimeout + 20*time.Second
	// idleTimeout is longer than the 60 s after which common load balancers drop an idle connection, so
	// that it is they who close it and no request meets a closed door.
	idleTimeout = 120 * time.Second
)

// NewServer returns a server for the handler with every limit set. The caller serves it on a listener from
// NewListener, and shuts it down.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		ConnContext:       withConn,
		ConnState:         noteState,
		// OPTIONS * is answered like any other request, with a request id.
		DisableGeneralOptionsHandler: true,
	}
}
