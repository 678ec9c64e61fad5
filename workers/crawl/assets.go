package crawl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/logofinder"
)

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
