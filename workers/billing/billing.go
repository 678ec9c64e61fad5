// Package billing applies to accounts what payment processors reported. commands.Billing records the reports,
// domain/billing decides them; this package follows the log, carries out the effects through the commands on accounts,
// and appends the outcome.
//
// The effects come before the outcome, and the account's stream recognizes their repeats: a payment grants once, a
// claim is settled once. So a worker that crashes between the two, and two workers at the same time, change nothing
// twice.
package billing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/billing"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
)

const (
	// retryEvery is the pause before an effect that failed for a passing reason is tried again.
	retryEvery = 5 * time.Second
	// effectTime limits the effect of one report, so that one account does not delay the others.
	effectTime = 10 * time.Second
	// actor of the effects and outcomes.
	actor = "system:billing"
)

// Filter selects the events of all billing streams.
var Filter = eventlog.Filter{StreamPrefixes: []string{eventschemas.BillingPrefix}}

// Accounts changes accounts; *commands.AccountWriter.
type Accounts interface {
	GrantCredits(ctx context.Context, in commands.GrantCredits) (commands.Done, error)
	SettlePayment(ctx context.Context, in commands.SettlePayment) (commands.Done, error)
	ChangePlan(ctx context.Context, in commands.ChangePlan) (commands.Done, error)
}

// Notices records failed payments; *commands.Notices.
type Notices interface {
	RecordFailedPayment(ctx context.Context, in commands.RecordFailedPayment) (useless string, err error)
}

// Outcomes records outcomes; *commands.Billing.
type Outcomes interface {
	Settle(
		ctx context.Context,
		request commands.Request,
		stream string,
		revisions uint64,
		outcome eventschemas.BillingSettled,
	) error
}

// Config of a Worker.
type Config struct {
	Catalog    *billing.Catalog // nil: no plans and packs
	RetryEvery time.Duration    // retryEvery when 0
	Logger     *slog.Logger     // nil: none
	Registerer prometheus.Registerer
}

// Worker applies reports. It is for one goroutine.
type Worker struct {
	cfg      Config
	log      eventlog.Log
	accounts Accounts
	notices  Notices
	outcomes Outcomes
	settled  *prometheus.CounterVec
	open     *prometheus.GaugeVec

	state    *billing.State
	position eventlog.Position
}

// New returns a worker.
func New(cfg Config, log eventlog.Log, accounts Accounts, notices Notices, outcomes Outcomes) (*Worker, error) {
	cfg.Catalog = cmp.Or(cfg.Catalog, &billing.Catalog{})
	cfg.RetryEvery = cmp.Or(cfg.RetryEvery, retryEvery)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	w := &Worker{
		cfg: cfg, log: log, accounts: accounts, notices: notices, outcomes: outcomes, state: billing.NewState(),
		settled: telemetry.Counters("letterhead_billing_settled_total",
			"Events of payment processors that were applied, or went to the inbox.", "outcome"),
		open: telemetry.Gauges("letterhead_billing_open",
			"Events of payment processors that are in the inbox, wait for another event, or could not be applied yet (failing); known to the leading node.", "state"),
	}
	for _, outcome := range []string{billing.Applied, billing.Inbox} {
		w.settled.WithLabelValues(outcome)
	}
	if err := telemetry.Register(cfg.Registerer, w.settled, w.open); err != nil {
		return nil, fmt.Errorf("register metrics of billing: %w", err)
	}
	return w, nil
}

// Run applies reports until ctx ends, and then returns nil. Errors: eventlog.ErrCorrupt, eventlog.ErrClosed, and the
// errors of decoding an event.
func (w *Worker) Run(ctx context.Context) error {
	defer w.open.Reset() // another node may lead
	return delay.While(ctx, eventlog.ErrUnavailable, w.cfg.RetryEvery, w.cfg.Logger, "billing waits for the log", w.follow)
}

func (w *Worker) follow(ctx context.Context) error {
	sub, err := w.log.Subscribe(ctx, w.position, Filter)
	if err != nil {
		return fmt.Errorf("follow the log after position %d: %w", w.position, err)
	}
	defer sub.Close()
	failing := 0
	for {
		next := sub.Next
		if failing > 0 { // what failed is tried again after a pause
			next = func(ctx context.Context) (eventlog.Batch, error) {
				return eventlog.NextWithin(ctx, sub, w.cfg.RetryEvery)
			}
		}
		batch, err := next(ctx)
		if err != nil {
			return err
		}
		for i := range batch.Events {
			if err := w.Fold(&batch.Events[i]); err != nil {
				return err
			}
		}
		w.position = max(w.position, batch.Position)
		if batch.Live || failing > 0 { // before, the outcomes of reports may follow
			failing = w.Apply(ctx)
		}
	}
}

// Fold folds an event of a billing stream; Apply then decides.
func (w *Worker) Fold(rec *eventlog.Recorded) error { return Fold(w.state, rec) }

