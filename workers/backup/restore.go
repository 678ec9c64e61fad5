package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/internal/assets"
	"letterhead/internal/eventlog"
)

// Positions records the positions of workers in a log.
type Positions interface {
	Reset(ctx context.Context, name string, position eventlog.Position) error // even to an earlier one
}

// Target is filled by a restore or a migration. Nothing else may use it until then.
type Target struct {
	Log    eventlog.Log
	Names  Names         // nil: names are omitted
	Assets *assets.Store // nil: assets are omitted
	// Positions and Done: under each of these names the end of the target is saved, or the position that corresponds to
	// the one in Source.Readers. They belong to workers that must not repeat old work: the relays of the crawl topics.
	Positions Positions
	Done      []string
	// Snapshots receives the state of accounts with long streams; nil: none is saved.
	Snapshots streamwriter.Snapshots
	// State, if it is not nil, prevents nodes from using the database of the target before the copy is complete.
	State State
}

// State is the knowledge of a target's database about its log; *loss.Filling.
type State interface {
	// Done reports whether the database belongs to the target's log: no work on it is unfinished, and
	// relays or workers have read it, or a restore has ended.
	Done(ctx context.Context) (bool, error)
	// Begin is called before the first event is written. It discards the database's data about an earlier log.
	Begin(ctx context.Context) error
	// End is called after everything is written and compared.
	End(ctx context.Context) error
}

func (t Target) begin(ctx context.Context) error {
	if t.State == nil {
		return nil
	}
	if err := t.State.Begin(ctx); err != nil {
		return fmt.Errorf("prepare the database of the target: %w", err)
	}
	return nil
}

// RestoreConfig configures a restore.
type RestoreConfig struct {
	Config
	// WithoutAssets omits all images; crawls fetch them again.
	WithoutAssets bool
	// WithoutNames omits all names; accounts and keys are then only known by their ids.
	WithoutNames bool
	// Erased are ids whose names are omitted, because they were erased after the backup.
	Erased map[string]bool
}

// Restored is the result of a restore.
type Restored struct {
	Events      uint64            `json:"events"`  // in the target
	Present     uint64            `json:"present"` // of these, restored by an earlier run
	Accounts    uint64            `json:"accounts"`
	ChainEvents uint64            `json:"chain_events"` // of accounts; every chain is valid
	Position    eventlog.Position `json:"position"`     // the target's head
	Names       uint64            `json:"names"`
	Assets      uint64            `json:"assets"`
	Missing     uint64            `json:"missing_assets"` // that were missing when the backup was made
	Snapshots   uint64            `json:"snapshots"`      // saved for accounts with long streams
}

// Inspect reads a finished backup's manifest. Errors: as Restore about the backup.
func Inspect(ctx context.Context, from string) (*Manifest, error) {
	at, err := openPlace(ctx, from, false)
	if err != nil {
		return nil, err
	}
	m, err := readManifest(ctx, at)
	return m, errors.Join(err, at.close())
}

// Restore fills an empty target from a backup, or continues to fill one. Before it opens the target, it
// reads and verifies the whole backup; before it writes anything, it compares the existing content of the
// target. If the target already holds the whole log, it only renews images and names.
//
// Errors: ErrNotBackup, ErrUnfinished, ErrNewer, ErrDamaged, ErrNotEmpty (nothing was written); ErrForeignWriter,
// ErrDiffers, *commands.ChainError, the errors of the target, ctx.Err() (run it again to continue).
func Restore(ctx context.Context, cfg RestoreConfig, from string,
	open func(context.Context, *Manifest) (Target, error)) (out Restored, err error) {
	cfg.Config = cfg.withDefaults()
	at, err := openPlace(ctx, from, false)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, at.close()) }()
	m, err := readManifest(ctx, at)
	if err != nil {
		return out, err
	}
	c, err := newCodec()
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	r := &restore{cfg: cfg, from: at, m: m, codec: c}
	if err := r.checkBackup(ctx); err != nil {
		return r.out, err
	}
	if r.to, err = open(ctx, m); err != nil {
		return r.out, err
	}
	r.copier = newCopier(cfg.Config, backupOrigin(at, c, m), r.to.Log)
	if err := r.checkTarget(ctx); err != nil {
		return r.out, err
	}
	// A service may be using a complete log, so its data is not discarded.
	done := r.to.State != nil && m.Events > 0 && r.out.Present == m.Events
	if done {
		if done, err = r.to.State.Done(ctx); err != nil {
			return r.out, fmt.Errorf("read what the database of the target knows: %w", err)
		}
	}
	if !done {
		if err := r.to.begin(ctx); err != nil {
			return r.out, err
		}
	}
	for _, step := range []func(context.Context) error{r.putAssets, r.putEvents, r.putNames} {
		if err := step(ctx); err != nil {
			return r.out, err
		}
	}
	if done {
		r.out.Position = r.copier.at
	} else if r.out.Position, err = finishTarget(ctx, cfg.Config, r.to, nil); err != nil {
		return r.out, err
	}
	r.out.Snapshots, err = leaveSnapshots(ctx, cfg.Config, r.to, r.copier.long)
	return r.out, err
}

type restore struct {
	cfg    RestoreConfig
	from   place
	m      *Manifest
	codec  *codec
	to     Target
	copier *copier
	out    Restored
}

