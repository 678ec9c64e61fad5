package readapi

import (
	"net/http"
	"time"
)

// sentHeaders are the headers that an answer past net/http may have, in the order in which net/http sends them. Date
// follows them.
var sentHeaders = [...]string{
	"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Cache-Control", "Content-Encoding", "Content-Length",
	"Content-Type", headerETag, "Strict-Transport-Security", "Vary", headerCache, "X-Content-Type-Options",
	headerCreditsRemaining, headerRateLimitLimit, headerRateLimitRemaining, headerRateLimitReset, headerRequestID,
}

// ownHeader gives the answer a header map of the connection, if a 200 can be written to the connection past net/http,
// which grows its map twice, copies and sorts it: a third of the memory of a look-up. All other answers take the usual
// way, with a copy of the map. So do answers that end the connection, because net/http has to know.
func (x *exchange) ownHeader() {
	r, c := x.request, connOf(x.request.Context())
	if c == nil || r.Method != http.MethodGet || r.ContentLength != 0 || r.Close || framingAmbiguous(r) {
		return
	}
	if c.header == nil {
		c.header = make(http.Header, len(sentHeaders))
	}
	clear(c.header)
	x.own = c.header
}

// beginAnswer begins a held answer 200 with a header. It returns false, without effect, if net/http has to send it.
func (c *answerConn) beginAnswer(header http.Header) bool {
	if !c.holding || c.endsWithAnswer() || header["Content-Length"] == nil {
		return false
	}
	held, sent := append(c.held, "HTTP/1.1 200 OK\r\n"...), 0
	for _, name := range sentHeaders {
		for _, value := range header[name] {
			held = append(append(append(append(held, name...), ": "...), value...), "\r\n"...)
			sent++
		}
	}
	if sent != len(header) {
		return false
	}
	held = time.Now().UTC().AppendFormat(append(held, "Date: "...), http.TimeFormat)
	c.held = append(held, "\r\n\r\n"...)
	return true
}
