package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/internal/assets"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/sqlstore"
	"letterhead/workers/backup"
	"letterhead/workers/loss"
)

// migrateOptions name the services of the distributed shape.
type migrateOptions struct {
	log, database, assets string
	archiveTo             string
	archiveBefore         time.Time // zero: nothing is left out
	json                  bool
}

// migrated is what the command prints with --json.
type migrated struct {
	backup.Migrated
	Archived *archivedFailures `json:"archived,omitempty"`
}

// archivedFailures are the streams that were written to a file instead of the new log.
type archivedFailures struct {
	Streams uint64 `json:"streams"`
	Events  uint64 `json:"events"`
	File    string `json:"file"`
	SHA256  string `json:"sha256"`
}

func migrateCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "migrate --to esdb://…", Short: "Move from the data folder to EventStoreDB, PostgreSQL and a bucket", Args: exactArgs(),
		Long: `Copy the event log of the data folder to EventStoreDB: every stream with its
revisions and ids, at new positions. Events of different streams may change places
within 4,096 events. With --database the names of holders go along, with --assets
the pictures.

While the server runs this is a first pass, which changes nothing for it. Stop the
server and run the same line again: the final pass copies what came meanwhile,
compares everything, verifies the hash chain of every account, and notes in the
new database that the crawl requests of the past are done. Then start the nodes on
the new services. An interrupted pass is continued by the next one.

With --archive-before and --archive-to the old crawls of domains that never were
brands go to a file instead of the new log, chosen as "letterhead archive" chooses
them. EventStoreDB has no archive step of its own, so this is the time for it. Such
a migration is one final pass, without a first one beside the running server: the
target must be empty, or filled by the same line. The data folder stays as it is.`}
	var o migrateOptions
	var before string
	flags := c.Flags()
	flags.StringVar(&o.log, "to", "", "connection string of an EventStoreDB that is empty, or was filled by an earlier pass (esdb://…; or LETTERHEAD_MIGRATE_TO, which other users of the machine cannot see)")
	flags.StringVar(&o.database, "database", "", "the PostgreSQL of the new nodes (postgres://…; or LETTERHEAD_MIGRATE_DATABASE)")
	flags.StringVar(&o.assets, "assets", "", "the bucket of the new nodes (s3://… or file:///…)")
	flags.StringVar(&before, "archive-before", "", "leave out domains that never were brands and whose last crawl failed before this date (2026-10-01, in UTC) or time")
	flags.StringVar(&o.archiveTo, "archive-to", "", "file to write their events to (.jsonl.zst)")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	c.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if (before == "") != (o.archiveTo == "") {
			return usageError{errors.New("--archive-before and --archive-to go together: what the new log leaves out is kept in a file")}
		}
		if before != "" {
			if o.archiveBefore, err = parseBefore("--archive-before", before); err != nil {
				return usageError{err}
			}
			if o.archiveTo, err = filepath.Abs(o.archiveTo); err != nil {
				return err
			}
		}
		if o.log == "" {
			o.log = os.Getenv("LETTERHEAD_MIGRATE_TO")
		}
		if o.database == "" {
			o.database = os.Getenv("LETTERHEAD_MIGRATE_DATABASE")
		}
		if !strings.HasPrefix(o.log, "esdb://") && !strings.HasPrefix(o.log, "esdb+discover://") {
			return usageError{errors.New("--to takes the connection string of an EventStoreDB, like esdb://host:2113?tls=true")}
		}
		args := []string{"migrate", "--to=" + o.log, "--database=" + o.database, "--assets=" + o.assets, "--archive-before=" + before,
			"--archive-to=" + o.archiveTo, fmt.Sprintf("--json=%t", o.json)}
		final := e.service == nil
		return e.onStorage(cmd.Context(), args, func(ctx context.Context, s *service) error {
			if s.config.Shared() {
				return usageError{errors.New("the settings name an EventStoreDB already; migrate copies from a data folder (LETTERHEAD_EVENTSTORE=sqlite)")}
			}
			if !final && !o.archiveBefore.IsZero() {
				return usageError{errors.New("a server serves this folder; stop it, and migrate with --archive-before then: while it runs, a domain that is left out may become a brand")}
			}
			return e.migrate(ctx, s, o, final)
		})
	}
	return c
}

