package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

const (
	// firstName and lastName are rows of projections_registry that name two events of the log that was folded: the
	// first one, and a recent one. No read model can have these names.
	firstName = "@log"
	lastName  = "@head"
	// stateMark is the state of both rows.
	stateMark = "origin"
	// markEvery is the minimum interval between two writes of the last mark.
	markEvery = time.Second
)

// FoldedLog is what projections_registry remembers of the log that the read models were folded from.
type FoldedLog struct {
	First eventlog.Mark // the log's first event
	Last  eventlog.Mark // an event that was folded about a second or less before the last one
	// Positions maps each read model to the position up to which it is folded.
	Positions map[string]eventlog.Position
}

// ReadFoldedLog reads what projections_registry remembers: nothing if no read model was ever folded. Errors:
// sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, ctx.Err().
func ReadFoldedLog(ctx context.Context, store *sqlstore.Store) (FoldedLog, error) {
	records, err := readGenerations(ctx, store.Read())
	if sqlstore.IsUndefinedTable(err) { // the table does not exist yet
		return FoldedLog{}, nil
	}
	if err != nil {
		return FoldedLog{}, sqlstore.Classify(err)
	}
	return foldedLogOf(records), nil
}

func foldedLogOf(records []record) FoldedLog {
	m := FoldedLog{Positions: map[string]eventlog.Position{}}
	for _, e := range records {
		switch {
		case e.name == firstName:
			m.First.Position = e.position
			if m.First.ID, _ = uuid.Parse(e.failure); m.First.ID == uuid.Nil {
				m.First.ID = uuid.Max // unreadable: no log begins with it
			}
		case e.name == lastName:
			if json.Unmarshal([]byte(e.failure), &m.Last) != nil {
				m.Last = eventlog.Mark{ID: uuid.Max}
			}
			m.Last.Position = e.position
		case e.state == stateLive || e.state == stateBuilding:
			m.Positions[e.name] = max(m.Positions[e.name], e.position)
		}
	}
	return m
}

// Losses compares m with a log and returns an error for each difference, and none if the log contains all that m
// remembers. Read the FoldedLog first, because the log grows in the meantime. Errors: as the log.
func (m FoldedLog) Losses(ctx context.Context, log eventlog.Prober) (losses []*eventlog.LossError, err error) {
	end, err := log.End(ctx)
	if err != nil {
		return nil, fmt.Errorf("compare the read models with the event log: %w", err)
	}
	for name, at := range m.Positions {
		if at > end {
			losses = append(losses, &eventlog.LossError{
				Witness: "read model " + name, Remembered: at, Head: end,
				Detail: "it was folded from events that the log does not hold",
			})
		}
	}
	for _, mark := range []eventlog.Mark{m.First, m.Last} {
		if mark == (eventlog.Mark{}) {
			continue
		}
		held, found, err := mark.Find(ctx, log)
		if err != nil {
			return nil, fmt.Errorf("compare the read models with the event log: %w", err)
		}
		loss := &eventlog.LossError{Witness: "registry of the read models", Remembered: mark.Position, Head: end,
			Other: found || mark.Position <= end}
		switch {
		case !found && mark.Position > end:
			loss.Detail = fmt.Sprintf("event %s is not in it", mark.ID)
		case !found:
			loss.Detail = fmt.Sprintf("event %s is missing: this is another log, or a continuation of an older copy", mark.ID)
		case held.ID != mark.ID || held.Position != mark.Position:
			loss.Detail = fmt.Sprintf("it holds event %s at position %d where event %s was at position %d: this is another log, or a continuation of an older copy",
				held.ID, held.Position, mark.ID, mark.Position)
		default:
			continue
		}
		losses = append(losses, loss)
	}
	return losses, nil
}

// RememberFirst records the first event of the log unless one is recorded. Errors: sqlstore.ErrUnavailable, ctx.Err().
func RememberFirst(ctx context.Context, store *sqlstore.Store, first eventlog.Mark) error {
	return remember(ctx, store, func(tx *sqlstore.Tx) error { return noteFirst(ctx, tx, first) })
}

