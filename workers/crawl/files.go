package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"letterhead/internal/safehttp"
)

const (
	// maxFiles limits the files that one crawl fetches in addition to its pages and the files at known paths.
	maxFiles = 24
	fileTime = 5 * time.Second // limits the fetch of one file
)

// Errors of files; none of them ends a crawl.
var (
	errMissing    = errors.New("not there")
	errNotWhole   = errors.New("truncated")
	errNotInTime  = errors.New("not read in time")
	errTooMany    = errors.New("not fetched: the crawl reached its limit of files")
	errDisallowed = errors.New("not fetched: robots.txt forbids it")
)

// file fetches one of the maxFiles files completely, or fails.
func (r *run) file(ctx context.Context, u *url.URL, limit int64) ([]byte, *url.URL, error) {
	if r.files.Add(1) > maxFiles {
		return nil, nil, errTooMany
	}
	return r.probe(ctx, u, limit)
}

// probe fetches a file at a known path, which does not count as one of the maxFiles.
func (r *run) probe(ctx context.Context, u *url.URL, limit int64) ([]byte, *url.URL, error) {
	response, err := r.fetchUpTo(ctx, u, limit)
	switch {
	case err != nil:
		return nil, nil, err
	case response.Truncated:
		return nil, nil, errNotWhole
	}
	return response.Body, response.FinalURL, nil
}

// answer is the response for one URL, fetched once.
type answer struct {
	wanted   int // number of expected further requests; guarded by the lock of answers
	once     sync.Once
	response *safehttp.Response
	err      error
}

// answers are the responses of one crawl: a share image that is also the logo is fetched once.
type answers struct {
	mu sync.Mutex
	of map[string]*answer
}

// expect announces one more request for a URL.
func (a *answers) expect(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.entry(address).wanted++
}

// at returns the answer of a URL. After the last expected request the answer is
// removed, so that a body is not kept longer than needed.
func (a *answers) at(address string) (one *answer, done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one = a.entry(address)
	return one, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if one.wanted--; one.wanted <= 0 && a.of[address] == one {
			delete(a.of, address)
		}
	}
}

func (a *answers) entry(address string) *answer {
	if a.of == nil {
		a.of = map[string]*answer{}
	}
	if a.of[address] == nil {
		a.of[address] = &answer{}
	}
	return a.of[address]
}

// fetchUpTo fetches a file, or the beginning of one that is longer than limit.
func (r *run) fetchUpTo(ctx context.Context, u *url.URL, limit int64) (*safehttp.Response, error) {
	if !r.mayFetchFile(u) {
		r.withheld.Store(true)
		return nil, errDisallowed
	}
	a, done := r.answers.at(u.String())
	defer done()
	a.once.Do(func() {
		var kept int64 // counted while the body arrives; afterwards its reader counts it
		hold := func(bytes int64) bool {
			if !r.held.take(bytes) {
				return false
			}
			kept += bytes
			return true
		}
		a.response, a.err = r.session.Get(ctx, u.String(), safehttp.Limits{Body: limit, Time: fileTime, Hold: hold})
		r.held.give(kept)
	})
	switch {
	case a.response != nil && r.leftForPlatform(u, a.response.FinalURL):
		return nil, fmt.Errorf("%w: redirected to another platform", errMissing)
	case a.response == nil:
		return nil, fmt.Errorf("%w: %s", errMissing, safehttp.Reason(a.err))
	case a.response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%w: %s", errMissing, status(a.response))
	}
	return a.response, nil
}