func (e *environment) migrate(ctx context.Context, s *service, o migrateOptions, final bool) (err error) {
	from := backup.Source{Log: s.log, Assets: s.assets}
	if from.Names, err = backup.NamesIn(ctx, s.store); err != nil {
		return err
	}
	if from.Places, err = s.crawlPlaces(ctx); err != nil {
		return err
	}
	cfg := backup.Config{Version: version, Progress: stages(e.stderr, "migrate")}
	var archived *archivedFailures
	if from.Without, archived, err = s.leaveOut(ctx, cfg, o); err != nil {
		return err
	}
	to, closeTarget, err := openMigrationTarget(ctx, s, o)
	defer func() { err = errors.Join(err, closeTarget()) }()
	if err != nil {
		return err
	}
	began := time.Now()
	out, err := backup.Migrate(ctx, cfg, final, from, to)
	if err != nil {
		return err
	}
	if final && o.database == "" {
		fmt.Fprintln(e.stderr, "warning: without --database no names were copied, and the first relay on the new log publishes every crawl request of the past again")
	}
	if o.json {
		return printJSON(e.stdout, migrated{out, archived})
	}
	took := time.Since(began).Round(time.Millisecond)
	if !final {
		_, err = fmt.Fprintf(e.stdout, "first pass: %d events (%d were there) up to position %d, %d new pictures in %s\nstop the server and run the same line again for the final pass\n",
			out.Events, out.Present, out.Source, out.NewAssets, took)
		return err
	}
	if archived != nil {
		_, err = fmt.Fprintf(e.stdout, "left out %d events of %d domains, which are in %s\nsha256 %s\n", archived.Events, archived.Streams, archived.File, archived.SHA256)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "migrated: %d events (%d were there), %d names, %d pictures (%d new) in %s; every chain holds: %d account(s), %d events\n",
		out.Events, out.Present, out.Names, out.Assets, out.NewAssets, took, out.Accounts, out.ChainEvents)
	return err
}

// leaveOut chooses the streams that the new log leaves out, and writes them to a file. Without --archive-before it chooses
// none.
func (s *service) leaveOut(ctx context.Context, cfg backup.Config, o migrateOptions) (*backup.Failures, *archivedFailures, error) {
	if o.archiveBefore.IsZero() {
		return nil, nil, nil
	}
	failures, err := s.oldFailures(ctx, cfg, "--archive-before", o.archiveBefore)
	if err != nil {
		return nil, nil, err
	}
	sum, err := writeArchive(ctx, o.archiveTo, failures)
	return failures, &archivedFailures{Streams: failures.Streams, Events: failures.Events, File: o.archiveTo, SHA256: sum}, err
}

// openMigrationTarget opens the new services. What it returns closes those that are open, also beside an
// error.
func openMigrationTarget(ctx context.Context, s *service, o migrateOptions) (to backup.Target, closeAll func() error, err error) {
	var closers []func() error
	closeAll = func() error {
		var errs []error
		for i := len(closers) - 1; i >= 0; i-- {
			errs = append(errs, closers[i]())
		}
		return errors.Join(errs...)
	}
	log, err := esdb.Open(ctx, esdb.Config{ConnectionString: o.log, Logger: s.logger})
	if err != nil {
		return to, closeAll, err
	}
	closers = append(closers, log.Close)
	to.Log = log
	if o.database != "" {
		store, err := sqlstore.Open(ctx, sqlstore.Config{URL: o.database, Release: version, Logger: s.logger})
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
		to.Done = crawlCheckpoints()
		to.State = loss.NewFilling(store, loss.Migrate, s.clock.Now, nil)
		if to.Snapshots, err = sqlstore.NewSnapshots(ctx, store); err != nil {
			return to, closeAll, err
		}
	}
	if o.assets != "" {
		bucket, err := assets.Open(ctx, o.assets)
		if err != nil {
			return to, closeAll, err
		}
		closers = append(closers, bucket.Close)
		to.Assets = bucket
	}
	return to, closeAll, nil
}
