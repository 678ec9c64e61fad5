package main

import (
	"context"
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
	c := command("backup FOLDER | URL",
		"Copy events, names and images to a folder or a bucket, even while the server runs")
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
				return e.print(*asJSON, sum,
					"backup of %d events up to position %d, %d names (new: %d events, %d images) in %s\n%s\n",
					sum.Events, sum.Position, sum.Names, sum.NewEvents+sum.Adopted, sum.NewAssets,
					time.Since(began).Round(time.Millisecond), sum.Place)
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
// line per second and one at the end of a stage whose end is known. Work of one stage without a name has no line at its
// beginning.
func stages(w io.Writer, what string) func(backup.Progress) {
	var stage backup.Stage
	var m *meter
	label := func() string {
		if stage == "" {
			return what
		}
		return what + ": " + string(stage)
	}
	if onTerminal(w) {
		var bar *progressbar.ProgressBar
		return func(p backup.Progress) {
			g := gaugeOf(p)
			if p.Stage != stage || m == nil {
				stage, m = p.Stage, &meter{time.Now(), g}
				bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(w),
					progressbar.OptionSetDescription(label()), progressbar.OptionClearOnFinish(),
					progressbar.OptionThrottle(progressEvery/10))
			}
			if g.end > 0 {
				bar.ChangeMax64(int64(g.end))
			}
			bar.Describe(label() + ": " + m.text(g))
			if err := bar.Set64(int64(g.at)); err != nil {
				fmt.Fprintln(w, err)
			}
		}
	}
	last, ended := time.Now(), false
	return func(p backup.Progress) {
		now, g := time.Now(), gaugeOf(p)
		begins, ends := p.Stage != stage, g.end > 0 && g.at >= g.end
		if begins || m == nil {
			stage, m = p.Stage, &meter{now, g}
		}
		if !begins && now.Sub(last) < progressEvery && (ended || !ends) {
			return
		}
		last, ended = now, ends
		fmt.Fprintf(w, "%s: %s\n", label(), m.text(g))
	}
}

func gaugeOf(p backup.Progress) gauge {
	g := gauge{done: p.Done, unit: p.Stage.Unit(), at: p.Done, end: p.Total, counts: p.Total > 0}
	if p.Total == 0 && p.Head > 0 {
		g.at, g.end = uint64(p.Position), uint64(p.Head)
	}
	return g
}

type gauge struct {
	// done is a number of items, 0 if they are not counted.
	done uint64
	unit string // of done, such as events
	// at and end are the current place and the end, which is 0 if it is not known. If counts is true, both are numbers
	// of items like done. Otherwise they are positions of a log, which may have gaps.
	at, end uint64
	counts  bool
}

// meter describes progress, rate and remaining time, as far as they are known. It computes the rate since the first
// gauge, because work that continues an earlier run begins with a count above 0.
type meter struct {
	began time.Time
	first gauge
}

// text returns a description such as "12000 events, 34 % of the log, 2100/s, about 12s left".
func (m *meter) text(g gauge) string {
	var parts []string
	switch {
	case g.counts:
		parts = append(parts, fmt.Sprintf("%d of %d %s", g.done, g.end, g.unit))
	case g.done > 0 || g.end == 0:
		parts = append(parts, fmt.Sprintf("%d %s", g.done, g.unit))
	}
	if g.end > 0 && !g.counts {
		parts = append(parts, fmt.Sprintf("%d %% of the log", min(g.at, g.end)*100/g.end))
	}
	passed := time.Since(m.began)
	if passed > 0 && g.done > m.first.done {
		parts = append(parts, fmt.Sprintf("%.0f/s", float64(g.done-m.first.done)/passed.Seconds()))
	}
	if passed > 0 && g.at > m.first.at && g.at < g.end {
		left := time.Duration(float64(passed) / float64(g.at-m.first.at) * float64(g.end-g.at))
		parts = append(parts, fmt.Sprintf("about %s left", max(left.Round(time.Second), time.Second)))
	}
	return strings.Join(parts, ", ")
}

// maxErasedList is the maximum size of the file of --erased.
const maxErasedList = 64 << 20

func restoreCommand(e *environment) *cobra.Command {
	c := command("restore FOLDER | URL", "Fill an empty data folder, or empty services, from a backup")
	flags := c.Flags()
	withoutHolders := flags.Bool("without-holders", false, "leave out the names of account holders and keys")
	erased := flags.String("erased", "", "file with ids, one per line, whose names are left out")
	withoutAssets := flags.Bool("without-assets", false, "leave out images; crawls fetch them again")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if e.node != nil {
			return misuse("cannot restore into a running server: stop it, and name an empty folder with --data")
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
	return e.print(asJSON, out,
		"restored %d events (%d were there), %d names, %d images in %s; every chain holds: %d account(s), %d events\n",
		out.Events, out.Present, out.Names, out.Assets, time.Since(began).Round(time.Millisecond),
		out.Accounts, out.ChainEvents)
}

// erasedIDs reads a file of ids, one per line.
func erasedIDs(name string) (map[string]bool, error) {
	if name == "" {
		return nil, nil
	}
	text, err := readAtMost(name, maxErasedList)
	if err != nil {
		return nil, fmt.Errorf("--erased: %w", err)
	}
	ids := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if id := strings.TrimSpace(line); id != "" && !strings.HasPrefix(id, "#") {
			ids[id] = true
		}
	}
	return ids, nil
}
