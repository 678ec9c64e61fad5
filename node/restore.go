package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/assets"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/stores"
	"letterhead/internal/sqlstore"
	"letterhead/node/datafolder"
	"letterhead/operations"
	"letterhead/workers/backup"
	"letterhead/workers/generate"
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
			return n.Stores.target(m, cfg.WithoutAssets), nil
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

func (s *Stores) target(m *backup.Manifest, withoutAssets bool) backup.Target {
	to := backup.Target{Log: s.Log, Names: s.Names, Assets: s.Assets, Positions: s.Positions, Done: CrawlCheckpoints(),
		Snapshots: s.snapshots,
		State:     filling{loss.NewFilling(s.Database, loss.Restore, s.clock.Now, s.forgetSearch), s, m.Format}}
	if withoutAssets {
		to.Assets = nil
	}
	return to
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

// Migration names the services to which a data folder is copied.
type Migration struct {
	Log, Database, Assets string // the last two may be empty
	ArchiveTo             string
	ArchiveBefore         time.Time // zero: nothing is left out
}

// Migrated is the result of Migrate.
type Migrated struct {
	backup.Migrated
	Archived *ArchivedFailures `json:"archived,omitempty"`
}

// Migrate copies what the data folder holds to the services of a migration. Only a final pass finishes the
// migration; it needs exclusive use of the folder.
func (s *Stores) Migrate(ctx context.Context, m Migration, final bool, cfg backup.Config) (out Migrated, err error) {
	from := backup.Source{Log: s.Log, Names: s.Names, Assets: s.Assets}
	if from.Readers, err = s.crawlCheckpoints(ctx); err != nil {
		return out, err
	}
	if from.Without, out.Archived, err = s.leaveOut(ctx, cfg, m); err != nil {
		return out, err
	}
	opened := &lifecycle{}
	defer func() { err = errors.Join(err, opened.close()) }()
	to, err := s.openMigrationTarget(ctx, m, opened)
	if err != nil {
		return out, err
	}
	out.Migrated, err = backup.Migrate(ctx, cfg, final, from, to)
	return out, err
}

// openMigrationTarget opens the new services, which opened closes, even after an error.
func (s *Stores) openMigrationTarget(ctx context.Context, m Migration,
	opened *lifecycle) (to backup.Target, err error) {
	store, err := stores.Of(m.Log).Connect(ctx, stores.Options{Address: m.Log, Logger: s.logger})
	if err != nil {
		return to, err
	}
	opened.closing(store.Log.Close)
	to.Log = store.Log
	if m.Database != "" {
		store, err := sqlstore.Open(ctx, sqlstore.Config{URL: m.Database, Release: s.options.Release, Logger: s.logger})
		if err != nil {
			return to, err
		}
		opened.closing(store.Close)
		if to.Names, err = accountnames.New(ctx, store); err != nil {
			return to, err
		}
		if to.Positions, err = sqlstore.NewPositions(ctx, store); err != nil {
			return to, err
		}
		to.Done = CrawlCheckpoints()
		to.State = loss.NewFilling(store, loss.Migrate, s.clock.Now, nil)
		if to.Snapshots, err = sqlstore.NewSnapshots(ctx, store); err != nil {
			return to, err
		}
	}
	if m.Assets != "" {
		bucket, err := assets.Open(ctx, m.Assets)
		if err != nil {
			return to, err
		}
		opened.closing(bucket.Close)
		to.Assets = bucket
	}
	return to, nil
}

// leaveOut chooses the streams that the new log leaves out, and writes them to a file. Without ArchiveBefore it chooses
// none.
func (s *Stores) leaveOut(ctx context.Context, cfg backup.Config,
	m Migration) (*backup.Failures, *ArchivedFailures, error) {
	if m.ArchiveBefore.IsZero() {
		return nil, nil, nil
	}
	failures, err := s.OldFailures(ctx, cfg, "--archive-before", m.ArchiveBefore)
	if err != nil {
		return nil, nil, err
	}
	sum, err := writeArchive(ctx, m.ArchiveTo, failures)
	return failures,
		&ArchivedFailures{Streams: failures.Streams, Events: failures.Events, File: m.ArchiveTo, SHA256: sum}, err
}

// ArchivedFailures are the streams that were written to a file instead of the new log.
type ArchivedFailures struct {
	Streams uint64 `json:"streams"` // that were taken out of the log
	Events  uint64 `json:"events"`
	File    string `json:"file,omitempty"`
	SHA256  string `json:"sha256,omitempty"` // of the file
}

// Generate writes a history of accounts to the event log of a data folder that is empty or does not exist. progress is
// called with the number of events written so far.
func Generate(ctx context.Context, settings config.Config, o Options, history generate.Options,
	progress func(events int)) (_ generate.Summary, err error) {
	if settings.Shared() {
		return generate.Summary{}, operations.UsageError{
			Err: errors.New("a history is generated only in a data folder (LETTERHEAD_EVENTSTORE=sqlite)"),
		}
	}
	if err := history.Validate(); err != nil { // before a new data folder is made
		return generate.Summary{}, operations.UsageError{Err: err}
	}
	lock, err := datafolder.Acquire(settings.Data, datafolder.MayBeNew, o.Release)
	if err != nil {
		return generate.Summary{}, emptyFolder(err)
	}
	n, err := OpenStores(ctx, settings, lock, o)
	if err != nil {
		return generate.Summary{}, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := generate.CheckEmpty(ctx, n.Stores.Log); err != nil {
		return generate.Summary{}, emptyFolder(err)
	}
	if err := n.Stores.lock.Raise(eventschemas.Format); err != nil {
		return generate.Summary{}, err
	}
	log, ok := n.Stores.Log.(eventlog.Importer)
	if !ok {
		return generate.Summary{}, errors.New("the event log has no import")
	}
	return generate.History(ctx, log, history, progress)
}

// emptyFolder adds advice to the error for a data folder that is in use or not empty.
func emptyFolder(err error) error {
	if errors.Is(err, datafolder.ErrInUse) || errors.Is(err, generate.ErrNotEmpty) {
		return fmt.Errorf("%w; name an empty folder with --data", err)
	}
	return err
}
