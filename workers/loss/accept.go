package loss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/text"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections/engine"
)

// appendPause is the pause before repeating an append whose outcome is unknown.
const appendPause = 200 * time.Millisecond

// Acceptance is a loss that an operator accepts. It continues where an interrupted one ended.
type Acceptance struct {
	store *sqlstore.Store
	state *pending
	fresh bool // nothing is written yet
}

// Accepting configures an acceptance.
type Accepting struct {
	Actor, Reason string // Reason may be empty
	Now           time.Time
	// Done are the checkpoints of relays that must not repeat the work of another log.
	Done []string
	// ForgetSearch empties the search index; it may run more than once. nil: there is none.
	ForgetSearch func(ctx context.Context) error
}

// Accepted is the result of an acceptance.
type Accepted struct {
	Witnesses []eventschemas.LossWitness `json:"witnesses"`
	Head      eventlog.Position          `json:"head"`     // of the log before the acceptance
	Position  eventlog.Position          `json:"position"` // of the event that records it
	EventID   uuid.UUID                  `json:"event_id"`
}

// Prepare finds an acceptance that was interrupted, or begins one for the given losses in memory;
// nothing is written. It returns nil if there is nothing to accept. Errors: *UnfinishedError of a
// restore or a migration, *text.EmailError of the reason of a new one, the errors of the database, ctx.Err().
func Prepare(ctx context.Context, store *sqlstore.Store, by Accepting,
	losses []*eventlog.LossError) (*Acceptance, error) {
	p, err := readPending(ctx, store)
	if err != nil {
		return nil, err
	}
	if err := p.blocks(acceptWork); err != nil {
		return nil, err
	}
	a := &Acceptance{store: store, state: p}
	if p == nil {
		if len(losses) == 0 {
			return nil, nil
		}
		if err := text.CheckKept("reason", by.Reason); err != nil {
			return nil, err
		}
		a.fresh = true
		a.state = &pending{Work: acceptWork, Since: by.Now, ID: uuid.New(), Actor: by.Actor, Reason: by.Reason}
	}
	a.add(losses)
	return a, nil
}

// Witnesses returns the known witnesses that remember more than the log contains.
func (a *Acceptance) Witnesses() []eventschemas.LossWitness { return a.state.Losses }

// add adds losses of witnesses that are not yet known.
func (a *Acceptance) add(losses []*eventlog.LossError) {
	known := map[string]bool{}
	for _, w := range a.state.Losses {
		known[w.Name] = true
	}
	for _, l := range losses {
		a.state.Other = a.state.Other || l.Other
		if !known[l.Witness] {
			a.state.Losses = append(a.state.Losses,
				eventschemas.LossWitness{Name: l.Witness, Remembered: uint64(l.Remembered), Detail: l.Detail})
		}
	}
}

// Begin records that the loss is being accepted. From then on Verify fails until Finish has returned.
// Errors: as the database, ctx.Err().
func (a *Acceptance) Begin(ctx context.Context) error {
	return a.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error { return writePending(ctx, a.store, tx, a.state) })
}

// Withdraw reverts Begin if this run began the acceptance: it is for a log that has not changed since,
// which shows the loss itself. Errors: as the database, ctx.Err().
func (a *Acceptance) Withdraw(ctx context.Context) error {
	if !a.fresh {
		return nil // an earlier run may have changed the log
	}
	return a.end(ctx)
}

func (a *Acceptance) end(ctx context.Context) error {
	return a.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error { return endPending(ctx, a.store, tx) })
}

// Moot ends an acceptance that was interrupted before it changed anything, if the log again contains
// everything that was missing, and reports whether it did.
//
// Errors: as the log and of the database, ctx.Err().
func (a *Acceptance) Moot(ctx context.Context, log eventlog.Log) (bool, error) {
	if a.fresh || a.state.Other {
		return false, nil
	}
	last, err := log.ReadStream(ctx, eventschemas.LogStream, eventlog.End, eventlog.Backward, 1)
	if err != nil || len(last) > 0 && last[0].ID == a.eventID() {
		return false, err
	}
	head, err := log.Head(ctx)
	if err != nil {
		return false, err
	}
	for _, w := range a.state.Losses {
		if w.Remembered == 0 || eventlog.Position(w.Remembered) > head { // 0: could not be read
			return false, nil
		}
	}
	return true, a.end(ctx)
}

