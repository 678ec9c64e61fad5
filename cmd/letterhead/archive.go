package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"letterhead/internal/disk"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/workers/backup"
	"letterhead/workers/loss"
)

// archivedLog is the new log in the data folder while it is written.
const archivedLog = "events.archive.db"

type archiveOptions struct {
	before    time.Time
	to        string
	yes, json bool
}

// archived is what the command prints with --json.
type archived struct {
	Streams uint64      `json:"streams"` // that were taken out of the log
	Events  uint64      `json:"events"`
	File    string      `json:"file,omitempty"`
	SHA256  string      `json:"sha256,omitempty"` // of the file
	Kept    string      `json:"kept,omitempty"`   // the log as it was before
	Rest    backup.Rest `json:"rest"`
}

func archiveCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "archive --before DATE --to FILE.jsonl.zst", Short: "Move old crawls of domains that never were brands out of the log", Args: exactArgs(),
		Long: `Move the streams of domains that never were brands out of the event log into a file:
crawls were requested, the last one failed before --before, and nothing else ever
happened to the domain. Streams of accounts are never touched. Stop the server first.

The events go to the file, one JSON object a line, compressed with zstd. Then all
others are copied into a new log, which is compared with the old one event by event
and takes its place in one step; the hash chains are verified before. The old log is
kept beside it until you delete it. Killed at any moment, the folder holds the old log
or the new one, and the same line run again finishes the work. The next start rebuilds
read models and search index, because events have new positions.

A domain whose crawls were archived is crawled again when it is looked up.`}
	var o archiveOptions
	var before string
	flags := c.Flags()
	flags.StringVar(&before, "before", "", "archive domains whose last crawl failed before this date (2026-10-01, in UTC) or time (2026-10-01T12:00:00Z)")
	flags.StringVar(&o.to, "to", "", "file to write, which must not exist")
	flags.BoolVar(&o.yes, "yes", false, "do not ask")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if e.service != nil {
			return usageError{errors.New("a server serves this folder; stop it, and archive then")}
		}
		var err error
		if o.before, err = parseBefore("--before", before); err != nil {
			return usageError{err}
		}
		if o.to == "" {
			return usageError{errors.New("--to names the file to write, like failed-2026-09.jsonl.zst")}
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
	return time.Time{}, fmt.Errorf("%s takes a date like 2026-10-01, or a time like 2026-10-01T12:00:00Z, not %q", flag, text)
}

func (e *environment) archive(ctx context.Context, o archiveOptions) error {
	cfg, err := e.config()
	if err != nil {
		return err
	}
	if cfg.Shared() {
		return usageError{errors.New("archive works on the log of a data folder (LETTERHEAD_EVENTSTORE=sqlite); docs/backup.md says how to archive before a migration")}
	}
	lock, err := lockFolder(cfg.Data, folderMustExist)
	if errors.Is(err, errFolderInUse) {
		return fmt.Errorf("%w; stop the server, and archive then", err)
	}
	if err != nil {
		return err
	}
	if err := refuseHalfRestored(cfg.Data); err != nil {
		return errors.Join(err, lock.release())
	}
	s, err := storageOnly(ctx, cfg, lock, e.stderr, (*service).openStorage)
	if err != nil {
		return err
	}
	return errors.Join(e.archiveIn(ctx, s, o), s.close())
}

func (e *environment) archiveIn(ctx context.Context, s *service, o archiveOptions) error {
	failures, err := s.oldFailures(ctx, backup.Config{Version: version, Progress: stages(e.stderr, "archive")}, "--before", o.before)
	if err != nil {
		return err
	}
	out := archived{Streams: failures.Streams, Events: failures.Events}
	if failures.Events > 0 {
		if err := s.roomForCopy(); err != nil {
			return err
		}
		if !o.yes {
			question := fmt.Sprintf("Move %d events of %d domains to %s and replace the event log?", failures.Events, failures.Streams, o.to)
			if err := confirm(os.Stdin, e.stderr, question); err != nil {
				return err
			}
		}
		if out.File, err = filepath.Abs(o.to); err != nil {
			return err
		}
		if out.SHA256, err = writeArchive(ctx, out.File, failures); err != nil {
			return err
		}
		if out.Rest, err = s.copyRest(ctx, failures); err != nil {
			return err
		}
		if out.Kept, err = s.replaceLog(ctx, out.Rest.Places); err != nil {
			return err
		}
	}
	if o.json {
		return printJSON(e.stdout, out)
	}
	if failures.Events == 0 {
		_, err = fmt.Fprintln(e.stdout, "nothing to archive; nothing was changed")
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "archived %d events of %d domains in %s\nsha256 %s\nthe log holds %d events; every chain holds: %d account(s), %d events\nthe old log is kept as %s (with -wal and the marker): delete it once the service runs and the archive is in a safe place\n",
		out.Events, out.Streams, out.File, out.SHA256, out.Rest.Events, out.Rest.Accounts, out.Rest.ChainEvents, out.Kept)
	return err
}

