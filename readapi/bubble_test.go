package readapi_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/readapi"
)

// inBubble starts a whole service in virtual time: sleeping moves the clock of all parts together, including the timers
// of the server and the writers. All parts are real, but connections are pipes (a socket would block the virtual time)
// and searches find nothing, because the index works with goroutines that are older than any bubble.
//
// Such a bubble begins at midnight UTC of 1 January 2000.
func inBubble(t *testing.T, test func(*service), changes ...func(*setup)) {
	t.Helper()
	inBubbleAfter(t, 0, test, changes...)
}

// inBubbleAfter starts the service when this time has passed since the bubble began. With a running service, a month of
// virtual time takes several seconds of processor time, because its timers fire.
func inBubbleAfter(t *testing.T, begin time.Duration, test func(*service), changes ...func(*setup)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(begin)
		test(start(t, append(changes, func(set *setup) {
			set.bubble, set.config.CrawlTimeout = true, 8*time.Second
			set.parts.Index = &noIndex{}
			set.parts.FlushEvery = time.Hour // a month has 2.7 million seconds
		})...))
	})
}

// serveInBubble serves like the real server, over pipes.
func (s *service) serveInBubble(maxConns int) {
	t := s.t
	s.pipes = newPipes()
	server := readapi.NewServer(s.api.Handler())
	done := make(chan error, 1)
	go func() {
		done <- server.Serve(readapi.NewSmallListener(s.pipes, maxConns))
	}()
	transport := &http.Transport{
		MaxIdleConnsPerHost: 128, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return s.pipes.dial() },
	}
	s.transport, s.url = s.withContract(transport), "http://in.the.bubble"
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v, want ErrServerClosed", err)
		}
		time.Sleep(time.Second) // net/http waits for half a second before it closes a connection whose body it did not read
	})
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	open     atomic.Int64 // not closed by the server
	accepted chan net.Conn
	closed   chan struct{}
	close    func()
}

func newPipes() *pipes {
	p := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// errRefused is the error of dialing a closed listener.
var errRefused = errors.New("connection refused")

// dial connects; it waits until the connection is accepted.
func (p *pipes) dial() (net.Conn, error) {
	conn, _, err := p.dialFrom(nil)
	return conn, err
}

// dialFrom is dial from the given address, unless it is nil. It also returns the server's end.
func (p *pipes) dialFrom(address net.Addr) (net.Conn, *pipe, error) {
	mine, theirs := net.Pipe()
	end := &pipe{Conn: theirs, from: address, closed: sync.OnceFunc(func() { p.open.Add(-1) })}
	p.open.Add(1)
	select {
	case p.accepted <- end:
		return mine, end, nil
	case <-p.closed:
		return nil, nil, errRefused
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.close(); return nil }

// pipe is the server's end.
type pipe struct {
	net.Conn
	from   net.Addr // of the client; nil for the address of a pipe
	closed func()
	ended  atomic.Bool
}

func (p *pipe) RemoteAddr() net.Addr {
	if p.from != nil {
		return p.from
	}
	return p.Conn.RemoteAddr()
}

func (p *pipe) Close() error {
	p.ended.Store(true)
	p.closed()
	return p.Conn.Close()
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
