package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// Errors of an upgrade.
var (
	// ErrSkippedRelease: the data is older than the format of the previous release.
	ErrSkippedRelease = errors.New("a release was skipped")
	// ErrNotFolded: no node of this release folds, so the tables of its versions are not built.
	ErrNotFolded = errors.New("no node of this release folds the read models")
)

const (
	// firstFormat is the data format of releases that did not record it.
	firstFormat = 1
	// finishTimeout is how long FinishUpgrade waits without progress: several times what a leader needs to see the
	// request, or to take over from one that has just died.
	finishTimeout = 30 * time.Second
	// requestLease is how long a request to finish is valid after its last renewal. A killed command cannot withdraw
	// its request, and no node may finish the upgrade much later because of it. Clocks of nodes may differ by seconds.
	requestLease = 10 * time.Second
	// renewRequest is the interval between two renewals.
	renewRequest = requestLease / 4
)

// ReadFormat returns the data format in force on a shared database, as a node that starts would find it: format, which
// is that of this release, if no read model was ever folded. Errors: sqlstore.ErrUnavailable, ctx.Err().
func ReadFormat(ctx context.Context, store *sqlstore.Store, format int) (int, error) {
	f, err := readFormat(ctx, store.Read())
	if f.inForce != 0 || err != nil && !sqlstore.IsUndefinedTable(err) {
		return f.inForce, sqlstore.Classify(err)
	}
	records, err := readGenerations(ctx, store.Read())
	if err != nil && !sqlstore.IsUndefinedTable(err) {
		return 0, sqlstore.Classify(err)
	}
	if len(records) > 0 {
		return firstFormat, nil
	}
	return format, nil
}

// Format returns the data format in force: that of this release, or the previous one until an upgrade is finished.
func (r *Runner) Format() int { return int(r.format.Load()) }

// target returns the version that readers get with the data format in force.
func (r *Runner) target(m *model) *projections.Version {
	for i := range m.versions {
		if m.versions[i].Format <= r.Format() {
			return &m.versions[i]
		}
	}
	return &m.versions[len(m.versions)-1]
}

// isNew reports whether a read model is new in this release while the previous format is in force. A leader of the
// previous release does not fold it, so nothing may depend on it yet.
func (r *Runner) isNew(m *model) bool { return m.versions[len(m.versions)-1].Format > r.Format() }

// agree finds the data format in force on a shared database. If none is recorded, it records that of this release if no
// read model was ever folded, else the first. A process that works alone puts Config.InForce in force.
func (r *Runner) agree(ctx context.Context) error {
	f, err := readFormat(ctx, r.store.Read())
	if err != nil && !sqlstore.IsUndefinedTable(err) {
		return sqlstore.Classify(err)
	}
	if f.inForce != 0 && f.inForce >= r.cfg.InForce {
		return r.adoptFormat(f.inForce)
	}
	err = r.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		if _, err := tx.ExecContext(ctx, r.store.DDL(createFormat)); err != nil {
			return err
		}
		if f, err = readFormat(ctx, tx); err != nil {
			return err
		}
		records, err := readGenerations(ctx, tx)
		if err != nil {
			return err
		}
		if f.inForce = max(f.inForce, r.cfg.InForce); f.inForce == 0 {
			f.inForce = r.cfg.Format
			if slices.ContainsFunc(records, func(e record) bool { return r.model(e.name) != nil }) {
				f.inForce = firstFormat
			}
		}
		return putInForce(ctx, tx, f.inForce)
	})
	if err != nil {
		return fmt.Errorf("record the data format: %w", err)
	}
	return r.adoptFormat(f.inForce)
}

// adoptFormat uses a data format that is in force. Errors: ErrNewerRelease, ErrSkippedRelease.
func (r *Runner) adoptFormat(inForce int) error {
	switch own := r.cfg.Format; {
	case inForce > own:
		return fmt.Errorf(
			"%w: the upgrade to data format %d is finished, and this release reads nothing newer than format %d. "+
				"Run the newer release; the state before the upgrade comes back only from a backup",
			projections.ErrNewerRelease, inForce, own)
	case inForce < own-1:
		return fmt.Errorf(
			"%w: the data has format %d, and this release can upgrade from format %d. Upgrade to the release before "+
				"this one first and finish that upgrade (letterhead upgrade finish)", ErrSkippedRelease, inForce, own-1)
	}
	if before := r.format.Swap(int64(inForce)); before != int64(inForce) {
		r.cfg.Logger.Info("data format in force", slog.Int("format", inForce), slog.Int("release", r.cfg.Format))
	}
	return nil
}

