package brand

import (
	"errors"
	"fmt"
	"time"

	"letterhead/eventschemas"
)

// Failures of a crawl.
const (
	Timeout     = "timeout"      // the time ran out
	Blocked     = "blocked"      // the site denied access
	FetchFailed = "fetch_failed" // the site could not be fetched
	DNS         = "dns"          // there is no such domain
	NoData      = "no_data"      // nothing was found
	// NotBegun means that no crawler began the crawl in time, or that it could not store the result, which says nothing
	// about the site. It is stored as a Timeout that is remembered for rememberNotBegun, which release 0.1.0 reads, too.
	NotBegun = "not_begun"
)

// Failures are the failures of a crawl, as they are stored.
var Failures = []string{Timeout, Blocked, FetchFailed, DNS, NoData}

// Other outcomes of a crawl.
const (
	Succeeded = "succeeded" // with a new record
	Confirmed = "confirmed" // with the existing record
	// Superseded is the outcome of a bulk crawl that a live request replaced, because
	// live work never queues behind bulk work.
	Superseded = "superseded"
)

// Causes of a crawl request.
const (
	CauseLookup   = "lookup"   // request for an unknown brand
	CauseRefresh  = "refresh"  // a client paid for a new crawl
	CauseSchedule = "schedule" // the record is due
	CauseLogo     = "logo"     // request for the logo of an unknown brand
	CauseOperator = "operator"
)

// Priorities of crawls, as stored in the field lane of CrawlRequested.
const (
	PriorityLive = "live"    // a client waits
	PriorityBulk = "refresh" // scheduled
)

// Durations for which a failure is remembered: our interpretation of "remembered outcome" in the specification.
const (
	rememberTimeout   = 5 * time.Minute
	rememberFetchMost = 24 * time.Hour
	rememberLostMost  = 6 * time.Hour // of a lost crawl; rememberTimeout for the first, doubled with each
	rememberNotBegun  = time.Second   // the shortest that an event can say
)

// remembered are the durations of each failure.
var remembered = map[string]time.Duration{
	Timeout:     rememberTimeout,
	Blocked:     24 * time.Hour,
	FetchFailed: time.Hour, // doubled with every consecutive one
	DNS:         15 * time.Minute,
	NoData:      24 * time.Hour,
	NotBegun:    rememberNotBegun,
}

// Errors of decisions.
var (
	// ErrWithdrawn means that the owner withdrew the brand; it is never crawled or answered again.
	ErrWithdrawn = errors.New("the brand was withdrawn by its owner")
	// ErrAlreadyKnown means that there is a readable record, so no crawl is needed.
	ErrAlreadyKnown = errors.New("the brand is already known")
	// ErrNoSuchBrand means that the domain was never requested or imported.
	ErrNoSuchBrand = errors.New("there is no such brand")
	// ErrInvalidField means that an override names no field of the record, or that its value does not fit the field.
	ErrInvalidField = errors.New("the override is not valid")
	// ErrInvalidCrawl means that a crawl's request or outcome is malformed: a bug in the caller.
	ErrInvalidCrawl = errors.New("the crawl is not valid")
	// ErrRecordTooLarge means that a record does not fit into one event even without its evidence.
	ErrRecordTooLarge = errors.New("the record is too large")
)

// RememberedError means that the last crawl failed and that the failure is still remembered.
type RememberedError struct {
	Outcome string    // one of the failures
	Until   time.Time // when the site may be crawled again
}

func (e *RememberedError) Error() string {
	return fmt.Sprintf("the last crawl ended with %s, which is remembered until %s",
		e.Outcome, e.Until.Format(time.RFC3339))
}

// EndOf returns the crawl that an event ends, and how. Both are empty if the event ends none.
func EndOf(ev eventschemas.Event) (crawlID, outcome string) {
	switch ev := ev.(type) {
	case eventschemas.CrawlSucceeded:
		return ev.CrawlID, Succeeded
	case eventschemas.CrawlConfirmed:
		return ev.CrawlID, Confirmed
	case eventschemas.CrawlFailed:
		return ev.CrawlID, OutcomeOf(ev)
	}
	return "", ""
}

// OutcomeOf returns how a crawl failed.
func OutcomeOf(ev eventschemas.CrawlFailed) string {
	if ev.Outcome == Timeout && ev.RememberSeconds <= int64(rememberNotBegun/time.Second) {
		return NotBegun
	}
	return ev.Outcome
}

// remember returns how long a failure is remembered after failedInARow consecutive fetch_failed
// outcomes, and false if the outcome is not a failure.
func remember(outcome string, failedInARow int) (time.Duration, bool) {
	duration, ok := remembered[outcome]
	if outcome == FetchFailed {
		duration = doubled(duration, failedInARow, rememberFetchMost)
	}
	return duration, ok
}
