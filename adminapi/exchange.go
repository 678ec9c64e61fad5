package adminapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/internal/contentcoding"
	"letterhead/internal/repeats"
	"letterhead/internal/requestbody"
	"letterhead/internal/web"
	"letterhead/projections/operators"
)

type exchange struct {
	web.Exchange
	api       *API
	request   *http.Request
	ctx       context.Context // of the work; it ends when the client leaves
	operation *operation
	token     *operators.Token
	local     bool // the request is one of the command line
	anyLimit  bool // pages of listings may have any size
	body      []byte
	key       string // Idempotency-Key
	problem   *problem
}

// serve handles a request from the first byte to the log line.
func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	a.answerAs(nil, w, r.WithContext(ctx))
}

// answerAs is serve without a limit of time. A request with a local token comes from this machine, and needs no other.
func (a *API) answerAs(local *operators.Token, w http.ResponseWriter, r *http.Request) {
	x := &exchange{Exchange: web.Exchange{ResponseWriter: w, ID: a.NewID(), Route: "unknown"}, api: a, request: r,
		ctx: r.Context(), token: local, local: local != nil}
	h := w.Header()
	h.Set("X-Request-Id", x.ID)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	web.Guard(func() error {
		for _, check := range []func(*http.Request) *problem{a.checkHost, checkOrigin} {
			if p := check(r); p != nil && !x.local {
				return p
			}
		}
		if at := r.URL.EscapedPath(); path.Clean(at) != at && path.Clean(at)+"/" != at {
			return errUnknownPath
		}
		a.router.ServeHTTP(x, r)
		return nil
	}, x.fail)
	x.finish()
}

// maxCause limits the text of an error in the log, in bytes. That of a panic has a stack.
const maxCause = 8 << 10

// finish counts and logs the answer. Actions are logged with their token; events have the same actor.
func (x *exchange) finish() {
	x.api.metrics.WithLabelValues(x.Route, strconv.Itoa(x.Status)).Inc()
	level := slog.LevelDebug
	attrs := []slog.Attr{slog.String("request_id", x.ID), slog.String("route", x.Route), slog.Int("status", x.Status)}
	if x.token != nil {
		attrs = append(attrs, slog.String("token", x.token.ID))
	}
	switch {
	case x.Status == http.StatusInternalServerError:
		level = slog.LevelError
	case x.Status > http.StatusInternalServerError && !x.local: // the command line prints the error
		level = slog.LevelWarn
	case x.operation != nil && (x.operation.requires != reading || x.operation.method != http.MethodGet) ||
		x.Status == http.StatusUnauthorized || x.Status == http.StatusTooManyRequests:
		level = slog.LevelInfo
	}
	if x.problem != nil && x.problem.Cause != nil {
		text := x.problem.Cause.Error()
		attrs = append(attrs, slog.String("error", text[:min(len(text), maxCause)]))
	}
	x.api.Logger.LogAttrs(context.WithoutCancel(x.ctx), level, "admin request", attrs...)
}

// by returns the metadata of the events that the request causes. With an idempotency key the id is the same for every
// repeat, and so are the ids of the events.
func (x *exchange) by() commands.Request {
	return commands.Request{ID: x.ID, Actor: x.actor(), CorrelationID: x.ID}
}

func (x *exchange) actor() string { return "operator:" + x.token.ID }

const (
	headerKey = "Idempotency-Key"
	// maxKey limits an idempotency key.
	maxKey = 255
)

// keyNamespace is the namespace of request ids that follow from an idempotency key.
var keyNamespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("urn:letterhead:admin"))

