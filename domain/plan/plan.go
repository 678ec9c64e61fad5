// Package plan is the plan table: what each plan allows. Nothing here remembers anything.
package plan

import "fmt"

// ID names a plan.
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

// Unlimited stands in a monthly allowance that has no bound.
const Unlimited int64 = -1

// Plan is one row of the table.
type Plan struct {
	ID               ID
	PerMinute        int   // requests a minute, over all endpoints and keys
	BatchSize        int   // different domains in one batch
	CrawlsPerMinute  int   // live crawls of domains not yet indexed
	LogosPerMonth    int64 // Unlimited or a count
	SearchesPerMonth int64 // Unlimited or a count
	Refresh          bool  // refresh=true is honoured
}

// Table is the plans in force; crawl limits are a setting, the rest is the service's contract.
type Table struct{ rows map[ID]Plan }

// Default returns the table of the specification.
func Default() Table {
	rows := []Plan{
		{ID: Free, PerMinute: 60, BatchSize: 25, CrawlsPerMinute: 10, LogosPerMonth: 500_000, SearchesPerMonth: 250_000},
		{ID: Starter, PerMinute: 300, BatchSize: 50, CrawlsPerMinute: 30, LogosPerMonth: 3_000_000, SearchesPerMonth: 1_000_000, Refresh: true},
		{ID: Growth, PerMinute: 600, BatchSize: 100, CrawlsPerMinute: 60, LogosPerMonth: Unlimited, SearchesPerMonth: Unlimited, Refresh: true},
		{ID: Custom, PerMinute: 3000, BatchSize: 100, CrawlsPerMinute: 300, LogosPerMonth: Unlimited, SearchesPerMonth: Unlimited, Refresh: true},
	}
	t := Table{rows: make(map[ID]Plan, len(rows))}
	for _, p := range rows {
		t.rows[p.ID] = p
	}
	return t
}

// Get returns the plan, or an error that names the plans there are.
func (t Table) Get(id ID) (Plan, error) {
	p, ok := t.rows[id]
	if !ok {
		return Plan{}, fmt.Errorf("there is no plan %q; plans are free, starter, growth and custom", id)
	}
	return p, nil
}

// WithCrawlsPerMinute returns a table in which one plan's live-crawl limit is changed.
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
