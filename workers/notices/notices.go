// Package notices delivers the notices that the read model of notices raises: to the URL and to the e-mail address of
// the account's holder.
//
// Every attempt is appended to the account's stream of notices before it is sent, at the revision that the decision
// follows from. So of two nodes only one sends it, and a node that starts again continues the pauses between attempts.
// If a node stops between sending and recording the outcome, the notice is sent again; it has the same id, by which a
// receiver recognizes repeats.
package notices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	domain "letterhead/domain/notices"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
	"letterhead/projections"
	"letterhead/projections/notices"
)

const (
	// pollEvery is the pause between two looks for due notices.
	pollEvery = time.Second
	// maxDue limits the deliveries of one look.
	maxDue = 256
	// maxRunning limits the accounts whose notices are sent at a time.
	maxRunning = 32
	// sendTime limits the sending of a notice, and settleTime the recording of the outcome. Together they are below
	// domain.AttemptTime.
	sendTime   = 20 * time.Second
	settleTime = 5 * time.Second

	actor = "system:notices"
)

// Reasons of failures for which no sender is responsible.
const (
	noDestination = "no_destination"
	noOutcome     = "no_outcome" // the node stopped during the attempt
	notConfigured = "not_configured"
)

// Queue lists what is due; *notices.Model.
type Queue interface {
	Due(ctx context.Context, now time.Time, limit int) ([]notices.Due, error)
	Counts(ctx context.Context) (map[string]int64, error)
}

// Deliveries records attempts; *commands.Notices.
type Deliveries interface {
	Append(
		ctx context.Context, request commands.Request, accountID string, events uint64, ev eventschemas.Event,
	) (uint64, error)
	Settle(
		ctx context.Context, request commands.Request, accountID string, outcome eventschemas.NoticeSettled,
	) (uint64, error)
	Destinations(ctx context.Context, accountID string) (map[string]string, error)
}

// Notice is what is sent.
type Notice struct {
	AccountID string
	domain.Delivery
}

// Result of an attempt. The zero Result is a delivery.
type Result struct {
	Reason string // why it failed, in a word; "" if it was delivered
	Final  bool   // another attempt is pointless
}

// Sender sends a notice to a destination. It may be called by several goroutines.
type Sender interface {
	Send(ctx context.Context, to string, n Notice) Result
}

// Config of a Worker.
type Config struct {
	Senders    map[string]Sender // by destination; attempts without a sender fail
	PollEvery  time.Duration     // pollEvery when 0
	Now        func() time.Time
	Logger     *slog.Logger // nil: none
	Registerer prometheus.Registerer
}

// Worker delivers notices. One goroutine calls Run.
type Worker struct {
	cfg        Config
	queue      Queue
	deliveries Deliveries
	attempts   *prometheus.CounterVec
	open       *prometheus.GaugeVec

	mu      sync.Mutex
	running map[string]bool // accounts whose notices are being sent
	sending sync.WaitGroup
}

// New returns a worker.
func New(cfg Config, queue Queue, deliveries Deliveries) (*Worker, error) {
	cfg.PollEvery = cmp.Or(cfg.PollEvery, pollEvery)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	w := &Worker{cfg: cfg, queue: queue, deliveries: deliveries, running: map[string]bool{},
		attempts: telemetry.Counters("letterhead_notices_attempts_total",
			"Attempts to deliver notices, by destination and outcome; dead_lettered and outdated end the attempts.", "destination", "outcome"),
		open: telemetry.Gauges("letterhead_notices_open",
			"Deliveries of notices that are attempted (open), or that failed and wait for an operator (dead_lettered); known to the leading node.", "state"),
	}
	for _, destination := range domain.Destinations {
		for _, outcome := range []string{domain.Delivered, domain.Failed, domain.DeadLettered, domain.Outdated} {
			w.attempts.WithLabelValues(destination, outcome)
		}
	}
	if err := telemetry.Register(cfg.Registerer, w.attempts, w.open); err != nil {
		return nil, fmt.Errorf("register metrics of notices: %w", err)
	}
	return w, nil
}

// Run delivers notices until ctx ends, and then returns nil. It waits for attempts in progress.
func (w *Worker) Run(ctx context.Context) error {
	defer w.open.Reset() // another node may lead
	defer w.sending.Wait()
	for {
		err := w.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, projections.ErrNotReady) { // its tables are being built
			w.cfg.Logger.Warn("due notices could not be read", "error", err, "again_in", w.cfg.PollEvery)
		}
		if delay.For(ctx, w.cfg.PollEvery) != nil {
			return nil
		}
	}
}

