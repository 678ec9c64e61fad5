package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// Errors of an upgrade.
var (
	// ErrSkippedRelease: the data is older than what the release before this one writes.
	ErrSkippedRelease = errors.New("a release between was left out")
	// ErrNotFolded: no node of this release folds, so the tables of its versions are not built.
	ErrNotFolded = errors.New("no node of this release folds the read models")
)

const (
	// formatName is the row of the registry that says which data format is in force (fold_version), and which one an
	// operator asks for (position; 0 for none) until when (failure, in RFC 3339). No read model can have the name, and
	// releases that do not know the row pass over it.
	formatName = "@format"
	// stateFormat is the state of that row.
	stateFormat = "format"
	// firstFormat is the data format of releases that did not note it.
	firstFormat = 1
	// finishPatience is how long FinishUpgrade waits while nothing moves: several times what a leader needs to see
	// the request, and to take over from one that has just died.
	finishPatience = 30 * time.Second
	// askLease is how long a request to finish holds after its last renewal. A command that was killed cannot withdraw
	// its request, and no node may finish the upgrade much later because of it. Clocks of nodes may differ by seconds.
	askLease = 10 * time.Second
	// renewAsk is the time between two renewals.
	renewAsk = askLease / 4
)

// formatOf returns the data format in force; 0: the registry does not say.
func formatOf(entries []entry) int {
	if e := formatEntry(entries); e != nil {
		return e.version
	}
	return 0
}

// askedFormat returns the data format that an operator asks for now, or 0.
func askedFormat(entries []entry, now time.Time) int {
	e := formatEntry(entries)
	if e == nil {
		return 0
	}
	until, err := time.Parse(time.RFC3339Nano, e.failure)
	if err != nil || now.After(until) {
		return 0
	}
	return int(e.position)
}

func formatEntry(entries []entry) *entry {
	for i := range entries {
		if entries[i].name == formatName {
			return &entries[i]
		}
	}
	return nil
}

// ReadFormat returns the data format in force on a database that nodes share, as a node that starts would find it.
// Errors: sqlstore.ErrUnavailable, ctx.Err().
func ReadFormat(ctx context.Context, store *sqlstore.Store) (int, error) {
	entries, err := readRegistry(ctx, store.Read())
	if err != nil && !sqlstore.IsUndefinedTable(err) { // the table is not there yet
		return 0, sqlstore.Classify(err)
	}
	switch inForce := formatOf(entries); {
	case inForce != 0:
		return inForce, nil
	case len(entries) > 0:
		return firstFormat, nil
	}
	return eventschemas.Format, nil // nothing was ever folded
}

// Format is the data format in force: that of this release, or the one before while an upgrade is not finished.
func (r *Runner) Format() int { return int(r.format.Load()) }

// target is the version that readers get while the data format is the one in force.
func (r *Runner) target(m *model) *projections.Version {
	for i := range m.versions {
		if m.versions[i].Format <= r.Format() {
			return &m.versions[i]
		}
	}
	return &m.versions[len(m.versions)-1]
}

// isNew reports whether a read model is new in this release and the format before is in force: a node of the release
// before, while it folds, leaves it alone, so nothing may depend on it yet.
func (r *Runner) isNew(m *model) bool { return m.versions[len(m.versions)-1].Format > r.Format() }

// agree learns which data format is in force on a shared database, and notes it the first time: that of this release
// where nothing was folded yet, else the first. A process that works alone puts Config.InForce in force.
func (r *Runner) agree(ctx context.Context, entries []entry) error {
	inForce := formatOf(entries)
	if inForce != 0 && inForce >= r.cfg.InForce {
		return r.adoptFormat(inForce)
	}
	err := r.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		entries, err := readRegistry(ctx, tx)
		if err != nil {
			return err
		}
		before := formatOf(entries)
		if inForce = max(before, r.cfg.InForce); before == 0 {
			switch {
			case inForce != 0:
			case slices.ContainsFunc(entries, func(e entry) bool { return r.model(e.name) != nil }):
				inForce = firstFormat
			default:
				inForce = r.cfg.Format
			}
			return insertEntry(ctx, tx, entry{name: formatName, version: inForce, state: stateFormat})
		}
		_, err = tx.ExecContext(ctx, "UPDATE projections_registry SET fold_version = $1, position = 0, failure = '' WHERE name = $2", inForce, formatName)
		return err
	})
	if err != nil {
		return fmt.Errorf("note the data format: %w", err)
	}
	return r.adoptFormat(inForce)
}

// adoptFormat goes on with the data format in force. Errors: ErrNewerRelease, ErrSkippedRelease.
func (r *Runner) adoptFormat(inForce int) error {
	switch own := r.cfg.Format; {
	case inForce > own:
		return fmt.Errorf("%w: the upgrade to data format %d is finished, and this release reads nothing newer than format %d. "+
			"Run the newer release; the state before the upgrade comes back only from a backup", projections.ErrNewerRelease, inForce, own)
	case inForce < own-1:
		return fmt.Errorf("%w: the data has format %d, and this release goes on from format %d. Upgrade to the release before "+
			"this one first and finish that upgrade (letterhead upgrade finish)", ErrSkippedRelease, inForce, own-1)
	}
	if before := r.format.Swap(int64(inForce)); before != int64(inForce) {
		r.cfg.Logger.Info("data format in force", slog.Int("format", inForce), slog.Int("release", r.cfg.Format))
	}
	return nil
}

