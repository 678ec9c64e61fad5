// Package web has what all HTTP servers of the program do alike: routing, the answer to a request, queries, and the
// forms, sessions and cookies of pages. It knows nothing about accounts or credits.
package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"letterhead/internal/contentcoding"
)

// Exchange is a request's answer, and what the log says about the request. Each server embeds it in an exchange of its
// own, which handlers use as the ResponseWriter.
type Exchange struct {
	http.ResponseWriter
	ID      string // of the request, generated here; a client's own id decides nothing
	Route   string // name for logs and metrics
	Status  int    // 0 until the answer has begun
	Written int64  // bytes of the body
}

// Unwrap lets http.ResponseController reach the connection.
func (x *Exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

func (x *Exchange) WriteHeader(status int) {
	x.Status = cmp.Or(x.Status, status)
	x.ResponseWriter.WriteHeader(status)
}

func (x *Exchange) Write(b []byte) (int, error) {
	x.Status = cmp.Or(x.Status, http.StatusOK)
	n, err := x.ResponseWriter.Write(b)
	x.Written += int64(n)
	return n, err
}

// Guard calls fail if handle returns an error or panics. A panic with http.ErrAbortHandler, with which net/http cuts a
// connection, continues.
func Guard(handle func() error, fail func(error)) {
	defer func() {
		if thrown := recover(); thrown == http.ErrAbortHandler {
			panic(thrown)
		} else if thrown != nil {
			fail(fmt.Errorf("panic: %v\n%s", thrown, debug.Stack()))
		}
	}()
	if err := handle(); err != nil {
		fail(err)
	}
}

// Content types of answers. The slices are shared: adding to a header allocates a new one, because none has spare
// capacity.
var (
	JSON = []string{"application/json; charset=utf-8"}
	Text = []string{"text/plain; charset=utf-8"}
	HTML = []string{"text/html; charset=utf-8"}
)

// Send answers with a whole body, which is in a coding. Length and body are sent together, so that the connection needs
// no chunks. On HEAD, net/http omits the body.
func Send(w http.ResponseWriter, status int, contentType []string, coding contentcoding.Coding, body []byte) {
	h := w.Header()
	if coding != contentcoding.Identity {
		h["Content-Encoding"] = []string{string(coding)}
	}
	h["Content-Type"] = contentType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client has left, and has no recipient
}

// SendPage answers with a whole body that is not compressed: the length of a compressed page of a signed-in person
// would reveal whether it repeats what another site made the browser send (BREACH).
func SendPage(w http.ResponseWriter, status int, contentType string, body []byte) {
	Send(w, status, []string{contentType}, contentcoding.Identity, body)
}

// HostOf returns the host of a Host header or of an address, without port and brackets.
func HostOf(sent string) string {
	if host, _, err := net.SplitHostPort(sent); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(sent, "["), "]")
}

// RetryAfter sets the header of that name, in seconds, rounded up.
func RetryAfter(h http.Header, wait time.Duration) {
	h["Retry-After"] = []string{strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)}
}

// maxKeptBuffer limits the size of a buffer that is kept for the next answer.
const maxKeptBuffer = 128 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// EncodeJSON calls use with a value as JSON, which ends with a new line and must not be kept.
func EncodeJSON(value any, use func(body []byte)) error {
	buffer := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buffer.Cap() <= maxKeptBuffer {
			buffer.Reset()
			buffers.Put(buffer)
		}
	}()
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false) // nosniff and the content type protect browsers; & stays readable in URLs
	if err := encoder.Encode(value); err != nil {
		return err
	}
	use(buffer.Bytes())
	return nil
}

// Answer is an answer that is kept in memory. It implements http.ResponseWriter.
type Answer struct {
	Status int
	Body   bytes.Buffer

	header http.Header
}

// NewAnswer returns an answer that has not begun.
func NewAnswer() *Answer { return &Answer{Status: http.StatusOK, header: http.Header{}} }

func (a *Answer) Header() http.Header { return a.header }

func (a *Answer) WriteHeader(status int) { a.Status = status }

func (a *Answer) Write(p []byte) (int, error) { return a.Body.Write(p) }

// Problem is an error as an answer reports it.
type Problem struct {
	Status     int
	Code       string        // for programs; pages have none
	Title      string        // of a page; answers for programs have none
	Text       string        // a sentence on which the reader can act
	RetryAfter time.Duration // of a 429 or 503, in whole seconds
	Details    any           // for programs
	Field      string        // of the form that the problem is about; empty if it is not known
	Cause      error         // for the log
}

func (p *Problem) Error() string {
	if p.Cause != nil {
		return fmt.Sprintf("%d %s%s: %s", p.Status, p.Code, p.Title, p.Cause)
	}
	return fmt.Sprintf("%d %s%s: %s", p.Status, p.Code, p.Title, p.Text)
}

func (p *Problem) Unwrap() error { return p.Cause }

// Row is a row of a table of errors: the problem as which errors are reported.
type Row struct {
	When func(error) bool
	Problem
	Say func(error) string // returns the text; nil if that of the problem is fixed
	// Expected errors are not logged, because the request or the state of its subject causes them.
	Expected bool
}

// ProblemOf returns the problem that an error is or wraps, or else that of the first row for the error. The last row
// should be for all errors.
func ProblemOf(err error, rows []Row) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	for i := range rows {
		row := &rows[i]
		if !row.When(err) {
			continue
		}
		found := row.Problem
		if row.Say != nil {
			found.Text = row.Say(err)
		}
		if !row.Expected {
			found.Cause = err
		}
		return &found
	}
	return nil
}

// NewRow returns the row of a page's problem. It is expected that somebody is not signed in.
func NewRow(when func(error) bool, status int, title, text string) Row {
	return Row{When: when, Problem: Problem{Status: status, Title: title, Text: text},
		Expected: status == http.StatusUnauthorized}
}

// Any is Row.When of the last row.
func Any(error) bool { return true }

// NewProblem returns the problem of a page. cause may be nil.
func NewProblem(status int, title, text string, cause error) *Problem {
	return &Problem{Status: status, Title: title, Text: text, Cause: cause}
}
