package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	es "github.com/elastic/go-elasticsearch/v8"

	"letterhead/internal/delay"
	"letterhead/internal/searchindex"
)

// Limits of the talk with the cluster.
const (
	dialTimeout  = 2 * time.Second
	keepAlive    = 15 * time.Second
	idleTimeout  = 90 * time.Second
	maxIdleConns = 32
	// maxAnswer bounds an answer in bytes. The largest is that of a Scan: 5,000 documents of some hundred
	// bytes each.
	maxAnswer = 64 << 20
	// maxTries bounds the attempts at one request, those for the sake of refused parts of it included.
	maxTries = 5
	// readTimeout and writeTimeout bound one attempt. With a deadline and several hosts, an attempt also ends
	// when half of what is left is over, so that a hung node leaves time to ask another.
	readTimeout  = 5 * time.Second
	writeTimeout = 15 * time.Second
	// pauseFirst and pauseLast bound the pause between attempts; it doubles in between, and up to half of it
	// is taken off by chance.
	pauseFirst = 50 * time.Millisecond
	pauseLast  = 2 * time.Second
)

// client sends requests, all of which may be repeated: documents and checkpoints have versions, and the
// steps of a rebuild name what they replace.
type client struct {
	base    *es.BaseClient
	metrics *metrics
	several bool // hosts
}

func newClient(s settings, m *metrics) (*client, error) {
	base, err := es.NewBaseClient(es.Config{
		Addresses: s.addresses, Username: s.user, Password: s.password, APIKey: s.apiKey,
		Transport:         s.transport,
		DisableRetry:      true, // the library's own retries know no backoff, and no 429
		DisableMetaHeader: true,
	})
	if err != nil {
		return nil, errors.New("search: the client does not take the URL") // its errors may repeat it
	}
	return &client{base: base, metrics: m, several: len(s.addresses) > 1}, nil
}

// request is one question to the cluster.
type request struct {
	op     string // for metrics and errors
	method string
	path   string
	query  string
	body   []byte
	lines  bool // the body is of one JSON text a line
	write  bool
	// missing says that an index that is not there may be there with the next attempt: an alias has moved.
	missing bool
	// accept looks at an answer whose parts may have been refused. Its error is the answer's: a *refusal
	// inside says whether to try again, any other is final. It may put into the request what is still to be
	// asked. nil takes every answer.
	accept func(r *request, answer []byte) error
}

// refusal is an answer that says no.
type refusal struct {
	Status int
	Type   string
	Reason string
	// document is the answer when it is no error but says that a document is not there.
	document []byte
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d: %s: %s", r.Status, r.Type, r.Reason) }

// is says whether an error is a refusal of a type.
func isRefusal(err error, kind string) bool {
	var r *refusal
	return errors.As(err, &r) && r.Type == kind
}

// Types of refusals that mean something to us.
const (
	noIndex       = "index_not_found_exception"
	noAlias       = "aliases_not_found_exception"
	alreadyExists = "resource_already_exists_exception"
	conflict      = "version_conflict_engine_exception"
	blocked       = "cluster_block_exception"
)

// passing says whether a status may be another one soon.
func passing(status int) bool {
	return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// do sends a request until it is answered and accepted, as often as its bounds allow, and returns the answer,
// whose status is below 300. This is the only place that tries again, so that maxTries bounds what a failing
// cluster is asked. Errors: *refusal inside searchindex.ErrUnavailable, ctx.Err().
func (c *client) do(ctx context.Context, r request) ([]byte, error) {
	for try := 1; ; try++ {
		body, err := c.once(ctx, r)
		answered := err == nil
		if answered && r.accept != nil {
			err = r.accept(&r, body)
		}
		if err == nil {
			return body, nil
		}
		if ctx.Err() != nil {
			return nil, c.ended(ctx, r.op, err)
		}
		if !again(r, err, answered) || try == maxTries || !c.pause(ctx, try) {
			return nil, fmt.Errorf("%s: %w: %w", r.op, searchindex.ErrUnavailable, err)
		}
	}
}

// again says whether another attempt at a request may bring another answer.
func again(r request, err error, answered bool) bool {
	var no *refusal
	if errors.As(err, &no) {
		return passing(no.Status) || r.missing && no.Type == noIndex
	}
	return !answered && !errors.Is(err, errForeign)
}

// ended is the error of a request whose context is over. A caller that went away reads so; one whose time
// is up reads that the index was not there in time.
func (c *client) ended(ctx context.Context, op string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s: %w", op, ctx.Err())
	}
	return fmt.Errorf("%s: %w: %w: %w", op, searchindex.ErrUnavailable, ctx.Err(), err)
}

// pause waits before the next attempt. It does not begin to when the time left is shorter.
func (c *client) pause(ctx context.Context, try int) bool {
	d := delay.Jittered(min(pauseFirst<<(try-1), pauseLast))
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return false
	}
	c.metrics.retries.Inc()
	return delay.For(ctx, d) == nil
}

// errForeign: what answers is not Elasticsearch.
var errForeign = errors.New("what answers there is not Elasticsearch")

// foreignText is how the library words it; it has no error value for it.
const foreignText = "the client noticed that the server is not Elasticsearch and we do not support this unknown product"

// once sends a request once and reads the whole answer, so that the connection is used again.
func (c *client) once(ctx context.Context, r request) (_ []byte, err error) {
	limit := readTimeout
	if r.write {
		limit = writeTimeout
	}
	if end, ok := ctx.Deadline(); ok && c.several {
		limit = min(limit, max(time.Until(end)/2, time.Millisecond))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	defer func() { c.metrics.observe(r.op, err, time.Since(began)) }()

	var content io.Reader
	if len(r.body) > 0 {
		content = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.path+"?"+r.query, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if r.lines {
		req.Header.Set("Content-Type", "application/x-ndjson")
	}
	res, err := c.base.Perform(req)
	if err != nil {
		if err.Error() == foreignText {
			err = errForeign
		}
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode < http.StatusMultipleChoices && res.Header.Get("X-Elastic-Product") != "Elasticsearch" {
		return nil, errForeign // the library looks at the first answer only, and another may come from elsewhere
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	case res.StatusCode >= http.StatusMultipleChoices:
		return nil, readRefusal(res.StatusCode, body)
	}
	return body, nil
}

// maxReason bounds what is repeated of a reason, in bytes.
const maxReason = 500

func readRefusal(status int, body []byte) *refusal {
	no := &refusal{Status: status, Type: "no_reason_given"}
	var said struct {
		Index string `json:"_index"`
		Error struct{ Type, Reason string }
	}
	if json.Unmarshal(body, &said) == nil {
		if said.Error.Type != "" {
			no.Type, no.Reason = said.Error.Type, said.Error.Reason
		}
		if said.Index != "" && status == http.StatusNotFound {
			no.document = body
		}
	}
	no.Reason = no.Reason[:min(len(no.Reason), maxReason)]
	return no
}

// ask sends a request and decodes the answer.
func ask[T any](ctx context.Context, c *client, r request) (T, error) {
	var out T
	body, err := c.do(ctx, r)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("%s: %w: %w", r.op, searchindex.ErrUnavailable, unreadable(err))
	}
	return out, nil
}

func unreadable(err error) error { return fmt.Errorf("the answer cannot be read: %w", err) }
