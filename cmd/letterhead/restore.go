package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/node"
	"letterhead/workers/backup"
)

// maxErasedList is the maximum size of the file of --erased.
const maxErasedList = 64 << 20

func restoreCommand(e *environment) *cobra.Command {
	c := &cobra.Command{
		Use: "restore FOLDER | URL", Short: "Fill an empty data folder, or empty services, from a backup",
		Args: exactArgs("FOLDER"),
	}
	flags := c.Flags()
	withoutHolders := flags.Bool("without-holders", false, "leave out the names of account holders and keys")
	erased := flags.String("erased", "", "file with ids, one per line, whose names are left out")
	withoutAssets := flags.Bool("without-assets", false, "leave out images; crawls fetch them again")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if e.node != nil {
			return usageError{
				errors.New("cannot restore into a running server: stop it, and name an empty folder with --data"),
			}
		}
		from, err := backupPlace(args[0])
		if err != nil {
			return err
		}
		cfg := backup.RestoreConfig{Config: backup.Config{Version: version, Progress: stages(e.stderr, "restore")},
			WithoutNames: *withoutHolders, WithoutAssets: *withoutAssets}
		if cfg.Erased, err = erasedIDs(*erased); err != nil {
			return err
		}
		return e.restore(cmd.Context(), cfg, from, *asJSON)
	}
	return c
}

func (e *environment) restore(ctx context.Context, cfg backup.RestoreConfig, from string, asJSON bool) error {
	settings, err := e.config()
	if err != nil {
		return err
	}
	began := time.Now()
	out, err := node.Restore(ctx, settings, e.options(node.ToWrite), cfg, from)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(e.stdout, out)
	}
	_, err = fmt.Fprintf(e.stdout,
		"restored %d events (%d were there), %d names, %d images in %s; every chain holds: %d account(s), %d events\n",
		out.Events, out.Present, out.Names, out.Assets, time.Since(began).Round(time.Millisecond),
		out.Accounts, out.ChainEvents)
	return err
}

// erasedIDs reads a file of ids, one per line.
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
