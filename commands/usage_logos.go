package commands

import (
	"context"
	"errors"
	"sync"
	"time"

	"letterhead/domain/plan"
	"letterhead/domain/usage"
	"letterhead/internal/eventlog"
)

// maxAllotments bounds the accounts of which a desk knows what is allotted: some 20 MB. Past it any one is forgotten,
// and what was held for it is lost to that account.
const maxAllotments = 100_000

// CountLogo counts one logo request of the account against the allowance of the month of at; nil lets it be served
// with the account's rights. A limit of plan.Unlimited, or any below zero, allows all.
//
// Requests are allotted ahead, durably, and most calls take one of those without a look at the log. The nearer the
// limit the fewer are ahead, and at last each is one of its own. However many desks there are, and whichever are
// killed, no more calls return nil in a month than the limit: each stands for a request that the stream says is
// allotted, and what a killed desk held nobody serves. A month whose limit is known to be reached is refused
// without a look at the log too, because what is allotted never grows less.
//
// Errors: ErrQuotaExceeded (a *usage.QuotaExceededError; final), ErrBusy, ErrUnknownOutcome, account.ErrNotFound for
// what is no account id, eventlog.ErrUnavailable, ctx.Err().
func (d *UsageDesk) CountLogo(ctx context.Context, accountID string, at time.Time, limit int64) error {
	limit = max(limit, plan.Unlimited)
	of := allotmentOf{account: accountID, month: usage.MonthOf(at)}
	taken, ahead, err := d.logos.take(of, limit)
	if taken || err != nil {
		return err
	}
	started := time.Now()
	j := &logoJob{of: of, limit: limit, want: ahead, held: &d.logos}
	if err := d.months.do(ctx, tallyKey(accountID, of.month), &task[*tally]{job: j}); err != nil {
		return err
	}
	d.metrics.charge.Observe(time.Since(started).Seconds())
	return nil
}

// HandBackLogo gives the next request of the account what CountLogo took for one that was not served after all; at is
// what that was called with, and it is called once for each nil of CountLogo at the most. What is handed back is
// allotted already, so nothing is appended, and a desk that has forgotten the account or is killed forgets it.
func (d *UsageDesk) HandBackLogo(accountID string, at time.Time) {
	d.logos.handBack(allotmentOf{account: accountID, month: usage.MonthOf(at)})
}

// allotmentOf names an account's month.
type allotmentOf struct {
	account string
	month   usage.Month
}

// allotment is what a desk knows of one. Requests of a month are numbered in the order in which they are allotted.
type allotment struct {
	last int64 // the last number that is known to be allotted, to whichever desk
	held int64 // that this desk may give to requests; taken for the last ones, which is never below their numbers
	size int64 // the most that this desk had allotted at once, for one request and ahead
}

// allotments are those that a desk knows. They are beside the tallies, which end when nobody has asked for a while.
type allotments struct {
	mu sync.Mutex
	of map[allotmentOf]allotment
}

// take takes one of those that are held. When none is, it returns how many may be wanted ahead: each time about
// twice as many as before, so that a kill never costs an account more than it used since the start.
func (h *allotments) take(of allotmentOf, limit int64) (taken bool, ahead int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.of[of]
	// A number past the limit is there after the limit went down.
	if number := a.last - a.held + 1; limit != plan.Unlimited && number > limit {
		return false, 0, &usage.QuotaExceededError{What: "logos", Month: of.month, Used: a.last, Limit: limit}
	}
	if a.held == 0 {
		return false, min(usage.MaxLogosAhead, max(0, 2*a.size-1)), nil
	}
	a.held--
	h.of[of] = a
	return true, 0, nil
}

// learn notes that numbers up to last are allotted, and that so many of them are this desk's to give; size is 0 when
// this desk did not have them allotted just now.
func (h *allotments) learn(of allotmentOf, last, held, size int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, known := h.of[of]
	if !known && len(h.of) >= maxAllotments {
		for any := range h.of {
			delete(h.of, any)
			break
		}
	}
	a.last = max(a.last, last)
	a.held += held
	a.size = max(a.size, size)
	if h.of == nil {
		h.of = map[allotmentOf]allotment{}
	}
	h.of[of] = a
}

// handBack holds one again that was taken.
func (h *allotments) handBack(of allotmentOf) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a, known := h.of[of]; known {
		a.held++
		h.of[of] = a
	}
}

// logoJob allots one logo request, and some ahead.
type logoJob struct {
	of    allotmentOf
	limit int64
	want  int64 // ahead
	held  *allotments

	ahead int64 // of the round
	last  int64 // number of the last one of them
	known bool  // that they are allotted
}

func (j *logoJob) decide(t *tally, _ time.Time) (verdict, error) {
	want := t.joined.logos + 1
	allotted, _, err := t.counter.AllotLogos(want, j.limit)
	if err != nil {
		return verdict{}, err
	}
	if allotted < want {
		return verdict{}, &usage.QuotaExceededError{What: "logos", Month: t.month, Used: t.counter.Logos() + t.joined.logos, Limit: j.limit}
	}
	j.ahead = 0
	if !t.joined.ahead { // once for all who wait
		j.ahead = min(j.want, t.counter.LogosAhead(want, j.limit))
	}
	return verdict{joined: true}, nil
}

func (j *logoJob) applied(t *tally) {
	t.joined.logos += 1 + j.ahead
	t.joined.ahead = t.joined.ahead || j.ahead > 0
	j.last = t.counter.Logos() + t.joined.logos
}

func (j *logoJob) undone(*tally) {} // Rollback takes all of them back

func (j *logoJob) finished(_ *actor[*tally], err error, _ eventlog.Position) {
	var quota *usage.QuotaExceededError
	switch {
	case err == nil:
		j.known = true
		j.held.learn(j.of, j.last, j.ahead, 1+j.ahead)
	case errors.As(err, &quota):
		j.held.learn(j.of, quota.Used, 0, 0)
	}
}

// orphaned gives another request what is allotted for one that has gone. What was in doubt stays with nobody, also
// when the stream holds it after all: a doubt that is given up, of which nobody knows, comes here too.
func (j *logoJob) orphaned() *task[*tally] {
	if j.known {
		j.held.learn(j.of, j.last, 1, 0)
	}
	return nil
}
