// Package plan is the table of plans and their limits. It has no state.
package plan

import "fmt"

// ID is the name of a plan.
type ID string

// The plans.
const (
	Free    ID = "free"
	Starter ID = "starter"
	Growth  ID = "growth"
	Custom  ID = "custom"
)

// FreeCredits are granted once, when an account is opened.
const FreeCredits = 50

// IDs are the plans, the smallest first.
var IDs = []ID{Free, Starter, Growth, Custom}

// LookupCredits is the price of a look-up that answers a brand with a logo.
const LookupCredits int64 = 1

// LookupIsFree reports whether a look-up costs nothing although it answers a brand: its record has no logo.
func LookupIsFree(hasLogo bool) bool { return !hasLogo }

// Unlimited is a monthly allowance without a limit.
const Unlimited int64 = -1

// Limits of logo requests on every plan, as documented in docs/logos.md. They have windows of their own: the account's
// minute window is not used.
const (
	KeylessLogosPerMinute = 300   // of an address of a visitor
	KeyedLogosPerMinute   = 3_000 // of an account
	LogoCrawlsPerMinute   = 30    // live crawls that logos wait for, of an account and of an address
)

// Plan is one row of the table.
type Plan struct {
	ID               ID
	PerMinute        int   // requests per minute, over all endpoints and keys
	BatchSize        int   // distinct domains in one batch
	CrawlsPerMinute  int   // live crawls of domains not yet indexed
	LogosPerMonth    int64 // Unlimited or a count
	SearchesPerMonth int64 // Unlimited or a count
	Refresh          bool  // refresh=true is honoured
}

// Table contains the current plans. Crawl limits are a setting; the rest is the service's contract.
type Table struct{ rows map[ID]Plan }

// Default returns the built-in plans.
func Default() Table {
	rows := []Plan{
		{ID: Free, PerMinute: 60, BatchSize: 25, CrawlsPerMinute: 10, LogosPerMonth: 500_000,
			SearchesPerMonth: 250_000},
		{ID: Starter, PerMinute: 300, BatchSize: 50, CrawlsPerMinute: 30, LogosPerMonth: 3_000_000,
			SearchesPerMonth: 1_000_000, Refresh: true},
		{ID: Growth, PerMinute: 600, BatchSize: 100, CrawlsPerMinute: 60, LogosPerMonth: Unlimited,
			SearchesPerMonth: Unlimited, Refresh: true},
		{ID: Custom, PerMinute: 3000, BatchSize: 100, CrawlsPerMinute: 300, LogosPerMonth: Unlimited,
			SearchesPerMonth: Unlimited, Refresh: true},
	}
	t := Table{rows: make(map[ID]Plan, len(rows))}
	for _, p := range rows {
		t.rows[p.ID] = p
	}
	return t
}

// Get returns the plan, or an error that lists the available plans.
func (t Table) Get(id ID) (Plan, error) {
	p, ok := t.rows[id]
	if !ok {
		return Plan{}, fmt.Errorf("there is no plan %q; plans are free, starter, growth and custom", id)
	}
	return p, nil
}

// WithCrawlsPerMinute returns a table with another live-crawl limit for one plan.
func (t Table) WithCrawlsPerMinute(id ID, n int) Table {
	rows := make(map[ID]Plan, len(t.rows))
	for k, v := range t.rows {
		if k == id {
			v.CrawlsPerMinute = n
		}
		rows[k] = v
	}
	return Table{rows: rows}
}