// run reads the body and calls the operation; a repeated request gets the first answer.
func (x *exchange) run() error {
	if !web.IsText(x.request.URL.Path) {
		return invalid("The path is not UTF-8 text.")
	}
	if x.request.Method == http.MethodGet || x.request.Method == http.MethodHead {
		return x.operation.serve(x)
	}
	if err := x.readBody(); err != nil {
		return err
	}
	if len(x.request.Header[headerKey]) == 0 {
		return x.operation.serve(x)
	}
	x.key = x.request.Header.Get(headerKey)
	if len(x.request.Header[headerKey]) > 1 || x.key == "" || len(x.key) > maxKey || !utf8.ValidString(x.key) {
		return invalid("Send one %s of 1 to %d bytes.", headerKey, maxKey)
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %s\n", x.request.Method, x.request.URL.RequestURI())
	hash.Write(x.body)
	// Another request gets another id, and so makes other things, also if the key was used long ago.
	x.ID = uuid.NewSHA1(keyNamespace, fmt.Appendf(nil, "%s/%x/%s", x.token.ID, hash.Sum(nil), x.key)).String()
	x.Header().Set("X-Request-Id", x.ID)
	key := sha256.Sum256([]byte(x.key))
	r := repeats.Request{Caller: x.token.ID, Key: hex.EncodeToString(key[:]), Hash: hex.EncodeToString(hash.Sum(nil)),
		At: x.api.Now()}
	before, err := x.api.Repeats.Begin(x.ctx, r)
	if errors.Is(err, repeats.ErrMismatch) {
		return invalid("The %s was used for another request. Send a new one with each new request, and the same one only to repeat it.", headerKey)
	}
	if err != nil {
		return err
	}
	if before.Status != 0 {
		x.Header().Set("Idempotency-Replayed", "true")
		x.send(before.Status, web.JSON, []byte(before.Body))
		return nil
	}
	return x.first(r)
}

// first serves the first request with a key, and remembers its answer if something was done, unless it is one for now.
// Secrets and names are not part of the remembered answer.
func (x *exchange) first(r repeats.Request) error {
	kept := &recorder{ResponseWriter: x.ResponseWriter}
	x.ResponseWriter = kept
	err := func() error {
		defer func() { x.ResponseWriter = kept.ResponseWriter }() // also for the answer to a panic
		return x.operation.serve(x)
	}()
	// The outcome must be remembered although the client has left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), rememberWithin)
	defer cancel()
	if err != nil && problemOf(err).Status < http.StatusInternalServerError {
		return errors.Join(err, x.api.Repeats.Release(ctx, r))
	}
	if err != nil {
		return err // it may have been done: the same key repeats it safely
	}
	if kept.passing {
		if err := x.api.Repeats.Release(ctx, r); err != nil {
			x.api.Logger.Warn("the key of a request of an operator was not released; its repeat is decided again",
				"request_id", x.ID, "error", err)
		}
		kept.flush()
		return nil
	}
	answer := repeats.Answer{Status: kept.status, Body: string(kept.body)}
	if kept.remembered != nil {
		answer.Body = string(kept.remembered)
	}
	if err := x.api.Repeats.Finish(ctx, r, answer); err != nil {
		x.api.Logger.Warn("the answer to a request of an operator was not remembered; its repeat is decided again",
			"request_id", x.ID, "error", err)
	}
	kept.flush()
	return nil
}

// rememberWithin limits the time to remember an answer.
const rememberWithin = 5 * time.Second

// recorder holds an answer back until it is remembered.
type recorder struct {
	http.ResponseWriter
	status     int
	body       []byte
	remembered []byte // what a repeat gets, if that differs from the body
	passing    bool   // a repeat gets a new answer
}

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) Write(b []byte) (int, error) {
	r.body = append(r.body, b...)
	return len(b), nil
}

func (r *recorder) flush() {
	r.ResponseWriter.WriteHeader(r.status)
	// after an error the client is gone, and gets the remembered answer when it repeats
	_, _ = r.ResponseWriter.Write(r.body)
}

// needsKey rejects a request that would do something a second time if it were repeated.
func (x *exchange) needsKey(instead string) error {
	if x.key == "" {
		return invalid("Send an %s header, so that repeating the request does nothing twice%s.", headerKey, instead)
	}
	return nil
}

