package brand

import (
	"encoding/binary"
	"time"
)

// When a record is crawled again on a schedule. Source: the extraction notes ask for hours where parts are
// missing, weeks where none are, and growing waits after failures; the numbers are ours.
const (
	refreshReady     = 28 * 24 * time.Hour
	refreshPartial   = 6 * time.Hour // doubled with each further crawl that left it partial, up to refreshReady
	refreshFailed    = time.Hour     // doubled with each further failure in a row
	refreshFailedMax = 14 * 24 * time.Hour
	// refreshSpread is the share of an interval by which domains are spread, so that what was crawled in one
	// day does not come back in one day.
	refreshSpread = 0.25
	// maxUnread is how many scheduled crawls in a row may rest on the home page's own word that it has not
	// changed: its stylesheets and logos may have, and only reading them tells.
	maxUnread = 3
)

// NextCrawl returns when the record is due for a scheduled crawl. ok is false where none is: while a crawl
// runs, for what was withdrawn or never crawled (an import waits for somebody to ask for it), and where
// there is no record to keep fresh.
func (b *Brand) NextCrawl() (due time.Time, ok bool) {
	if b.s.Withdrawn || !b.s.Crawled || !b.Known() || b.s.Running != nil || b.s.CheckedAt.IsZero() {
		return time.Time{}, false
	}
	var wait time.Duration
	switch {
	case b.s.LastFailed:
		wait = doubled(refreshFailed, b.s.Failures-1, refreshFailedMax)
	case !b.s.Record.Complete:
		wait = doubled(refreshPartial, b.s.Partials-1, refreshReady)
	default:
		wait = refreshReady
	}
	due = b.s.CheckedAt.Add(wait + time.Duration(refreshSpread*b.share()*float64(wait)))
	if f := b.s.Failure; f != nil && due.Before(f.Until) {
		due = f.Until
	}
	return due.Truncate(time.Second), true
}

// share is a number from 0 to 1 that is the brand's own.
func (b *Brand) share() float64 {
	id := ID(b.s.Domain)
	return float64(binary.BigEndian.Uint32(id[12:])) / (1 << 32)
}

func doubled(d time.Duration, times int, most time.Duration) time.Duration {
	for range times {
		if d *= 2; d >= most {
			return most
		}
	}
	return d
}

// Conditional returns what a scheduled crawl may ask the home page with, so that it answers only when it has
// changed. ok is false when the site is to be read whole: parts are missing, the last crawl failed, or the
// page's word was taken often enough.
func (b *Brand) Conditional() (etag, lastModified string, ok bool) {
	if !b.s.Crawled || !b.Known() || !b.s.Record.Complete || b.s.LastFailed || b.s.Confirms%(maxUnread+1) == maxUnread {
		return "", "", false
	}
	return b.s.ETag, b.s.Modified, b.s.ETag != "" || b.s.Modified != ""
}
