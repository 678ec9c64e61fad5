package readapi

import (
	"log/slog"
	"net"
	"testing"
	"time"
)

// closing is a connection that reports whether it was closed.
type closing struct {
	net.Conn
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// A client that does not read its answer is closed after idle clients at first, and before them once it has not read
// for a while.
func TestConnections_StalledWriter_IsEvictedLastThenFirst(t *testing.T) {
	for _, c := range []struct {
		name  string
		since time.Duration
		first bool
	}{
		{"a write that is not stalled yet", stalledWrite / 2, false},
		{"a stalled write", stalledWrite, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := newConnections(3, NewUnrouted(Config{BaseURL: "https://brands.example.com"}, slog.New(slog.DiscardHandler)))
			writes, waits := &answerConn{Conn: &closing{}}, &answerConn{Conn: &closing{}}
			for _, conn := range []*answerConn{writes, waits} {
				if !open.admit(conn) {
					t.Fatal("a connection was rejected although there is room")
				}
			}
			writes.word.Store(packState(writing, time.Now().Add(-c.since)))
			waits.word.Store(packState(idle, time.Now().Add(-time.Hour)))
			if !open.admit(&answerConn{Conn: &closing{}}) || writes.isGone() != c.first || waits.isGone() == c.first {
				t.Errorf("the writer was closed: %t, the idle client: %t", writes.isGone(), waits.isGone())
			}
			first := map[bool]*answerConn{true: writes, false: waits}[c.first]
			if !first.Conn.(*closing).closed {
				t.Error("the connection stays open")
			}
			if _, err := first.write([]byte("x")); err != errGone {
				t.Errorf("a write afterwards: %v, want %v", err, errGone)
			}
		})
	}
}
