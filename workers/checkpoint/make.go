// Package checkpoint makes checkpoints of the ledger, and proofs from them. docs/proofs.md and decision 26 describe
// both; package domain/proof has the trees and the format of a proof.
package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/note"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
)

// maxTurns limits the attempts to append. Others that make checkpoints at the same time take turns.
const maxTurns = 20

// ErrBusy: others made checkpoints all the time.
var ErrBusy = errors.New("others make checkpoints at the same time")

// Maker makes checkpoints.
type Maker struct {
	Ledger
	Encoder  eventschemas.Encoder
	Metadata eventlog.Metadata // of the events
	Now      func() time.Time
	// Key returns the key that signs checkpoints. Its name must be origin, unless that is empty.
	Key func(origin string) (note.Signer, error)
	// Accept is why an operator accepts that the log differs from what was signed; "" if none does.
	Accept string
}

// Make makes a checkpoint of all events that the log has now. Errors: as Ensure.
func (m *Maker) Make(ctx context.Context) (*Made, error) {
	before, err := readHistory(ctx, m.Log)
	if err != nil {
		return nil, err
	}
	// one that began before does not count
	return m.until(ctx, func(h *history) bool { return h.revisions() >= before.revisions()+2 })
}

// Ensure returns the last checkpoint. If there is none that began at a time or later, it makes one; for the zero time,
// any checkpoint will do. A checkpoint that was interrupted is continued, and one that is not kept outside the log is kept; if
// only that fails, the checkpoint is returned with the error.
//
// Errors: ErrBusy; ErrChanged, unless Accept is set; ErrLacks; eventschemas.ErrNotYet before an upgrade is finished;
// the errors of Key, Keeper, the log and the accounts.
func (m *Maker) Ensure(ctx context.Context, since time.Time) (*Made, error) {
	if now := m.Now().Truncate(time.Microsecond); now.Before(since) {
		since = now
	}
	last, err := m.until(ctx, func(h *history) bool { return h.last != nil && !h.last.Time.Before(since) })
	if err == nil {
		err = m.keepAgain(ctx, last)
	}
	return last, err
}

// until makes checkpoints until there is none that has only begun, and the history is enough.
func (m *Maker) until(ctx context.Context, enough func(*history) bool) (*Made, error) {
	for range maxTurns {
		h, err := readHistory(ctx, m.Log)
		if err != nil {
			return nil, err
		}
		if h.begun == nil && enough(h) {
			return h.last, nil
		}
		key, err := m.Key(h.origin())
		if err != nil {
			return nil, err
		}
		if h.begun != nil {
			err = m.complete(ctx, h, key)
		} else {
			err = m.begin(ctx, h)
		}
		if err != nil && !errors.Is(err, eventlog.ErrWrongRevision) {
			return nil, fmt.Errorf("make a checkpoint: %w", err)
		}
	}
	return nil, ErrBusy
}

// begin marks the events of the next checkpoint.
func (m *Maker) begin(ctx context.Context, h *history) error {
	at := m.Now()
	if h.last != nil && at.Before(h.last.Time) { // the clocks of nodes differ
		at = h.last.Time
	}
	return m.append(ctx, eventschemas.CheckpointsStream, h.revisions(), at, eventschemas.CheckpointBegun{})
}

