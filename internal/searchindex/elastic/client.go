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
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/delay"
	"letterhead/internal/searchindex"
	"letterhead/internal/telemetry"
)

// Limits of requests to the cluster.
const (
	dialTimeout  = 2 * time.Second
	keepAlive    = 15 * time.Second
	idleTimeout  = 90 * time.Second
	maxIdleConns = 32
	// maxAnswer limits a response in bytes. The largest answers a Scan: 5,000 documents of a few hundred bytes each.
	maxAnswer = 64 << 20
	// maxTries limits the attempts at one request, including those for rejected parts of it.
	maxTries = 5
	// readTimeout and writeTimeout limit one attempt. With a deadline and several hosts, an attempt
	// also ends after half of the remaining time, so that a hung node leaves time to ask another.
	readTimeout  = 5 * time.Second
	writeTimeout = 15 * time.Second
	// pauseFirst and pauseLast limit the pause between attempts; it doubles in between, minus a random
	// part of up to one half.
	pauseFirst = 50 * time.Millisecond
	pauseLast  = 2 * time.Second
)

// client sends requests, all of which may be repeated: documents and checkpoints have versions, and
// the steps of a rebuild name what they replace.
type client struct {
	base    *es.BaseClient
	metrics *metrics
	several bool // several hosts
}

func newClient(s settings, m *metrics) (*client, error) {
	base, err := es.NewBaseClient(es.Config{
		Addresses: s.addresses, Username: s.user, Password: s.password, APIKey: s.apiKey,
		Transport:         s.transport,
		DisableRetry:      true, // the library's retries share one deadline, and repeat no rejected part of a request
		DisableMetaHeader: true,
	})
	if err != nil {
		return nil, errors.New("search: the client rejects the URL") // its errors may quote the URL
	}
	return &client{base: base, metrics: m, several: len(s.addresses) > 1}, nil
}

type request struct {
	op     string // for metrics and errors
	method string
	path   string
	query  string
	body   []byte
	lines  bool // the body is JSON lines
	write  bool
	// missing means that a missing index may exist at the next attempt: an alias has moved.
	missing bool
	// starting means that a new index may not answer yet: only the context limits the attempts then.
	starting bool
	// accept checks a response whose parts may have been rejected. It returns a *rejection to decide about a retry by
	// its status; other errors are final. It may reduce the request to the parts to be retried. nil accepts every
	// response.
	accept func(r *request, answer []byte) error
}

type rejection struct {
	Status int
	Type   string
	Reason string
	// document is the response body if it reports a missing document rather than an error.
	document []byte
}

func (r *rejection) Error() string {
	return fmt.Sprintf("status %d: %s: %s", r.Status, r.Type, r.Reason)
}

// isRejection reports whether an error is a rejection with a type.
func isRejection(err error, kind string) bool {
	var r *rejection
	return errors.As(err, &r) && r.Type == kind
}

// Types of rejections that are handled.
const (
	noIndex       = "index_not_found_exception"
	noAlias       = "aliases_not_found_exception"
	alreadyExists = "resource_already_exists_exception"
	conflict      = "version_conflict_engine_exception"
	blocked       = "cluster_block_exception"
	noShard       = "no_shard_available_action_exception"
)

// passing reports whether a status may be temporary.
func passing(status int) bool {
	return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// do sends a request until it is answered and accepted, within its limits, and returns the response,
// whose status is below 300. All retries are done here, so that maxTries limits the requests to a
// failing cluster. Errors: *rejection inside searchindex.ErrUnavailable, ctx.Err().
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
		last := try >= maxTries && !(r.starting && isRejection(err, noShard))
		if !again(r, err, answered) || last || !c.pause(ctx, try) {
			return nil, fmt.Errorf("%s: %w: %w", r.op, searchindex.ErrUnavailable, err)
		}
	}
}

// again reports whether a request should be retried.
func again(r request, err error, answered bool) bool {
	if no, ok := errors.AsType[*rejection](err); ok {
		return passing(no.Status) || r.missing && no.Type == noIndex
	}
	return !answered && !errors.Is(err, errForeign)
}

// ended returns the error of a request whose context ended: the context's error if it was canceled,
// ErrUnavailable if its deadline passed.
func (c *client) ended(ctx context.Context, op string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s: %w", op, ctx.Err())
	}
	return fmt.Errorf("%s: %w: %w: %w", op, searchindex.ErrUnavailable, ctx.Err(), err)
}

// pause waits before the next attempt. It returns false immediately if the remaining time is shorter.
func (c *client) pause(ctx context.Context, try int) bool {
	d := delay.Jittered(min(pauseFirst<<min(try-1, maxTries), pauseLast))
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return false
	}
	c.metrics.retries.Inc()
	return delay.For(ctx, d) == nil
}

// errForeign means that the server is not Elasticsearch.
var errForeign = errors.New("the server is not Elasticsearch")

// foreignText is the library's message; it has no error value for it.
const foreignText = "the client noticed that the server is not Elasticsearch and we do not support this unknown product"

// once sends a request once and reads the whole response, so that the connection is reused.
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
		// the library checks only the first response, and another may come from a different server
		return nil, errForeign
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the response: %w", err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the response is larger than %d bytes", maxAnswer)
	case res.StatusCode >= http.StatusMultipleChoices:
		return nil, readRejection(res.StatusCode, body)
	}
	return body, nil
}

// maxReason limits the quoted part of a reason, in bytes.
const maxReason = 500

func readRejection(status int, body []byte) *rejection {
	no := &rejection{Status: status, Type: "no_reason_given"}
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

// ask sends a request and decodes the response.
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

func unreadable(err error) error { return fmt.Errorf("the response is invalid: %w", err) }

type metrics struct {
	seconds *prometheus.HistogramVec
	retries prometheus.Counter
}

func newMetrics() *metrics {
	return &metrics{
		seconds: telemetry.Histograms("letterhead_elasticsearch_request_seconds",
			"Duration of requests to Elasticsearch, per attempt.",
			prometheus.ExponentialBuckets(0.001, 2, 14), "operation", "outcome"), // 1 ms to 8 s
		retries: telemetry.Counter("letterhead_elasticsearch_retries_total",
			"Retried requests to Elasticsearch, including partial retries."),
	}
}

func (m *metrics) observe(op string, err error, took time.Duration) {
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	m.seconds.WithLabelValues(op, outcome).Observe(took.Seconds())
}
