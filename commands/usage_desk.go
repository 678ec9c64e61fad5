package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/account"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// UsageConfig sets the limits of a usage desk; the fields are those of DeskConfig.
type UsageConfig struct {
	MaxQueue                 int
	MaxLive                  int
	IdleAfter                time.Duration
	SettleWithin, KnowWithin time.Duration
	AppendWithin, LoadWithin time.Duration
	SnapshotEvery            int
	Shared                   bool      // other nodes count, too: Searches reads the tail first
	Snapshots                Snapshots // nil for none
	Events                   eventschemas.Encoder
	Now                      func() time.Time
	Logger                   *slog.Logger
	Registerer               prometheus.Registerer
}

// Validate reports all errors of the configuration.
func (c UsageConfig) Validate() error { return validateActors("usage desk", c.actors()) }

func (c UsageConfig) actors() actorConfig {
	return actorConfig{
		MaxQueue: c.MaxQueue, MaxLive: c.MaxLive, IdleAfter: c.IdleAfter, SettleWithin: c.SettleWithin, KnowWithin: c.KnowWithin,
		AppendWithin: c.AppendWithin, LoadWithin: c.LoadWithin, SnapshotEvery: c.SnapshotEvery, Shared: c.Shared, Events: c.Events, Now: c.Now, Logger: c.Logger,
	}
}

// UsageDesk counts requests that cost no credit against the plan's monthly allowance. It is safe for
// concurrent use.
type UsageDesk struct {
	months  *registry[*tally]
	logos   allotments
	metrics *deskMetrics
	shared  bool
}

// NewUsageDesk returns a usage desk for a log.
func NewUsageDesk(cfg UsageConfig, log eventlog.Log) (*UsageDesk, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		return nil, errors.New("usage desk: no event log")
	}
	m, err := newDeskMetrics("usage", cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("usage desk: %w", err)
	}
	k := kind[*tally]{foldVersion: usage.FoldVersion, open: openTally(tickRequests())}
	return &UsageDesk{
		months:  newRegistry(cfg.actors().withDefaults(), k, log, cfg.Snapshots, m),
		metrics: m,
		shared:  cfg.Shared,
	}, nil
}

// tickRequests gives every tick an id that no other desk uses, because two desks that count at the
// same revision must not append the same event.
func tickRequests() func() Request {
	desk := uuid.NewString()
	var ticks atomic.Uint64
	return func() Request {
		return Request{ID: fmt.Sprintf("%s-%d", desk, ticks.Add(1)), Actor: actorUsageDesk}
	}
}

const tallyKeySeparator = "/"

func tallyKey(accountID string, m usage.Month) string {
	return accountID + tallyKeySeparator + m.String()
}

func openTally(requests func() Request) func(string) (string, *tally, error) {
	return func(key string) (string, *tally, error) {
		accountID, text, _ := strings.Cut(key, tallyKeySeparator)
		if err := checkAccountID(accountID); err != nil {
			return "", nil, err
		}
		month, err := usage.ParseMonth(text)
		if err != nil {
			return "", nil, &account.InvalidError{Field: "month", Reason: "must be of the form YYYY-MM"}
		}
		return usage.Stream(accountID, month), newTally(accountID, month, requests), nil
	}
}

// Drain refuses new counts with ErrBusy, finishes the queued ones, and ends; see Desk.Drain.
func (d *UsageDesk) Drain(ctx context.Context) error { return d.months.drain(ctx) }

// CountSearch counts one search of the account in the month of at, durably before it returns the
// number used so far. A limit of plan.Unlimited, or any below zero, allows all. A search whose caller
// has left remains counted.
//
// Errors: ErrQuotaExceeded (a *usage.QuotaExceededError; final, nothing is counted), ErrBusy,
// ErrUnknownOutcome, account.ErrNotFound for an invalid account id, eventlog.ErrUnavailable,
// ctx.Err().
func (d *UsageDesk) CountSearch(ctx context.Context, accountID string, at time.Time, limit int64) (used int64, err error) {
	started := time.Now()
	j := &searchJob{limit: limit}
	if err := d.months.do(ctx, tallyKey(accountID, usage.MonthOf(at)), &task[*tally]{job: j}); err != nil {
		return 0, err
	}
	d.metrics.charge.Observe(time.Since(started).Seconds())
	return j.used, nil
}

// Searches returns the number of counted searches of the month (YYYY-MM). Errors: as CountSearch, and
// account.ErrInvalid for an invalid month.
func (d *UsageDesk) Searches(ctx context.Context, accountID string, month string) (int64, error) {
	return d.searches(ctx, accountID, month, d.shared)
}

// searches reads the stream's tail first if exact is set.
func (d *UsageDesk) searches(ctx context.Context, accountID string, month string, exact bool) (int64, error) {
	m, err := usage.ParseMonth(month)
	if err != nil {
		return 0, &account.InvalidError{Field: "month", Reason: "must be of the form YYYY-MM"}
	}
	key := tallyKey(accountID, m)
	if !exact {
		var seen shownTally
		err := d.months.with(key, func(a *actor[*tally]) { seen = a.state.shown })
		if err != nil || seen.ready {
			return seen.searches, err
		}
	}
	j := &searchesJob{}
	if err := d.months.do(ctx, key, &task[*tally]{job: j, loose: !exact}); err != nil {
		return 0, err
	}
	return j.searches, nil
}

// SearchesSeen returns a lower bound of the counted searches of the month (YYYY-MM): those that this
// desk has seen, which are all if no other node counts. It reads the stream only the first time.
// Errors: as Searches.
func (d *UsageDesk) SearchesSeen(ctx context.Context, accountID string, month string) (int64, error) {
	return d.searches(ctx, accountID, month, false)
}

// searchJob counts one search.
type searchJob struct {
	limit int64
	used  int64
}

func (j *searchJob) decide(t *tally, _ time.Time) (verdict, error) {
	want := t.joined.searches + 1
	counted, _, err := t.counter.Count(want, max(j.limit, -1))
	if err != nil {
		return verdict{}, err
	}
	if counted < want {
		return verdict{}, &usage.QuotaExceededError{What: "searches", Month: t.month, Used: t.counter.Searches() + t.joined.searches, Limit: j.limit}
	}
	return verdict{joined: true}, nil
}

func (j *searchJob) applied(t *tally) {
	t.joined.searches++
	j.used = t.counter.Searches() + t.joined.searches
}

func (j *searchJob) undone(*tally) {} // Rollback reverts all of them

func (j *searchJob) finished(*actor[*tally], error, eventlog.Position) {}

func (j *searchJob) orphaned() *task[*tally] { return nil }

// searchesJob reads the count.
type searchesJob struct{ searches int64 }

func (j *searchesJob) decide(*tally, time.Time) (verdict, error) { return verdict{}, nil }

func (j *searchesJob) applied(*tally) {}

func (j *searchesJob) undone(*tally) {}

func (j *searchesJob) finished(a *actor[*tally], _ error, _ eventlog.Position) {
	j.searches = a.state.counter.Searches()
}

func (j *searchesJob) orphaned() *task[*tally] { return nil }
