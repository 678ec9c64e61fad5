//go:build services

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// crawlTimeout is the nodes' LETTERHEAD_CRAWL_TIMEOUT.
	crawlTimeout = 8500 * time.Millisecond
	// requestDeadline is how long a node works on a request: the crawl timeout plus five seconds.
	requestDeadline = crawlTimeout + 5*time.Second
	// answerSlack is the extra time allowed on a busy machine.
	answerSlack = 4 * time.Second
	// answerWithin is the client's timeout. A request without an answer by then counts as unanswered.
	answerWithin = requestDeadline + answerSlack
)

// caller is the HTTP client of the tests. It keeps connections alive, as a proxy in front of the nodes would.
var caller = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxConnsPerHost: 0}}

// answer is an HTTP response with its complete body.
type answer struct {
	node    string
	status  int
	header  http.Header
	body    []byte
	elapsed time.Duration
}

func (a answer) requestID() string { return a.header.Get("X-Request-Id") }

func (a answer) code() string {
	var v struct{ Error struct{ Code string } }
	if json.Unmarshal(a.body, &v) != nil {
		return ""
	}
	return v.Error.Code
}

func (a answer) String() string {
	return fmt.Sprintf("%d %s from %s after %s (request %s)", a.status, a.code(), a.node, a.elapsed.Round(time.Millisecond), a.requestID())
}

// get sends a GET request to a node. It returns an error if it gets no complete answer in time.
func (n *node) get(path, key string) (answer, error) {
	return n.send(http.MethodGet, path, key, nil, nil)
}

// send is get with a method, a body and further headers.
func (n *node) send(method, path, key string, content []byte, header http.Header) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.url+path, bytes.NewReader(content))
	if err != nil {
		return answer{}, err
	}
	maps.Copy(req.Header, header)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	began := time.Now()
	resp, err := caller.Do(req)
	if err != nil {
		return answer{node: n.name, elapsed: time.Since(began)}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{n.name, resp.StatusCode, resp.Header, body, time.Since(began)}, err
}

// want sends a GET request and fails the test on any other status.
func (n *node) want(t testing.TB, status int, path, key string) answer {
	t.Helper()
	a, err := n.get(path, key)
	if err != nil {
		t.Fatalf("GET %s on %s: %v", path, n.name, err)
	}
	if a.status != status {
		t.Fatalf("GET %s answered %s, want %d: %s", path, a, status, a.body)
	}
	return a
}

// lookup returns the path of a look-up.
func lookup(domain string) string { return "/v1/brands/" + domain }

// tally counts the answers that concurrent clients receive.
type tally struct {
	mu         sync.Mutex
	statuses   map[int]int
	paid       map[string]bool // request ids of look-ups that were answered with a brand
	rejected   map[string]bool // request ids of all other look-ups that were answered
	unanswered []string
	wrong      []string
	late       time.Duration // the longest response time
	waits      []time.Duration
}

func newTally() *tally {
	return &tally{statuses: map[int]int{}, paid: map[string]bool{}, rejected: map[string]bool{}}
}

// lookup counts the answer to a look-up of a brand with a logo.
func (y *tally) lookup(a answer, err error) {
	y.count(a, err)
	if err != nil {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	into := y.rejected
	if a.status == http.StatusOK {
		into = y.paid
	}
	if into[a.requestID()] {
		y.wrong = append(y.wrong, fmt.Sprintf("request id %s was answered twice", a.requestID()))
	}
	into[a.requestID()] = true
}

// count counts any answer.
func (y *tally) count(a answer, err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.late = max(y.late, a.elapsed)
	if err != nil {
		y.unanswered = append(y.unanswered, fmt.Sprintf("%s after %s: %v", a.node, a.elapsed.Round(time.Millisecond), err))
		return
	}
	y.statuses[a.status]++
	y.waits = append(y.waits, a.elapsed)
}

// mistake records a wrong answer.
func (y *tally) mistake(format string, args ...any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.wrong = append(y.wrong, fmt.Sprintf(format, args...))
}

func (y *tally) status(code int) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.statuses[code]
}

// percentile returns a percentile of the response times.
func (y *tally) percentile(p float64) time.Duration {
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.waits) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(y.waits))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func (y *tally) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var b strings.Builder
	for _, code := range slices.Sorted(func(yield func(int) bool) {
		for code := range y.statuses {
			if !yield(code) {
				return
			}
		}
	}) {
		fmt.Fprintf(&b, "%d×%d ", y.statuses[code], code)
	}
	fmt.Fprintf(&b, "unanswered %d, slowest %s", len(y.unanswered), y.late.Round(time.Millisecond))
	return b.String()
}

// shownFaults is the maximum number of mistakes that a failure prints.
const shownFaults = 8

// check fails the test if an answer was wrong, or if more requests than allowed got no answer.
func (y *tally) check(t testing.TB, unansweredAllowed int) {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.wrong) > 0 {
		t.Errorf("%d wrong answers, such as: %s", len(y.wrong), strings.Join(y.wrong[:min(len(y.wrong), shownFaults)], "\n"))
	}
	if len(y.unanswered) > unansweredAllowed {
		t.Errorf("%d requests got no answer within %s, want at most %d; the first: %s", len(y.unanswered), answerWithin, unansweredAllowed,
			strings.Join(y.unanswered[:min(len(y.unanswered), shownFaults)], "\n"))
	}
}

// steadily calls do at a fixed rate until ctx ends, without waiting for earlier calls. Then it waits for the calls in
// progress. i counts up from 0.
func steadily(ctx context.Context, every time.Duration, do func(i int)) {
	var begun sync.WaitGroup
	defer begun.Wait()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; ; i++ {
		begun.Go(func() { do(i) })
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// atOnce runs n calls concurrently and waits for all of them.
func atOnce(n int, do func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	all.Wait()
}
