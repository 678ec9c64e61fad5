package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/internal/config"
	"letterhead/node"
	"letterhead/node/datafolder"
	"letterhead/workers/backup"
)

type archiveOptions struct {
	before    time.Time
	to        string
	yes, json bool
}

func archiveCommand(e *environment) *cobra.Command {
	c := command("archive --before DATE --to FILE.jsonl.zst",
		"Move old crawls of domains that never became brands out of the log")
	var o archiveOptions
	var before string
	flags := c.Flags()
	flags.StringVar(&before, "before", "",
		"archive domains whose last crawl failed before this date (2026-10-01, in UTC) or time (2026-10-01T12:00:00Z)")
	flags.StringVar(&o.to, "to", "", "file to write, which must not exist")
	flags.BoolVar(&o.yes, "yes", false, "do not ask")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if e.node != nil {
			return misuse("a server uses this folder; stop it before you archive")
		}
		var err error
		if o.before, err = parseBefore("--before", before); err != nil {
			return usageError{Err: err}
		}
		if o.to == "" {
			return misuse("--to is needed: the file to write, such as failed-2026-09.jsonl.zst")
		}
		return e.archive(cmd.Context(), o)
	}
	return c
}

func parseBefore(flag, text string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s must be a date like 2026-10-01 or a time like 2026-10-01T12:00:00Z, not %q",
		flag, text)
}

func (e *environment) archive(ctx context.Context, o archiveOptions) error {
	inUse := func(folder string) error {
		return fmt.Errorf("%s: %w; stop the server before you archive", folder, datafolder.ErrInUse)
	}
	archive := func(n *node.Node) error { return e.archiveIn(ctx, n, o) }
	return e.on(node.ToWrite, restored(node.OpenStores), archive, inUse, func(c node.Command) error {
		if c.Settings.Shared() {
			return misuse("archive works on the log of a data folder (LETTERHEAD_EVENTSTORE=sqlite); docs/backup.md describes how to archive before a migration")
		}
		return c.Do(ctx)
	})
}

func (e *environment) archiveIn(ctx context.Context, n *node.Node, o archiveOptions) error {
	failures, err := n.Stores.OldFailures(ctx, backup.Config{Version: version, Progress: stages(e.stderr, "archive")},
		"--before", o.before)
	if err != nil {
		return err
	}
	var out node.Archived
	if failures.Events > 0 {
		if err := n.Stores.CheckRoomForCopy(); err != nil {
			return err
		}
		if !o.yes {
			question := fmt.Sprintf("Move %d events of %d domains to %s and replace the event log?",
				failures.Events, failures.Streams, o.to)
			if err := confirm(os.Stdin, e.stderr, question); err != nil {
				return err
			}
		}
		if out, err = n.Stores.Archive(ctx, failures, o.to); err != nil {
			return err
		}
	}
	if o.json {
		return printJSON(e.stdout, out)
	}
	if failures.Events == 0 {
		return e.printf("nothing to archive; nothing was changed\n")
	}
	return e.printf("archived %d events of %d domains in %s\nsha256 %s\nthe log holds %d events; every chain holds: %d account(s), %d events\nthe old log is kept as %s (with -wal and the marker): delete it when the service runs and the archive is in a safe place\n",
		out.Events, out.Streams, out.File, out.SHA256, out.Rest.Events, out.Rest.Accounts,
		out.Rest.ChainEvents, out.Kept)
}

