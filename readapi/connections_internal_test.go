package readapi

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"
)

// addressed is a connection of a client.
type addressed struct {
	net.Conn
	from   string
	closed bool
}

func (a *addressed) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a.from))
}
func (a *addressed) Write(b []byte) (int, error) { return len(b), nil }
func (a *addressed) SetDeadline(time.Time) error { return nil }
func (a *addressed) Close() error                { a.closed = true; return nil }

func TestConnections_OneAddress_HasItsShareOnly(t *testing.T) {
	const most = 64 // 60 and a reserve of 4; 15 per address
	for _, c := range []struct {
		name, from, also string // an address, and another of the same client
		busy             bool
		proxies          []netip.Prefix
		open             int // of 30 connections
		admitted         int
	}{
		{name: "waiting connections make room for their own kind", from: "192.0.2.1:1", also: "192.0.2.1:2", open: 15, admitted: 30},
		{name: "busy connections do not", from: "192.0.2.1:1", also: "192.0.2.1:2", busy: true, open: 15, admitted: 15},
		{name: "IPv6 counts by /64", from: "[2001:db8::1]:1", also: "[2001:db8::ffff:2]:1", busy: true, open: 15, admitted: 15},
		{name: "IPv4 in IPv6 is IPv4", from: "192.0.2.1:1", also: "[::ffff:192.0.2.1]:1", busy: true, open: 15, admitted: 15},
		{name: "other networks count apart", from: "[2001:db8::1]:1", also: "[2001:db8:0:1::1]:1", busy: true, open: 30, admitted: 30},
		{name: "a proxy speaks for many", from: "10.1.2.3:1", also: "10.1.2.3:2", busy: true, proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, open: 30, admitted: 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := newConnections(most, c.proxies, slog.New(slog.DiscardHandler))
			admitted := 0
			var conns []*answerConn
			for i := range 30 {
				conn := &answerConn{Conn: &addressed{from: []string{c.from, c.also}[i%2]}}
				if !open.admit(conn) {
					continue
				}
				admitted++
				conns = append(conns, conn)
				if c.busy {
					conn.setState(serving)
				}
			}
			if admitted != c.admitted || open.open != c.open {
				t.Errorf("%d admitted, %d open; want %d and %d", admitted, open.open, c.admitted, c.open)
			}
			other := &answerConn{Conn: &addressed{from: "198.51.100.1:1"}}
			if !open.admit(other) {
				t.Error("another client was rejected")
			}
			for _, conn := range append(conns, other, other) { // some were closed to make room, and one leaves twice
				open.leave(conn)
				if waits := conn.client.waits.Load(); len(conn.client.open) == 0 && waits != 0 {
					t.Fatalf("%d connections wait, want 0", waits)
				}
			}
			if open.open != 0 || len(open.of) != 0 || open.reserved != 0 {
				t.Errorf("left over: %d connections, %d addresses, %d reserved; want 0, 0 and 0", open.open, len(open.of), open.reserved)
			}
		})
	}
}

// An address with many connections is evicted before one with few, however long that has waited.
func TestConnections_AddressWithMost_IsEvictedFirst(t *testing.T) {
	open := newConnections(64, nil, slog.New(slog.DiscardHandler))
	few := &addressed{from: "192.0.2.1:1"}
	open.admit(&answerConn{Conn: few})
	for i := range 1000 {
		if !open.admit(&answerConn{Conn: &addressed{from: fmt.Sprintf("198.51.100.%d:1", i%8)}}) {
			t.Fatal("a connection was rejected although others are idle")
		}
	}
	if few.closed {
		t.Error("the only connection of an address was evicted")
	}
	if open.open != open.limit {
		t.Errorf("%d connections are open, the limit is %d", open.open, open.limit)
	}
}

// A client that does not read its answer keeps its connection until another one needs it.
func TestConnections_StalledWriter_IsEvicted(t *testing.T) {
	open := newConnections(1, nil, slog.New(slog.DiscardHandler))
	stalled := &addressed{from: "192.0.2.1:1"}
	conn := &answerConn{Conn: stalled}
	if !open.admit(conn) {
		t.Fatal("the connection was rejected")
	}
	conn.setState(writing)
	next := &answerConn{Conn: &addressed{from: "192.0.2.2:1"}}
	if open.admit(next) {
		t.Error("a write that had just begun was evicted")
	}
	conn.word.Store(packState(writing, time.Now().Add(-stalledWrite)))
	if !open.admit(next) || !stalled.closed || !conn.isGone() {
		t.Errorf("stalled for %s: closed %t, gone %t", stalledWrite, stalled.closed, conn.isGone())
	}
	if _, err := conn.write([]byte("x")); err != errGone {
		t.Errorf("a write afterwards: %v, want %v", err, errGone)
	}
}
