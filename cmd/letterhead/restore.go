package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
		cfg := backup.RestoreConfig{Config: backup.Config{Version: version, Progress: stages(e.stderr, "restore")}, WithoutNames: *withoutHolders}
		if cfg.Erased, err = erasedIDs(*erased); err != nil {
			return err
		}
		return e.restore(cmd.Context(), cfg, from, *withoutAssets, *asJSON)
	}
	return c
}

func (e *environment) restore(ctx context.Context, cfg backup.RestoreConfig, from string, withoutAssets, asJSON bool) error {
	// A wrong name must not leave a new data folder behind.
	if _, err := backup.Inspect(ctx, from); err != nil {
		return err
	}
	settings, err := e.config()
	if err != nil {
		return err
	}
	lock, err := lockFolder(settings.Data, folderMayBeNew)
	if errors.Is(err, errFolderInUse) {
		return fmt.Errorf("%w; stop it, and name an empty folder with --data", err)
	}
	if err != nil {
		return err
	}
	s, err := storageOnly(ctx, settings, lock, e.stderr, (*service).openUnverified)
	if err != nil {
		return err
	}
	if err := s.raiseFolder(ctx); err != nil { // the backup may hold what older releases cannot read
		return errors.Join(err, s.close())
	}
	return errors.Join(e.restoreInto(ctx, s, cfg, from, withoutAssets, asJSON), s.close())
}

func (e *environment) restoreInto(ctx context.Context, s *service, cfg backup.RestoreConfig, from string, withoutAssets, asJSON bool) error {
	names, err := backup.NamesIn(ctx, s.store)
	if err != nil {
		return err
	}
	to := backup.Target{Log: s.log, Names: names, Assets: s.assets, Positions: s.positions, Done: crawlCheckpoints(), Snapshots: s.snapshots,
		State: loss.NewFilling(s.store, loss.Restore, s.clock.Now, s.forgetSearch)}
	if withoutAssets {
		to.Assets = nil
	}
	head, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	marker := filepath.Join(s.config.Data, halfRestored)
	if head == 0 { // else a refused restore would mark a folder that is in order
		if err := writeDurably(marker, []byte("A restore into this folder has begun. Run \"letterhead restore\" again to end it.\n")); err != nil {
			return err
		}
	}
	began := time.Now()
	out, err := backup.Restore(ctx, cfg, from, to)
	if errors.Is(err, backup.ErrNotEmpty) && head == 0 {
		return errors.Join(err, os.Remove(marker))
	}
	if err != nil {
		return err
	}
	if err := os.Remove(marker); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if asJSON {
		return printJSON(e.stdout, out)
	}
	_, err = fmt.Fprintf(e.stdout, "restored %d events (%d were there), %d names, %d pictures in %s; every chain holds: %d account(s), %d events\n",
		out.Events, out.Present, out.Names, out.Assets, time.Since(began).Round(time.Millisecond), out.Accounts, out.ChainEvents)
	return err
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
	for _, lane := range relay.CrawlLanes() {
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
