package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"letterhead/node"
	"letterhead/operations"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/search"
)

func projectionsRebuild(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "rebuild NAME... | --all", Short: "Rebuild read models from the log while they are in use"}
	all := c.Flags().Bool("all", false, "rebuild all read models and the search index")
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(node.ToWrite, func(ctx context.Context, n *node.Node, _ *cobra.Command, names []string) error {
		if *all == (len(names) > 0) {
			return usageError{
				errors.New("name the read models or use --all; \"letterhead projections list\" shows them"),
			}
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
			if err != nil {
				return usageOf(err)
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

// usageOf marks the error of a name that is no read model.
func usageOf(err error) error {
	if errors.Is(err, engine.ErrUnknown) {
		return usageError{err}
	}
	return err
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
	if _, err := fmt.Fprintf(w, "%-9s the rebuilt model %s the live one at position %d; it is %s\n",
		c.Name, word, c.Position, c.State); err != nil {
		return err
	}
	for _, t := range c.Tables {
		if _, err := fmt.Fprintf(w,
			"  %s: %d rows agree, %d only in the live table, %d only in the rebuilt table, %d changed\n",
			t.Table, t.Same, t.OnlyLive, t.OnlyRebuilt, t.Changed); err != nil {
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
