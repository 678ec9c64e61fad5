package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"letterhead/internal/config"
	"letterhead/node"
	"letterhead/workers/backup"
)

func backupCommand(e *environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "backup FOLDER | URL",
		Short: "Copy events, names and images to a folder or a bucket, even while the server runs",
		Args:  exactArgs("FOLDER"),
	}
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		to, err := backupPlace(args[0])
		if err != nil {
			return err
		}
		// A server that is starting may run the command in another working directory, so the path must be absolute.
		ctx := cmd.Context()
		return e.onStores(ctx, []string{"backup", fmt.Sprintf("--json=%t", *asJSON), "--", to}, config.Config.Shared,
			node.OpenStores, func(n *node.Node) error {
				began := time.Now()
				sum, err := n.Stores.Backup(ctx,
					backup.Config{Version: version, Progress: stages(e.stderr, "backup")}, to)
				if err != nil {
					return err
				}
				for _, id := range sum.DamagedAssets {
					fmt.Fprintf(e.stderr, "warning: the image %s is damaged in the asset store and is not in the backup; the next crawl of its brand replaces it\n", id)
				}
				if *asJSON {
					return printJSON(e.stdout, sum)
				}
				_, err = fmt.Fprintf(e.stdout,
					"backup of %d events up to position %d, %d names (new: %d events, %d images) in %s\n%s\n",
					sum.Events, sum.Position, sum.Names, sum.NewEvents+sum.Adopted, sum.NewAssets,
					time.Since(began).Round(time.Millisecond), sum.Place)
				return err
			})
	}
	return c
}

// backupPlace returns a URL unchanged, and a folder as an absolute path.
func backupPlace(at string) (string, error) {
	if strings.Contains(at, "://") {
		return at, nil
	}
	abs, err := filepath.Abs(at)
	if err != nil {
		return "", fmt.Errorf("backup folder: %w", err)
	}
	return abs, nil
}

// stages returns a function that shows the progress of work with several stages: a bar per stage on a terminal, or a
// line per second and one at the end of a stage whose end is known.
func stages(w io.Writer, what string) func(backup.Progress) {
	var stage backup.Stage
	var m *meter
	if onTerminal(w) {
		var bar *progressbar.ProgressBar
		return func(p backup.Progress) {
			g := gaugeOf(p)
			if p.Stage != stage {
				stage, m = p.Stage, newMeter(g)
				bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(w),
					progressbar.OptionSetDescription(what+": "+string(stage)), progressbar.OptionClearOnFinish(),
					progressbar.OptionThrottle(progressEvery/10))
			}
			if g.end > 0 {
				bar.ChangeMax64(int64(g.end))
			}
			bar.Describe(what + ": " + string(stage) + ": " + m.text(g))
			if err := bar.Set64(int64(g.at)); err != nil {
				fmt.Fprintln(w, err)
			}
		}
	}
	var last time.Time
	var ended bool
	return func(p backup.Progress) {
		now, g := time.Now(), gaugeOf(p)
		ends := g.end > 0 && g.at >= g.end
		if p.Stage == stage && now.Sub(last) < progressEvery && (ended || !ends) {
			return
		}
		if p.Stage != stage {
			m = newMeter(g)
		}
		stage, last, ended = p.Stage, now, ends
		fmt.Fprintf(w, "%s: %s: %s\n", what, p.Stage, m.text(g))
	}
}

func gaugeOf(p backup.Progress) gauge {
	g := gauge{done: p.Done, unit: p.Stage.Unit(), at: p.Done, end: p.Total, counts: p.Total > 0}
	if p.Total == 0 && p.Head > 0 {
		g.at, g.end = uint64(p.Position), uint64(p.Head)
	}
	return g
}
