package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"letterhead/internal/eventlog"
	"letterhead/node"
)

func eventsCommand(e *environment) *cobra.Command {
	return group("events", "Print and replay the event log", eventsTail(e), replayCommand(e))
}

func eventsTail(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "tail", Short: "Print events as they are appended", Args: exactArgs()}
	from := c.Flags().Int64("from", -1, "begin after this position; 0 is the beginning of the log (default: its end)")
	streams := c.Flags().StringSlice("stream", nil,
		"only streams with this prefix, such as account- or brand-github.com")
	types := c.Flags().StringSlice("type", nil, "only events of this type")
	stop := c.Flags().Bool("no-follow", false, "stop at the end of the log")
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(node.ToRead, func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		after := eventlog.Position(max(*from, 0))
		if *from < 0 {
			head, err := n.Stores.Log.Head(ctx)
			if err != nil {
				return err
			}
			after = head
		}
		sub, err := n.Stores.Log.Subscribe(ctx, after, eventlog.Filter{StreamPrefixes: *streams, EventTypes: *types})
		if err != nil {
			return err
		}
		defer sub.Close()
		for {
			batch, err := sub.Next(ctx)
			if err != nil {
				return err
			}
			for _, r := range batch.Events {
				if err := printEvent(e, r, *asJSON); err != nil {
					return err
				}
			}
			if batch.Live && *stop {
				return nil
			}
		}
	})
	return c
}

func printEvent(e *environment, r eventlog.Recorded, asJSON bool) error {
	if asJSON {
		return printJSON(e.stdout, node.ToJSON(r))
	}
	_, err := fmt.Fprintf(e.stdout, "%d %s %s@%d %s %s\n", r.Position, r.OccurredAt.UTC().Format(time.RFC3339Nano),
		r.Stream, r.Revision, r.Type, r.Data)
	return err
}
