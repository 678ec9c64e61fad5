package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/internal/assets"
	"letterhead/internal/eventlog/kurrent"
	"letterhead/internal/sqlstore"
	"letterhead/workers/backup"
	"letterhead/workers/loss"
)

// migrateOptions name the services of the distributed shape.
type migrateOptions struct {
	log, database, assets string
	json                  bool
}

func migrateCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "migrate --to esdb://…", Short: "Move from the data folder to EventStoreDB, PostgreSQL and a bucket", Args: exactArgs(),
		Long: `Copy the event log of the data folder to EventStoreDB: every stream with its
revisions and ids, all in the same order, at new positions. With --database the
names of holders go along, with --assets the pictures.

While the server runs this is a first pass, which changes nothing for it. Stop the
server and run the same line again: the final pass copies what came meanwhile,
compares everything, verifies the hash chain of every account, and notes in the
new database that the crawl requests of the past are done. Then start the nodes on
the new services. An interrupted pass is continued by the next one.`}
	var o migrateOptions
	flags := c.Flags()
	flags.StringVar(&o.log, "to", "", "connection string of an EventStoreDB that is empty, or was filled by an earlier pass (esdb://…; or LETTERHEAD_MIGRATE_TO, which other users of the machine cannot see)")
	flags.StringVar(&o.database, "database", "", "the PostgreSQL of the new nodes (postgres://…; or LETTERHEAD_MIGRATE_DATABASE)")
	flags.StringVar(&o.assets, "assets", "", "the bucket of the new nodes (s3://… or file:///…)")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.log == "" {
			o.log = os.Getenv("LETTERHEAD_MIGRATE_TO")
		}
		if o.database == "" {
			o.database = os.Getenv("LETTERHEAD_MIGRATE_DATABASE")
		}
		if !strings.HasPrefix(o.log, "esdb://") && !strings.HasPrefix(o.log, "esdb+discover://") {
			return usageError{errors.New("--to takes the connection string of an EventStoreDB, like esdb://host:2113?tls=true")}
		}
		args := []string{"migrate", "--to=" + o.log, "--database=" + o.database, "--assets=" + o.assets, fmt.Sprintf("--json=%t", o.json)}
		final := e.service == nil
		return e.onStorage(cmd.Context(), args, func(ctx context.Context, s *service) error {
			if s.config.Shared() {
				return usageError{errors.New("the settings name an EventStoreDB already; migrate copies from a data folder (LETTERHEAD_EVENTSTORE=sqlite)")}
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
	to, closeTarget, err := openMigrationTarget(ctx, s, o)
	defer func() { err = errors.Join(err, closeTarget()) }()
	if err != nil {
		return err
	}
	began := time.Now()
	out, err := backup.Migrate(ctx, backup.Config{Version: version, Progress: stages(e.stderr, "migrate")}, final, from, to)
	if err != nil {
		return err
	}
	if final && o.database == "" {
		fmt.Fprintln(e.stderr, "warning: without --database no names were copied, and the first relay on the new log publishes every crawl request of the past again")
	}
	if o.json {
		return printJSON(e.stdout, out)
	}
	took := time.Since(began).Round(time.Millisecond)
	if !final {
		_, err = fmt.Fprintf(e.stdout, "first pass: %d events (%d were there) up to position %d, %d new pictures in %s\nstop the server and run the same line again for the final pass\n",
			out.Events, out.Present, out.Source, out.NewAssets, took)
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "migrated: %d events (%d were there), %d names, %d pictures (%d new) in %s; every chain holds: %d account(s), %d events\n",
		out.Events, out.Present, out.Names, out.Assets, out.NewAssets, took, out.Accounts, out.ChainEvents)
	return err
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
	log, err := kurrent.Open(ctx, kurrent.Config{ConnectionString: o.log, Logger: s.logger})
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
