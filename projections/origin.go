package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// ErrOtherLog: the read models are of another event log than the one that this node reads, so their positions
// mean nothing in it. See the package comment for what becomes of that. It is an ErrNotReady too.
var ErrOtherLog = errors.New("read models are of another event log")

const (
	// originName is the row of the registry that says which log was folded. No read model can have the name.
	originName = "@log"
	// stateOrigin is the state of that row.
	stateOrigin = "origin"
	// otherLogLooks is how often in a row a node must get the lead of shared tables of another log, with the
	// pauses of faults in between (half a minute in all by default), before it takes them for left behind.
	// Until then any node that reads their log gets the lead and keeps it.
	otherLogLooks = 30
	// otherLogMemory is when an earlier look at tables of another log does not count any more: somebody else has
	// led since.
	otherLogMemory = 30 * time.Second
	// originTimeout bounds the read of the log's first event at Start, which goes on without.
	originTimeout = 2 * time.Second
)

// origin tells one log from another by its first event. A copy of a log (restore, migrate) keeps the id and has
// other positions, so both count. The zero origin is that of a log without events.
type origin struct {
	id uuid.UUID
	at eventlog.Position
}

func (o origin) String() string {
	if o == (origin{}) {
		return "it has no events"
	}
	return fmt.Sprintf("its first event is %s at position %d", o.id, o.at)
}

// view is what this node knows of its log.
type view struct {
	origin
	// after says that the log was read after the registry had named one: a log without events is then another.
	after bool
}

// otherLogError is ErrOtherLog with what was compared.
type otherLogError struct{ folded, own origin }

func (e *otherLogError) Error() string {
	return fmt.Sprintf("%s: of the one that was folded %s, of the one that this node reads %s; point this node at the event "+
		"store that the others use, or, when the event store was replaced, all nodes at the new one: the node that leads then builds the "+
		"read models anew", ErrOtherLog, e.folded, e.own)
}

// Is makes it an ErrNotReady: whoever reads may come again.
func (e *otherLogError) Is(target error) bool { return target == ErrOtherLog || target == ErrNotReady }

// readOrigin reads the first event of the log.
func (r *Runner) readOrigin(ctx context.Context) (origin, error) {
	for after := eventlog.Position(0); ; {
		page, err := r.log.ReadAll(ctx, after, eventlog.Filter{}, 1)
		switch {
		case err != nil:
			return origin{}, fmt.Errorf("read the first event: %w", err)
		case len(page.Events) > 0:
			return origin{id: page.Events[0].ID, at: page.Events[0].Position}, nil
		case page.End:
			return origin{}, nil
		}
		after = page.Next
	}
}

// foldedOrigin returns which log the registry says was folded; the zero origin: it does not say.
func foldedOrigin(entries []entry) origin {
	for _, e := range entries {
		if e.name == originName {
			id, err := uuid.Parse(e.failure)
			if err != nil {
				id = uuid.Max // of nobody's log
			}
			return origin{id: id, at: e.position}
		}
	}
	return origin{}
}

// compare returns an *otherLogError when another log was folded.
func compare(folded, own origin) error {
	if folded == (origin{}) || folded == own {
		return nil
	}
	return &otherLogError{folded: folded, own: own}
}

// noteOrigin says in the registry which log is folded, unless it says so already.
func noteOrigin(ctx context.Context, tx *sqlstore.Tx, o origin) error {
	if o == (origin{}) {
		return nil
	}
	if o.at > math.MaxInt64 {
		return fmt.Errorf("note the event log: position %d is past what the database can hold", o.at)
	}
	_, err := tx.ExecContext(ctx, `
INSERT INTO projections_registry (name, fold_version, generation, state, position, failure)
VALUES ($1, 0, 0, $2, $3, $4) ON CONFLICT (name, generation) DO NOTHING`, originName, stateOrigin, int64(o.at), o.id.String())
	if err != nil {
		return fmt.Errorf("note the event log: %w", err)
	}
	return nil
}

func forgetOrigin(ctx context.Context, tx *sqlstore.Tx) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM projections_registry WHERE name = $1", originName); err != nil {
		return fmt.Errorf("forget the event log: %w", err)
	}
	return nil
}

// identify notes the log when it had no events at the start. The caller holds step, and has just folded from it.
func (r *Runner) identify(ctx context.Context) {
	if r.identified {
		return
	}
	own, err := r.readOrigin(ctx)
	if err == nil {
		err = r.store.Write(ctx, func(tx *sqlstore.Tx) error { return noteOrigin(ctx, tx, own) })
	}
	if err != nil {
		if ctx.Err() == nil {
			r.cfg.Logger.WarnContext(ctx, "which event log is folded could not be noted and will be with the next events", slog.Any("error", err))
		}
		return
	}
	r.own.Store(&view{origin: own})
	r.identified = own != (origin{})
}

// learn reads which log this node has.
func (r *Runner) learn(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	after := r.named.Load()
	own, err := r.readOrigin(ctx)
	if err == nil {
		r.own.Store(&view{origin: own, after: after})
	}
	return err
}

// learnUntilKnown learns until the log has a first event, or ctx ends.
func (r *Runner) learnUntilKnown(ctx context.Context) {
	pause := r.cfg.faultBackoff()
	for {
		if v := r.own.Load(); v != nil && v.origin != (origin{}) {
			return
		}
		if err := r.learn(ctx, lookTimeout); err != nil && ctx.Err() == nil {
			r.cfg.Logger.DebugContext(ctx, "which event log this is could not be read", slog.Any("error", err))
		}
		if delay.For(ctx, pause.pause()) != nil {
			return
		}
	}
}

// stranger returns an *otherLogError when the registry is known to be of another log than this node's.
func (r *Runner) stranger(entries []entry) error {
	folded := foldedOrigin(entries)
	if folded == (origin{}) {
		return nil
	}
	r.named.Store(true)
	v := r.own.Load()
	if v == nil || v.origin == (origin{}) && !v.after {
		return nil // not known yet
	}
	return compare(folded, v.origin)
}

// refuse takes the live tables, which must not be read here, from the readers.
func (m *model) refuse(why error) {
	m.mu.Lock()
	before := m.refused
	m.live, m.building, m.buildErr, m.failure, m.refused = nil, nil, nil, nil, why
	m.p.Handle().live.Store(nil)
	m.mu.Unlock()
	if before == nil || before.Error() != why.Error() {
		m.mark.vanish()
		m.mark.fail(why)
	}
}

// otherLog returns why nothing is read here, when that is because the tables are of another log.
func (r *Runner) otherLog() error {
	for _, m := range r.models {
		if err := r.refused(m.name); errors.Is(err, ErrOtherLog) {
			return err
		}
	}
	return nil
}

// doubts counts how often this node got the lead of tables of another log; step guards it.
type doubts struct {
	looks int
	last  time.Time
}

// settled says whether that was often enough.
func (d *doubts) settled(now time.Time) bool {
	if now.Sub(d.last) > otherLogMemory {
		d.looks = 0
	}
	return d.looks >= otherLogLooks
}

func (d *doubts) count(now time.Time) {
	d.looks++
	d.last = now
}