// checkBackup reads everything that the manifest lists.
func (r *restore) checkBackup(ctx context.Context) error {
	var events uint64
	last := &EventRef{}
	readAssets := r.assetReader(func(assetRef, []byte) error { return nil })
	err := r.eachSegment(ctx, false, func(ctx context.Context, s *segment) error {
		events += uint64(len(s.events))
		if len(s.events) > 0 {
			ref := refTo(&s.events[len(s.events)-1])
			last = &ref
		}
		r.cfg.Progress(Progress{Stage: StageCheck, Done: events, Total: r.m.Events})
		if r.cfg.WithoutAssets {
			return nil
		}
		return readAssets(ctx, s)
	})
	if err != nil {
		return fmt.Errorf("check the backup: %w", err)
	}
	if r.m.Last != nil && *last != *r.m.Last {
		return fmt.Errorf("check the backup: %w: its last event differs from the one in the manifest", ErrDamaged)
	}
	for _, f := range r.m.Names {
		if _, err := readNames(ctx, r.from, r.codec, f); err != nil {
			return fmt.Errorf("check the backup: %w", err)
		}
	}
	return nil
}

// eachSegment calls do with the segments, or with those that refer to assets, one after the other.
func (r *restore) eachSegment(ctx context.Context, withAssets bool, do func(context.Context, *segment) error) error {
	for i := range r.m.Segments {
		if withAssets && r.m.Segments[i].Assets == 0 {
			continue
		}
		s, err := readSegment(ctx, r.from, r.codec, r.m, i)
		if err != nil {
			return err
		}
		if err := do(ctx, &s); err != nil {
			return err
		}
	}
	return nil
}

// checkTarget checks that the target is empty or was filled by an earlier run.
func (r *restore) checkTarget(ctx context.Context) error {
	if err := r.copier.compare(ctx, StageCheck); err != nil {
		return err
	}
	r.out.Present = r.copier.compared
	if r.out.Present > 0 || r.to.Names == nil {
		return nil
	}
	names, err := r.to.Names.Page(ctx, "", 1)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return fmt.Errorf("%w: its log is empty, but its database has names of account holders", ErrNotEmpty)
	}
	return nil
}

func (r *restore) putEvents(ctx context.Context) (err error) {
	if err := r.copier.appendRest(ctx); err != nil {
		return err
	}
	if r.copier.compared != r.m.Events {
		return fmt.Errorf("%w: it has %d events, but the backup has %d", ErrDiffers, r.copier.compared, r.m.Events)
	}
	r.out.Events, r.out.Accounts = r.copier.compared, uint64(len(r.copier.accounts))
	r.out.ChainEvents, err = r.copier.verifiedChains()
	return err
}

func (r *restore) putNames(ctx context.Context) error {
	if r.to.Names == nil || r.cfg.WithoutNames {
		return nil
	}
	for _, f := range r.m.Names {
		names, err := readNames(ctx, r.from, r.codec, f)
		if err != nil {
			return err
		}
		kept := names[:0]
		for _, n := range names {
			if !r.cfg.Erased[n.ID] {
				kept = append(kept, n)
			}
		}
		for len(kept) > 0 {
			part := kept[:min(namesPage, len(kept))]
			kept = kept[len(part):]
			if err := retry(ctx, r.cfg.RetryAfter, func() error { return r.to.Names.PutAll(ctx, part) }); err != nil {
				return err
			}
			r.out.Names += uint64(len(part))
		}
		r.cfg.Progress(Progress{Stage: StageNames, Done: r.out.Names, Total: r.m.NameCount()})
	}
	return nil
}

// finishTarget saves the positions of completed work and returns the target's head. A name without a position
// has completed everything.
func finishTarget(ctx context.Context, cfg Config, to Target,
	at map[string]eventlog.Position) (head eventlog.Position, err error) {
	if head, err = headOf(ctx, to.Log, cfg.RetryAfter); err != nil {
		return 0, fmt.Errorf("read the target: %w", err)
	}
	if to.Positions != nil {
		for _, name := range to.Done {
			done, known := at[name]
			if !known {
				done = head
			}
			if err := retry(ctx, cfg.RetryAfter,
				func() error { return to.Positions.Reset(ctx, name, done) }); err != nil {
				return head, fmt.Errorf("save how far old work is done: %w", err)
			}
		}
	}
	if to.State == nil {
		return head, nil
	}
	if err := retry(ctx, cfg.RetryAfter, func() error { return to.State.End(ctx) }); err != nil {
		return head, fmt.Errorf("end the work on the database of the target: %w", err)
	}
	return head, nil
}

// leaveSnapshots saves a snapshot of each account with a long stream, so that its first request is answered
// quickly. It returns their number. Snapshots are disposable: a failure to save one is ignored, and the
// account is folded when it is used.
func leaveSnapshots(ctx context.Context, cfg Config, to Target, long []string) (saved uint64, err error) {
	if to.Snapshots == nil {
		return 0, nil
	}
	for i, stream := range long {
		err := commands.LeaveSnapshot(ctx, to.Log, to.Snapshots, strings.TrimPrefix(stream, account.StreamPrefix), nil)
		if ctx.Err() != nil {
			return saved, ctx.Err()
		}
		if err == nil {
			saved++
		}
		cfg.Progress(Progress{Stage: StageSnapshots, Done: uint64(i + 1), Total: uint64(len(long))})
	}
	return saved, nil
}