// Remember records an event that was read or appended, unless a later one is recorded. Errors: as RememberFirst.
func Remember(ctx context.Context, store *sqlstore.Store, seen eventlog.Mark) error {
	return remember(ctx, store, func(tx *sqlstore.Tx) error { return noteLast(ctx, tx, seen) })
}

func remember(ctx context.Context, store *sqlstore.Store, note func(*sqlstore.Tx) error) error {
	return store.Setup(ctx, func(tx *sqlstore.Tx) error {
		if _, err := tx.ExecContext(ctx, store.DDL(createGenerations)); err != nil {
			return fmt.Errorf("create projections_registry: %w", err)
		}
		return note(tx)
	})
}

// checkLog returns a *eventlog.LossError if the log does not contain the events that projections_registry remembers.
// Nothing is folded then: the read models are evidence, and an operator decides what to do.
func (r *Runner) checkLog(ctx context.Context) error {
	records, err := r.generations(ctx)
	if err != nil {
		return err
	}
	losses, err := foldedLogOf(records).Losses(ctx, eventlog.Probe(r.log))
	if err != nil {
		return err
	}
	if len(losses) > 0 {
		losses[0].Shared = r.store.Shared()
		return losses[0]
	}
	return nil
}

// mark records which log is folded, and an event of the batch that was just folded. The caller holds step. If it fails,
// a later batch does it.
func (r *Runner) mark(ctx context.Context, b batch) {
	now := r.cfg.Now()
	if len(b.events) == 0 || r.identified && now.Sub(r.marked).Abs() < markEvery {
		return
	}
	err := r.noteFirst(ctx)
	if err == nil {
		last := eventlog.MarkOf(b.events[len(b.events)-1].Recorded)
		err = r.store.Write(ctx, func(tx *sqlstore.Tx) error { return noteLast(ctx, tx, last) })
	}
	if err != nil {
		if ctx.Err() == nil {
			r.cfg.Logger.WarnContext(ctx, "marks of the event log could not be recorded; the next batch will retry",
				slog.Any("error", err))
		}
		return
	}
	r.marked = now
}

// noteFirst records the first event of the log once there is one. The caller holds step, or nothing runs yet.
func (r *Runner) noteFirst(ctx context.Context) error {
	if r.identified {
		return nil
	}
	first, found, err := eventlog.Probe(r.log).First(ctx)
	if err != nil || !found {
		return err
	}
	err = r.store.Write(ctx, func(tx *sqlstore.Tx) error { return noteFirst(ctx, tx, eventlog.MarkOf(&first)) })
	r.identified = err == nil
	return err
}

func noteFirst(ctx context.Context, tx *sqlstore.Tx, m eventlog.Mark) error {
	return note(ctx, tx, m, firstName, m.ID.String(), `ON CONFLICT (name, generation) DO NOTHING`)
}

func noteLast(ctx context.Context, tx *sqlstore.Tx, m eventlog.Mark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return note(ctx, tx, m, lastName, string(text), replaceRecord+` WHERE projections_registry.position < excluded.position`)
}

func note(ctx context.Context, tx *sqlstore.Tx, m eventlog.Mark, name, text, conflict string) error {
	if m.Position > math.MaxInt64 {
		return fmt.Errorf("record an event of the log: position %d exceeds the range of the database", m.Position)
	}
	if err := tx.CheckLogID(ctx); err != nil {
		return fmt.Errorf("record an event of the log: %w", err)
	}
	err := insertRecord(ctx, tx, record{name: name, state: stateMark, position: m.Position, failure: text}, conflict)
	return sqlstore.Wrap(err, "record an event of the log")
}

// Forget drops all read models and what projections_registry remembers of their log, also for other releases.
// The next Runner that folds builds them again. No Runner may use the database meanwhile.
func Forget(ctx context.Context, store *sqlstore.Store, tx *sqlstore.Tx) error {
	if _, err := tx.ExecContext(ctx, store.DDL(createGenerations)); err != nil {
		return fmt.Errorf("create projections_registry: %w", err)
	}
	records, err := readGenerations(ctx, tx)
	if err != nil {
		return err
	}
	for _, e := range records {
		if err := dropTables(ctx, tx, e); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM projections_registry")
	return sqlstore.Wrap(err, "forget the read models")
}