// nextUnits returns the generations of this release's versions next to live ones of the previous version. The caller
// holds step, or nothing runs yet.
func (r *Runner) nextUnits() []*generation {
	var units []*generation
	for _, m := range r.models {
		if m.next != nil {
			units = append(units, m.next)
		}
	}
	return units
}

// catchUpNext folds next generations until they reach the live loop, which then folds them. It retries failures with
// growing pauses, because the generations have no readers yet.
func (r *Runner) catchUpNext(ctx context.Context, units []*generation) {
	pause := r.cfg.backoff()
	for len(units) > 0 {
		c := &catchUp{r: r, units: slices.Clone(units)}
		err := c.run(ctx,
			func(ctx context.Context) error { return r.index(ctx, c.units) },
			func(ctx context.Context) error {
				// All or none: after an error all of them catch up again.
				if err := r.clearFailures(ctx, c.units); err != nil {
					return err
				}
				for _, g := range c.units {
					r.inLive = append(r.inLive, g)
					r.cfg.Logger.InfoContext(ctx, "tables of this release's version have caught up with the live ones",
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
			r.cfg.Logger.ErrorContext(ctx, "building tables of this release's versions failed; will retry",
				slog.Any("error", err))
		}
		if len(units) > 0 && delay.For(ctx, pause.pause()) != nil {
			return
		}
	}
}

// clearFailures clears the reasons why next generations were stopped.
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
	r.cfg.Logger.ErrorContext(ctx, "tables of this release's version are stopped; will retry",
		slog.String("projection", g.model.name),
		slog.Int("version", g.version.Number), slog.Uint64("position", uint64(g.position())), slog.Any("error", cause))
	r.storeFailure(ctx, g, failureText(cause))
}

// finishIfAsked makes the tables of this release's versions live and its data format the one in force, in one
// transaction, if an operator requested it and all of them have caught up. The caller holds step and leads.
func (r *Runner) finishIfAsked(ctx context.Context, f format) error {
	if r.Format() == r.cfg.Format || f.requestedAt(r.cfg.Now()) != r.cfg.Format {
		return nil
	}
	units := r.nextUnits()
	for _, m := range r.models {
		m.mu.Lock()
		busy := m.busy || m.building != nil || m.live == nil
		m.mu.Unlock()
		if busy || m.next != nil && !slices.Contains(r.inLive, m.next) {
			return nil // the next poll retries
		}
	}
	err := r.swap(ctx, units, func(tx *sqlstore.Tx) error {
		// Still requested?
		err := oneRow(tx.ExecContext(ctx,
			"UPDATE projections_format SET requested = 0 WHERE in_force = $1 AND requested = $2",
			r.Format(), r.cfg.Format))
		if err != nil {
			return err
		}
		return putInForce(ctx, tx, r.cfg.Format)
	})
	if err != nil {
		return fmt.Errorf("finish the upgrade: %w", err)
	}
	for _, m := range r.models {
		m.next = nil
	}
	return r.adoptFormat(r.cfg.Format)
}

// FinishUpgrade puts the data format of this release in force on all nodes as soon as the tables of its versions have
// caught up with the live ones. From then on readers get these tables, and nodes write the new versions of events.
// Nodes of the previous release stop, and cannot be started again. If ctx ends first, or there is no progress for half
// a minute, FinishUpgrade withdraws the request and nothing has changed. If the process is killed, the request expires
// after requestLease. A repeated call does nothing. progress may be nil.
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
	if err := r.requestFormat(ctx, r.cfg.Format, asked.Add(requestLease)); err != nil {
		return err
	}
	delay.Signal(r.pollNow) // this node may be the leader
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
			defer cancel()
			err = errors.Join(err, r.requestFormat(ctx, 0, time.Time{}))
		}
	}()
	moved, at := r.cfg.Now(), eventlog.Position(0)
	for {
		f, records, err := r.readState(ctx)
		if err != nil {
			return fmt.Errorf("finish the upgrade: %w", err)
		}
		if f.inForce >= r.cfg.Format {
			return r.refresh(ctx)
		}
		p, failure := r.nextProgress(records)
		if progress != nil {
			progress(p)
		}
		if now := r.cfg.Now(); p.Position != at {
			moved, at = now, p.Position
		} else if now.Sub(moved) > finishTimeout {
			return fmt.Errorf("finish the upgrade: %w: no progress for %s%s", ErrNotFolded, finishTimeout, failure)
		}
		if err := delay.For(ctx, pollPause); err != nil {
			return fmt.Errorf("finish the upgrade: %w", err)
		}
		if now := r.cfg.Now(); now.Sub(asked) >= renewRequest {
			asked = now
			if err := r.requestFormat(ctx, r.cfg.Format, asked.Add(requestLease)); err != nil {
				return err
			}
		}
	}
}