// nextUnits are the generations of this release's versions beside live ones of the version before. The caller holds
// step, or nothing runs yet.
func (r *Runner) nextUnits() []*generation {
	var units []*generation
	for _, m := range r.models {
		if m.next != nil {
			units = append(units, m.next)
		}
	}
	return units
}

// catchUpNext folds next generations until they are level and then along with the live ones. What fails is tried again,
// with growing pauses: nobody reads them yet.
func (r *Runner) catchUpNext(ctx context.Context, units []*generation) {
	pause := r.cfg.backoff()
	for len(units) > 0 {
		c := &chaser{r: r, units: slices.Clone(units)}
		err := c.run(ctx,
			func(ctx context.Context) error { return r.index(ctx, c.units) },
			func(ctx context.Context) error {
				// All or none: after an error all of them are caught up again.
				if err := r.clearFailures(ctx, c.units); err != nil {
					return err
				}
				for _, g := range c.units {
					r.main = append(r.main, g)
					r.cfg.Logger.InfoContext(ctx, "tables of this release's version are folded beside the live ones",
						slog.String("projection", g.model.name), slog.Int("version", g.version.Number))
				}
				return nil
			})
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errDeposed):
			r.depose()
			return
		case err == nil:
			units = nil
		}
		for g, cause := range c.failed {
			if err == nil {
				units = append(units, g)
			}
			r.nextFailed(ctx, g, cause)
		}
		if err != nil {
			r.cfg.Logger.ErrorContext(ctx, "tables of this release's versions could not be built and will be tried again", slog.Any("error", err))
		}
		if len(units) > 0 && delay.For(ctx, pause.pause()) != nil {
			return
		}
	}
}

// clearFailures forgets why next generations stood still.
func (r *Runner) clearFailures(ctx context.Context, units []*generation) error {
	return r.store.Write(ctx, func(tx *sqlstore.Tx) error {
		for _, g := range units {
			if err := setFailure(ctx, tx, g, ""); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *Runner) nextFailed(ctx context.Context, g *generation, cause error) {
	r.cfg.Logger.ErrorContext(ctx, "tables of this release's version stand still and will be tried again", slog.String("projection", g.model.name),
		slog.Int("version", g.version.Number), slog.Uint64("position", uint64(g.position())), slog.Any("error", cause))
	r.storeFailure(ctx, g, failureText(cause))
}

// finishIfAsked makes the tables of this release's versions live, and its data format the one in force, in one
// transaction, when an operator asked for it and all of them are level. The caller holds step and leads.
func (r *Runner) finishIfAsked(ctx context.Context, entries []entry) error {
	if r.Format() == r.cfg.Format || askedFormat(entries, r.cfg.Now()) != r.cfg.Format {
		return nil
	}
	units := r.nextUnits()
	for _, m := range r.models {
		m.mu.Lock()
		busy := m.busy || m.building != nil || m.live == nil
		m.mu.Unlock()
		if busy || m.next != nil && !slices.Contains(r.main, m.next) {
			return nil // the next look tries again
		}
	}
	err := r.swap(ctx, units, func(tx *sqlstore.Tx) error {
		return one(tx.ExecContext(ctx, `
UPDATE projections_registry SET fold_version = $1, position = 0, failure = '' WHERE name = $2 AND fold_version = $3 AND position = $1`,
			r.cfg.Format, formatName, r.Format()))
	})
	if err != nil {
		return fmt.Errorf("finish the upgrade: %w", err)
	}
	for _, m := range r.models {
		m.next = nil
	}
	return r.adoptFormat(r.cfg.Format)
}

// FinishUpgrade makes the data format of this release the one in force, on all nodes, as soon as the tables of its
// versions are level with the live ones: from then on readers get these, and nodes write the new versions of events.
// Nodes of the release before stop, and cannot be started again. When ctx ends first, or nothing moves for half a
// minute, the request is withdrawn and nothing has changed. If the process is killed meanwhile, the request ends within
// askLease. Repeating it does nothing. The progress may be nil.
//
// Errors: ErrNotStarted, ErrNewerRelease, ErrNotFolded, sqlstore.ErrUnavailable, ctx.Err().
func (r *Runner) FinishUpgrade(ctx context.Context, progress func(Progress)) (err error) {
	if !r.started.Load() {
		return ErrNotStarted
	}
	if err := r.refresh(ctx); err != nil {
		return fmt.Errorf("finish the upgrade: %w", err)
	}
	if r.Format() == r.cfg.Format {
		return nil
	}
	asked := r.cfg.Now()
	if err := r.askFormat(ctx, r.cfg.Format, asked.Add(askLease)); err != nil {
		return err
	}
	r.wake() // it may be this node that folds
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
			defer cancel()
			err = errors.Join(err, r.askFormat(ctx, 0, time.Time{}))
		}
	}()
	moved, at := r.cfg.Now(), eventlog.Position(0)
	for {
		entries, err := readRegistry(ctx, r.store.Read())
		if err != nil {
			return fmt.Errorf("finish the upgrade: %w", sqlstore.Classify(err))
		}
		inForce := formatOf(entries)
		if inForce >= r.cfg.Format {
			return r.refresh(ctx)
		}
		p, failure := r.nextProgress(entries)
		if progress != nil {
			progress(p)
		}
		if now := r.cfg.Now(); p.Position != at {
			moved, at = now, p.Position
		} else if now.Sub(moved) > finishPatience {
			return fmt.Errorf("finish the upgrade: %w: nothing moved for %s%s", ErrNotFolded, finishPatience, failure)
		}
		if err := delay.For(ctx, pollPause); err != nil {
			return fmt.Errorf("finish the upgrade: %w", err)
		}
		if now := r.cfg.Now(); now.Sub(asked) >= renewAsk {
			asked = now
			if err := r.askFormat(ctx, r.cfg.Format, asked.Add(askLease)); err != nil {
				return err
			}
		}
	}
}

// nextProgress is where the hindmost of the tables of this release's versions stands, and why it does not move, if
// that is known.
func (r *Runner) nextProgress(entries []entry) (p Progress, failure string) {
	first := true
	for _, m := range r.models {
		for _, e := range entries {
			if e.name != m.name {
				continue
			}
			switch {
			case e.state == stateLive:
				p.Target = max(p.Target, e.position)
			case e.state == stateNext && e.version == m.current().Number && (first || e.position < p.Position):
				p.Position, first = e.position, false
				if e.failure != "" {
					failure = fmt.Sprintf("; %s: %s", e.name, e.failure)
				}
			}
		}
	}
	return p, failure
}

// askFormat notes which data format is asked for and until when; 0 withdraws the request.
func (r *Runner) askFormat(ctx context.Context, format int, until time.Time) error {
	lease := ""
	if format != 0 {
		lease = until.UTC().Format(time.RFC3339Nano)
	}
	err := r.store.Write(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE projections_registry SET position = $1, failure = $2 WHERE name = $3 AND fold_version = $4",
			format, lease, formatName, r.cfg.Format-1)
		return err
	})
	if err != nil {
		return fmt.Errorf("ask for data format %d: %w", format, err)
	}
	return nil
}

