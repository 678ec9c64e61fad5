package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/node"
	"letterhead/workers/loss"
)

type acceptOptions struct {
	reason    string
	yes, json bool
}

// args returns the command line to forward to a server that holds the folder.
func (o acceptOptions) args() []string {
	return []string{"recover", "accept-loss", "--reason=" + o.reason, fmt.Sprintf("--yes=%t", o.yes),
		fmt.Sprintf("--json=%t", o.json)}
}

func acceptLossCommand(e *environment) *cobra.Command {
	c := command("accept-loss", "Continue without events that the log has lost")
	var o acceptOptions
	flags := c.Flags()
	flags.StringVar(&o.reason, "reason", "", "reason to record in the event")
	flags.BoolVar(&o.yes, "yes", false, "do not ask")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	c.RunE = func(cmd *cobra.Command, _ []string) error { return e.acceptLoss(cmd.Context(), o) }
	return c
}

func (e *environment) acceptLoss(ctx context.Context, o acceptOptions) error {
	if e.node != nil {
		return misuse("a server uses this folder, so it found no loss when it started; stop it to check again")
	}
	accept := func(n *node.Node) error { return e.acceptLossIn(ctx, n, o) }
	forward := func(folder string) error { return e.forward(ctx, folder, o.args(), e.stdout) }
	return e.on(node.ToWrite, restored(node.OpenDatabase), accept, forward, func(c node.Command) error {
		if !c.Settings.Shared() {
			return c.Do(ctx)
		}
		// The data is not in the folder, which a node that waits for the acceptance may hold.
		n, err := node.OpenDatabase(ctx, c.Settings, nil, c.Options)
		if err != nil {
			return err
		}
		return errors.Join(accept(n), n.Close())
	})
}

func (e *environment) acceptLossIn(ctx context.Context, n *node.Node, o acceptOptions) error {
	acceptance, err := n.Stores.PrepareAcceptance(ctx, o.reason)
	if err != nil {
		return err
	}
	if acceptance == nil {
		return e.print(o.json, map[string]any{"lost": false},
			"nothing is missing: the event log contains every known event\n")
	}
	if !o.yes {
		for _, w := range acceptance.Witnesses() {
			fmt.Fprintf(e.stderr, "%s (position %d): %s\n", w.Name, w.Remembered, w.Detail)
		}
		if err := confirm(os.Stdin, e.stderr, "The missing events stay lost. Continue without them?"); err != nil {
			return err
		}
	}
	out, err := acceptance.Accept(ctx)
	if err != nil {
		return err
	}
	object := struct {
		Lost bool `json:"lost"`
		loss.Accepted
	}{true, out}
	next := "start the service: it rebuilds"
	if n.Config.Shared() {
		next = "running nodes restart by themselves and rebuild"
	}
	return e.print(o.json, object, "accepted: the log ended at position %d; event %s at position %d records the loss\n%s the read models from the remaining events\n",
		out.Head, out.EventID, out.Position, next)
}

// confirm asks a question and fails unless the answer is yes.
func confirm(in io.Reader, out io.Writer, question string) error {
	fmt.Fprintf(out, "%s [yes/no] ", question)
	answer, err := bufio.NewReader(io.LimitReader(in, 64)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}
