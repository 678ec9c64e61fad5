package readapi

import "time"

const (
	// clientTimeout is how long clients wait for an answer. Every answer is sent within it, whatever
	// hangs: the sum of a crawl and the work around it, lookup.ReturnWithin and creditsWithin is less,
	// and so is that of defaultQuickTimeout, afterwardsWithin and creditsWithin.
	clientTimeout = 10 * time.Second
	// defaultQuickTimeout is the default of Config.QuickTimeout.
	defaultQuickTimeout = 5 * time.Second
	// afterwardsWithin limits work after a request's end that must not be left half done.
	afterwardsWithin = 4 * time.Second
)