// Upgrade says how far the upgrade to this release is.
type Upgrade struct {
	// Format is the data format in force, Release that of this release. They are equal when the upgrade is finished.
	Format  int `json:"format"`
	Release int `json:"release"`
	// Asked reports whether an operator waits for the end of the upgrade now.
	Asked bool `json:"asked"`
	// Models are the read models whose version this release raised, by name.
	Models []Raised `json:"models"`
}

// Finished reports whether this release's data format is in force.
func (u Upgrade) Finished() bool { return u.Format == u.Release }

// Level reports whether the tables of all raised versions are built and stand where the live ones do.
func (u Upgrade) Level() bool {
	return !slices.ContainsFunc(u.Models, func(m Raised) bool { return m.Lag > 0 || m.Position == 0 || m.Error != "" })
}

// Raised is a read model with a version that is not live yet.
type Raised struct {
	Name string `json:"name"`
	// Live and Next are the versions that readers get now, and after the upgrade.
	Live int `json:"live"`
	Next int `json:"next"`
	// Position is how far the next version's tables are folded, 0 while there are none; Lag how many positions they
	// are behind the live ones.
	Position eventlog.Position `json:"position"`
	Lag      uint64            `json:"lag"`
	Error    string            `json:"error,omitempty"`
}

// Upgrade reads how far the upgrade to this release is. Errors: ErrNotStarted, sqlstore.ErrUnavailable, ctx.Err().
func (r *Runner) Upgrade(ctx context.Context) (Upgrade, error) {
	if !r.started.Load() {
		return Upgrade{}, ErrNotStarted
	}
	u := Upgrade{Format: r.Format(), Release: r.cfg.Format, Models: []Raised{}}
	if !r.shared {
		return u, nil
	}
	entries, err := readRegistry(ctx, r.store.Read())
	if err != nil {
		return u, sqlstore.Classify(err)
	}
	u.Format, u.Asked = formatOf(entries), askedFormat(entries, r.cfg.Now()) == u.Release
	for _, m := range r.models {
		live := liveEntry(entries, m.name)
		if live == nil || live.version >= m.current().Number {
			continue
		}
		raised := Raised{Name: m.name, Live: live.version, Next: m.current().Number, Lag: uint64(live.position)}
		for _, e := range entries {
			if e.name == m.name && e.state == stateNext && e.version == raised.Next {
				raised.Position, raised.Lag, raised.Error = e.position, lag(e.position, live.position), e.failure
			}
		}
		u.Models = append(u.Models, raised)
	}
	slices.SortFunc(u.Models, func(a, b Raised) int { return strings.Compare(a.Name, b.Name) })
	return u, nil
}