func (a *Acceptance) eventID() uuid.UUID {
	return eventschemas.EventID(eventschemas.LogStream, a.state.ID.String(),
		eventschemas.LossAccepted{}.EventType(), "")
}

// Finish records the loss as an event and discards the data about the missing events: the read models,
// snapshots past the end of their stream, checkpoints past the head, the search index; for another log
// everything. The log may have been opened by cutting off an unreadable part.
//
// Errors: as the log and of the database, ctx.Err(). Prepare, Begin and Finish then continue where they ended.
func (a *Acceptance) Finish(ctx context.Context, log eventlog.Log, by Accepting) (out Accepted, err error) {
	probe := eventlog.Probe(log)
	losses, err := Survey(ctx, a.store, probe)
	if err != nil {
		return out, err
	}
	a.add(losses)
	if err := a.Begin(ctx); err != nil {
		return out, err
	}
	if out, err = a.record(ctx, log); err != nil {
		return out, err
	}
	snapshots, err := readSnapshots(ctx, a.store, math.MaxInt32)
	if err != nil {
		return out, err
	}
	lost, err := lostSnapshots(ctx, probe, snapshots)
	if err != nil {
		return out, err
	}
	if by.ForgetSearch != nil {
		if err := by.ForgetSearch(ctx); err != nil {
			return out, fmt.Errorf("empty the search index: %w", err)
		}
	}
	end, err := probe.End(ctx)
	if err != nil {
		return out, err
	}
	err = a.store.ReplaceLog(ctx, out.EventID.String(), func(tx *sqlstore.Tx) error {
		if err := engine.Forget(ctx, a.store, tx); err != nil {
			return err
		}
		if a.state.Other {
			if err := forget(ctx, tx, allSnapshots); err != nil {
				return err
			}
			if err := setPositions(ctx, tx, by.Done, out.Position); err != nil {
				return err
			}
		}
		if err := forgetSnapshots(ctx, tx, maps.Keys(lost)); err != nil {
			return err
		}
		if err := resetPositions(ctx, tx, end); err != nil {
			return err
		}
		return endPending(ctx, a.store, tx)
	})
	return out, err
}

// record appends the event, unless an interrupted acceptance has already done so.
func (a *Acceptance) record(ctx context.Context, log eventlog.Log) (out Accepted, err error) {
	out = Accepted{Witnesses: a.state.Losses, EventID: a.eventID()}
	last, err := log.ReadStream(ctx, eventschemas.LogStream, eventlog.End, eventlog.Backward, 1)
	if err != nil {
		return out, err
	}
	end, found, err := eventlog.Probe(log).Last(ctx)
	if err != nil {
		return out, err
	}
	out.Head = end.Position
	next := uint64(0)
	if len(last) > 0 {
		if last[0].ID == out.EventID {
			event, err := eventschemas.Decode(last[0].Type, last[0].SchemaVersion, last[0].Data)
			if recorded, ok := event.(eventschemas.LossAccepted); ok && err == nil {
				out.Head, out.Witnesses = eventlog.Position(recorded.Head), recorded.Witnesses
			}
			out.Position = last[0].Position
			return out, err
		}
		next = last[0].Revision + 1
	}
	event := eventschemas.LossAccepted{Head: uint64(out.Head), Witnesses: a.state.Losses, Reason: a.state.Reason}
	event.Reason = cmp.Or(event.Reason, "no reason was given")
	if found {
		event.LastEventID = end.ID.String()
	}
	encoded, err := eventschemas.Encode(event)
	if err != nil {
		return out, err
	}
	proposed := []eventlog.Proposed{{
		ID: out.EventID, Type: encoded.Type, SchemaVersion: encoded.SchemaVersion, Data: encoded.Data,
		OccurredAt: a.state.Since.UTC().Truncate(time.Microsecond),
		Metadata:   eventlog.Metadata{RequestID: a.state.ID.String(), Actor: a.state.Actor},
	}}
	for {
		appended, err := log.Append(ctx, eventschemas.LogStream, eventlog.After(next), proposed)
		if err == nil {
			out.Position = appended.Position
			return out, nil
		}
		if !errors.Is(err, eventlog.ErrAmbiguous) || delay.For(ctx, appendPause) != nil {
			return out, fmt.Errorf("record the accepted loss: %w", err)
		}
	}
}

