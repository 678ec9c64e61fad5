package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/node"
)

// maxUndelivered limits the charges that are listed at a time: some 400 MB.
const maxUndelivered = 1_000_000

// undeliveredOptions are the flags of the command.
type undeliveredOptions struct {
	since, accountID   string
	reverse, yes, json bool
}

// args returns the command line to forward to a server that holds the folder.
func (o undeliveredOptions) args() []string {
	return []string{"ledger", "undelivered", "--since=" + o.since, "--account=" + o.accountID,
		fmt.Sprintf("--reverse=%t", o.reverse), fmt.Sprintf("--yes=%t", o.yes), fmt.Sprintf("--json=%t", o.json)}
}

func ledgerUndelivered(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "undelivered", Short: "List charges whose answers may not have been delivered", Args: exactArgs(),
		Long: `List the charges since a given time whose answers may not have been delivered: they
were made shortly before a server process ended without a clean shutdown (kill -9,
power cut, out of memory, a stop that cut off requests). Most of the listed answers
may have been delivered: the server records only every 5 seconds which charges were
answered, because a write per look-up would cost too much. The list omits charges
that were reversed and charges that were answered again under an idempotency key.

With --reverse the listed charges are reversed, within 24 hours of each charge. A
charge is reversed only once, however often the command runs.`}
	var o undeliveredOptions
	flags := c.Flags()
	flags.StringVar(&o.since, "since", "", "earliest time (RFC 3339)")
	flags.StringVar(&o.accountID, "account", "", "account id (default: all accounts)")
	flags.BoolVar(&o.reverse, "reverse", false, "reverse the listed charges, after confirmation")
	flags.BoolVar(&o.yes, "yes", false, "do not ask")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		since, err := time.Parse(time.RFC3339, o.since)
		if err != nil {
			return usageError{errors.New("--since is needed: a time like 2026-11-21T15:04:05Z")}
		}
		if o.yes && !o.reverse {
			return usageError{errors.New("--yes needs --reverse")}
		}
		return e.undelivered(cmd.Context(), o, since)
	}
	return c
}

func (e *environment) undelivered(ctx context.Context, o undeliveredOptions, since time.Time) error {
	if e.node != nil && o.reverse && !o.yes {
		return usageError{errors.New("a server holds this folder, and it cannot ask you; add --yes")}
	}
	ctx = streamwriter.WaitForLoading(ctx)
	if !o.reverse || o.yes {
		use := node.ToRead
		if o.reverse {
			use = node.ToWrite
		}
		return e.onNode(ctx, o.args(), use, node.OpenCurrent, func(n *node.Node) error { return undelivered(ctx, n, e, o, since) })
	}
	// This process asks for confirmation, even if a server does the work.
	list := o
	list.reverse = false
	if err := e.undelivered(ctx, list, since); err != nil {
		return err
	}
	if err := confirm(os.Stdin, e.stderr, "Reverse these charges?"); err != nil {
		return err
	}
	o.yes = true
	return e.undelivered(ctx, o, since)
}

func undelivered(ctx context.Context, n *node.Node, e *environment, o undeliveredOptions, since time.Time) error {
	charges, err := n.UndeliveredCharges(ctx, o.accountID, since, maxUndelivered)
	if err != nil {
		return err
	}
	if o.reverse {
		return reverseUndelivered(ctx, n, e, charges, o.json)
	}
	if err := printUndelivered(e.stdout, charges, o.json); err != nil {
		return err
	}
	var credits int64
	for _, c := range charges {
		credits += c.Credits
	}
	_, err = fmt.Fprintf(e.stderr, "%d charge(s), %d credit(s), whose answers may not have been delivered; some of them may have been\n", len(charges), credits)
	return err
}

func printUndelivered(w io.Writer, charges []adminapi.UndeliveredCharge, asJSON bool) error {
	shown := newList(w, asJSON, "AT\tACCOUNT\tCREDITS\tDOMAIN\tREQUEST\tNODE\tLAST ALIVE\tGONE BY")
	for _, c := range charges {
		if err := shown.add(c, c.At.UTC().Format(time.RFC3339), c.AccountID, c.Credits, c.Domain, c.RequestID,
			c.Node, c.LastAlive.UTC().Format(time.RFC3339), c.GoneBy.UTC().Format(time.RFC3339)); err != nil {
			return err
		}
	}
	return shown.end()
}

func reverseUndelivered(ctx context.Context, n *node.Node, e *environment, charges []adminapi.UndeliveredCharge, asJSON bool) error {
	done, failed, err := n.ReverseCharges(ctx, n.Operator(), charges)
	if err != nil {
		return err
	}
	if asJSON {
		return errors.Join(append(failed, printJSON(e.stdout, done))...)
	}
	_, err = fmt.Fprintf(e.stdout, "%d charge(s) reversed, %d credit(s); %d charge(s) are older than %s and stay\n", done.Reversed, done.Credits, done.TooOld, account.ReversalWindow)
	return errors.Join(append(failed, err)...)
}
