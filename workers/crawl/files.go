package crawl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/logofinder"
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

// StoreError reports a failure of the asset store, which is not the site's fault.
type StoreError struct{ Err error }

func (e *StoreError) Error() string { return "asset store: " + e.Err.Error() }

// Unwrap returns the error of the store.
func (e *StoreError) Unwrap() error { return e.Err }

// store returns the store for the files of this crawl.
func (r *run) store() *storing {
	s := &storing{to: r.crawler.assets}
	if r.explained {
		s.files = map[string][]byte{}
	}
	return s
}

// storing wraps the store's errors, and keeps the files of an interactive crawl.
type storing struct {
	to    logofinder.Assets
	files map[string][]byte // by id; nil if they are not kept
}

// Put implements logofinder.Assets. Errors: *StoreError.
func (s *storing) Put(ctx context.Context, data []byte, ext string) (string, error) {
	id, err := s.to.Put(ctx, data, ext)
	if err != nil {
		return "", &StoreError{err}
	}
	if s.files != nil {
		s.files[id] = data
	}
	return id, nil
}

// all stores the files of an image in order. It returns the formats whose files
// are stored; on an error those are the first ones. Errors: *StoreError.
func (s *storing) all(ctx context.Context, files []file, formats []eventschemas.Asset) ([]eventschemas.Asset, error) {
	for i, f := range files[:min(len(files), len(formats))] {
		id, err := s.Put(ctx, f.data, f.ext)
		if err != nil {
			return formats[:i], err
		}
		formats[i].ID = id
	}
	return formats, nil
}

// errLate: there was no time for another format of an image.
var errLate = errors.New("not encoded: the crawl's time is over")

// file is one format of an image.
type file struct {
	data []byte
	ext  string
}

// encoded collects the formats of one image as they are encoded, so that the
// slot at the gate is released before they are stored.
type encoded struct {
	files []file
	until time.Time // afterwards only a first format is accepted; zero: never
	// yield lets others go first before another format is encoded; it cancels
	// the encoding if there is no time. nil: no others can wait.
	yield func()
}

// Put implements logofinder.Assets. Errors: errLate.
func (e *encoded) Put(_ context.Context, data []byte, ext string) (string, error) {
	if len(e.files) > 0 && isOver(e.until) {
		return "", errLate
	}
	e.files = append(e.files, file{data, ext})
	if e.yield != nil {
		e.yield()
	}
	return nowhere{}.Put(context.Background(), data, ext)
}

// isOver reports whether a moment has passed; zero never does.
func isOver(until time.Time) bool { return !until.IsZero() && !time.Now().Before(until) }

// nowhere names files by their content and discards them.
type nowhere struct{}

func (nowhere) Put(_ context.Context, data []byte, _ string) (string, error) {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
