package commands

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"letterhead/commands/streamwriter"
	"letterhead/domain/usage"
	"letterhead/internal/eventlog"
)

// CountLogo counts one logo request of the account against the allowance of the month of at; if it returns nil, the
// request may be served with the account's rights. A limit of plan.Unlimited, or any below zero, allows all.
//
// Requests are allotted ahead, durably, and most calls take one of those without reading the log. Fewer are allotted
// ahead the nearer the limit is, and finally each is allotted singly. However many writers there are, and whichever are
// killed, no more calls return nil in a month than the limit: each corresponds to a request that is allotted on the
// stream, and the unused allotments of a killed writer are never served. If the limit of a month is known to be
// reached, requests are rejected without reading the log, because the allotted number never decreases.
//
// Errors: ErrQuotaExceeded (a *usage.QuotaExceededError; final), ErrBusy, ErrUnknownOutcome,
// account.ErrNotFound for an invalid account id, eventlog.ErrUnavailable, ctx.Err().
func (d *QuotaWriter) CountLogo(ctx context.Context, accountID string, at time.Time, limit int64) error {
	of := allotmentOf{account: accountID, month: usage.MonthOf(at)}
	taken, ahead, err := d.logos.take(of, limit)
	if taken || err != nil {
		return err
	}
	started := time.Now()
	c := &logoCommand{of: of, limit: limit, want: ahead, held: &d.logos}
	if err := d.months.Do(ctx, quotaKey(accountID, of.month), Request{}, c); err != nil {
		return err
	}
	d.months.Observe(time.Since(started))
	return nil
}

// ReturnLogo returns the allotted request that CountLogo took for a request that was not served
// after all, so that the account's next request can use it. at is the argument of that CountLogo call;
// call it at most once for each nil of CountLogo. The request is allotted already, so nothing is
// appended, and a writer that has forgotten the account or is killed loses it.
func (d *QuotaWriter) ReturnLogo(accountID string, at time.Time) {
	d.logos.putBack(allotmentOf{account: accountID, month: usage.MonthOf(at)})
}

// CountKeylessCrawl counts one crawl for a request without a key against the limit of the day of at, UTC, as CountLogo
// counts a logo of an account. Errors: those of CountLogo.
func (d *QuotaWriter) CountKeylessCrawl(ctx context.Context, at time.Time, limit int64) error {
	return d.CountLogo(ctx, keylessOn(at), at, limit)
}

// ReturnKeylessCrawl returns the crawl that CountKeylessCrawl counted at the same time and that was not requested.
func (d *QuotaWriter) ReturnKeylessCrawl(at time.Time) { d.ReturnLogo(keylessOn(at), at) }

// keylessOn returns the id under which the crawls of a day are counted. No account has it.
func keylessOn(at time.Time) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("urn:letterhead:keyless-crawls/"+at.UTC().Format(time.DateOnly))).String()
}

// logoCommand allots one logo request, and some ahead.
type logoCommand struct {
	streamwriter.PlainCommand[*quotaState] // Rollback reverts all counts
	of                                     allotmentOf
	limit                                  int64
	want                                   int64 // ahead
	held                                   *allotments

	ahead int64 // allotted ahead in this round
	last  int64 // the last number of these
	known bool  // whether they are known to be allotted
}

func (c *logoCommand) Decide(t *quotaState, _ time.Time) (streamwriter.Decision, error) {
	if err := t.counter.CheckLogo(t.joined.logos, c.limit); err != nil {
		return streamwriter.Decision{}, err
	}
	c.ahead = 0
	if !t.joined.ahead { // once for all waiting requests
		c.ahead = min(c.want, t.counter.LogosAhead(t.joined.logos+1, c.limit))
	}
	return streamwriter.Decision{Joined: true}, nil
}

func (c *logoCommand) Applied(t *quotaState) {
	t.joined.logos += 1 + c.ahead
	t.joined.ahead = t.joined.ahead || c.ahead > 0
	c.last = t.counter.Logos() + t.joined.logos
}

func (c *logoCommand) Finished(_ *quotaActor, err error, _ eventlog.Position) {
	var quota *usage.QuotaExceededError
	switch {
	case err == nil:
		c.known = true
		c.held.note(c.of, c.last, c.ahead, 1+c.ahead)
	case errors.As(err, &quota):
		c.held.note(c.of, quota.Used, 0, 0)
	}
}

// Compensation passes the allotted request of a caller who left to another request. Requests of an ambiguous append
// stay unused, even if the append succeeded: ambiguous appends that were abandoned end here, too.
func (c *logoCommand) Compensation() *streamwriter.Compensation[*quotaState] {
	if c.known {
		c.held.note(c.of, c.last, 1, 0)
	}
	return nil
}

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
	key := accountID + quotaKeySeparator + month
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
