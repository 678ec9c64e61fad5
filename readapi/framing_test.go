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

// bytes sends bytes as they are on a connection of its own, and returns every answer that comes before the
// server closes it: the status of one of ours, which carries a request id, and "refused" with the status of one
// that did not get as far. It reads to the end, whatever that takes: time costs nothing in a bubble.
func (s *service) bytes(sent string) string {
	s.t.Helper()
	conn, err := s.pipes.dial()
	s.must(err)
	defer conn.Close()
	go io.WriteString(conn, sent) // the server may hang up before it has read all
	reader := bufio.NewReader(conn)
	var got []string
	for {
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			return strings.Join(got, ", ")
		}
		status := fmt.Sprint(resp.StatusCode)
		if resp.Header.Get("X-Request-Id") == "" {
			status = "refused " + status
		}
		got = append(got, status)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return strings.Join(append(got, "cut off"), ", ")
		}
	}
}

// TestEveryRequestHasOneReading sends what makes two servers in a row disagree about where a request ends. The
// request inside (/v1/me with a good key, 200) must never be answered unless it stands behind a request whose
// end nobody can doubt.
func TestEveryRequestHasOneReading(t *testing.T) {
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
			{"a body on POST", post(length, me) + me, "405, 200"},
			{"no body, then another", post("Content-Length: 0\r\n", me), "405, 200"},
			{"one length twice", post(length+length, me) + me, "405, 200"},
			{"two lengths", post("Content-Length: 0\r\n"+length, me), "refused 400"},
			{"two lengths, the other way", post(length+"Content-Length: 0\r\n", me), "refused 400"},
			{"a list of lengths", post("Content-Length: 0, 0\r\n", me), "refused 400"},
			{"a length with a sign", post("Content-Length: +0\r\n", me), "refused 400"},
			{"a length below zero", post("Content-Length: -1\r\n", me), "refused 400"},
			{"a length in hexadecimal", post("Content-Length: 0x0\r\n", me), "refused 400"},
			{"a length that is no number", post("Content-Length: zero\r\n", me), "refused 400"},
			{"an empty length", post("Content-Length:\r\n", me), "refused 400"},
			{"a length past 64 bits", post("Content-Length: 18446744073709551616\r\n", me), "refused 400"},
			{"the largest length", post("Content-Length: 9223372036854775807\r\n", me), "405"},
			{"a length and a space", post("Content-Length : 0\r\n", me), "refused 400"},
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
			{"chunks twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+me), "refused 501"},
			{"chunks and identity", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"+me), "refused 501"},
			{"a list of encodings", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"+me), "refused 501"},
			{"identity", post("Transfer-Encoding: identity\r\n"+length, me), "refused 501"},
			{"xchunked", post("Transfer-Encoding: xchunked\r\n"+length, me), "refused 501"},
			{"chunked with a vertical tab", post("Transfer-Encoding: chunked\v\r\n"+length, me), "refused 400"},
			{"chunked in quotes", post("Transfer-Encoding: \"chunked\"\r\n"+length, me), "refused 501"},
			{"an empty encoding", post("Transfer-Encoding:\r\n"+length, me), "refused 501"},
			{"an encoding and a space", post("Transfer-Encoding : chunked\r\n"+length, me), "refused 400"},
			{"an encoding after a space", post(" Transfer-Encoding: chunked\r\n"+length, me), "refused 400"},
			{"an encoding after a bare CR", post("X: y\rTransfer-Encoding: chunked\r\n"+length, me), "refused 400"},
			{"chunk extensions", post("Transfer-Encoding: chunked\r\n", "1;a=b\r\nx\r\n0;c\r\n\r\n"+me), "405"},
			{"a chunk extension past a bare LF", post("Transfer-Encoding: chunked\r\n", "1;a\nx\r\n0\r\n\r\n"+me), "405"},
			{"a chunk below zero", post("Transfer-Encoding: chunked\r\n", "-1\r\n"+me), "405"},
			{"a chunk past 64 bits", post("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n"+me), "405"},
			{"a chunk without its end", post("Transfer-Encoding: chunked\r\n", "1\r\nxGET / HTTP/1.1\r\n\r\n"+me), "405"},
			{"a trailer that is a length", post("Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n", "0\r\nContent-Length: 5\r\n\r\n"+me), "refused 400"},
			{"a folded header", post("X: y\r\n Content-Length: 5\r\n", me), "405, 200"},
			{"bare line feeds", strings.ReplaceAll(me, "\r\n", "\n") + me, "200, 200"},
			{"a header without a colon", post("Content-Length\r\n", me), "refused 400"},
			{"a NUL in a header", post("X: a\x00b\r\n", me), "refused 400"},
			{"a NUL in a name", post("X\x00: a\r\n", me), "refused 400"},
			{"a request that waits for 100", get("Expect: 100-continue\r\n"+length, me), "400"},
			{"another expectation", get("Expect: a-miracle\r\n"+length, me), "refused 417"},
			{"an empty line before", "\r\n" + me, "refused 400"},
			{"an end that is sent as a request", me + "\r\n" + me, "200, refused 400"},
		} {
			if got := s.bytes(c.sent); got != c.want {
				s.t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
	})
}
