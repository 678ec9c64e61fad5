// Package runs records when processes that serve requests ran, and how they ended. A process records
// its start, periodically that it is alive, and its clean shutdown. A run without a clean shutdown may have left
// charges whose answers were never delivered.
package runs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// keptFor is how long a run is remembered after it was last alive, far longer than a charge can be reversed.
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
	columns = `id, node, started, alive, ended, answer_within, answered, unanswered`

	begin = `INSERT INTO runs (` + columns + `) VALUES ($1, $2, $3, $3, 0, $4, 0, '')`
	prune = `DELETE FROM runs WHERE alive < $1`
	beat  = `UPDATE runs SET alive = $2, answered = $3, unanswered = $4 WHERE id = $1`
	end   = `UPDATE runs SET alive = $2, ended = $2 WHERE id = $1`
	all   = `SELECT ` + columns + ` FROM runs ORDER BY started, id`
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
	// Answered says which charges were answered when it was last recorded to be alive. It is nil if that is not known:
	// for a process of an earlier release, and after the events got other positions.
	Answered *Answered
}

// Runs is the table. It is safe for concurrent use.
type Runs struct{ store *sqlstore.Store }

// New creates the table if it is missing.
func New(ctx context.Context, store *sqlstore.Store) (*Runs, error) {
	err := store.Setup(ctx, func(tx *sqlstore.Tx) error {
		if err := tx.Create(ctx, create); err != nil {
			return err
		}
		// Earlier releases have neither column. Their processes leave both null.
		return errors.Join(tx.AddColumn(ctx, Table, "answered", "BIGINT"),
			tx.AddColumn(ctx, Table, "unanswered", "TEXT"))
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

// Beat records that a run is alive, and which of its charges were answered before. Errors: as Begin.
func (r *Runs) Beat(ctx context.Context, id string, now time.Time, answered Answered) error {
	return r.note(ctx, beat, id, now, int64(answered.UpTo), strings.Join(answered.Except, " "))
}

// Table is the name of the table.
const Table = "runs"

// Forget is the statement that forgets which charges were answered, because the events get other positions.
const Forget = `UPDATE runs SET answered = NULL, unanswered = NULL`

// End records a clean shutdown. Errors: as Begin.
func (r *Runs) End(ctx context.Context, id string, now time.Time) error {
	return r.note(ctx, end, id, now)
}

func (r *Runs) note(ctx context.Context, query, id string, now time.Time, more ...any) error {
	err := r.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, query, append([]any{id, now.UnixMicro()}, more...)...)
		return err
	})
	if err != nil {
		return fmt.Errorf("record that run %s is alive or has ended: %w", id, err)
	}
	return nil
}

// All returns the remembered runs, in the order of their starts. Errors: as Begin.
func (r *Runs) All(ctx context.Context) ([]Run, error) {
	found, err := sqlstore.AllRows(ctx, r.store.Read(), all, (*Run).scan)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", sqlstore.Classify(err))
	}
	return found, nil
}

func (run *Run) scan(row sqlstore.Scanner) error {
	var started, alive, ended, within int64
	var answered sql.NullInt64
	var unanswered sql.NullString
	err := row.Scan(&run.ID, &run.Node, &started, &alive, &ended, &within, &answered, &unanswered)
	if answered.Valid {
		run.Answered = &Answered{UpTo: eventlog.Position(answered.Int64), Except: strings.Fields(unanswered.String)}
	}
	run.Started, run.Alive = time.UnixMicro(started).UTC(), time.UnixMicro(alive).UTC()
	if ended != 0 {
		run.Ended = time.UnixMicro(ended).UTC()
	}
	run.AnswerWithin = time.Duration(within) * time.Microsecond
	return err
}

// prefixLength is how many characters of a run's id, a UUID, are the prefix of its request ids.
const prefixLength = 8

// RequestID returns a new UUID with the prefix of a run's id, so that a charge shows which process made it.
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
	// From is AnswerWithin before the run was last alive, Until the latest time at which it can have charged.
	From, Until time.Time
}

