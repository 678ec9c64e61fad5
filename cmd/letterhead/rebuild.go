package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/node"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/search"
)

func projectionsRebuild(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "rebuild NAME... | --all", Short: "Rebuild read models from the log while they are in use",
		Long: "Build new tables of read models next to the live ones, print what differs, and make the new ones live. A read model that is stopped, or not built yet, is not compared. The search index is only rebuilt.\n\nWith --keep the new tables are kept beside the live ones: \"projections compare\" compares them again, \"projections switch\" makes them live, and \"projections discard\" drops them. The next rebuild continues an interrupted one, and fails if the new tables are kept already."}
	all := c.Flags().Bool("all", false, "rebuild all read models and the search index")
	keep := c.Flags().Bool("keep", false, "keep the new tables beside the live ones")
	asJSON := jsonFlag(c)
	c.RunE = e.onFolderApart(node.ToWrite, func(ctx context.Context, n *node.Node, _ *cobra.Command, names []string) error {
		if *all == (len(names) > 0) {
			return usageError{errors.New("name the read models or use --all; \"letterhead projections list\" shows them")}
		}
		index := *all && !*keep
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			index = index || name == search.Name
			return name == search.Name
		})
		if *keep && index {
			return usageError{errors.New("the search index cannot be kept beside the live one")}
		}
		if *all {
			names = n.Runner.Names()
		}
		if len(names) > 0 {
			err := n.Rebuild(ctx, names, *keep, node.RebuildSteps{
				Progress: func(step string) func(engine.Progress) { return progress(e.stderr, step) },
				Rebuilt:  func(r adminapi.Rebuilt) error { return printRebuilt(e.stdout, r, *asJSON) },
			})
			if err != nil {
				return usageOf(err)
			}
		}
		if index {
			if err := n.RebuildSearch(ctx); err != nil {
				return err
			}
			return printRebuilt(e.stdout, adminapi.Rebuilt{Comparison: projections.Comparison{Name: search.Name}, State: "live"}, *asJSON)
		}
		return nil
	})
	return c
}

// usageOf marks the error of a name that is no read model.
func usageOf(err error) error {
	if errors.Is(err, engine.ErrUnknown) {
		return usageError{err}
	}
	return err
}

// printComparisons prints what differs between the live tables and the kept ones.
func printComparisons(w io.Writer, all []projections.Comparison, asJSON bool) error {
	for _, c := range all {
		if err := printRebuilt(w, adminapi.Rebuilt{Comparison: c, Compared: true, State: "kept"}, asJSON); err != nil {
			return err
		}
	}
	return nil
}

// printRebuilt prints what differs between live and rebuilt tables, and what became of the latter.
func printRebuilt(w io.Writer, c adminapi.Rebuilt, asJSON bool) error {
	switch {
	case asJSON:
		return printJSON(w, c.Object())
	case !c.Compared:
		_, err := fmt.Fprintf(w, "%-9s rebuilt, not compared\n", c.Name)
		return err
	case c.Err != nil:
		_, err := fmt.Fprintf(w, "%-9s the rebuilt model could not be compared with the live one (%v); it is %s\n", c.Name, c.Err, c.State)
		return err
	}
	word := "differs from"
	if c.Same() {
		word = "agrees with"
	}
	if _, err := fmt.Fprintf(w, "%-9s the rebuilt model %s the live one at position %d; it is %s\n", c.Name, word, c.Position, c.State); err != nil {
		return err
	}
	for _, t := range c.Tables {
		if _, err := fmt.Fprintf(w, "  %s: %d rows agree, %d only in the live table, %d only in the rebuilt table, %d changed\n", t.Table, t.Same, t.OnlyLive, t.OnlyRebuilt, t.Changed); err != nil {
			return err
		}
		for j := range t.First {
			if _, err := fmt.Fprintf(w, "    %s\n", t.First[j].String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// someArgs requires the name of a read model.
func someArgs(cmd *cobra.Command, names []string) error {
	if len(names) > 0 {
		return nil
	}
	return usageError{fmt.Errorf("%s takes the names of read models; \"letterhead projections list\" shows them", cmd.CommandPath())}
}

func projectionsCompare(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "compare NAME...", Short: "Compare kept read models with the live ones", Args: someArgs,
		Long: "Bring read models that \"projections rebuild --keep\" has kept to the position of the live ones, and compare every column of every row. For each table, print how many rows agree, are only in one of them, or changed, and the first ones that differ. The exit status is 1 if anything differs."}
	asJSON := jsonFlag(c)
	c.RunE = e.onFolderApart(node.ToWrite, func(ctx context.Context, n *node.Node, _ *cobra.Command, names []string) error {
		found, err := n.Runner.Compare(ctx, names, progress(e.stderr, "compare"))
		if err == nil {
			err = printComparisons(e.stdout, found, *asJSON)
		}
		if err == nil && slices.ContainsFunc(found, func(c projections.Comparison) bool { return !c.Same() }) {
			err = errors.New("the rebuilt read models differ from the live ones")
		}
		return usageOf(err)
	})
	return c
}

func projectionsSwitch(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "switch NAME...", Short: "Make kept read models live", Args: someArgs,
		Long: "Bring read models that \"projections rebuild --keep\" has kept to the end of the log, make them live, and drop the ones that were. If it is interrupted, the live ones stay, and the next switch, the next start or the node that folds continues."}
	asJSON := jsonFlag(c)
	c.RunE = e.onFolderApart(node.ToWrite, func(ctx context.Context, n *node.Node, _ *cobra.Command, names []string) error {
		if err := n.Runner.Switch(ctx, names, progress(e.stderr, "switch")); err != nil {
			return usageOf(err)
		}
		return printKept(e.stdout, names, "switched", "live", *asJSON)
	})
	return c
}

func projectionsDiscard(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "discard NAME...", Short: "Drop kept read models", Args: someArgs,
		Long: "Drop the tables that \"projections rebuild --keep\" has kept. The live ones stay."}
	asJSON := jsonFlag(c)
	c.RunE = e.onFolderApart(node.ToWrite, func(ctx context.Context, n *node.Node, _ *cobra.Command, names []string) error {
		if err := n.Runner.Discard(ctx, names); err != nil {
			return usageOf(err)
		}
		return printKept(e.stdout, names, "discarded", "discarded", *asJSON)
	})
	return c
}

// printKept prints what became of kept read models: a word, or the state of each.
func printKept(w io.Writer, names []string, word, state string, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprintln(w, word)
		return err
	}
	for _, name := range names {
		if err := printJSON(w, map[string]any{"name": name, "rebuilt": state}); err != nil {
			return err
		}
	}
	return nil
}
