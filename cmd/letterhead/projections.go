package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"letterhead/node"
	"letterhead/operations"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/search"
	"letterhead/workers/backup"
)

func projectionsList(e *environment) *cobra.Command {
	c := command("list", "Show the state of every read model")
	c.Flags().String("state", "", "only read models in this state: "+strings.Join(engine.States, ", "))
	return listing[engine.Status]{path: "/admin/projections", field: "projections",
		titles: "NAME\tSTATE\tVERSION\tGENERATION\tPOSITION\tLAG\tKEPT\tERROR",
		cells: func(m *engine.Status) []any {
			kept := ""
			if m.Kept != nil {
				kept = fmt.Sprintf("generation %d at %d", m.Kept.Generation, m.Kept.Position)
			}
			return []any{m.Name, m.State, m.Version, m.Generation, m.Position, m.Late(), kept, m.Error}
		},
		orders: []order[engine.Status]{
			by("name", func(m *engine.Status) string { return m.Name }),
			by("state", func(m *engine.Status) string { return m.State }),
			by("position", func(m *engine.Status) uint64 { return uint64(m.Position) }),
			by("lag", func(m *engine.Status) uint64 { return uint64(m.Lag) }),
		},
	}.command(e, c)
}

func projectionsVerify(e *environment) *cobra.Command {
	c := command("verify", "Compare every read model with a replay of the log")
	asJSON := jsonFlag(c)
	searchOnly := c.Flags().Bool(searchOnlyFlag, false, "catch up and compare only the search index")
	if err := c.Flags().MarkHidden(searchOnlyFlag); err != nil {
		panic(err) // the flag was defined in the line above
	}
	c.RunE = e.reads(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if !*searchOnly {
			if err := n.Stores.VerifyLog(ctx); err != nil { // comparing with damaged events is meaningless
				return err
			}
		}
		index := func() error { return verifySearch(ctx, n, e, *asJSON) }
		switch {
		case n.Reading() && n.Served():
			// Only the server can compare the index, because it has it open. It catches up first; its output comes
			// last.
			var output bytes.Buffer
			err := e.forward(ctx, n.Config.Data, append(slices.Clone(e.args), "--"+searchOnlyFlag), &output)
			if err != nil && !errors.As(err, new(exitError)) {
				return err
			}
			index = func() error {
				_, werr := output.WriteTo(e.stdout)
				if err != nil {
					err = errors.New("the search index could not be compared, or differs")
				}
				return errors.Join(werr, err)
			}
		case n.Reading():
			if err := e.warnBehind(ctx, n); err != nil {
				return err
			}
			index = func() error {
				_, err := fmt.Fprintln(e.stderr,
					"warning: the search index was not compared: it can be opened only in a writable folder")
				return err
			}
		default:
			if err := n.Operations.Reads.CatchUp(ctx); err != nil {
				return err
			}
		}
		if *searchOnly {
			return index()
		}
		found, err := n.Runner.Verify(ctx, nil, progress(e.stderr, "verify"))
		if err != nil {
			return err
		}
		var wrong []error
		for _, v := range found {
			differs, err := e.printVerified(v, *asJSON)
			if err != nil {
				return err
			}
			if differs != nil {
				wrong = append(wrong, differs)
			}
		}
		if err := index(); err != nil {
			wrong = append(wrong, err)
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%w; \"letterhead projections rebuild\" rebuilds a read model", errors.Join(wrong...))
		}
		return nil
	})
	return c
}

// warnBehind prints how far the read models of a read-only folder are behind the log.
func (e *environment) warnBehind(ctx context.Context, n *node.Node) error {
	models, err := n.Runner.List(ctx)
	if err != nil {
		return err
	}
	for _, m := range models {
		if m.Lag > 0 {
			fmt.Fprintf(e.stderr,
				"warning: %s is %s; nothing can be folded in a folder that is only read\n", m.Name, m.Late())
		}
	}
	return nil
}

// verifySearch compares the search index with the brands table, and prints the result.
func verifySearch(ctx context.Context, n *node.Node, e *environment, asJSON bool) error {
	v, err := n.Search.Verify(ctx)
	if err != nil {
		return err
	}
	return errors.Join(e.printVerified(v, asJSON))
}

// printVerified prints the result of a comparison, and returns a difference as an error.
func (e *environment) printVerified(v projections.Verification, asJSON bool) (differs, err error) {
	word := "agrees"
	switch {
	case v.Err != nil:
		word = "could not be compared: " + v.Err.Error()
	case !v.OK():
		word = "differs: " + v.Difference.String()
	}
	if !v.OK() {
		differs = fmt.Errorf("%s %s", v.Name, word)
	}
	if asJSON {
		return differs, printJSON(e.stdout, map[string]any{
			"name": v.Name, "rows": v.Rows, "position": v.Position, "ok": v.OK(), "difference": v.Difference,
		})
	}
	_, err = fmt.Fprintf(e.stdout, "%-9s %s (%d rows at position %d)\n", v.Name, word, v.Rows, v.Position)
	return differs, err
}

// searchOnlyFlag is the flag with which verify has a running server compare the search index.
const searchOnlyFlag = "search-only"

// progressEvery is the interval between two reports of progress.
const progressEvery = time.Second

// progress returns a function that shows the progress of folding. It does not count events that another node folds.
func progress(w io.Writer, what string) func(engine.Progress) {
	show := stages(w, what)
	return func(p engine.Progress) {
		show(backup.Progress{Done: uint64(p.Events), Position: p.Position, Head: p.Target})
	}
}

