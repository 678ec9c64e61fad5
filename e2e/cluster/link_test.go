//go:build services

package cluster

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// chunk is how much a link carries at a time.
	chunk = 32 << 10
	// quiet is how long nothing has to come before it counts as nothing.
	quiet = 300 * time.Millisecond
)

type linkState int

const (
	linkOpen linkState = iota
	linkHung           // connections are accepted and nothing passes: what a frozen server looks like
	linkCut            // connections are reset and refused: what a dead server looks like
)

// link is a TCP proxy between one node and one service, whose traffic a test can stop.
type link struct {
	target   string
	listener net.Listener

	mu      sync.Mutex
	state   linkState
	changed chan struct{} // closed with every change of state
	conns   map[net.Conn]struct{}
	copying sync.WaitGroup

	asked atomic.Int64 // times that the node spoke on a connection after the service had: its round trips
}

// newLink listens on a free port of the loopback and leads to target.
func newLink(target string) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{target: target, listener: listener, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	l.copying.Go(l.accept)
	return l, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

// set changes what the link does, for open connections too.
func (l *link) set(s linkState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	close(l.changed)
	l.changed = make(chan struct{})
	if s == linkCut {
		for c := range l.conns {
			reset(c)
		}
	}
}

func (l *link) now() (linkState, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.changed
}

func (l *link) close() {
	l.listener.Close()
	l.set(linkCut)
	l.copying.Wait()
}

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client went before it was accepted
		}
		l.copying.Go(func() { l.serve(client) })
	}
}

// serve carries one connection. A connection that comes while the link is hung reaches the service when the
// link opens.
func (l *link) serve(client net.Conn) {
	if !l.keep(client) {
		return
	}
	defer l.drop(client)
	if !l.pass() {
		return
	}
	service, err := net.Dial("tcp", l.target)
	if err != nil {
		reset(client)
		return
	}
	if !l.keep(service) {
		return
	}
	defer l.drop(service)
	var both sync.WaitGroup
	var clientSpoke atomic.Bool
	both.Go(func() {
		l.carry(service, client, func() {
			if !clientSpoke.Swap(true) {
				l.asked.Add(1)
			}
		})
	})
	both.Go(func() { l.carry(client, service, func() { clientSpoke.Store(false) }) })
	both.Wait()
}

// keep notes a connection, unless the link is cut.
func (l *link) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == linkCut {
		reset(c)
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *link) drop(c net.Conn) {
	c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// pass waits until bytes may pass; false when they never will.
func (l *link) pass() bool {
	for {
		state, changed := l.now()
		switch state {
		case linkOpen:
			return true
		case linkCut:
			return false
		case linkHung:
			<-changed
		}
	}
}

func (l *link) carry(to, from net.Conn, spoke func()) {
	defer to.Close()
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			spoke()
			if !l.pass() {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// reset closes a connection so that the other side sees an error, not an end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the close is a plain one, which is enough to go on
	}
	c.Close()
}

// A fault that does not happen would make every outage test pass.
func TestALinkHangsAndCuts(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 1)
				for {
					if _, err := c.Read(b); err != nil {
						return
					}
					if _, err := c.Write(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	l, err := newLink(echo.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	c, err := net.Dial("tcp", l.address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := make([]byte, 1)
	say := func(word byte) {
		t.Helper()
		if _, err := c.Write([]byte{word}); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(want byte) {
		t.Helper()
		if _, err := c.Read(b); err != nil || b[0] != want {
			t.Errorf("heard %q, %v", b, err)
		}
	}
	say('a')
	hear('a')
	if got := l.asked.Load(); got != 1 {
		t.Errorf("one question and its answer count as %d round trips", got)
	}
	l.set(linkHung)
	say('b')
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		hear('b')
	}()
	select {
	case <-heard:
		t.Fatal("a hung link carried a byte")
	case <-time.After(quiet):
	}
	l.set(linkOpen)
	<-heard
	l.set(linkCut)
	if _, err := c.Read(b); err == nil {
		t.Fatal("a cut link left its connection open")
	}
	if again, err := net.Dial("tcp", l.address()); err == nil {
		if _, err := again.Read(b); err == nil {
			t.Fatal("a cut link serves")
		}
		again.Close()
	}
}