// Fold folds an event of a billing stream.
func Fold(state *billing.State, rec *eventlog.Recorded) error {
	ev, err := eventlog.Decode(rec, eventschemas.Decode)
	if err != nil {
		return fmt.Errorf("revision %d of %s: %w", rec.Revision, rec.Stream, err)
	}
	state.Apply(rec.Stream, rec.Revision, ev, rec.OccurredAt)
	return nil
}

// Apply decides the reports that are due, again and again until nothing changes, and returns how many could not be
// applied for a passing reason.
func (w *Worker) Apply(ctx context.Context) (failing int) {
	for changed := true; changed && ctx.Err() == nil; {
		changed, failing = false, 0
		for _, e := range w.state.Open() {
			if !w.state.Due(e) {
				continue
			}
			settled, err := w.apply(ctx, e)
			if err != nil {
				failing++
				if ctx.Err() == nil {
					w.cfg.Logger.Warn("an event of the payment processor could not be applied yet",
						"event", e.Report.EventID, "type", e.Report.Type, "error", err)
				}
			}
			changed = changed || settled
		}
	}
	counts := map[string]float64{billing.Inbox: 0, billing.Waiting: 0, "failing": float64(failing)}
	for _, e := range w.state.Open() {
		if e.State != "" {
			counts[e.State]++
		}
	}
	for state, n := range counts {
		w.open.WithLabelValues(state).Set(n)
	}
	return failing
}

// apply decides a report and reports whether it was settled.
func (w *Worker) apply(ctx context.Context, e *billing.Entry) (settled bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, effectTime)
	defer cancel()
	by := commands.Request{ID: e.Report.EventID, Actor: actor}
	d := w.state.Decide(e, w.cfg.Catalog)
	if d.Outcome == billing.Waiting {
		e.State, e.Reason = billing.Waiting, d.Reason
		return false, nil
	}
	done, err := w.effect(ctx, by, d)
	if d.Failure != nil {
		d.Reason, err = w.notices.RecordFailedPayment(ctx,
			commands.RecordFailedPayment{Request: by, AccountID: d.AccountID, Failed: *d.Failure})
	}
	if err != nil {
		if !refused(err) {
			return false, err
		}
		d = d.Refused(err)
	}
	if done.Short > 0 {
		d.Reason = billing.NothingLeft
		if !done.TookNothing {
			d.Reason = billing.LessLeft(done.Short, e.Report.Money.Currency)
		}
		w.cfg.Logger.Warn("a refund or dispute of the payment processor is more than was left of the payment",
			"event", e.Report.EventID, "type", e.Report.Type, "reason", d.Reason)
	}
	outcome := d.Settled()
	if e.State == billing.Inbox && outcome.Outcome == billing.Inbox && e.Reason == outcome.Reason {
		return false, nil
	}
	err = w.outcomes.Settle(ctx, by, e.Stream, e.Revisions, outcome)
	if errors.Is(err, eventlog.ErrWrongRevision) {
		return false, nil // another event of the stream follows in the log
	}
	if err != nil {
		return false, err
	}
	w.settled.WithLabelValues(d.Outcome).Inc()
	if d.Outcome == billing.Inbox {
		w.cfg.Logger.Warn("an event of the payment processor is in the inbox",
			"event", e.Report.EventID, "type", e.Report.Type, "reason", outcome.Reason)
	}
	w.state.Apply(e.Stream, e.Revisions, outcome, e.At)
	return true, nil
}

func (w *Worker) effect(ctx context.Context, by commands.Request, d billing.Decision) (commands.Done, error) {
	if g := d.Grant; g != nil {
		return w.accounts.GrantCredits(ctx, commands.GrantCredits{
			Request: by, AccountID: d.AccountID, Kind: g.Kind, Credits: g.Credits, PaymentID: g.PaymentID,
			Money: g.Money, Tax: g.Tax,
		})
	}
	if d.Settle != nil {
		return w.accounts.SettlePayment(ctx, commands.SettlePayment{Request: by, AccountID: d.AccountID,
			PaymentID: d.Settle.PaymentID, Claims: d.Settle.Claims, Subject: d.Settle.Subject})
	}
	if d.Change {
		return w.accounts.ChangePlan(ctx, commands.ChangePlan{Request: by, AccountID: d.AccountID, Plan: d.Plan})
	}
	return commands.Done{}, nil
}

// refused reports whether a rule of the account refuses the effect, so that trying again does not help.
func refused(err error) bool {
	return slices.ContainsFunc([]error{
		account.ErrInvalid, account.ErrNotFound, account.ErrClosed, account.ErrCreditLimit, account.ErrPaymentMismatch,
		account.ErrUnknownPayment, account.ErrRefundTooLarge, commands.ErrInvalidRequest,
	}, func(rule error) bool { return errors.Is(err, rule) })
}