// onTerminal reports whether what is written to w goes to a terminal.
func onTerminal(w io.Writer) bool {
	f, isFile := w.(*os.File)
	return isFile && term.IsTerminal(int(f.Fd()))
}

func projectionsRebuild(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "rebuild NAME... | --all", Short: "Rebuild read models from the log while they are in use"}
	all := c.Flags().Bool("all", false, "rebuild all read models and the search index")
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(node.ToWrite, func(ctx context.Context, n *node.Node, _ *cobra.Command, names []string) error {
		if *all == (len(names) > 0) {
			return misuse("name the read models or use --all; \"letterhead projections list\" shows them")
		}
		index := *all
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			index = index || name == search.Name
			return name == search.Name
		})
		if *all {
			names = n.Runner.Names()
		}
		if len(names) > 0 {
			err := n.Operations.Models.Rebuild(ctx, names, operations.RebuildSteps{
				Progress: func(step string) func(engine.Progress) { return progress(e.stderr, step) },
				Rebuilt:  func(r operations.Rebuilt) error { return printRebuilt(e.stdout, r, *asJSON) },
			})
			if errors.Is(err, engine.ErrUnknown) {
				return usageError{Err: err}
			} else if err != nil {
				return err
			}
		}
		if index {
			if err := n.Search.Rebuild(ctx); err != nil {
				return err
			}
			return printRebuilt(e.stdout,
				operations.Rebuilt{Comparison: projections.Comparison{Name: search.Name}, State: "live"}, *asJSON)
		}
		return nil
	})
	return c
}

// printRebuilt prints what differs between live and rebuilt tables, and what became of the latter.
func printRebuilt(w io.Writer, c operations.Rebuilt, asJSON bool) error {
	switch {
	case asJSON:
		return printJSON(w, c.Object())
	case !c.Compared:
		_, err := fmt.Fprintf(w, "%-9s rebuilt, not compared\n", c.Name)
		return err
	case c.Err != nil:
		_, err := fmt.Fprintf(w, "%-9s the rebuilt model could not be compared with the live one (%v); it is %s\n",
			c.Name, c.Err, c.State)
		return err
	}
	word := "differs from"
	if c.Same() {
		word = "agrees with"
	}
	text := fmt.Appendf(nil, "%-9s the rebuilt model %s the live one at position %d; it is %s\n",
		c.Name, word, c.Position, c.State)
	for _, t := range c.Tables {
		text = fmt.Appendf(text,
			"  %s: %d rows agree, %d only in the live table, %d only in the rebuilt table, %d changed\n",
			t.Table, t.Same, t.OnlyLive, t.OnlyRebuilt, t.Changed)
		for j := range t.First {
			text = fmt.Appendf(text, "    %s\n", t.First[j].String())
		}
	}
	_, err := w.Write(text)
	return err
}

func upgradeStatus(e *environment) *cobra.Command {
	c := command("status", "Show the progress of an upgrade, and which nodes run")
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(node.ToRead, func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		u, err := n.Operations.Upgrades.State(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(e.stdout, u)
		}
		return printUpgrade(e, u)
	})
	return c
}

func printUpgrade(e *environment, u operations.UpgradeState) error {
	var b strings.Builder
	if u.Finished {
		fmt.Fprintf(&b, "data format %d of this release is in force: no upgrade is under way\n", u.Format)
	} else {
		fmt.Fprintf(&b, "data format %d is in force, this release has format %d: the upgrade is not finished\n",
			u.Format, u.Release)
	}
	for _, m := range u.Models {
		fmt.Fprintf(&b, "  %s: version %d is served; version %d has %d %% of the log, %s %s\n", m.Name, m.Live,
			m.Next, uint64(m.Position)*100/max(uint64(m.Position)+m.Lag, 1), engine.Late(m.Lag, m.Behind), m.Error)
	}
	for _, n := range u.Nodes {
		switch {
		case n.Format == 0:
			b.WriteString("  a node of an older release, which does not report its name\n")
		default:
			fmt.Fprintf(&b, "  node %s has data format %d\n", n.Node, n.Format)
		}
	}
	switch {
	case u.Ready:
		b.WriteString(
			"\"letterhead upgrade finish\" finishes the upgrade; until then you can go back to the previous release\n")
	case !u.Finished && len(u.Older()) > 0:
		b.WriteString(
			"nodes of the previous release still run; the upgrade can be finished when they have been replaced\n")
	case !u.Finished:
		b.WriteString("the upgrade can be finished when every version above has caught up\n")
	}
	return e.printf("%s", b.String())
}

func upgradeFinish(e *environment) *cobra.Command {
	c := command("finish", "Finish an upgrade; you cannot go back to the previous release afterwards")
	force := c.Flags().Bool("force", false, "finish even if nodes of the previous release seem to run")
	c.RunE = e.onFolder(node.ToWrite, func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		u, err := n.Operations.Upgrades.State(ctx)
		if err != nil {
			return err
		}
		if u.Finished {
			return e.printf("data format %d is in force: no upgrade is under way\n", u.Format)
		}
		if older := u.Older(); len(older) > 0 && !*force {
			return fmt.Errorf("nodes of the previous release still run: %s; replace them first (they would stop), or finish anyway with --force",
				strings.Join(older, ", "))
		}
		if err := n.Operations.Upgrades.Finish(ctx, progress(e.stderr, "upgrade")); err != nil {
			return err
		}
		return e.printf("the upgrade is finished: data format %d is in force\n", u.Release)
	})
	return c
}
