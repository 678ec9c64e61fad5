package readapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gorilla/mux"

	"letterhead/commands"
	"letterhead/internal/contentcoding"
	"letterhead/internal/requestbody"
	"letterhead/internal/web"
	"letterhead/readapi/lookup"
)

// batchSendWithin is the time that a client has to read the answer to a batch: a hundred records of 64
// KiB take 52 s over 1 Mbit/s.
const batchSendWithin = 60 * time.Second

// maxAccountBatches limits the batches of one account, including those that wait for another batch
// with the same key, and answers of up to 6 MiB that a slow client is still reading.
const maxAccountBatches = lookup.MaxBatches / 8

// routeBatch adds the paths of batch look-ups. They precede the paths with an identifier, which would match "batch".
func (a *API) routeBatch(r *mux.Router) {
	batch := newEndpoint("batch", secretKey, map[string]func(*exchange) error{http.MethodPost: (*exchange).serveBatch})
	batch.credits = true
	r.Handle("/v1/brands/batch", batch)
	r.Handle("/v2/brands/batch", batch)
	r.Handle("/v2/brands/batch/", batch) // as everywhere in /v2
}

func (x *exchange) serveBatch() error {
	identifiers, err := x.readBatchBody()
	if err != nil {
		return err
	}
	// Each item has the time of a single look-up; the batch ends with the client's request, or as q specifies.
	ctx := x.request.Context()
	x.ctx = ctx
	// The server's own deadline began with the request's headers. Without a connection there is none to move.
	_ = http.NewResponseController(x.ResponseWriter).SetWriteDeadline(
		time.Now().Add(x.api.BatchTimeout + x.api.RequestTimeout + batchSendWithin))
	key, present, problem := x.idempotencyKey()
	if problem != nil {
		return problem
	}
	leave, ok := x.api.batches.Enter(x.caller.AccountID) // until the answer, which is in memory, is sent
	if !ok {
		return fmt.Errorf("%w: the account has %d batches running", commands.ErrBusy, maxAccountBatches)
	}
	defer leave()
	q := lookup.BatchQuery{
		Request: x.command(), Caller: x.caller.Caller, Identifiers: identifiers,
		StartWithin: x.api.BatchTimeout, ItemWithin: x.api.RequestTimeout,
	}
	if present {
		q.Once = lookup.OnceForBatch(key, identifiers)
	}
	answer, err := x.api.lookup.Batch(ctx, q)
	if err != nil {
		return err
	}
	sent := false
	defer func() {
		if !sent { // even after a panic below
			x.api.lookup.ReverseBatch(ctx, q, answer)
		}
	}()
	x.logBatch(&answer)
	body := batchBody{exchange: x, answer: &answer, now: x.api.Now()}
	length, err := body.length()
	if err != nil {
		return err
	}
	x.Header()["Cache-Control"] = cachePrivate
	x.setCredits(answer.Remaining)
	send := func() { body.send(length) }
	if coding := x.coding(web.JSON, int(length)); coding != contentcoding.Identity {
		coded := coding.EncodeFrom(int(length), func(w io.Writer) {
			_ = body.each(func(piece []byte) { _, _ = w.Write(piece) }) // the pieces are the same as those counted
		})
		send = func() { web.Send(x, http.StatusOK, web.JSON, coding, coded) }
	}
	err = x.deliver(send)
	sent = err == nil
	return err
}

// readBatchBody reads the identifiers, whatever media type the client declares.
func (x *exchange) readBatchBody() ([]string, error) {
	body, err := requestbody.Read(x.ResponseWriter, x.request, maxBatchBody)
	switch {
	case errors.Is(err, requestbody.ErrTooLarge):
		return nil, web.Invalid("The uncompressed body is larger than %d KiB. Send fewer or shorter identifiers.",
			maxBatchBody>>10)
	case err != nil:
		return nil, x.bodyProblem(err)
	}
	identifiers, problem := parseBatch(body)
	if problem != nil {
		return nil, problem
	}
	return identifiers, nil
}