// oldFailures returns the streams of domains that never were brands and whose last crawl failed before a time in the past,
// which a flag gave.
func (s *service) oldFailures(ctx context.Context, cfg backup.Config, flag string, before time.Time) (*backup.Failures, error) {
	if now := s.clock.Now(); before.After(now) {
		return nil, usageError{fmt.Errorf("%s is %s, which is in the future: it is %s", flag, before.Format(time.RFC3339), now.UTC().Format(time.RFC3339))}
	}
	return backup.FindFailures(ctx, cfg, s.log, before)
}

// roomForCopy fails when a second copy of the log would use up the file system.
func (s *service) roomForCopy() error {
	info, err := os.Stat(s.config.EventsPath())
	if err != nil {
		return err
	}
	space, err := disk.At(s.config.Data)
	if err != nil {
		return err
	}
	if need := info.Size() + space.Reserve(); space.Free < need {
		return fmt.Errorf("the new log may need %d MiB beside the old one and %d MiB stay in reserve, but only %d MiB are free in %s; nothing was changed",
			info.Size()>>20, space.Reserve()>>20, space.Free>>20, s.config.Data)
	}
	return nil
}

// writeArchive writes the failures to a file and returns its SHA-256. The file is durable and whole, or not there. The
// same failures give the same bytes: the file of an interrupted run is used again, any other one is refused.
func writeArchive(ctx context.Context, name string, failures *backup.Failures) (sum string, err error) {
	attempt := "write the archive " + name
	partial := name + ".partial"
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", fmt.Errorf("%s: %w", attempt, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", attempt, err), f.Close(), os.Remove(partial))
		}
	}()
	hash := sha256.New()
	if err := encodeArchive(ctx, io.MultiWriter(f, hash), failures); err != nil {
		return "", err
	}
	sum = hex.EncodeToString(hash.Sum(nil))
	if err := f.Sync(); err != nil {
		return "", err
	}
	held, err := fileSum(name)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case err == nil && held != sum:
		return "", errors.New("the file exists and holds something else; name another one")
	}
	if err := os.Rename(partial, name); err != nil {
		return "", err
	}
	return sum, errors.Join(f.Close(), syncFolder(filepath.Dir(name)))
}

// encodeArchive writes each event as a line, compressed. One goroutine compresses, so that the bytes are always the same.
func encodeArchive(ctx context.Context, w io.Writer, failures *backup.Failures) error {
	compressed, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(compressed, 1<<20)
	lines := json.NewEncoder(buffered)
	lines.SetEscapeHTML(false)
	err = failures.Each(ctx, func(r *eventlog.Recorded) error { return lines.Encode(toJSON(*r)) })
	return errors.Join(err, buffered.Flush(), compressed.Close())
}

func fileSum(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func syncFolder(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// copyRest writes the new log beside the old one and closes it.
func (s *service) copyRest(ctx context.Context, failures *backup.Failures) (rest backup.Rest, err error) {
	path := filepath.Join(s.config.Data, archivedLog)
	if err := sqlite.Remove(path); err != nil { // of an interrupted run
		return rest, err
	}
	to, err := sqlite.Open(ctx, sqlite.Config{Path: path, Logger: s.logger})
	if err != nil {
		return rest, err
	}
	places, err := s.crawlPlaces(ctx)
	if err == nil {
		rest, err = failures.CopyRest(ctx, to, places)
	}
	if err = errors.Join(err, to.Close()); err != nil {
		err = errors.Join(err, sqlite.Remove(path))
	}
	return rest, err
}

// crawlPlaces returns how far the relay has come with crawl work. A crawl that was requested behind that is still to be
// done.
func (s *service) crawlPlaces(ctx context.Context) (map[string]eventlog.Position, error) {
	places := map[string]eventlog.Position{}
	for _, name := range crawlCheckpoints() {
		at, found, err := s.positions.Load(ctx, name)
		if err != nil {
			return nil, err
		}
		if found {
			places[name] = at
		}
	}
	return places, nil
}

// replaceLog puts the new log in the place of the old one, and returns the old one's new name. What remembers positions
// is discarded before, but for the places in the new log: so a start accepts either log.
func (s *service) replaceLog(ctx context.Context, places map[string]eventlog.Position) (kept string, err error) {
	if err := s.logFile.Close(); err != nil {
		return "", err
	}
	if err := loss.Renew(ctx, s.store, places); err != nil {
		return "", err
	}
	if err := s.forgetSearch(ctx); err != nil {
		return "", err
	}
	suffix := ".archived-" + s.clock.Now().UTC().Format("20060102T150405.000Z")
	path := s.config.EventsPath()
	return path + suffix, sqlite.Replace(path, filepath.Join(s.config.Data, archivedLog), suffix)
}
