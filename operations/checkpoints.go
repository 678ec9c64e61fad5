package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"letterhead/commands"
	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/download"
	"letterhead/internal/eventlog"
	"letterhead/projections/accounts"
	"letterhead/workers/checkpoint"
)

const (
	// maxServedEvents limits the events in a proof that is made for a request: some 120 MB, in seconds.
	maxServedEvents = 200_000
	// maxProofs limits the proofs that are made for requests at a time.
	maxProofs = 2
	// Pauses between attempts to make the first checkpoint; they double in between.
	firstCheckpointPause = time.Second
	lastCheckpointPause  = time.Minute
)

// ErrNoCheckpoint means that no checkpoint of the ledger can be made, for the reason that follows.
var ErrNoCheckpoint = errors.New("no checkpoint was made")

// Checkpoint is a checkpoint of the ledger.
type Checkpoint struct {
	proof.Checkpoint
	Note *proof.Note // signed
}

// CheckpointObject returns a checkpoint for JSON.
func CheckpointObject(n *proof.Note, c proof.Checkpoint) map[string]any {
	return map[string]any{"origin": n.Origin, "size": n.Size, "root": fmt.Sprintf("%x", n.Root), "time": c.Time,
		"position": c.Position, "accounts": c.Accounts, "accounts_root": fmt.Sprintf("%x", c.Root)}
}

// Object returns a checkpoint and its signed text for JSON.
func (c *Checkpoint) Object() map[string]any {
	return map[string]any{"checkpoint": CheckpointObject(c.Note, c.Checkpoint), "note": c.Note.Text}
}

// Checkpoints are the use cases of checkpoints of the ledger and of proofs by them.
type Checkpoints struct {
	Reads    *Reads
	Log      eventlog.Log
	Accounts *accounts.Model
	Keys     *LedgerKeys
	Format   func() int // in which events are written
	// Background starts work that continues until the context ends.
	Background func(work func(context.Context))
	Now        func() time.Time
	Logger     *slog.Logger

	tree      checkpoint.Tree
	treeReads singleflight.Group // read tree
	proofs    atomic.Int32       // that are being made
}

// Proofs returns what makes proofs of the ledger. progress, which may be nil, is called with the number of accounts
// read.
func (o *Checkpoints) Proofs(progress func(accounts uint64)) *checkpoint.Ledger {
	return &checkpoint.Ledger{Log: o.Log, Accounts: o.Accounts, Progress: progress,
		CaughtUp: func(ctx context.Context) error { return o.Reads.FoldedTo(ctx, accounts.Name) }}
}

// Prove makes a file with a proof of an account's month at the last checkpoint. The tree of that checkpoint is read
// once, for all requests, also if ctx ends meanwhile. Errors: commands.ErrBusy if many proofs are being made, the
// errors of checkpoint.Ledger.Prove, ctx.Err().
func (o *Checkpoints) Prove(ctx context.Context, accountID string, month time.Time) (*download.File, error) {
	ledger := o.Proofs(nil)
	ledger.Tree = &o.tree
	read := make(chan error, 1)
	o.Background(func(ctx context.Context) {
		_, err, _ := o.treeReads.Do("", func() (any, error) {
			if err := ledger.CaughtUp(ctx); err != nil {
				return nil, err
			}
			return nil, ledger.ReadTree(ctx)
		})
		read <- err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-read:
		if err != nil {
			return nil, err
		}
	}
	if o.proofs.Add(1) > maxProofs {
		o.proofs.Add(-1)
		return nil, fmt.Errorf("%d proofs are being made: %w", maxProofs, commands.ErrBusy)
	}
	defer o.proofs.Add(-1)
	file, err := download.Make(func(w io.Writer) error {
		return ledger.Prove(ctx, checkpoint.Options{AccountID: accountID, Month: month, MaxEvents: maxServedEvents}, w)
	})
	if errors.Is(err, checkpoint.ErrTooManyEvents) {
		err = fmt.Errorf("%w; \"letterhead ledger prove\" has no limit", err)
	}
	return file, err
}

// Make makes a checkpoint, unless since is not zero and there is one from that time on. It returns ErrNoCheckpoint if
// there is no key to sign it, and otherwise the errors of checkpoint.Maker, with commands.ErrBusy.
func (o *Checkpoints) Make(ctx context.Context, by commands.Request, since time.Time) (Checkpoint, error) {
	maker := o.Maker(eventlog.Metadata{RequestID: by.ID, Actor: by.Actor})
	var made *checkpoint.Made
	var err error
	if since.IsZero() {
		made, err = maker.Make(ctx)
	} else {
		made, err = maker.Ensure(ctx, since)
	}
	switch {
	case err == nil:
		return Checkpoint{Checkpoint: made.Checkpoint, Note: made.Note}, nil
	case errors.Is(err, checkpoint.ErrBusy):
		return Checkpoint{}, fmt.Errorf("%w: %w", commands.ErrBusy, err)
	}
	for _, known := range keyFaults {
		if errors.Is(err, known) {
			return Checkpoint{}, fmt.Errorf("%w: %w", ErrNoCheckpoint, err)
		}
	}
	return Checkpoint{}, err
}

// Maker returns what makes checkpoints with metadata.
func (o *Checkpoints) Maker(by eventlog.Metadata) *checkpoint.Maker {
	return &checkpoint.Maker{
		Ledger: *o.Proofs(nil), Encoder: eventschemas.NewEncoder(o.Format), Metadata: by, Now: o.Now, Key: o.Keys.Key,
	}
}

// First makes a checkpoint if there is none. It retries until there is one, ctx ends or the key is missing. Errors:
// ErrNoLedgerKey, errLostLedgerKey, ctx.Err().
func (o *Checkpoints) First(ctx context.Context, maker *checkpoint.Maker) error {
	for pause := firstCheckpointPause; ; pause = min(2*pause, lastCheckpointPause) {
		_, err := maker.Ensure(ctx, time.Time{})
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrNoLedgerKey) || errors.Is(err, errLostLedgerKey) {
			o.Logger.Warn("the ledger has no checkpoints", "error", err)
			return err
		}
		if ctx.Err() == nil && !errors.Is(err, eventschemas.ErrNotYet) {
			o.Logger.Warn("the first checkpoint of the ledger could not be made", "error", err, "again_in", pause)
		}
		if err := delay.For(ctx, pause); err != nil {
			return err
		}
	}
}

// RotateKey makes a new key in the data folder, with the name of the log of checkpoints, and returns its public key.
// Earlier public keys are kept. The old key may be missing.
func (o *Checkpoints) RotateKey(ctx context.Context) (string, error) {
	if o.Keys.Config.LedgerKey != "" || o.Keys.Config.Shared() {
		return "", UsageError{Err: errors.New(`the key that signs checkpoints is the setting LETTERHEAD_LEDGER_KEY; print a new one of the same name with "letterhead ledger key --new NAME", and set it on all nodes`)}
	}
	origin, err := o.Proofs(nil).Origin(ctx)
	if err != nil {
		return "", err
	}
	return o.Keys.rotate(origin)
}
