package node

import (
	"context"
	"errors"
	"time"

	"letterhead/internal/assets"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/sqlstore"
	"letterhead/workers/backup"
	"letterhead/workers/loss"
)

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
func (n *Node) Migrate(ctx context.Context, m Migration, final bool, cfg backup.Config) (out Migrated, err error) {
	from := backup.Source{Log: n.Log, Assets: n.Assets}
	if from.Names, err = backup.NamesIn(ctx, n.Store); err != nil {
		return out, err
	}
	if from.Readers, err = n.crawlCheckpoints(ctx); err != nil {
		return out, err
	}
	if from.Without, out.Archived, err = n.leaveOut(ctx, cfg, m); err != nil {
		return out, err
	}
	to, closeTarget, err := n.openMigrationTarget(ctx, m)
	defer func() { err = errors.Join(err, closeTarget()) }()
	if err != nil {
		return out, err
	}
	out.Migrated, err = backup.Migrate(ctx, cfg, final, from, to)
	return out, err
}

// openMigrationTarget opens the new services. The returned function closes those that are open, even with an error.
func (n *Node) openMigrationTarget(ctx context.Context, m Migration) (to backup.Target, closeAll func() error, err error) {
	var closers []func() error
	closeAll = func() error {
		var errs []error
		for i := len(closers) - 1; i >= 0; i-- {
			errs = append(errs, closers[i]())
		}
		return errors.Join(errs...)
	}
	log, err := esdb.Open(ctx, esdb.Config{ConnectionString: m.Log, Logger: n.logger})
	if err != nil {
		return to, closeAll, err
	}
	closers = append(closers, log.Close)
	to.Log = log
	if m.Database != "" {
		store, err := sqlstore.Open(ctx, sqlstore.Config{URL: m.Database, Release: n.release, Logger: n.logger})
		if err != nil {
			return to, closeAll, err
		}
		closers = append(closers, store.Close)
		if to.Names, err = backup.NamesIn(ctx, store); err != nil {
			return to, closeAll, err
		}
		if to.Positions, err = sqlstore.NewPositions(ctx, store); err != nil {
			return to, closeAll, err
		}
		to.Done = CrawlCheckpoints()
		to.State = loss.NewFilling(store, loss.Migrate, n.clock.Now, nil)
		if to.Snapshots, err = sqlstore.NewSnapshots(ctx, store); err != nil {
			return to, closeAll, err
		}
	}
	if m.Assets != "" {
		bucket, err := assets.Open(ctx, m.Assets)
		if err != nil {
			return to, closeAll, err
		}
		closers = append(closers, bucket.Close)
		to.Assets = bucket
	}
	return to, closeAll, nil
}

// leaveOut chooses the streams that the new log leaves out, and writes them to a file. Without ArchiveBefore it chooses
// none.
func (n *Node) leaveOut(ctx context.Context, cfg backup.Config, m Migration) (*backup.Failures, *ArchivedFailures, error) {
	if m.ArchiveBefore.IsZero() {
		return nil, nil, nil
	}
	failures, err := n.OldFailures(ctx, cfg, "--archive-before", m.ArchiveBefore)
	if err != nil {
		return nil, nil, err
	}
	sum, err := writeArchive(ctx, m.ArchiveTo, failures)
	return failures, &ArchivedFailures{Streams: failures.Streams, Events: failures.Events, File: m.ArchiveTo, SHA256: sum}, err
}

// ArchivedFailures are the streams that were written to a file instead of the new log.
type ArchivedFailures struct {
	Streams uint64 `json:"streams"`
	Events  uint64 `json:"events"`
	File    string `json:"file"`
	SHA256  string `json:"sha256"`
}
