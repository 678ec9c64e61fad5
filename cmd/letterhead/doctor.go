package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/node"
	"letterhead/node/datafolder"
)

func doctorCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "doctor", Short: "Check a node and its data folder", Args: exactArgs()}
	asJSON := jsonFlag(c)
	examined := false
	onNode := e.onFolder(node.ToRead, func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		examined = true
		return examine(ctx, e, n.Checks(), *asJSON)
	})
	c.RunE = func(cmd *cobra.Command, args []string) error {
		examined = false
		if e.node == nil {
			cfg, err := e.config()
			if err != nil {
				return err
			}
			if !cfg.Shared() && errors.Is(datafolder.CheckWritable(cfg.Data), datafolder.ErrReadOnly) {
				ctx := cmd.Context()
				return e.onStores(ctx, e.args, node.AllShared, nil,
					func(n *node.Node) error { return examine(ctx, e, n.Checks(), *asJSON) })
			}
			if cfg.Shared() { // opening a node fails if any service is down, so first find out which
				if err := examine(cmd.Context(), e, node.Reachable(cfg), *asJSON); err != nil {
					return err
				}
			}
		}
		err := onNode(cmd, args)
		for name, cause := range map[string]error{"event log": eventlog.ErrLoss, "search": searchindex.ErrOtherLog} {
			if !examined && errors.Is(err, cause) {
				return examine(cmd.Context(), e,
					[]node.Check{{Name: name, Run: func(context.Context) (string, error) { return "", err }}}, *asJSON)
			}
		}
		return err
	}
	return c
}

// examine runs checks and prints their results.
func examine(ctx context.Context, e *environment, checks []node.Check, asJSON bool) error {
	var failed []error
	for _, check := range checks {
		detail, err := check.Run(ctx)
		word := "ok"
		if err != nil {
			word, detail = "FAIL", err.Error()
			failed = append(failed, fmt.Errorf("%s: %w", check.Name, err))
		}
		if asJSON {
			err = printJSON(e.stdout, map[string]any{"check": check.Name, "ok": err == nil, "detail": detail})
		} else {
			_, err = fmt.Fprintf(e.stdout, "%-4s %-14s %s\n", word, check.Name, detail)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}
