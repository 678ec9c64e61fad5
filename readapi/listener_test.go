package readapi

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/internal/web"
)

// fakeConn is a client's connection that counts writes and accepts a limited number of bytes.
type fakeConn struct {
	net.Conn
	got    bytes.Buffer
	writes int
	takes  int // bytes until it breaks; -1 for never
	closed bool
}

var errBroken = errors.New("broken pipe")

func (w *fakeConn) Write(b []byte) (int, error) {
	w.writes++
	if w.takes < 0 {
		return w.got.Write(b)
	}
	n := min(len(b), w.takes)
	w.takes -= n
	w.got.Write(b[:n])
	if n < len(b) {
		return n, errBroken
	}
	return n, nil
}

func (w *fakeConn) Close() error { w.closed = true; return nil }

func TestConnection_Answer_IsOneWrite(t *testing.T) {
	w := &fakeConn{takes: -1}
	c := &answerConn{Conn: w}
	c.hold()
	for range 10 {
		testmust.Succeed(t, testmust.Err(c.Write([]byte(strings.Repeat("x", 1000)))))
	}
	if w.writes != 0 {
		t.Fatalf("%d writes while the answer should be buffered, want 0", w.writes)
	}
	if err := c.letGo(); err != nil || w.writes != 1 || w.got.Len() != 10_000 || !c.begun {
		t.Fatalf("%v, %d writes of %d bytes, begun %v", err, w.writes, w.got.Len(), c.begun)
	}
	if _, err := c.Write([]byte("y")); err != nil || w.writes != 2 {
		t.Fatalf("writes after the answer are buffered too: %v, %d writes; want 2", err, w.writes)
	}
}

func TestConnection_AnswerPastTheBuffer_IsComplete(t *testing.T) {
	w := &fakeConn{takes: -1}
	c := &answerConn{Conn: w}
	c.hold()
	want := strings.Repeat("0123456789", 3*maxHeldBytes/10)
	testmust.Succeed(t, testmust.Err(io.Copy(onlyWriter{c}, strings.NewReader(want))))
	if err := c.letGo(); err != nil || w.got.String() != want {
		t.Fatalf("%v, %d of %d bytes", err, w.got.Len(), len(want))
	}
	if cap(c.held) > keptHeldBytes {
		t.Fatalf("the connection keeps a buffer of %d bytes, want at most %d", cap(c.held), keptHeldBytes)
	}
}

type onlyWriter struct{ io.Writer }

// An answer of which no byte was accepted can be reversed, one that began is final, and in both cases
// nothing more is sent on the broken connection.
// Rule 2.
func TestConnection_WriteFails_FirstByteDecides(t *testing.T) {
	body := make([]byte, 5000)
	if _, err := rand.Read(body); err != nil { // so that it is as long when it is compressed
		t.Fatal(err)
	}
	for _, c := range []struct {
		takes  int
		accept string
		begun  bool
	}{{0, "", false}, {1, "", true}, {100, "", true}, {0, "gzip", false}, {1, "gzip", true}, {0, "zstd", false}, {100, "zstd", true}} {
		w := &fakeConn{takes: c.takes}
		conn := &answerConn{Conn: w}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", c.accept)
		r = r.WithContext(withConn(r.Context(), conn))
		x := &exchange{Exchange: web.Exchange{ResponseWriter: &flusher{header: http.Header{}, to: conn}}, request: r}
		if begun := x.whole(func() { x.send(http.StatusOK, web.JSON, body) }); begun != c.begun {
			t.Errorf("%d bytes written: begun %v, want %v", c.takes, begun, c.begun)
		}
		if want := http.StatusOK; c.begun && x.Status != want || !c.begun && x.Status != statusClientGone {
			t.Errorf("%d bytes written: status %d", c.takes, x.Status)
		}
		if !w.closed {
			t.Errorf("%d bytes written: the connection stays open after a partial answer", c.takes)
		}
	}
}

// flusher writes bodies to a connection, as net/http does once its buffer is full.
type flusher struct {
	header http.Header
	to     io.Writer
}

func (f *flusher) Header() http.Header         { return f.header }
func (f *flusher) WriteHeader(int)             {}
func (f *flusher) Write(b []byte) (int, error) { return f.to.Write(b) }
func (f *flusher) FlushError() error           { return nil }