// complete makes the tree of the checkpoint that has begun, and compares the log with what was signed last. All who do so
// make the same tree.
func (m *Maker) complete(ctx context.Context, h *history, key note.Signer) error {
	if err := m.CaughtUp(ctx); err != nil {
		return err
	}
	leaves, err := m.heads(ctx, h.begun.Position)
	if err != nil {
		return err
	}
	signed, err := m.signed(ctx)
	switch {
	case err != nil:
		return err
	case signed.revisions() != h.revisions():
		return eventlog.ErrWrongRevision
	}
	lacks := 0
	err = signed.compare(ctx, &m.Ledger, func(was proof.Account) bool {
		i, found := slices.BinarySearchFunc(leaves, was, byID)
		if !found {
			lacks++
		}
		return found && leaves[i] == was
	})
	if err == nil && lacks > 0 {
		err = fmt.Errorf("%d account(s): %w", lacks, ErrLacks)
	}
	if err := m.accept(ctx, signed, len(leaves), h.begun.Position, err); err != nil {
		return err
	}
	c := proof.Checkpoint{Time: h.begun.OccurredAt, Position: uint64(h.begun.Position), Accounts: uint64(len(leaves))}
	if _, c.Root, err = proof.AccountsTree(leaves); err != nil {
		return err
	}
	leaf, err := c.Leaf()
	if err != nil {
		return err
	}
	size := len(h.leaves)
	root, err := proof.Root(append(h.leaves[:size:size], proof.LeafHash(leaf)))
	if err != nil {
		return err
	}
	text, err := proof.Sign(key, uint64(size)+1, root)
	if err != nil {
		return err
	}
	if err := m.append(ctx, eventschemas.CheckpointsStream, h.revisions(), c.Time, eventschemas.LedgerCheckpointed{
		Accounts: c.Accounts, Root: hex.EncodeToString(c.Root[:]), Position: c.Position, Note: text}); err != nil {
		return err
	}
	// After a crash here, the next comparison uses the one that was kept before, and the root of this one.
	kept := &proof.Kept{Checkpoint: c, Leaves: leaves}
	if kept.Note, err = proof.ParseNote(text); err != nil {
		return err
	}
	if m.Accept != "" { // after an operator's decision, earlier ones must not count
		return m.keep(ctx, kept, keptFiles)
	}
	return m.keep(ctx, kept, 1)
}

// keep keeps a checkpoint outside the log, as so many files.
func (m *Maker) keep(ctx context.Context, kept *proof.Kept, files uint64) error {
	var file bytes.Buffer
	err := kept.Write(&file)
	for i := uint64(0); i < files && err == nil; i++ {
		err = m.Keeper.Keep(ctx, keptName(kept.Note.Size+i), file.Bytes())
	}
	if err != nil {
		return fmt.Errorf("checkpoint %d is signed, but could not be kept outside the log: %w", kept.Note.Size, err)
	}
	return nil
}

// keepAgain keeps the last checkpoint of the log if it is not kept, after the log was compared with what was signed.
func (m *Maker) keepAgain(ctx context.Context, last *Made) error {
	if _, err := m.kept(ctx, last.Note.Size, 0, last.Note.Text); err == nil {
		return nil
	}
	err := m.CaughtUp(ctx)
	if err == nil {
		_, err = m.Compare(ctx, false, nil) // leaves compares the root
	}
	if err != nil {
		return err
	}
	leaves, _, err := m.leaves(ctx, last)
	if err != nil {
		return err
	}
	return m.keep(ctx, &proof.Kept{Checkpoint: last.Checkpoint, Note: last.Note, Leaves: leaves}, 1)
}

func (m *Maker) append(ctx context.Context, stream string, revision uint64, at time.Time,
	event eventschemas.Event) error {
	proposed, err := commands.Proposal(m.Encoder, stream, strconv.FormatUint(revision, 10), event, at, m.Metadata)
	if err == nil {
		_, err = m.Log.Append(ctx, stream, eventlog.After(revision), []eventlog.Proposed{proposed})
	}
	return err
}

const (
	// MaxAge is the age of the last checkpoint from which a new one is made if accounts have new events.
	MaxAge = 24 * time.Hour
	// DefaultLook is the pause between two looks at the log.
	DefaultLook = time.Minute
	// lastLook is the longest pause after failures, which double it.
	lastLook = time.Hour
)

// Regular makes checkpoints while accounts have new events: one a day, and one after a month is closed. It also makes
// the first one. It is for one goroutine. If several nodes run it at once, they may make a checkpoint too many, which
// does no harm.
type Regular struct {
	Maker
	Look       time.Duration // DefaultLook when 0
	Logger     *slog.Logger
	Registerer prometheus.Registerer

	read eventlog.Position // no account has an event between the last checkpoint and this
	kept uint64            // revision of the last checkpoint that is kept outside the log
}

