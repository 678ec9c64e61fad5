package readapi_test

import (
	"bufio"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"letterhead/domain/plan"
	"letterhead/internal/testmust"
)

// FuzzV2Paths sends arbitrary paths below /v2 over a real connection: the answer is JSON, never a
// redirect or an internal fault, and an error has its message at the top. The account has no credits,
// so that a brand's name is parsed but no site is crawled.
func FuzzV2Paths(f *testing.F) {
	s := start(f)
	s.known("acme.com", record("acme"))
	c := s.account(plan.Custom, 0)
	for _, rest := range []string{
		"brands/acme.com", "brands/https://acme.com", "brands/id/x/", "brands/domain/%2e%2e", "brands//", "/brands/../..//v1/me", "search/acme?limit=5",
		"search/%FF/", "search/AT%26T?c=" + c.publishable, "search/a?c=" + c.secret, "brands/acme.com?refresh=maybe", "brands/jane@acme.com", ".", "?", "search/%00", `brands/a\b`,
	} {
		f.Add(rest, uint8(0))
		f.Add(rest, uint8(1))
	}
	headers := []string{"Authorization: Bearer " + c.secret + "\r\n", "X-Api-Key: " + c.publishable + "\r\n", ""}
	var conn net.Conn
	var reader *bufio.Reader
	f.Cleanup(func() {
		if conn != nil {
			conn.Close()
		}
	})
	f.Fuzz(func(t *testing.T, rest string, who uint8) {
		target := "/v2/" + rest
		if _, err := url.ParseRequestURI(target); err != nil || strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return // not a request line: net/http rejects it before any handler
		}
		s.clock.add(time.Minute) // a new window for each
		if conn == nil {
			var err error
			if conn, err = net.Dial("tcp", strings.TrimPrefix(s.url, "http://")); err != nil {
				t.Fatal(err)
			}
			reader = bufio.NewReader(conn)
		}
		testmust.Succeed(t, conn.SetDeadline(time.Now().Add(waitLimit)))
		testmust.Succeed(t, testmust.Err(conn.Write([]byte("GET "+target+" HTTP/1.1\r\nHost: x\r\n"+headers[int(who)%len(headers)]+"\r\n"))))
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("%q: %v", target, err)
		}
		a := readWhole(t, resp)
		if resp.Close {
			conn.Close()
			conn = nil
		}
		code := map[int][]string{
			400: {"invalid_request", "invalid_domain"}, 401: {"unauthorized"}, 402: {"insufficient_credits"}, 403: {"forbidden"}, 404: {"not_found"},
		}[a.status]
		switch {
		case a.status == http.StatusOK && strings.HasPrefix(rest, "search/"):
			decodeExactly[[]specSearchResult](t, a.body)
		case len(code) == 2 && strings.Contains(string(a.body), code[1]):
			a.rejectedV2(t, a.status, code[1])
		case len(code) > 0:
			a.rejectedV2(t, a.status, code[0])
		default:
			t.Fatalf("%q: status %d, header %v, body %s", target, a.status, a.header, a.body)
		}
	})
}
