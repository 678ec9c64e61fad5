package node

import (
	"context"
	"errors"
	"time"

	"letterhead/internal/assets"
	"letterhead/internal/eventlog/stores"
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
func (s *Stores) Migrate(ctx context.Context, m Migration, final bool, cfg backup.Config) (out Migrated, err error) {
	from := backup.Source{Log: s.Log, Assets: s.Assets}
	if from.Names, err = backup.NamesIn(ctx, s.Database); err != nil {
		return out, err
	}
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
		if to.Names, err = backup.NamesIn(ctx, store); err != nil {
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
	Streams uint64 `json:"streams"`
	Events  uint64 `json:"events"`
	File    string `json:"file"`
	SHA256  string `json:"sha256"`
}
