package lookup

import (
	"errors"
	"fmt"
	"time"

	"letterhead/faults"
	"letterhead/internal/ratelimit"
)

var (
	// ErrNoSuchBrand: no brand has this id. A withdrawn brand is reported like this, too, because the
	// index no longer finds it by its id: by id the answer is not_found, by domain, which leads to the
	// brand's stream, no_brand_data (brand.ErrWithdrawn). Both are free and cause no crawl. Only for a
	// short time after an answer does the id still lead to the domain, and to its answer.
	ErrNoSuchBrand = errors.New("no brand with that id")
	// ErrNotIndexed: the index does not have the domain, and the caller did not want a crawl.
	ErrNotIndexed = errors.New("the index does not have that domain")
	// ErrNotStarted: the batch ran out of time before the item was tried.
	ErrNotStarted = errors.New("the batch ran out of time before the item was tried")

	// ErrNotCrawled: no crawler began the crawl in time, which is not the site's fault. It is not remembered.
	ErrNotCrawled = errors.New("no crawler began the crawl in time")

	// errBehind: the index lags behind the log, so it is unknown whether a brand exists.
	errBehind = errors.New("the index of brands is behind the log")
)

// CrawlError is the error of a look-up that ended with a failed crawl: its own, a joined one, or a remembered one.
type CrawlError struct {
	Outcome string    // timeout, blocked, fetch_failed, dns, no_data
	Until   time.Time // of a remembered failure: when the domain may be crawled again; otherwise zero
}

func (e *CrawlError) Error() string {
	if e.Until.IsZero() {
		return "crawl ended with " + e.Outcome
	}
	return fmt.Sprintf("last crawl ended with %s, remembered until %s", e.Outcome, e.Until.Format(time.RFC3339))
}

// LimitError is the error of a look-up beyond a live-crawl limit.
type LimitError struct {
	Service  bool // the limit of the whole service, not the account's own
	Decision ratelimit.Decision
}

func (e *LimitError) Error() string {
	if e.Service {
		return fmt.Sprintf("service-wide ceiling of %d live crawls a minute", e.Decision.Limit)
	}
	return fmt.Sprintf("account's limit of %d live crawls a minute", e.Decision.Limit)
}

// BatchSizeError is the error of a batch with more domains than the plan allows.
type BatchSizeError struct{ Domains, Limit int }

func (e *BatchSizeError) Error() string {
	return fmt.Sprintf("batch of %d domains, the plan allows %d", e.Domains, e.Limit)
}

// PanicError is the error of work that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unavailable reports whether err means that a part of the service was overloaded or could not be
// reached in time, so that the same look-up may succeed later.
func Unavailable(err error) bool {
	return faults.Unavailable(err) || errors.Is(err, errBehind) || errors.Is(err, ErrNotCrawled)
}