// nextProgress returns the position of the tables of this release's versions that are furthest behind, and the reason
// why they are stopped, if known.
func (r *Runner) nextProgress(records []record) (p Progress, failure string) {
	first := true
	for _, m := range r.models {
		for _, e := range records {
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

// requestFormat records which data format is requested and until when; 0 withdraws the request.
func (r *Runner) requestFormat(ctx context.Context, format int, until time.Time) error {
	err := r.store.Write(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx,
			"UPDATE projections_format SET requested = $1, requested_until = $2 WHERE in_force = $3",
			format, until.UnixMicro(), r.cfg.Format-1)
		return err
	})
	return sqlstore.Wrap(err, "request data format %d", format)
}

// Upgrade is the state of the upgrade to this release.
type Upgrade struct {
	// Format is the data format in force, Release that of this release. They are equal after the upgrade.
	Format  int `json:"format"`
	Release int `json:"release"`
	// Asked reports whether an operator is waiting for the end of the upgrade.
	Asked bool `json:"asked"`
	// Models are the read models whose version changes with this release, by name.
	Models []Raised `json:"models"`
}

// Finished reports whether this release's data format is in force.
func (u Upgrade) Finished() bool { return u.Format == u.Release }

// Level reports whether the tables of all new versions are built and have caught up with the live ones.
func (u Upgrade) Level() bool {
	return !slices.ContainsFunc(u.Models, func(m Raised) bool { return m.Lag > 0 || m.Position == 0 || m.Error != "" })
}

// Raised is a read model with a version that is not live yet.
type Raised struct {
	Name string `json:"name"`
	// Live and Next are the versions that readers get before and after the upgrade.
	Live int `json:"live"`
	Next int `json:"next"`
	// Position is how far the next version's tables are folded, or 0 if there are none; Lag is how many positions they
	// are behind the live ones, and Behind the age of the oldest event that they lack.
	Position eventlog.Position `json:"position"`
	Lag      uint64            `json:"lag"`
	Behind   time.Duration     `json:"behind_ns"`
	Error    string            `json:"error,omitempty"`
}

// Upgrade reads the state of the upgrade to this release. Errors: ErrNotStarted, sqlstore.ErrUnavailable, those of the
// log, ctx.Err().
func (r *Runner) Upgrade(ctx context.Context) (Upgrade, error) {
	if !r.started.Load() {
		return Upgrade{}, ErrNotStarted
	}
	u := Upgrade{Format: r.Format(), Release: r.cfg.Format, Models: []Raised{}}
	if !r.shared {
		return u, nil
	}
	f, records, err := r.readState(ctx)
	if err != nil {
		return u, err
	}
	u.Format, u.Asked = f.inForce, f.requestedAt(r.cfg.Now()) == u.Release
	for _, m := range r.models {
		live := find(records, m.name, stateLive)
		if live == nil || live.version >= m.current().Number {
			continue
		}
		raised := Raised{Name: m.name, Live: live.version, Next: m.current().Number, Lag: uint64(live.position)}
		for _, e := range records {
			if e.name == m.name && e.state == stateNext && e.version == raised.Next {
				raised.Position, raised.Lag, raised.Error = e.position, lag(e.position, live.position), e.failure
			}
		}
		if raised.Lag > 0 {
			if raised.Behind, err = r.Behind(ctx, raised.Position); err != nil {
				return u, fmt.Errorf("read the state of the upgrade: %w", err)
			}
		}
		u.Models = append(u.Models, raised)
	}
	slices.SortFunc(u.Models, func(a, b Raised) int { return strings.Compare(a.Name, b.Name) })
	return u, nil
}
