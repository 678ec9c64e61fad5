package brand

import (
	"encoding/binary"
	"time"
)

// Intervals of scheduled crawls: hours if parts are missing, weeks if none are, and growing waits after failures.
const (
	refreshReady     = 28 * 24 * time.Hour
	refreshPartial   = 6 * time.Hour // doubled with each consecutive partial result, up to refreshReady
	refreshFailed    = time.Hour     // doubled with each consecutive failure
	refreshFailedMax = 14 * 24 * time.Hour
	// refreshSpread is the share of an interval by which domains are spread, so that brands crawled on
	// one day are not all due on the same day again.
	refreshSpread = 0.25
	// maxUnread is how many consecutive scheduled crawls may rely on the home page's "not modified"
	// response: its stylesheets and logos may have changed, which only reading them shows.
	maxUnread = 3
)

// NextCrawl returns when the record is due for a scheduled crawl. ok is false while a crawl runs, for brands that are
// withdrawn or never crawled (an import waits for a request), and if there is no record to refresh.
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

// share returns a number from 0 to 1 that depends only on the brand.
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

// Conditional returns the validators with which a scheduled crawl may request the home page, so that
// the site answers only if it has changed. ok is false if the whole site must be read: parts are
// missing, the last crawl failed, or the "not modified" response was accepted often enough.
func (b *Brand) Conditional() (etag, lastModified string, ok bool) {
	if !b.s.Crawled || !b.Known() || !b.s.Record.Complete || b.s.LastFailed || b.s.Confirms%(maxUnread+1) == maxUnread {
		return "", "", false
	}
	return b.s.ETag, b.s.Modified, b.s.ETag != "" || b.s.Modified != ""
}
