package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/node/datafolder"
	"letterhead/workers/backup"
	"letterhead/workers/loss"
)

// Restore fills the data folder, or the services that the settings name, from a backup. They must be empty, or have
// been begun by an interrupted restore.
func Restore(ctx context.Context, settings config.Config, o Options, cfg backup.RestoreConfig,
	from string) (out backup.Restored, err error) {
	// A wrong name must not leave a new data folder behind.
	if _, err := backup.Inspect(ctx, from); err != nil {
		return out, err
	}
	var n *Node
	defer func() {
		if n != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	out, err = backup.Restore(ctx, cfg,
		from, func(ctx context.Context, m *backup.Manifest) (to backup.Target, err error) {
			if n, err = openTarget(ctx, settings, o); err != nil {
				return to, err
			}
			return n.Stores.target(ctx, m, cfg.WithoutAssets)
		})
	if err != nil {
		return out, err
	}
	return out, datafolder.EndRestoring(n.Config.Data)
}

// openTarget opens the stores that a restore fills. No other process may use them meanwhile.
func openTarget(ctx context.Context, settings config.Config, o Options) (*Node, error) {
	lock, err := datafolder.Acquire(settings.Data, datafolder.MayBeNew, o.Release)
	if errors.Is(err, datafolder.ErrInUse) {
		return nil, fmt.Errorf("%w; stop it, and name an empty folder with --data", err)
	}
	if err != nil {
		return nil, err
	}
	own := "restore-" + rand.Text()[:8] // at the start, because the database truncates long names
	settings.Node = own
	n, err := openPart(ctx, settings, lock, o, (*Stores).openUnverified)
	if err != nil {
		return nil, err
	}
	if err := checkNotServed(ctx, n.Stores.Database, own); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// checkNotServed fails if other processes are connected to a shared database, because nodes would use data that a
// restore discards. This process has the name own there.
func checkNotServed(ctx context.Context, store *sqlstore.Store, own string) error {
	sessions, err := store.Sessions(ctx)
	if err != nil {
		return err
	}
	var others []string
	for _, n := range sessions {
		// A long schema name leaves only the beginning of a node's name.
		if !strings.HasPrefix(n.Node, own) && (n.Node == "" || !strings.HasPrefix(own, n.Node)) {
			others = append(others, cmp.Or(n.Node, "a node without a name"))
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("nodes or commands are connected to the database of the target: %s; stop them and try again, nothing was changed",
		strings.Join(others, ", "))
}

func (s *Stores) target(ctx context.Context, m *backup.Manifest, withoutAssets bool) (backup.Target, error) {
	names, err := backup.NamesIn(ctx, s.Database)
	if err != nil {
		return backup.Target{}, err
	}
	to := backup.Target{Log: s.Log, Names: names, Assets: s.Assets, Positions: s.Positions, Done: CrawlCheckpoints(),
		Snapshots: s.snapshots,
		State:     filling{loss.NewFilling(s.Database, loss.Restore, s.clock.Now, s.forgetSearch), s, m.Format}}
	if withoutAssets {
		to.Assets = nil
	}
	return to, nil
}

// filling also marks the data folder, once the backup is known to fit the target.
type filling struct {
	*loss.Filling
	stores *Stores
	format int // of the backup
}

// Done implements backup.State. It is false for a database that remembers more than the log holds.
func (f filling) Done(ctx context.Context) (bool, error) {
	if done, err := f.Filling.Done(ctx); err != nil || !done {
		return false, err
	}
	losses, err := loss.Survey(ctx, f.stores.Database, eventlog.Probe(f.stores.Log))
	return len(losses) == 0, err
}

func (f filling) Begin(ctx context.Context) error {
	if err := f.Filling.Begin(ctx); err != nil {
		return err
	}
	s := f.stores
	if !s.config.Shared() {
		if err := s.lock.Raise(f.format); err != nil { // the backup may hold what older releases cannot read
			return err
		}
	}
	return datafolder.MarkRestoring(s.config.Data)
}
