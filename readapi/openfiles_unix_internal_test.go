//go:build unix

package readapi

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"letterhead/internal/testmust"
)

// On a busy machine, a request may wait for long until the server reads it.
func TestConnections_UnreadRequest_IsNotEvicted(t *testing.T) {
	listener := testmust.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	open := newConnections(3, NewUnrouted(Config{BaseURL: "https://brands.example.com"}, slog.New(slog.DiscardHandler)))
	var conns []*answerConn
	for _, sent := range []string{"GET", ""} {
		client := testmust.Get(net.Dial("tcp", listener.Addr().String()))(t)
		t.Cleanup(func() { client.Close() })
		if _, err := client.Write([]byte(sent)); err != nil { // on loopback it has arrived when this returns
			t.Fatal(err)
		}
		accepted := testmust.Get(listener.Accept())(t)
		t.Cleanup(func() { accepted.Close() })
		conn := &answerConn{Conn: accepted}
		if !open.admit(conn) {
			t.Fatal("a connection was rejected although there is room")
		}
		conn.word.Store(packState(idle, time.Now().Add(-time.Hour)))
		conns = append(conns, conn)
	}
	if !open.admit(&answerConn{Conn: &closing{}}) || conns[0].isGone() || !conns[1].isGone() {
		t.Errorf("the connection with a request was closed: %t, the idle one: %t", conns[0].isGone(), conns[1].isGone())
	}
}
