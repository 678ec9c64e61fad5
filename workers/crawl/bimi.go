package crawl

import (
	"context"
	"net/url"
	"strings"
	"time"

	"letterhead/workers/crawl/page"
)

// bimiTime limits the look-up of a BIMI record, which runs concurrently with the fetch of the home page.
const bimiTime = 2 * time.Second

// bimiGrace is how long a crawl waits for it once everything else is ready:
// few domains have a record, and their sites also show a logo.
const bimiGrace = 300 * time.Millisecond

// lookUpBIMI looks up the mark in the domain's BIMI record. The channel receives one value, nil for none.
func (r *run) lookUpBIMI(ctx context.Context) <-chan *url.URL {
	out := make(chan *url.URL, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, bimiTime)
		defer cancel()
		records, err := r.crawler.client.LookupTXT(ctx, "default._bimi."+r.target.Domain)
		if err != nil {
			r.crawler.cfg.Logger.Debug("no BIMI record", "domain", r.target.Domain, "error", err)
		}
		out <- BIMILogo(records)
	}()
	return out
}

// await receives the one value of a channel. It returns the zero value if ctx ends first.
func await[T any](ctx context.Context, from <-chan T) (value T) {
	select {
	case value = <-from:
	case <-ctx.Done():
	}
	return value
}

// BIMILogo returns the URL of the mark in a domain's TXT records: the l= tag of the first BIMI assertion record. It
// must be https; an empty one declines to have a mark. Source: draft-brand-indicators-for-message-identification,
// section 4.2.
func BIMILogo(records []string) *url.URL {
	for _, record := range records {
		version, rest, _ := strings.Cut(record, ";")
		if key, value, ok := strings.Cut(version, "="); !ok || !strings.EqualFold(strings.TrimSpace(key), "v") ||
			!strings.EqualFold(strings.TrimSpace(value), "BIMI1") {
			continue
		}
		for tag := range strings.SplitSeq(rest, ";") {
			key, value, _ := strings.Cut(tag, "=")
			if !strings.EqualFold(strings.TrimSpace(key), "l") {
				continue
			}
			value, _, _ = strings.Cut(value, ",") // earlier drafts allowed a list
			u := (&page.Page{}).Resolve(strings.TrimSpace(value))
			if u == nil || u.Scheme != "https" {
				return nil
			}
			return u
		}
		return nil
	}
	return nil
}
