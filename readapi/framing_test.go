package readapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"letterhead/domain/plan"
)

// bytes sends raw bytes on a new connection, and returns the status of every answer until the server closes it. Each
// must have a request id. It reads to the end, however long that takes: time costs nothing in a bubble.
func (s *service) bytes(sent string) string {
	s.t.Helper()
	conn, err := s.pipes.dial()
	s.must(err)
	defer conn.Close()
	go io.WriteString(conn, sent) // the server may close before it has read everything
	reader := bufio.NewReader(conn)
	var got []string
	for {
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			return strings.Join(got, ", ")
		}
		status := fmt.Sprint(resp.StatusCode)
		if resp.Header.Get("X-Request-Id") == "" {
			status = "no request id: " + status
		}
		got = append(got, status)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return strings.Join(append(got, "cut off"), ", ")
		}
	}
}

// TestFraming_AmbiguousEnd_AnswersNoHiddenRequest sends requests whose end two servers in a row would see differently.
// The request inside (/v1/me with a valid key, 200) must never be answered unless it follows a request
// with an unambiguous end.
func TestFraming_AmbiguousEnd_AnswersNoHiddenRequest(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Custom, 50)
		me := "GET /v1/me HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + c.secret + "\r\n\r\n" // 200
		post := func(headers, rest string) string {                                   // 405
			return "POST /v1/me HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + rest
		}
		get := func(headers, rest string) string { // 400
			return "GET /v1/search?q= HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + c.secret + "\r\n" + headers + "\r\n" + rest
		}
		length := fmt.Sprintf("Content-Length: %d\r\n", len(me))
		chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(me), me)
		for _, c := range []struct{ name, sent, want string }{
			{"pipelined", me + get("", "") + me, "200, 400, 200"},
			{"a body on GET", get(length, me) + me, "400, 200"},
			{"a body on POST, which is not read", post(length, me) + me, "405"},
			{"no body, then another", post("Content-Length: 0\r\n", me), "405, 200"},
			{"one length twice", post(length+length, me) + me, "405"},
			{"two lengths", post("Content-Length: 0\r\n"+length, me), "400"},
			{"two lengths, the other way", post(length+"Content-Length: 0\r\n", me), "400"},
			{"a list of lengths", post("Content-Length: 0, 0\r\n", me), "400"},
			{"a length with a sign", post("Content-Length: +0\r\n", me), "400"},
			{"a length below zero", post("Content-Length: -1\r\n", me), "400"},
			{"a length in hexadecimal", post("Content-Length: 0x0\r\n", me), "400"},
			{"a length that is no number", post("Content-Length: zero\r\n", me), "400"},
			{"an empty length", post("Content-Length:\r\n", me), "400"},
			{"a length past 64 bits", post("Content-Length: 18446744073709551616\r\n", me), "400"},
			{"the largest length", post("Content-Length: 9223372036854775807\r\n", me), "405"},
			{"a length and a space", post("Content-Length : 0\r\n", me), "400"},
			{"a length with an underscore", post("Content_Length: 5\r\n", me), "405, 200"},
			{"chunks", post("Transfer-Encoding: chunked\r\n", chunks) + me, "405"},
			{"chunks and a length", post("Transfer-Encoding: chunked\r\n"+length, "0\r\n\r\n"+me), "405"},
			{"a length and chunks", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+me), "405"},
			{"chunks on GET", get("Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+me), "400"},
			{"chunks and a length on GET", get("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"+me), "400"},
			{"Chunked", post("transfer-encoding: Chunked\r\n", "0\r\n\r\n"+me), "405"},
			{"chunks after a fold", post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"+me), "405"},
			{"chunks of HTTP/1.0", strings.Replace(post("Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+me), "1.1", "1.0", 1), "405"},
			{"a length of HTTP/1.0", strings.Replace(post("Connection: keep-alive\r\n"+length, me)+me, "1.1", "1.0", 1), "405"},
			{"chunks twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+me), "501"},
			{"chunks and identity", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"+me), "501"},
			{"a list of encodings", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"+me), "501"},
			{"identity", post("Transfer-Encoding: identity\r\n"+length, me), "501"},
			{"xchunked", post("Transfer-Encoding: xchunked\r\n"+length, me), "501"},
			{"chunked with a vertical tab", post("Transfer-Encoding: chunked\v\r\n"+length, me), "400"},
			{"chunked in quotes", post("Transfer-Encoding: \"chunked\"\r\n"+length, me), "501"},
			{"an empty encoding", post("Transfer-Encoding:\r\n"+length, me), "501"},
			{"an encoding and a space", post("Transfer-Encoding : chunked\r\n"+length, me), "400"},
			{"an encoding after a space", post(" Transfer-Encoding: chunked\r\n"+length, me), "400"},
			{"an encoding after a bare CR", post("X: y\rTransfer-Encoding: chunked\r\n"+length, me), "400"},
			{"chunk extensions", post("Transfer-Encoding: chunked\r\n", "1;a=b\r\nx\r\n0;c\r\n\r\n"+me), "405"},
			{"a chunk extension past a bare LF", post("Transfer-Encoding: chunked\r\n", "1;a\nx\r\n0\r\n\r\n"+me), "405"},
			{"a chunk below zero", post("Transfer-Encoding: chunked\r\n", "-1\r\n"+me), "405"},
			{"a chunk past 64 bits", post("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n"+me), "405"},
			{"a chunk without its end", post("Transfer-Encoding: chunked\r\n", "1\r\nxGET / HTTP/1.1\r\n\r\n"+me), "405"},
			{"a trailer that is a length", post("Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n", "0\r\nContent-Length: 5\r\n\r\n"+me), "400"},
			{"a folded header", post("X: y\r\n Content-Length: 5\r\n", me), "405, 200"},
			{"bare line feeds", strings.ReplaceAll(me, "\r\n", "\n") + me, "200, 200"},
			{"a header without a colon", post("Content-Length\r\n", me), "400"},
			{"a NUL in a header", post("X: a\x00b\r\n", me), "400"},
			{"a NUL in a name", post("X\x00: a\r\n", me), "400"},
			{"a request that waits for 100", get("Expect: 100-continue\r\n"+length, me), "400"},
			{"another expectation", get("Expect: a-miracle\r\n"+length, me), "417"},
			{"an empty line before", "\r\n" + me, "400"},
			{"an end that is sent as a request", me + "\r\n" + me, "200, 400"},
		} {
			if got := s.bytes(c.sent); got != c.want {
				s.t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
	})
}

// Whatever the request line and Host contain, there is one answer, and the key is accepted only if the path
// is really that of an endpoint.
func TestFraming_OddTarget_GetsOneAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Custom, 50)
		line := func(line string) string {
			return line + " HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + c.secret + "\r\nConnection: close\r\n\r\n"
		}
		hosts := func(headers string) string {
			return "GET /v1/me HTTP/1.1\r\n" + headers + "X-Api-Key: " + c.secret + "\r\nConnection: close\r\n\r\n"
		}
		long := strings.Repeat("x", 14<<10)
		for _, c := range []struct{ name, sent, want string }{
			{"absolute form", line("GET http://other.example/v1/me"), "200"},
			{"absolute form without a path", line("GET http://other.example"), "404"},
			{"absolute form of another scheme", line("GET ftp://other.example/v1/me"), "200"},
			{"absolute form without a host", line("GET http:///v1/me"), "200"},
			{"authority form", line("CONNECT other.example:443"), "404"},
			{"CONNECT to an endpoint", line("CONNECT /v1/me"), "405"},
			{"authority form of GET", line("GET other.example:443"), "404"},
			{"asterisk form", line("OPTIONS *"), "204"},
			{"asterisk form of GET", line("GET *"), "404"},
			{"no leading slash", line("GET v1/me"), "400"},
			{"no target", line("GET "), "400"},
			{"two slashes", line("GET //v1/me"), "301"},
			{"two slashes and a host", line("GET //other.example/v1/me"), "404"},
			{"dots", line("GET /v1/brands/../me"), "301"},
			{"encoded dots", line("GET /v1/brands/%2e%2e/me"), "404"},
			{"encoded slash", line("GET /v1%2fme"), "404"},
			{"encoded letter", line("GET /v1/%6de"), "404"},
			{"a backslash", line(`GET /v1\me`), "404"},
			{"a fragment", line("GET /v1/me#x"), "404"},
			{"half an escape", line("GET /v1/me?a=%"), "200"},
			{"half an escape in the path", line("GET /v1/me%"), "400"},
			{"no escape in the path", line("GET /v1/brands/%zz"), "400"},
			{"a NUL", line("GET /v1/me\x00"), "400"},
			{"an encoded NUL", line("GET /v1/me%00"), "404"},
			{"an encoded NUL in an identifier", line("GET /v1/brands/acme.com%00"), "400"},
			{"an encoded NUL in the query", line("GET /v1/search?q=%00"), "200"},
			{"an encoded CRLF", line("GET /v1/brands/acme.com%0d%0aX:%20y"), "400"},
			{"an overlong UTF-8 form of a slash", line("GET /v1/brands/%c0%af"), "400"},
			{"a lone surrogate", line("GET /v1/brands/%ed%a0%80.com"), "400"},
			{"bytes past ASCII", line("GET /v1/brands/\xff\xfe"), "400"},
			{"a space in the target", line("GET /v1/ me"), "400"},
			{"a tab in the line", line("GET\t/v1/me"), "400"},
			{"a long path", line("GET /v1/brands/" + long), "400"},
			{"a long query", line("GET /v1/me?" + long), "200"},
			{"a path past the limit", line("GET /v1/brands/" + long + long), "431"},
			{"a header past the limit", line("GET /v1/me HTTP/1.1\r\nX: " + long + long), "431"},
			{"a thousand headers", "GET /v1/me HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("a: b\r\n", 1000) + "\r\n", "431"},
			{"headers past the limit", "GET /v1/me HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("a: b\r\n", 10_000) + "\r\n", "431"},
			{"another method", line("BREW /v1/me"), "405"},
			{"a method in lower case", line("get /v1/me"), "405"},
			{"a long method", line(long + " /v1/me"), "405"},
			{"a method that is none", line("GET/ /v1/me"), "400"},
			{"no method", line(" /v1/me"), "400"},
			{"TRACE", line("TRACE /v1/me"), "405"},
			{"no Host", hosts(""), "400"},
			{"two Hosts", hosts("Host: x\r\nHost: x\r\n"), "400"},
			{"two different Hosts", hosts("Host: x\r\nHost: y\r\n"), "400"},
			{"an empty Host", hosts("Host:\r\n"), "200"},
			{"a Host with a space", hosts("Host: x y\r\n"), "400"},
			{"a Host with a slash", hosts("Host: x/y\r\n"), "400"},
			{"a Host with a NUL", hosts("Host: x\x00\r\n"), "400"},
			{"HTTP/0.9", "GET /v1/me\r\n\r\n", "400"},
			{"HTTP/1.0 without Host", "GET /v1/search?q= HTTP/1.0\r\nX-Api-Key: x\r\n\r\n", "401"},
			{"HTTP/1.2", "GET /v1/me HTTP/1.2\r\nHost: x\r\nConnection: close\r\n\r\n", "401"},
			{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "404"},
			{"HTTP/3", "GET /v1/me HTTP/3.0\r\nHost: x\r\n\r\n", "505"},
			{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"},
			{"nothing", "\r\n\r\n", "400"},
		} {
			if got := s.bytes(c.sent); got != c.want {
				s.t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
	})
}