// look starts attempts of what is due. A slow receiver delays only the notices of its own account.
func (w *Worker) look(ctx context.Context) error {
	due, err := w.queue.Due(ctx, w.cfg.Now(), maxDue)
	if err != nil {
		return err
	}
	for _, d := range due {
		if w.begin(d.AccountID) {
			w.sending.Go(func() {
				defer w.end(d.AccountID)
				w.deliver(ctx, d)
			})
		}
	}
	counts, err := w.queue.Counts(ctx)
	for state, n := range counts {
		w.open.WithLabelValues(state).Set(float64(n))
	}
	return err
}

func (w *Worker) begin(accountID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[accountID] || len(w.running) >= maxRunning {
		return false
	}
	w.running[accountID] = true
	return true
}

func (w *Worker) end(accountID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, accountID)
}

// deliver attempts what is due for an account, one after the other.
func (w *Worker) deliver(ctx context.Context, due notices.Due) {
	destinations, err := w.deliveries.Destinations(ctx, due.AccountID)
	events := due.Events
	for i := 0; i < len(due.Deliveries) && err == nil; i++ {
		n := Notice{due.AccountID, due.Deliveries[i]}
		has, to := due.Watch.Has(n.Destination), destinations[n.Destination]
		if due.Watch.Closed {
			has, to = false, ""
		}
		events, err = w.attempt(ctx, n, has, to, events)
	}
	// With another revision the read model is behind, or another node was faster.
	if err != nil && ctx.Err() == nil && !errors.Is(err, eventlog.ErrWrongRevision) {
		w.cfg.Logger.Warn("notices of an account could not be attempted; they are tried again",
			"account", due.AccountID, "error", err)
	}
}

// attempt makes one attempt, and returns the number of events of the account's stream of notices. A destination that
// the settings have is stored after them (see commands.Notices.Set): until then, attempts fail.
func (w *Worker) attempt(ctx context.Context, n Notice, has bool, to string, events uint64) (uint64, error) {
	by := commands.Request{ID: uuid.NewString(), Actor: actor, CorrelationID: n.NoticeID}
	settled := eventschemas.NoticeSettled{NoticeID: n.NoticeID, Destination: n.Destination, Attempt: n.Attempts}
	switch {
	case to == "" && !has:
		settled.Outcome, settled.Reason = domain.Outdated, noDestination
	case n.Exhausted():
		settled.Outcome, settled.Reason = domain.DeadLettered, cmp.Or(n.Reason, noOutcome)
	}
	if settled.Outcome != "" {
		events, err := w.deliveries.Append(ctx, by, n.AccountID, events, settled)
		if err == nil {
			w.report(n, settled)
		}
		return events, err
	}
	settled.Attempt++
	attempted := eventschemas.NoticeAttempted{NoticeID: n.NoticeID, Destination: n.Destination,
		Attempt: settled.Attempt}
	if _, err := w.deliveries.Append(ctx, by, n.AccountID, events, attempted); err != nil {
		return 0, err
	}
	result := w.send(ctx, to, n)
	settled.Outcome, settled.Reason = domain.Delivered, result.Reason
	switch {
	case result.Reason == "":
	case result.Final, settled.Attempt >= domain.MaxAttempts:
		settled.Outcome = domain.DeadLettered
	default:
		settled.Outcome = domain.Failed
	}
	recording, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime) // also when the node stops
	defer cancel()
	events, err := w.deliveries.Settle(recording, by, n.AccountID, settled)
	if err == nil {
		w.report(n, settled)
	}
	return events, err
}

func (w *Worker) send(ctx context.Context, to string, n Notice) Result {
	sender := w.cfg.Senders[n.Destination]
	switch {
	case to == "":
		return Result{Reason: noDestination}
	case sender == nil:
		return Result{Reason: notConfigured}
	}
	// A stop does not interrupt it: a receiver that has read the notice would get it again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime)
	defer cancel()
	return sender.Send(ctx, to, n)
}

func (w *Worker) report(n Notice, settled eventschemas.NoticeSettled) {
	w.attempts.WithLabelValues(n.Destination, settled.Outcome).Inc()
	if settled.Outcome == domain.DeadLettered {
		w.cfg.Logger.Warn("a notice could not be delivered", "account", n.AccountID, "notice", n.NoticeID,
			"destination", n.Destination, "attempts", settled.Attempt, "reason", settled.Reason)
	}
}