// Run makes each checkpoint that is due, until ctx ends. It retries after a failure.
func (r *Regular) Run(ctx context.Context) error {
	current := telemetry.Gauge("letterhead_checkpoint_current_timestamp_seconds",
		"When no checkpoint of the ledger was due, or when the one that was due was made. Absent while another node makes them.")
	current.Set(float64(r.Now().Unix()))
	changed := telemetry.Gauge("letterhead_checkpoint_changed",
		"1 if the last attempt to make a checkpoint found that the log has changed after it was signed.")
	failed := telemetry.Gauges("letterhead_witness_failed",
		"1 if the last attempt to give a witness the checkpoints of the ledger failed.", "witness")
	if err := telemetry.Register(r.Registerer, current, changed, failed); err != nil {
		return fmt.Errorf("register the metrics of checkpoints: %w", err)
	}
	defer telemetry.Unregister(r.Registerer, current, changed, failed)
	look := cmp.Or(r.Look, DefaultLook)
	for pause := look; ; {
		made, err := r.makeDue(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			pause = min(2*pause, max(look, lastLook))
			if errors.Is(err, ErrChanged) {
				changed.Set(1)
			}
			if errors.Is(err, eventschemas.ErrNotYet) { // until the upgrade is finished
				current.Set(float64(r.Now().Unix()))
			} else {
				r.Logger.Warn("a checkpoint of the ledger could not be made", "error", err, "again_in", pause)
			}
		default:
			pause = look
			current.Set(float64(r.Now().Unix()))
			changed.Set(0)
			if made != nil {
				r.Logger.Info("made a checkpoint of the ledger", "size", made.Note.Size, "accounts", made.Accounts)
			}
		}
		if !errors.Is(err, ErrChanged) { // witnesses must not get another history
			r.WriteAll(ctx, func(witness string, all bool) {
				gauge := failed.WithLabelValues(witness)
				if gauge.Set(1); all {
					gauge.Set(0)
				}
			})
		}
		if delay.For(ctx, pause) != nil {
			return nil
		}
	}
}

// makeDue makes a checkpoint if one is due, and otherwise returns nil.
func (r *Regular) makeDue(ctx context.Context) (*Made, error) {
	last, err := r.Log.ReadStream(ctx, eventschemas.CheckpointsStream, eventlog.End, eventlog.Backward, 2)
	if err != nil {
		return nil, err
	}
	// none, or one was interrupted
	if len(last) < 2 || last[0].Type != (eventschemas.LedgerCheckpointed{}).EventType() {
		return r.Ensure(ctx, time.Time{})
	}
	if r.kept != last[0].Revision {
		if _, err := r.Ensure(ctx, time.Time{}); err != nil {
			return nil, err
		}
		r.kept = last[0].Revision
	}
	begun := last[1].Position
	due := r.Now().Sub(last[0].OccurredAt) >= MaxAge
	if !due {
		due, err = r.closedAfter(ctx, begun)
	}
	if err == nil && due {
		due, err = r.usedAfter(ctx, begun)
	}
	if err != nil || !due {
		return nil, err
	}
	return r.Make(ctx)
}

// closedAfter reports whether a month was closed after a position.
func (r *Regular) closedAfter(ctx context.Context, position eventlog.Position) (bool, error) {
	// the next month may have ended since
	last, err := r.Log.ReadStream(ctx, eventschemas.BooksStream, eventlog.End, eventlog.Backward, 2)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(last, func(rec eventlog.Recorded) bool {
		return rec.Type == (eventschemas.PeriodClosed{}).EventType() && rec.Position > position
	}), nil
}

// usedAfter reports whether accounts have events after a position.
func (r *Regular) usedAfter(ctx context.Context, position eventlog.Position) (bool, error) {
	r.read = max(r.read, position)
	for {
		page, err := r.Log.ReadAll(ctx, r.read, eventlog.Filter{StreamPrefixes: []string{account.StreamPrefix}}, 1)
		if err != nil || len(page.Events) > 0 {
			return err == nil, err
		}
		r.read = page.Next
		if page.End {
			return false, nil
		}
	}
}