// bodyProblem returns why a body could not be read.
func (x *exchange) bodyProblem(err error) error {
	var refused *requestbody.RefusedError
	switch {
	case errors.As(err, &refused):
		return web.Invalid("%s", refused.Sentence)
	case errors.Is(err, os.ErrDeadlineExceeded):
		// net/http treats any failed read as a disconnected client, but this client still reads.
		x.request = x.request.WithContext(context.WithoutCancel(x.request.Context()))
		problem := web.Invalid(
			"The body did not arrive in time. Send its first byte within %d seconds, and %d KiB a second from then on.",
			bodyStartWithin/time.Second, minBodyRate>>10)
		if body, ok := x.request.Body.(*pacedBody); ok && body.limit > 0 {
			problem.Text += fmt.Sprintf(" It must arrive within %d seconds.", body.limit/time.Second)
		}
		return problem
	case errors.Is(err, errGone) || x.clientGone():
		return errClientGone
	default:
		return web.Invalid("The body cannot be read to its end: its chunks are broken. Send the request again.")
	}
}

// logBatch logs internal faults, as for single look-ups: an answer of 200 would hide them.
func (x *exchange) logBatch(answer *lookup.BatchAnswer) {
	logged := map[string]bool{} // domains: items of one domain share its error
	for _, item := range answer.Items {
		if item.Err == nil || logged[item.Domain] {
			continue
		}
		logged[item.Domain] = true
		p := problemOf(item.Err, x.api.Now(), x.api.BillingURL)
		level := levelOf(p.Status, p)
		if level < slog.LevelWarn || p.Cause == nil {
			continue
		}
		attrs := []slog.Attr{
			slog.String("request_id", x.ID), slog.String("account", x.caller.AccountID),
			slog.String("domain", item.Domain), slog.Int("status", p.Status),
		}
		attrs = append(attrs, problemAttrs(p)...)
		x.api.Logger.LogAttrs(context.WithoutCancel(x.ctx), level, "item of a batch", attrs...)
	}
}

// batchItem is the BatchItem of the OpenAPI description without the brand, which is JSON already.
type batchItem struct {
	Identifier string       `json:"identifier"`
	Domain     *string      `json:"domain"`
	Status     int          `json:"status"`
	Error      *errorObject `json:"error,omitempty"`      // without its docs and details
	RetryAfter int64        `json:"retryAfter,omitempty"` // seconds
}

// batchBody writes the BatchResponse of the OpenAPI description item by item: the whole response may take
// megabytes, and its records are in memory already.
type batchBody struct {
	exchange *exchange
	answer   *lookup.BatchAnswer
	now      time.Time // for waits, which must not change between counting and writing
}

// length returns the length of the body in bytes. Knowing it in advance allows sending the answer in one piece.
func (b *batchBody) length() (int64, error) {
	var n int64
	err := b.each(func(piece []byte) { n += int64(len(piece)) })
	return n, err
}

func (b *batchBody) send(length int64) {
	x := b.exchange
	h := x.Header()
	h["Content-Type"] = web.JSON
	h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	x.WriteHeader(http.StatusOK)
	// The pieces are the same as those counted, so only writing can fail: the client has left after the answer began.
	_ = b.each(func(piece []byte) { _, _ = x.Write(piece) })
}

// each calls write with the pieces of the body. They are the same on every call.
func (b *batchBody) each(write func(piece []byte)) error {
	buffer := bodies.Get().(*[]byte)
	before := `{"results":[`
	for i := range b.answer.Items {
		piece, err := b.appendItem(append((*buffer)[:0], before...), &b.answer.Items[i])
		if err != nil {
			return err
		}
		write(piece)
		*buffer, before = piece, ","
	}
	write([]byte("]}"))
	if cap(*buffer) <= maxKeptBuffer {
		bodies.Put(buffer)
	}
	return nil
}

