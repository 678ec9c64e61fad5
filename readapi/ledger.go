package readapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/web"
	"letterhead/projections/brands"
	"letterhead/projections/checkpoints"
	"letterhead/projections/ledger"
)

// Limits of the ledger's answers.
const (
	defaultLedgerLimit = 100
	maxLedgerLimit     = 1000
	// maxRequestEntries limits the entries of one request; a batch has at most a few hundred.
	maxRequestEntries = 1000

	// maxAccountLedgerReads limits the requests of one account that read its ledger at a time, including those that
	// wait: one may have to look at a million entries.
	maxAccountLedgerReads = 2
)

// ledgerBody is the Ledger of the OpenAPI description.
type ledgerBody struct {
	Entries    []ledger.Entry `json:"entries"`
	NextCursor string         `json:"next_cursor,omitempty"` // if there are more entries
	Balance    *int64         `json:"balance,omitempty"`     // with as_of
	// Provisional is set if as_of has not ended.
	Provisional bool `json:"provisional,omitempty"`
}

// requestBody is the LedgerOfRequest of the OpenAPI description.
type requestBody struct {
	RequestID string         `json:"request_id"`
	Charged   int64          `json:"charged"` // credits, less those that were reversed
	Entries   []requestEntry `json:"entries"`
	Crawls    []requestCrawl `json:"crawls"` // that the request waited for
}

type requestEntry struct {
	ledger.Entry
	Meaning string `json:"meaning,omitempty"`
}

type requestCrawl struct {
	brands.Crawl
	Meaning string `json:"meaning"`
}

// ledgerQuery is what a request for entries selects.
type ledgerQuery struct {
	filter ledger.Filter
	limit  int
	asOf   time.Time // the first moment after as_of; zero without it
}

// readLedger calls read when the read model has everything that was answered before, and it is this request's turn.
func (x *exchange) readLedger(read func(ctx context.Context) error) error {
	ctx := x.ctx
	leave, ok := x.api.ledgerReads.Enter(x.caller.AccountID)
	if !ok {
		return unavailable(
			"Other requests for this account's ledger are running. Send this one again after Retry-After.",
			retryBusy, errOverloaded)
	}
	defer leave()
	if err := x.api.LedgerCaughtUp(ctx); err != nil {
		return unavailable("The ledger is behind. Try again later.", retryUnavailable, err)
	}
	if err := x.api.ledgerTurns.Acquire(ctx, 1); err != nil {
		return err
	}
	defer x.api.ledgerTurns.Release(1)
	return read(ctx)
}

func (x *exchange) serveLedger() error {
	now := x.api.Now()
	q, problem := parseLedger(x.request.URL.RawQuery, now)
	if problem != nil {
		return problem
	}
	var body ledgerBody
	err := x.readLedger(func(ctx context.Context) (err error) {
		body, err = q.read(ctx, x.api.Ledger, x.caller.AccountID)
		body.Provisional = q.asOf.After(now)
		return err
	})
	if err != nil {
		return err
	}
	return x.sendJSON(cacheNever, body)
}

func (q *ledgerQuery) read(ctx context.Context, from Ledger, accountID string) (ledgerBody, error) {
	body := ledgerBody{Entries: []ledger.Entry{}}
	var last ledger.Entry
	if !q.asOf.IsZero() {
		var err error
		// opened later
		last, err = from.AsOf(ctx, accountID, q.asOf.Add(-time.Microsecond))
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return body, err
		}
		body.Balance = &last.Balance
	}
	q.filter.Limit = q.limit + 1 // one more shows that there are more
	for e, err := range from.Entries(ctx, accountID, q.filter) {
		if err != nil {
			return body, err
		}
		if body.Balance != nil && e.Revision > last.Revision { // it was appended meanwhile
			break
		}
		if len(body.Entries) == q.limit {
			body.NextCursor = strconv.FormatUint(e.Revision, 10)
			break
		}
		body.Entries = append(body.Entries, e)
	}
	return body, nil
}

// maxCursorDigits limits next_cursor, a revision.
const maxCursorDigits = 18

// parseLedger reads the parameters of GET /v1/ledger.
func parseLedger(rawQuery string, now time.Time) (q ledgerQuery, problem *Problem) {
	var to time.Time
	for _, p := range []struct {
		name string
		read func(value string) *Problem
	}{
		{"from",
			func(v string) (problem *Problem) { q.filter.From, _, problem = parseSpan("from", v); return problem }},
		{"to", func(v string) (problem *Problem) { _, to, problem = parseSpan("to", v); return problem }},
		{"type", func(v string) *Problem {
			if q.filter.Type = v; !slices.Contains(ledger.CustomerTypes(), v) {
				return web.Invalid("There are no events of the type %q. Types are like CreditsCharged.", v)
			}
			return nil
		}},
		{"cursor", func(v string) *Problem {
			next, ok := plainInteger(v)
			if q.filter.FromRevision = uint64(next); !ok || len(v) > maxCursorDigits {
				return web.Invalid("The parameter cursor is not a next_cursor of an answer.")
			}
			return nil
		}},
		{"payment_id", func(v string) *Problem { q.filter.PaymentID = v; return nil }},
		{"request_id", func(v string) *Problem { q.filter.RequestID = v; return nil }},
		{"key", func(v string) *Problem { q.filter.KeyID = v; return nil }},
	} {
		value, present, problem := queryText(rawQuery, p.name)
		if problem == nil && present {
			problem = p.read(value)
		}
		if problem != nil {
			return q, problem
		}
	}
	if q.asOf, problem = parseAsOf(rawQuery, now); problem != nil {
		return q, problem
	}
	if !to.IsZero() && !q.asOf.IsZero() {
		return q, web.Invalid("The parameters to and as_of both end the entries. Send one of them.")
	}
	if q.filter.Until = to; to.IsZero() {
		q.filter.Until = q.asOf
	}
	if !q.filter.Until.IsZero() && !q.filter.From.Before(q.filter.Until) {
		return q, web.Invalid("The parameter from is after the end of the entries.")
	}
	q.filter.ForCustomer = true
	q.limit, problem = parseLimit(rawQuery, defaultLedgerLimit, maxLedgerLimit)
	return q, problem
}

