package brand

import (
	"errors"
	"fmt"
	"time"
)

// How a crawl fails.
const (
	Timeout     = "timeout"      // out of time
	Blocked     = "blocked"      // the site refused
	FetchFailed = "fetch_failed" // the site could not be fetched
	DNS         = "dns"          // there is no such domain
	NoData      = "no_data"      // nothing was found
)

// How else a crawl ends.
const (
	Succeeded = "succeeded" // with a new record
	Confirmed = "confirmed" // with the record that was held
	// Superseded is a crawl of the refresh lane in whose place a live one was requested, because live work
	// never queues behind bulk.
	Superseded = "superseded"
)

// Why a crawl is requested.
const (
	CauseLookup   = "lookup"   // somebody asked for an unknown brand
	CauseRefresh  = "refresh"  // somebody paid for a new crawl
	CauseSchedule = "schedule" // the record is due
	CauseLogo     = "logo"     // somebody asked for the logo of an unknown brand
	CauseOperator = "operator"
)

// Where a crawl queues.
const (
	LaneLive    = "live"
	LaneRefresh = "refresh"
)

// How long a failure is remembered: the service's reading of "remembered outcome".
const (
	rememberTimeout     = 5 * time.Minute
	rememberFetchFailed = time.Hour // doubled with every further one in a row
	rememberFetchMost   = 24 * time.Hour
	rememberBlocked     = 24 * time.Hour
	rememberDNS         = 15 * time.Minute
	rememberNoData      = 24 * time.Hour
	rememberLostMost    = 6 * time.Hour // of a crawl without an outcome; rememberTimeout for the first, doubled with each
)

// Refusals of decisions.
var (
	// ErrWithdrawn: the owner had the brand taken out; it is never crawled or answered again.
	ErrWithdrawn = errors.New("the brand was withdrawn by its owner")
	// ErrAlreadyKnown: there is a readable record, so nothing needs to be crawled.
	ErrAlreadyKnown = errors.New("the brand is already known")
	// ErrNoSuchBrand: nothing was ever asked or imported for the domain.
	ErrNoSuchBrand = errors.New("there is no such brand")
	// ErrInvalidField: an override names no field of the record, or its value does not fit the field.
	ErrInvalidField = errors.New("the override is not valid")
	// ErrInvalidCrawl: a crawl's request or outcome is malformed; a fault of the caller's code.
	ErrInvalidCrawl = errors.New("the crawl is not valid")
	// ErrRecordTooLarge: a record does not fit one event even without its evidence.
	ErrRecordTooLarge = errors.New("the record is too large")
)

// RememberedError refuses a crawl because the last one failed and that is still remembered.
type RememberedError struct {
	Outcome string    // one of the failures
	Until   time.Time // when it may be crawled again
}

func (e *RememberedError) Error() string {
	return fmt.Sprintf("the last crawl ended with %s, which is remembered until %s", e.Outcome, e.Until.Format(time.RFC3339))
}

// rememberLost returns how long a crawl without an outcome is remembered that comes after so many in a row.
func rememberLost(inARow int) time.Duration {
	d := rememberTimeout
	for range inARow {
		if d *= 2; d >= rememberLostMost {
			return rememberLostMost
		}
	}
	return d
}

// remember returns how long a failure is remembered that comes after so many fetch_failed in a row, and
// false for what is not a failure.
func remember(outcome string, failedInARow int) (time.Duration, bool) {
	switch outcome {
	case Timeout:
		return rememberTimeout, true
	case Blocked:
		return rememberBlocked, true
	case DNS:
		return rememberDNS, true
	case NoData:
		return rememberNoData, true
	case FetchFailed:
		d := rememberFetchFailed
		for range failedInARow {
			if d *= 2; d >= rememberFetchMost {
				return rememberFetchMost, true
			}
		}
		return d, true
	default:
		return 0, false
	}
}