// Filling marks a database whose log is being written by a restore or a migration. Verify fails
// between Begin and End, so that no node serves an incomplete log.
type Filling struct {
	store *sqlstore.Store
	work  string
	now   func() time.Time
	// forgetSearch empties the search index.
	forgetSearch func(ctx context.Context) error
}

// NewFilling returns the Filling of a command: Restore or Migrate. forgetSearch empties the search
// index that belongs to the database; nil: there is none.
func NewFilling(store *sqlstore.Store, work string, now func() time.Time,
	forgetSearch func(context.Context) error) *Filling {
	return &Filling{store: store, work: work, now: now, forgetSearch: forgetSearch}
}

// Done reports whether the database knows which log it belongs to: no work on it is unfinished, and a relay or a worker
// has a position in it, which a restore leaves, too. Errors: as the database, ctx.Err().
func (f *Filling) Done(ctx context.Context) (bool, error) {
	p, err := readPending(ctx, f.store)
	if err != nil || p != nil {
		return false, err
	}
	positions, err := readPositions(ctx, f.store)
	return err == nil && len(positions) > 0, err
}

// Begin discards, in one transaction, the database's data about an earlier log: read models, snapshots
// and checkpoints. Beginning again, after an interruption, does the same. Errors: *UnfinishedError of
// another command, the errors of the database, ctx.Err().
func (f *Filling) Begin(ctx context.Context) error {
	p, err := readPending(ctx, f.store)
	if err != nil {
		return err
	}
	if err := p.blocks(f.work); err != nil {
		return err
	}
	err = f.store.ReplaceLog(ctx, uuid.NewString(), func(tx *sqlstore.Tx) error {
		if err := engine.Forget(ctx, f.store, tx); err != nil {
			return err
		}
		if err := forget(ctx, tx, allSnapshots); err != nil {
			return err
		}
		return writePending(ctx, f.store, tx, &pending{Work: f.work, Since: f.now()})
	})
	if err == nil && f.forgetSearch != nil {
		err = f.forgetSearch(ctx)
	}
	return err
}

// End lets nodes use the log. A node that has read an earlier one, and was not stopped, must forget what it knows, as
// after an acceptance (sqlstore.Store.CurrentLogID). Errors: as the database, ctx.Err().
func (f *Filling) End(ctx context.Context) error {
	return f.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error { return endPending(ctx, f.store, tx) })
}

// Renew prepares for the replacement of the log by another from which events are omitted on purpose.
// It discards the data that depends on positions: read models, checkpoints and the snapshots of
// streams other than accounts. The checkpoints in readers are kept, set to their positions in the new
// log. Afterwards the database fits both the old and the new log, so the replacement may be
// interrupted; accounts must have the same events in both. Call it while the log is not in use.
//
// Errors: as the database, ctx.Err(). Repeat an interrupted call.
func Renew(ctx context.Context, store *sqlstore.Store, readers map[string]eventlog.Position) error {
	return store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		errs := []error{engine.Forget(ctx, store, tx), forget(ctx, tx, notOfAccounts)}
		for name, at := range readers {
			errs = append(errs, setPositions(ctx, tx, []string{name}, at))
		}
		return errors.Join(errs...)
	})
}
