package readapi_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"letterhead/domain/plan"
)

// TestHeaders_OnTheWire_HaveDocumentedSpelling reads raw bytes, because Go's client normalizes header names.
func TestHeaders_OnTheWire_HaveDocumentedSpelling(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	s.known("acme.com", record("acme"))
	for _, r := range []struct {
		path string
		want []string
	}{
		{"/v1/brands/acme.com", []string{"X-RateLimit-Limit: 60", "X-RateLimit-Remaining: 59", "X-RateLimit-Reset: 1795262460", "X-Credits-Remaining: 49", "X-Cache: HIT"}},
		{"/v1/brands/no-domain", []string{"X-RateLimit-Limit: 60", "X-RateLimit-Remaining: 58", "X-RateLimit-Reset: 1795262460", "X-Credits-Remaining: 49"}},
		{"/v1/me", []string{"X-RateLimit-Limit: 60", "X-RateLimit-Remaining: 57"}},
		{"/docs/errors", []string{"ETag: "}},
	} {
		head := s.wireHead("GET " + r.path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + c.secret + "\r\n\r\n")
		for _, want := range append(r.want, "X-Request-Id: ") {
			if !strings.Contains(head, "\r\n"+want) {
				t.Errorf("%s: no %q in\n%s", r.path, want, head)
			}
		}
	}
	if head := s.wireHead("GET /v1/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.Contains(head, "\r\nWWW-Authenticate: Bearer\r\n") {
		t.Errorf("401:\n%s", head)
	}
}

// A look-up's answer bypasses net/http unless it ends the connection. It must be as net/http sends it, with nothing
// between it and the next answer.
func TestLookup_AnswerPastNetHTTP_IsAsNetHTTPSendsIt(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.known("acme.com", largeRecord())
	s.known("small.com", record("small"))
	changing := regexp.MustCompile(`(?m)^(Date|X-Request-Id|X-Credits-Remaining|X-RateLimit-Remaining): (.*)\r$`)
	for _, path := range []string{"acme.com", "small.com", "acme.com?refresh=false", "unknown.small.com.", "no..domain"} {
		for _, header := range []string{"", "Accept-Encoding: gzip\r\n", "If-None-Match: *\r\n", "X-Request-Id: mine\r\n"} {
			request := "GET /v1/brands/" + path + " HTTP/1.1\r\nHost: x\r\n" + header + "Authorization: Bearer " + c.secret + "\r\n"
			conn := s.dial(request + "\r\n" + request + "\r\n" + request + "Connection: close\r\n\r\n")
			in := bufio.NewReader(conn)
			var answers []string
			for range 3 {
				var raw bytes.Buffer
				answer, err := http.ReadResponse(bufio.NewReader(io.TeeReader(&oneByte{in}, &raw)), nil)
				s.must(err)
				_, err = io.Copy(io.Discard, answer.Body)
				s.must(err)
				text := strings.Replace(raw.String(), "Connection: close\r\n", "", 1)
				for _, m := range changing.FindAllStringSubmatch(text, -1) {
					if m[2] == "" {
						t.Errorf("%s: no value in %s", path, m[0])
					}
				}
				answers = append(answers, changing.ReplaceAllString(text, "$1: …\r"))
			}
			conn.Close()
			if answers[0] != answers[2] || answers[1] != answers[2] {
				t.Errorf("%s %s:\n%.900s\nby net/http:\n%.900s", path, header, answers[0], answers[2])
			}
		}
	}
}

// oneByte reads at most one byte at a time, so that no more than an answer is read.
type oneByte struct{ io.Reader }

func (r *oneByte) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 1)]) }

// wireHead sends a request that ends its connection, and returns the raw head of the answer.
func (s *service) wireHead(request string) string {
	s.t.Helper()
	conn := s.dial(request)
	defer conn.Close()
	answer, err := io.ReadAll(conn)
	s.must(err)
	head, _, _ := strings.Cut(string(answer), "\r\n\r\n")
	return head + "\r\n"
}

// To net/http the client is gone, so its charge is reversed, and the client must not read an empty 200.
func TestLookup_ClientClosesItsSide_GetsNoEmptyAnswer(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	s.crawler.does("slow.com", never)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	s.must(err)
	defer conn.Close()
	s.must(conn.SetDeadline(time.Now().Add(waitLimit)))
	_, err = conn.Write([]byte("GET /v1/brands/slow.com HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + c.secret + "\r\n\r\n"))
	s.must(err)
	s.crawler.sees("slow.com")
	s.must(conn.(*net.TCPConn).CloseWrite())
	if got, err := io.ReadAll(conn); len(got) != 0 {
		t.Errorf("read %q (%v)", got, err)
	}
	if b := c.until("the hold is released", func(b books) bool { return b.holds == 1 && len(b.openHolds) == 0 }); len(b.charges) != 0 {
		t.Errorf("%d charges, want 0", len(b.charges))
	}
}