// readBody reads the body, which is a JSON object or missing.
func (x *exchange) readBody() error {
	var refused *requestbody.RefusedError
	limit := maxBody
	if x.operation.name == warmBrands {
		limit = maxList
	}
	body, err := requestbody.Read(x.ResponseWriter, x.request, limit)
	switch {
	case errors.Is(err, requestbody.ErrTooLarge):
		message := fmt.Sprintf("The uncompressed body has more than %d bytes.", limit)
		return newProblem(http.StatusRequestEntityTooLarge, "invalid_request", message, nil)
	case errors.As(err, &refused):
		return newProblem(http.StatusUnsupportedMediaType, "invalid_request", refused.Sentence, nil)
	case err != nil:
		return newProblem(http.StatusBadRequest, "invalid_request", "The body could not be read to its end.", err)
	}
	if len(body) > 0 {
		media, _, err := mime.ParseMediaType(x.request.Header.Get("Content-Type"))
		if err != nil || media != "application/json" {
			return newProblem(http.StatusUnsupportedMediaType, "invalid_request",
				"The body is JSON: send Content-Type: application/json.", nil)
		}
	}
	x.body = body
	return nil
}

func (x *exchange) decode(into any) error { return decodeBody(x.body, into) }

// decodeAny is decode for a body that may be missing.
func (x *exchange) decodeAny(into any) error {
	if len(x.body) == 0 {
		return nil
	}
	return x.decode(into)
}

// decodeBody parses a JSON object. Unknown fields are errors: they may be misspelled.
func decodeBody(body []byte, into any) error {
	if len(body) == 0 {
		return invalid("The body is missing. Send a JSON object.")
	}
	if !utf8.Valid(body) {
		return invalid("The body is not UTF-8 text.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return invalid("The field %s of the body has the wrong type.", kind.Field)
		}
		return invalid("The body is not the expected JSON object: %s.", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("The body has more than one JSON object.")
	}
	return nil
}

// noBody rejects a body where none is used.
func (x *exchange) noBody() error { return x.decodeAny(&struct{}{}) }

func (x *exchange) send(status int, contentType []string, body []byte) {
	coding := contentcoding.Choose(x.Header(), x.request.Header["Accept-Encoding"], contentType[0], len(body))
	web.Send(x, status, contentType, coding, coding.Encode(body))
}

func (x *exchange) answer(status int, value any) error {
	return web.EncodeJSON(value, func(body []byte) { x.send(status, web.JSON, body) })
}

// reply answers with a value, unless making it has failed.
func (x *exchange) reply(value any, err error) error {
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, value)
}

// replyOnce answers with a value that has secrets or names, unless making it has failed. A repeat gets the value without
// what forget removes. Of something that is not confirmed, it marks the answer.
func replyOnce[T any](x *exchange, status int, value T, err error, forget func(*T)) error {
	if err := x.confirmed(err); err != nil {
		return err
	}
	if kept, ok := x.ResponseWriter.(*recorder); ok {
		remembered := value
		forget(&remembered)
		if err := web.EncodeJSON(remembered, func(body []byte) { kept.remembered = bytes.Clone(body) }); err != nil {
			return err
		}
	}
	return x.answer(status, value)
}

// answerForNow is answer for a state that changes by itself. A repeat is decided again, which must do nothing twice.
func (x *exchange) answerForNow(status int, value any) error {
	if kept, ok := x.ResponseWriter.(*recorder); ok {
		kept.passing = true
	}
	return x.answer(status, value)
}

func (x *exchange) fail(err error) {
	x.problem = problemOf(err)
	if x.Status != 0 {
		return // the answer has begun
	}
	if x.problem.Status == http.StatusServiceUnavailable && x.Header().Get("Retry-After") == "" {
		web.RetryAfter(x.Header(), time.Second)
	}
	message := x.problem.Text
	if x.local && x.problem.Cause != nil {
		// The log of the server, which has the stack of a panic, may be elsewhere.
		message, _, _ = strings.Cut(x.problem.Cause.Error(), "\ngoroutine ")
	}
	// it always encodes
	_ = x.answer(x.problem.Status,
		map[string]any{"error": map[string]string{"code": x.problem.Code, "message": message}})
}