func migrateCommand(e *environment) *cobra.Command {
	c := command("migrate --to esdb://…", "Move from the data folder to EventStoreDB, PostgreSQL and a bucket")
	var m node.Migration
	var asJSON bool
	var before string
	flags := c.Flags()
	flags.StringVar(&m.Log, "to", "", "connection string of an EventStoreDB that is empty, or was filled by an earlier pass (esdb://…; or set LETTERHEAD_MIGRATE_TO, which other users of the machine cannot see)")
	flags.StringVar(&m.Database, "database", "",
		"the PostgreSQL of the new nodes (postgres://…; or set LETTERHEAD_MIGRATE_DATABASE)")
	flags.StringVar(&m.Assets, "assets", "", "the bucket of the new nodes (s3://… or file:///…)")
	flags.StringVar(&before, "archive-before", "",
		"leave out domains that never became brands and whose last crawl failed before this date (2026-10-01, in UTC) or time")
	flags.StringVar(&m.ArchiveTo, "archive-to", "", "file to write their events to (.jsonl.zst)")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if (before == "") != (m.ArchiveTo == "") {
			return misuse("--archive-before and --archive-to need each other: events that the new log leaves out are kept in a file")
		}
		if before != "" {
			if m.ArchiveBefore, err = parseBefore("--archive-before", before); err != nil {
				return usageError{Err: err}
			}
			if m.ArchiveTo, err = filepath.Abs(m.ArchiveTo); err != nil {
				return err
			}
		}
		if m.Log == "" {
			if m.Log, err = config.Value(os.LookupEnv, "LETTERHEAD_MIGRATE_TO"); err != nil {
				return usageError{Err: err}
			}
		}
		if m.Database == "" {
			if m.Database, err = config.Value(os.LookupEnv, "LETTERHEAD_MIGRATE_DATABASE"); err != nil {
				return usageError{Err: err}
			}
		}
		if !strings.HasPrefix(m.Log, "esdb://") && !strings.HasPrefix(m.Log, "esdb+discover://") {
			return misuse("--to must be the connection string of an EventStoreDB, such as esdb://host:2113?tls=true")
		}
		args := []string{"migrate", "--to=" + m.Log, "--database=" + m.Database, "--assets=" + m.Assets,
			"--archive-before=" + before,
			"--archive-to=" + m.ArchiveTo, fmt.Sprintf("--json=%t", asJSON)}
		final := e.node == nil
		ctx := cmd.Context()
		return e.onNode(ctx, args, node.ToWrite, node.OpenStores, func(n *node.Node) error {
			if n.Config.Shared() {
				return misuse("the settings already name an EventStoreDB; migrate copies from a data folder (LETTERHEAD_EVENTSTORE=sqlite)")
			}
			if !final && !m.ArchiveBefore.IsZero() {
				return misuse("a server uses this folder; stop it before you migrate with --archive-before: while it runs, a domain that is left out may become a brand")
			}
			return e.migrate(ctx, n, m, final, asJSON)
		})
	}
	return c
}

func (e *environment) migrate(ctx context.Context, n *node.Node, m node.Migration, final, asJSON bool) error {
	began := time.Now()
	out, err := n.Stores.Migrate(ctx, m, final, backup.Config{Version: version, Progress: stages(e.stderr, "migrate")})
	if err != nil {
		return err
	}
	if final && m.Database == "" {
		fmt.Fprintln(e.stderr, "warning: without --database no names were copied, and the first relay on the new log publishes all old crawl requests again")
	}
	if asJSON {
		return printJSON(e.stdout, out)
	}
	took := time.Since(began).Round(time.Millisecond)
	if !final {
		return e.printf("first pass: %d events (%d were there) up to position %d, %d new images in %s\nstop the server and run the same command again for the final pass\n",
			out.Events, out.Present, out.Source, out.NewAssets, took)
	}
	if archived := out.Archived; archived != nil {
		_, err = fmt.Fprintf(e.stdout, "left out %d events of %d domains, now in %s\nsha256 %s\n",
			archived.Events, archived.Streams, archived.File, archived.SHA256)
	}
	if err != nil {
		return err
	}
	return e.printf("migrated: %d events (%d were there), %d names, %d images (%d new) in %s; every chain holds: %d account(s), %d events\n",
		out.Events, out.Present, out.Names, out.Assets, out.NewAssets, took, out.Accounts, out.ChainEvents)
}
