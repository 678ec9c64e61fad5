package testlink_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"letterhead/internal/testlink"
	"letterhead/internal/testmust"
)

// These tests are needed because a fault that does not happen lets the tests that use it pass.

const (
	// waitLimit limits the wait for expected data.
	waitLimit = time.Minute
	// silence is how long hearsNothing waits for data.
	silence = 50 * time.Millisecond
)

// echo starts a server that echoes its input, and returns its address.
func echo(t *testing.T) string {
	t.Helper()
	listener := testmust.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			ended.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn) // until the link is closed
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		ended.Wait()
	})
	return listener.Addr().String()
}

// peer is a client of a link.
type peer struct {
	*testing.T
	net.Conn
}

func dial(t *testing.T, l *testlink.Link) peer {
	t.Helper()
	conn := testmust.Get(net.Dial("tcp", l.Address()))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return peer{t, conn}
}

func (p peer) say(words string) {
	p.Helper()
	if _, err := p.Write([]byte(words)); err != nil {
		p.Fatal(err)
	}
}

// hear waits for words.
func (p peer) hear(words string) {
	p.Helper()
	_ = p.SetReadDeadline(time.Now().Add(waitLimit))
	b := make([]byte, len(words))
	if _, err := io.ReadFull(p, b); err != nil || string(b) != words {
		p.Fatalf("heard %q, %v; want %q", b, err, words)
	}
}

// hearsNothing checks that no data arrives during silence.
func (p peer) hearsNothing() {
	p.Helper()
	_ = p.SetReadDeadline(time.Now().Add(silence))
	if n, err := p.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		p.Fatalf("heard %d bytes, %v; want 0 and ErrDeadlineExceeded", n, err)
	}
}

// ends waits for the end of the connection.
func (p peer) ends() {
	p.Helper()
	_ = p.SetReadDeadline(time.Now().Add(waitLimit))
	if n, err := p.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		p.Fatalf("heard %d bytes, %v; want the end", n, err)
	}
}

func TestLink_ForwardsAndCountsRoundTrips(t *testing.T) {
	l := testlink.Through(t, echo(t))
	a, b := dial(t, l), dial(t, l)
	for _, p := range []peer{a, b, a} {
		p.say("word")
		p.hear("word")
	}
	if n := l.RoundTrips(); n != 3 {
		t.Errorf("RoundTrips = %d after three requests and responses, want 3", n)
	}
}

func TestHang_DelaysDataUntilResume(t *testing.T) {
	l := testlink.Through(t, echo(t))
	old := dial(t, l)
	old.say("a")
	old.hear("a")
	l.Hang()
	fresh := dial(t, l)
	for _, p := range []peer{old, fresh} {
		p.say("held")
		p.hearsNothing()
	}
	l.Resume()
	old.hear("held")
	fresh.hear("held")
}

func TestRefuse_ResetsAllConnections(t *testing.T) {
	l := testlink.Through(t, echo(t))
	old := dial(t, l)
	l.Hang()
	old.say("lost")
	l.Refuse()
	old.ends()
	if conn, err := net.Dial("tcp", l.Address()); err == nil { // the kernel accepts it
		peer{t, conn}.ends()
		_ = conn.Close()
	}
	l.Resume()
	again := dial(t, l)
	again.say("a")
	again.hear("a")
}

func TestCut_ClosesConnections_ServesNewOnes(t *testing.T) {
	l := testlink.Through(t, echo(t))
	old := dial(t, l)
	old.say("a")
	old.hear("a")
	l.Hang()
	l.Cut()
	old.ends()
	l.Resume()
	again := dial(t, l)
	again.say("b")
	again.hear("b")
}

func TestSwallow_DropsGivenNumberOfAnswers(t *testing.T) {
	l := testlink.Through(t, echo(t))
	l.Swallow(2, func(b []byte) bool { return bytes.Contains(b, []byte("secret")) })
	for range 2 {
		p := dial(t, l)
		p.say("plain")
		p.hear("plain")
		p.say("secret")
		p.ends()
	}
	p := dial(t, l)
	p.say("secret")
	p.hear("secret")
}

func TestLink_ServerDown_EndsConnection(t *testing.T) {
	l, at := testlink.ThroughURL(t, "http://127.0.0.1:1/path?x=y")
	if at != "http://"+l.Address()+"/path?x=y" {
		t.Errorf("the URL through the link is %s", at)
	}
	if conn, err := net.Dial("tcp", l.Address()); err == nil { // Dial itself may already fail
		peer{t, conn}.ends()
		_ = conn.Close()
	}
}

func TestClose_LinkRejectsConnections(t *testing.T) {
	l := testmust.Get(testlink.Open(echo(t)))(t)
	p := dial(t, l)
	p.say("a")
	p.hear("a")
	l.Hang()
	l.Close()
	l.Resume() // too late
	p.ends()
	if conn, err := net.Dial("tcp", l.Address()); err == nil {
		_ = conn.Close()
		t.Error("the link still accepts connections after Close")
	}
}
