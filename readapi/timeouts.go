package readapi

import "time"

const (
	// maxCrawlTimeout limits the setting, so that a server's write timeout always covers it.
	maxCrawlTimeout = 60 * time.Second
	// clientTimeout is how long clients wait for an answer. Every answer is sent within it, whatever
	// hangs: the sum of a crawl and the work around it, lookup.ReturnWithin and creditsWithin is less,
	// and so is that of quickWithin, afterwardsWithin and creditsWithin.
	clientTimeout = 10 * time.Second
	// quickWithin limits the whole of a request without a crawl, and each part before and after a
	// crawl. A store that hangs for so long is unavailable.
	quickWithin = 5 * time.Second
	// afterwardsWithin limits work after a request's end that must not be left half done.
	afterwardsWithin = 4 * time.Second
)
