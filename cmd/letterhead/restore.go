package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/workers/backup"
	"letterhead/workers/loss"
	"letterhead/workers/relay"
)

// halfRestored is the file in a data folder that says that its restore has not come to its end.
const halfRestored = "restoring"

// maxErasedList bounds the file of --erased, in bytes.
const maxErasedList = 64 << 20

func restoreCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "restore FOLDER | URL", Short: "Fill an empty data folder, or empty services, from a backup", Args: exactArgs("FOLDER"),
		Long: `Fill the data folder (--data), or the services that the settings name, from a backup.
They must be empty, or have been begun by an interrupted restore, which is then
continued. Nothing may use them meanwhile. The whole backup is checked before
anything is written, everything is read back and compared at the end, and the
hash chain of every account is verified.

A name that was erased after the backup is in the backup: list its id in a file
for --erased, or leave all names out.`}
	flags := c.Flags()
	withoutHolders := flags.Bool("without-holders", false, "leave the names of account holders and keys out")
	erased := flags.String("erased", "", "file with ids, one a line, whose names are left out")
	withoutAssets := flags.Bool("without-assets", false, "leave pictures out; crawls bring them back")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if e.service != nil {
			return usageError{errors.New("a running server cannot be restored into: stop it, and name an empty folder with --data")}
		}
		from, err := backupPlace(args[0])
		if err != nil {
			return err
		}
		cfg := backup.RestoreConfig{Config: backup.Config{Version: version, Progress: stages(e.stderr, "restore")}, WithoutNames: *withoutHolders, WithoutAssets: *withoutAssets}
		if cfg.Erased, err = erasedIDs(*erased); err != nil {
			return err
		}
		return e.restore(cmd.Context(), cfg, from, *asJSON)
	}
	return c
}

func (e *environment) restore(ctx context.Context, cfg backup.RestoreConfig, from string, asJSON bool) (err error) {
	// A wrong name must not leave a new data folder behind.
	if _, err := backup.Inspect(ctx, from); err != nil {
		return err
	}
	settings, err := e.config()
	if err != nil {
		return err
	}
	var s *service
	defer func() {
		if s != nil {
			err = errors.Join(err, s.close())
		}
	}()
	began := time.Now()
	out, err := backup.Restore(ctx, cfg, from, func(ctx context.Context, m *backup.Manifest) (to backup.Target, err error) {
		if s, err = e.openTarget(ctx, settings); err != nil {
			return to, err
		}
		return s.target(ctx, m, cfg.WithoutAssets)
	})
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(s.config.Data, halfRestored)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if asJSON {
		return printJSON(e.stdout, out)
	}
	_, err = fmt.Fprintf(e.stdout, "restored %d events (%d were there), %d names, %d pictures in %s; every chain holds: %d account(s), %d events\n",
		out.Events, out.Present, out.Names, out.Assets, time.Since(began).Round(time.Millisecond), out.Accounts, out.ChainEvents)
	return err
}

// openTarget opens the stores that a restore fills. No other process may use them meanwhile.
func (e *environment) openTarget(ctx context.Context, settings config.Config) (*service, error) {
	lock, err := lockFolder(settings.Data, folderMayBeNew)
	if errors.Is(err, errFolderInUse) {
		return nil, fmt.Errorf("%w; stop it, and name an empty folder with --data", err)
	}
	if err != nil {
		return nil, err
	}
	own := "restore-" + rand.Text()[:8] // first, because the database cuts long names off
	settings.Node = own
	s, err := storageOnly(ctx, settings, lock, e.stderr, (*service).openUnverified)
	if err != nil {
		return nil, err
	}
	if err := refuseServed(ctx, s.store, own); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// refuseServed fails when other processes than this one, whose name there is own, are connected to a shared database:
// nodes would work with what a restore discards.
func refuseServed(ctx context.Context, store *sqlstore.Store, own string) error {
	sessions, err := store.Sessions(ctx)
	if err != nil {
		return err
	}
	var others []string
	for _, n := range sessions {
		// A long schema name leaves only the beginning of a node's name.
		if !strings.HasPrefix(n.Node, own) && (n.Node == "" || !strings.HasPrefix(own, n.Node)) {
			others = append(others, cmp.Or(n.Node, "one that does not give its name"))
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("nodes or commands are connected to the database of the target: %s; stop them and try again, nothing was changed", strings.Join(others, ", "))
}

func (s *service) target(ctx context.Context, m *backup.Manifest, withoutAssets bool) (backup.Target, error) {
	names, err := backup.NamesIn(ctx, s.store)
	if err != nil {
		return backup.Target{}, err
	}
	to := backup.Target{Log: s.log, Names: names, Assets: s.assets, Positions: s.positions, Done: crawlCheckpoints(), Snapshots: s.snapshots,
		State: filling{loss.NewFilling(s.store, loss.Restore, s.clock.Now, s.forgetSearch), s, m.Format}}
	if withoutAssets {
		to.Assets = nil
	}
	return to, nil
}

// filling also marks the data folder, once the backup and the target are known to fit.
type filling struct {
	*loss.Filling
	service *service
	format  int // of the backup
}

// Done implements backup.State. A database that remembers more than the log holds does not know it.
func (f filling) Done(ctx context.Context) (bool, error) {
	if done, err := f.Filling.Done(ctx); err != nil || !done {
		return false, err
	}
	losses, err := loss.Survey(ctx, f.service.store, eventlog.Probe(f.service.log))
	return len(losses) == 0, err
}

// Begin implements backup.State.
func (f filling) Begin(ctx context.Context) error {
	if err := f.Filling.Begin(ctx); err != nil {
		return err
	}
	s := f.service
	if !s.config.Shared() {
		if err := s.lock.raise(f.format); err != nil { // the backup may hold what older releases cannot read
			return err
		}
	}
	text := "A restore into this folder has begun. Run \"letterhead restore\" again to end it.\n"
	return writeDurably(filepath.Join(s.config.Data, halfRestored), []byte(text))
}

// refuseHalfRestored keeps a server from serving a part of a ledger.
func refuseHalfRestored(folder string) error {
	_, err := os.Stat(filepath.Join(folder, halfRestored))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for a restore under way: %w", err)
	}
	return fmt.Errorf("a restore into %s has not come to its end; run \"letterhead restore\" again, or begin anew with an empty folder", folder)
}

// crawlCheckpoints are the positions behind which all crawl work is old. The other lanes of the relay begin
// anew, so that their consumers get everything, by the event ids that they know.
func crawlCheckpoints() []string {
	var names []string
	for _, lane := range relay.CrawlTopics() {
		names = append(names, lane.Checkpoint())
	}
	return names
}

// erasedIDs reads a file of ids, one a line.
func erasedIDs(name string) (map[string]bool, error) {
	if name == "" {
		return nil, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("--erased: %w", err)
	}
	if info.Size() > maxErasedList {
		return nil, fmt.Errorf("--erased: %s has %d bytes, at most %d", name, info.Size(), maxErasedList)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--erased: %w", err)
	}
	defer f.Close()
	ids := map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if id := strings.TrimSpace(lines.Text()); id != "" && !strings.HasPrefix(id, "#") {
			ids[id] = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--erased: read %s: %w", name, err)
	}
	return ids, nil
}