// Covers reports whether the run may not have answered a charge, by the time and the position of the charge and the id
// of its request.
func (p UncertainPeriod) Covers(at time.Time, position eventlog.Position, requestID string) bool {
	if at.Before(p.From) || at.After(p.Until) {
		return false
	}
	return p.Run.Answered == nil || !p.Run.Answered.Covers(position, requestID)
}

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
	for _, run := range slices.Backward(all) {
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

// maxOpen bounds the requests of an Answered, and with them the row of a run. Beyond it the position alone counts,
// which is then lower.
const maxOpen = 512

// Answered says which charges of a run were answered: all up to a position, except charges of some requests.
type Answered struct {
	UpTo eventlog.Position
	// Except are the ids of requests that had charged, or might have, and were not answered yet.
	Except []string
}

// Covers reports whether a charge was answered, or reversed.
func (a Answered) Covers(position eventlog.Position, requestID string) bool {
	return position <= a.UpTo && !slices.Contains(a.Except, requestID)
}

// Charges knows which charges of a process have no answer yet. A charge is open from before its append until it was
// answered, reversed or turned out not to exist. It is safe for concurrent use; each call takes well below a
// microsecond. Calls of a nil Charges do nothing.
type Charges struct {
	now  func() time.Time
	mu   sync.Mutex
	last eventlog.Position // of the charges that were reported
	open map[string]*openRequest
}

// openRequest is a request with charges that are not answered.
type openRequest struct {
	after   eventlog.Position // all its charges are behind it
	since   time.Time         // when its first append began
	pending int               // appends and reversals whose outcome is not known
	holds   bool              // the request has charges to answer
}

// NewCharges returns a Charges without charges.
func NewCharges(now func() time.Time) *Charges {
	return &Charges{now: now, open: make(map[string]*openRequest)}
}

// Forget forgets requests whose first append began longer ago than age. An append whose outcome was never learned would
// otherwise keep its request open until the process ends. The age must exceed the time from an append to the end of an
// answer: charges that old are outside of every UncertainPeriod.
func (c *Charges) Forget(age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.now().Add(-age)
	maps.DeleteFunc(c.open, func(_ string, r *openRequest) bool { return r.since.Before(before) })
}

// Begin notes that a charge of a request may be appended from now on, or that a charge is reversed without a caller.
// Charged or Ended must follow, unless the outcome stays unknown.
func (c *Charges) Begin(requestID string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.open[requestID]
	if r == nil {
		r = &openRequest{after: c.last, since: c.now()}
		c.open[requestID] = r
	}
	r.pending++
}

// Charged notes that the request has a durable charge, which it will answer or reverse.
func (c *Charges) Charged(requestID string, at eventlog.Position) {
	c.change(requestID, func(r *openRequest) {
		c.last = max(c.last, at)
		r.pending--
		r.holds = true
	})
}

// Ended notes that an append or a reversal has ended without a charge that needs an answer: nothing was appended, or
// the charge was reversed.
func (c *Charges) Ended(requestID string) {
	c.change(requestID, func(r *openRequest) { r.pending-- })
}

// Answered notes that the request has ended: its answer was sent, or its charges are being reversed (see Begin).
func (c *Charges) Answered(requestID string) {
	c.change(requestID, func(r *openRequest) { r.holds = false })
}

// change changes a request that is open, and closes it if nothing is left to wait for.
func (c *Charges) change(requestID string, by func(*openRequest)) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.open[requestID]
	if r == nil {
		return
	}
	if by(r); r.pending <= 0 && !r.holds {
		delete(c.open, requestID)
	}
}

// State returns which of the charges up to now were answered.
func (c *Charges) State() Answered {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := Answered{UpTo: c.last}
	if len(c.open) > maxOpen {
		for _, r := range c.open {
			state.UpTo = min(state.UpTo, r.after)
		}
		return state
	}
	for id := range c.open {
		state.Except = append(state.Except, id)
	}
	slices.Sort(state.Except)
	return state
}
