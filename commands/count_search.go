package commands

import (
	"context"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/usage"
	"letterhead/internal/eventlog"
)

// CountSearch counts one search of the account in the month of at, durably before it returns the number used so far. A
// limit of plan.Unlimited, or any below zero, allows all. A search whose caller has left remains counted.
//
// Errors: ErrQuotaExceeded (a *usage.QuotaExceededError; final, nothing is counted), ErrBusy, ErrUnknownOutcome,
// account.ErrNotFound for an invalid account id, eventlog.ErrUnavailable, ctx.Err().
func (d *QuotaWriter) CountSearch(ctx context.Context, accountID string, at time.Time,
	limit int64) (used int64, err error) {
	started := time.Now()
	c := &searchCommand{limit: limit}
	if err := d.months.Do(ctx, quotaKey(accountID, usage.MonthOf(at)), Request{}, c); err != nil {
		return 0, err
	}
	d.months.Observe(time.Since(started))
	return c.used, nil
}

// Searches returns the number of counted searches of the month (YYYY-MM). Errors: as CountSearch, and
// account.ErrInvalid for an invalid month.
func (d *QuotaWriter) Searches(ctx context.Context, accountID string, month string) (int64, error) {
	return d.searches(ctx, accountID, month, d.shared)
}

// searches reads the stream's tail first if exact is set.
func (d *QuotaWriter) searches(ctx context.Context, accountID string, month string, exact bool) (int64, error) {
	m, err := usage.ParseMonth(month)
	if err != nil {
		return 0, &account.InvalidError{Field: "month", Reason: "must be of the form YYYY-MM"}
	}
	key := quotaKey(accountID, m)
	if !exact {
		var seen shownQuota
		err := d.months.With(key, func(a *quotaActor) { seen = a.State().shown })
		if err != nil || seen.ready {
			return seen.searches, err
		}
	}
	c := &searchesCommand{final: !exact}
	if err := d.months.Do(ctx, key, Request{}, c); err != nil {
		return 0, err
	}
	return c.searches, nil
}

// SearchesSeen returns a lower bound of the counted searches of the month (YYYY-MM): those that this writer has seen,
// which are all if no other node counts. It reads the stream only the first time. Errors: as Searches.
func (d *QuotaWriter) SearchesSeen(ctx context.Context, accountID string, month string) (int64, error) {
	return d.searches(ctx, accountID, month, false)
}

// searchCommand counts one search.
type searchCommand struct {
	streamwriter.PlainCommand[*quotaState] // Rollback reverts all counts
	limit                                  int64
	used                                   int64
}

func (c *searchCommand) Decide(t *quotaState, _ time.Time) (streamwriter.Decision, error) {
	return streamwriter.Decision{Joined: true}, t.counter.CheckSearch(t.joined.searches, c.limit)
}

func (c *searchCommand) Applied(t *quotaState) {
	t.joined.searches++
	c.used = t.counter.Searches() + t.joined.searches
}

// searchesCommand reads the count.
type searchesCommand struct {
	streamwriter.PlainCommand[*quotaState]
	final    bool // without reading the stream's tail
	searches int64
}

func (c *searchesCommand) Decide(*quotaState, time.Time) (streamwriter.Decision, error) {
	return streamwriter.Decision{Final: c.final}, nil
}

func (c *searchesCommand) Finished(a *quotaActor, _ error, _ eventlog.Position) {
	c.searches = a.State().counter.Searches()
}
