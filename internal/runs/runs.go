// Package runs records when processes that serve requests ran, and how they ended. A process records
// its start, periodically that it is alive, and its clean shutdown. A run without a clean shutdown may have left
// charges whose answers were never delivered.
package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/sqlstore"
)

// keptFor is how long a run is remembered after it was last alive, far longer than a charge can be
// reversed.
const keptFor = 30 * 24 * time.Hour

const (
	create = `
CREATE TABLE IF NOT EXISTS runs (
	id            TEXT   NOT NULL PRIMARY KEY,
	node          TEXT   NOT NULL,
	started       BIGINT NOT NULL,
	alive         BIGINT NOT NULL,
	ended         BIGINT NOT NULL,
	answer_within BIGINT NOT NULL
)`
	begin = `INSERT INTO runs (id, node, started, alive, ended, answer_within) VALUES ($1, $2, $3, $3, 0, $4)`
	prune = `DELETE FROM runs WHERE alive < $1`
	beat  = `UPDATE runs SET alive = $2 WHERE id = $1`
	end   = `UPDATE runs SET alive = $2, ended = $2 WHERE id = $1`
	all   = `SELECT id, node, started, alive, ended, answer_within FROM runs ORDER BY started, id`
)

// Run is a process that served requests. Times are whole microseconds.
type Run struct {
	ID      string // unique
	Node    string
	Started time.Time
	Alive   time.Time // when it was last recorded to be alive
	Ended   time.Time // zero without a clean shutdown
	// AnswerWithin is the longest time between a charge and the last byte of its answer.
	AnswerWithin time.Duration
}

// Runs is the table. It is safe for concurrent use.
type Runs struct{ store *sqlstore.Store }

// New creates the table if it is missing.
func New(ctx context.Context, store *sqlstore.Store) (*Runs, error) {
	err := store.Setup(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, store.DDL(create))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create table of runs: %w", err)
	}
	return &Runs{store: store}, nil
}

// Begin durably records a start, and deletes runs older than 30 days. Errors: sqlstore.ErrUnavailable,
// sqlstore.ErrClosed, ctx.Err().
func (r *Runs) Begin(ctx context.Context, run Run) error {
	err := r.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		if _, err := tx.ExecContext(ctx, prune, run.Started.Add(-keptFor).UnixMicro()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, begin, run.ID, run.Node, run.Started.UnixMicro(), run.AnswerWithin.Microseconds())
		return err
	})
	if err != nil {
		return fmt.Errorf("record the start of node %s: %w", run.Node, err)
	}
	return nil
}

// Beat records that a run is alive. Errors: as Begin.
func (r *Runs) Beat(ctx context.Context, id string, now time.Time) error {
	return r.note(ctx, beat, id, now)
}

// End records a clean shutdown. Errors: as Begin.
func (r *Runs) End(ctx context.Context, id string, now time.Time) error {
	return r.note(ctx, end, id, now)
}

func (r *Runs) note(ctx context.Context, query, id string, now time.Time) error {
	err := r.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, query, id, now.UnixMicro())
		return err
	})
	if err != nil {
		return fmt.Errorf("record that run %s is alive or has ended: %w", id, err)
	}
	return nil
}

// All returns the remembered runs, in the order of their starts. Errors: as Begin.
func (r *Runs) All(ctx context.Context) ([]Run, error) {
	found, err := r.all(ctx)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", sqlstore.Classify(err))
	}
	return found, nil
}

func (r *Runs) all(ctx context.Context) (found []Run, err error) {
	rows, err := r.store.Read().QueryContext(ctx, all)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var run Run
		var started, alive, ended, within int64
		if err := rows.Scan(&run.ID, &run.Node, &started, &alive, &ended, &within); err != nil {
			return nil, err
		}
		run.Started, run.Alive = time.UnixMicro(started).UTC(), time.UnixMicro(alive).UTC()
		if ended != 0 {
			run.Ended = time.UnixMicro(ended).UTC()
		}
		run.AnswerWithin = time.Duration(within) * time.Microsecond
		found = append(found, run)
	}
	return found, rows.Err()
}

// prefixLength is how many characters of a run's id, a UUID, are the prefix of its request ids.
const prefixLength = 8

// RequestID returns a new UUID with the prefix of a run's id, so that a charge shows which process
// made it.
func RequestID(runID string) string { return runID[:prefixLength] + uuid.NewString()[prefixLength:] }

// ByRequest returns a function that returns the id of the run that created a request's id. It returns ""
// if none of the runs did, for example for requests of a release whose ids had no prefix.
func ByRequest(all []Run) func(requestID string) string {
	byPrefix := map[string]string{}
	for _, run := range all {
		byPrefix[run.ID[:min(prefixLength, len(run.ID))]] = run.ID
	}
	return func(requestID string) string { return byPrefix[requestID[:min(prefixLength, len(requestID))]] }
}

// UncertainPeriod is a period in which a run may have charged without delivering the answers.
type UncertainPeriod struct {
	Run Run
	// From is AnswerWithin before the run was last alive, Until the latest time at which it can have
	// charged.
	From, Until time.Time
}

// Covers reports whether a time is within the period.
func (p UncertainPeriod) Covers(at time.Time) bool { return !at.Before(p.From) && !at.After(p.Until) }

// UncertainSingleNode returns the uncertain periods of a service in which one process runs at a time.
// current is the running process, if any. A run without a clean shutdown was over when the next one began.
func UncertainSingleNode(all []Run, current string, now time.Time) []UncertainPeriod {
	var periods []UncertainPeriod
	for i, run := range all {
		if !run.Ended.IsZero() || run.ID == current {
			continue
		}
		p := uncertain(run, now)
		if i+1 < len(all) {
			p.Until = all[i+1].Started
		}
		periods = append(periods, p)
	}
	return periods
}

// UncertainNodes returns the uncertain periods of nodes that share a service. A run without a clean shutdown
// is over when its node starts again, or when it was silent for goneAfter: a node that cannot record
// that it is alive cannot check keys either, so it charges nothing.
func UncertainNodes(all []Run, goneAfter time.Duration, now time.Time) []UncertainPeriod {
	next := map[string]time.Time{} // start of the next run of a node
	var periods []UncertainPeriod
	for i := len(all) - 1; i >= 0; i-- {
		run := all[i]
		until := run.Alive.Add(goneAfter)
		if again, ok := next[run.Node]; ok && again.Before(until) {
			until = again
		}
		next[run.Node] = run.Started
		if run.Ended.IsZero() && until.Before(now) {
			periods = append(periods, uncertain(run, until))
		}
	}
	return periods
}

func uncertain(run Run, until time.Time) UncertainPeriod {
	from := run.Alive.Add(-run.AnswerWithin)
	if from.Before(run.Started) {
		from = run.Started
	}
	return UncertainPeriod{Run: run, From: from, Until: until}
}