// queryText returns the value of a parameter that may not be empty.
func queryText(rawQuery, name string) (value string, present bool, problem *Problem) {
	value, present, problem = web.QueryValue(rawQuery, name)
	switch {
	case problem != nil:
	case !web.IsText(value):
		problem = web.Invalid("The parameter %s is not UTF-8 text.", name)
	case present && value == "":
		problem = web.Invalid("The parameter %s is empty. Leave it out, or send a value.", name)
	}
	return value, present, problem
}

// maxClockSkew is how far the clock of a client that asks for the present may be ahead.
const maxClockSkew = time.Minute

// parseAsOf returns the first moment after as_of, zero without it.
func parseAsOf(rawQuery string, now time.Time) (after time.Time, problem *Problem) {
	value, present, problem := queryText(rawQuery, "as_of")
	if problem != nil || !present {
		return after, problem
	}
	start, after, problem := parseSpan("as_of", value)
	if problem == nil && start.After(now.Add(maxClockSkew)) {
		problem = web.Invalid("The parameter as_of: %s is in the future.", value)
	}
	return after, problem
}

// parseSpan reads a time of a query parameter.
func parseSpan(name, text string) (start, end time.Time, problem *Problem) {
	start, end, err := books.ParseSpan(text)
	if err != nil {
		return start, end, web.Invalid("The parameter %s: %s.", name, err)
	}
	return start, end, nil
}

func (x *exchange) serveLedgerRequest() error {
	id, err := url.PathUnescape(mux.Vars(x.request)["request_id"])
	if err != nil {
		return web.Invalid("The request id is not percent-encoded correctly.")
	}
	filter := ledger.Filter{RequestID: id, ForCustomer: true, Limit: maxRequestEntries}
	var problem *Problem
	if filter.Until, problem = parseAsOf(x.request.URL.RawQuery, x.api.Now()); problem != nil {
		return problem
	}
	body := requestBody{RequestID: id, Crawls: []requestCrawl{}}
	err = x.readLedger(func(ctx context.Context) error {
		if !web.IsText(id) {
			return nil // no request has such an id
		}
		for e, err := range x.api.Ledger.Entries(ctx, x.caller.AccountID, filter) {
			if err != nil {
				return err
			}
			body.Charged += e.Charged()
			body.Entries = append(body.Entries, requestEntry{e, e.Meaning()})
		}
		crawls, err := x.api.Crawls.Crawls(ctx, waits(body.Entries, filter.Until))
		for _, c := range crawls {
			body.Crawls = append(body.Crawls, requestCrawl{c, c.Meaning()})
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(body.Entries) == 0 {
		return &Problem{Status: http.StatusNotFound, Code: CodeNotFound,
			Text: "The account's ledger has no entries of that request. A request has some if credits were held or charged; its id is in the X-Request-Id of the answer."}
	}
	return x.sendJSON(cacheNever, body)
}

// waits returns the holds of a request, each from its place in the log to that of the entry that closes it.
func waits(entries []requestEntry, until time.Time) []brands.Wait {
	var all []brands.Wait
	index := map[string]int{} // by hold id
	for i := range entries {
		e := &entries[i]
		switch at, open := index[e.HoldID]; {
		case e.Type == eventschemas.CreditsHeld{}.EventType() && e.Domain != "":
			index[e.HoldID] = len(all)
			all = append(all,
				brands.Wait{Domain: e.Domain, RequestID: e.RequestID, Actor: e.Actor, Held: e.Position, Until: until})
		case open && all[at].Closed == 0:
			all[at].Closed = e.Position
		}
	}
	return all
}

// serveCheckpoint answers GET and HEAD /v1/ledger/checkpoint with the signed checkpoint of the ledger. It needs no key,
// so it has the limits of the checks that precede other requests.
func (x *exchange) serveCheckpoint() error {
	var last *checkpoints.Checkpoint
	var err error
	problem := x.checked(func(ctx context.Context) *Problem {
		last, err = x.api.Checkpoints.Last(ctx)
		return nil
	})
	switch {
	case problem != nil:
		return problem
	case errors.Is(err, checkpoints.ErrNone):
		x.sendPlain(http.StatusNotFound, "The ledger has no checkpoint yet.\n")
		return nil
	case err != nil:
		return err
	}
	x.sendPlain(http.StatusOK, last.Note)
	return nil
}

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