func (b *batchBody) appendItem(dst []byte, item *lookup.BatchItem) ([]byte, error) {
	out := batchItem{Identifier: item.Identifier, Status: http.StatusOK}
	if item.Domain != "" {
		out.Domain = &item.Domain
	}
	if item.Err != nil {
		p := problemOf(item.Err, b.now, b.exchange.api.BillingURL)
		out.Status, out.Error = p.Status, &errorObject{Code: p.Code, Message: p.Text}
		// Only a remembered crawl has a time for a retry; the API has no other use of the field.
		if p.Status == http.StatusServiceUnavailable && p.Code != CodeUpstreamFailed {
			out.RetryAfter = int64(p.RetryAfter / time.Second)
		}
	}
	err := web.EncodeJSON(out, func(object []byte) { dst = append(dst, bytes.TrimSuffix(object, []byte("\n"))...) })
	if err != nil || item.Err != nil {
		return dst, err
	}
	dst = append(dst[:len(dst)-1], `,"brand":`...) // without its brace
	dst = b.exchange.appendRecord(dst, item.Answer.Body)
	return append(dst, '}'), nil
}

const (
	// maxBatchIdentifiers is the documented limit, whatever the plan.
	maxBatchIdentifiers = 100
	// maxBatchBody limits the body: a hundred URLs of 2 KiB and their separators.
	maxBatchBody = 256 << 10
)

// batchExample is shown in messages.
const batchExample = `{"identifiers":["acme.com"]}`

// parseBatch reads the identifiers of a BatchRequest. It ignores unknown fields, but the text must be unambiguous JSON:
// a duplicate name in an object, or text that is not UTF-8, is rejected, because other parsers may read it differently.
func parseBatch(body []byte) ([]string, *Problem) {
	if len(body) == 0 {
		return nil, web.Invalid("The body is empty. Send a JSON object such as %s.", batchExample)
	}
	var sent struct {
		Identifiers jsontext.Value `json:"identifiers"`
	}
	var syntax *jsontext.SyntacticError
	err := json.Unmarshal(body, &sent)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return nil, web.Invalid("An object in the JSON body has the same field more than once. Send each field once.")
	case errors.As(err, &syntax):
		return nil, web.Invalid(
			"The body is not valid JSON in UTF-8; the first error is at byte %d. Send an object such as %s.",
			syntax.ByteOffset, batchExample)
	case err != nil || jsontext.Value(body).Kind() != jsontext.KindBeginObject:
		return nil, web.Invalid("The body is JSON, but not an object. Send one such as %s.", batchExample)
	case sent.Identifiers == nil:
		return nil, web.Invalid("The field identifiers is missing. Send an object such as %s.", batchExample)
	case sent.Identifiers.Kind() != jsontext.KindBeginArray:
		return nil, web.Invalid("The field identifiers is not a list. Send an object such as %s.", batchExample)
	}
	var items []jsontext.Value
	if err := json.Unmarshal(sent.Identifiers, &items); err != nil {
		return nil, internalError(err) // it was parsed as part of the body
	}
	switch {
	case len(items) == 0:
		return nil, web.Invalid("The list identifiers is empty. Send 1 to %d identifiers.", maxBatchIdentifiers)
	case len(items) > maxBatchIdentifiers:
		return nil, web.Invalid("The list identifiers has %d items. Send at most %d.", len(items), maxBatchIdentifiers)
	}
	identifiers := make([]string, len(items))
	for i, item := range items {
		if item.Kind() != jsontext.KindString {
			return nil, web.Invalid(
				"identifiers[%d] is not a string. Send domains, URLs, e-mail addresses or brand ids as strings.", i)
		}
		text, err := jsontext.AppendUnquote(nil, item)
		if err != nil {
			return nil, internalError(err)
		}
		identifiers[i] = string(text)
	}
	return identifiers, nil
}
