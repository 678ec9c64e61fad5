package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"letterhead/domain/account"
	"letterhead/node"
	"letterhead/operations"
)

func ledgerUndelivered(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "undelivered", Short: "List charges whose answers may not have been delivered",
		Args: exactArgs()}
	flags := c.Flags()
	flags.String("since", "", "earliest time (RFC 3339)")
	flags.String("account", "", "account id (default: all accounts)")
	reverse := flags.Bool("reverse", false, "reverse the listed charges, after confirmation")
	yes := flags.Bool("yes", false, "do not ask")
	notSent(c, "reverse", "yes")
	asJSON := jsonFlag(c)
	var credits, count int64
	charges := listing[operations.UndeliveredCharge]{
		path: "/admin/ledger/undelivered", field: "charges", page: wholePage,
		titles: "AT\tACCOUNT\tCREDITS\tDOMAIN\tREQUEST\tNODE\tLAST ALIVE\tGONE BY",
		cells: func(c *operations.UndeliveredCharge) []any {
			credits, count = credits+c.Credits, count+1
			return []any{c.At.UTC().Format(time.RFC3339), c.AccountID, c.Credits, c.Domain, c.RequestID,
				c.Node, c.LastAlive.UTC().Format(time.RFC3339), c.GoneBy.UTC().Format(time.RFC3339)}
		},
	}
	show := e.onAPI(node.ToRead, func(x *client) error {
		if err := charges.list(x, e, *asJSON, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(e.stderr,
			"%d charge(s), %d credit(s), whose answers may not have been delivered; some of "+
				"them may have been\n", count, credits)
		return err
	})
	undo := e.onAPI(node.ToWrite, func(x *client) error {
		var done struct {
			operations.Reversals
			Failed []string
		}
		if err := x.request("POST", "/admin/ledger/undelivered/reverse", &done); err != nil {
			return err
		}
		var failed []error
		for _, why := range done.Failed {
			failed = append(failed, errors.New(x.explain(why)))
		}
		if *asJSON {
			return errors.Join(append(failed, printJSON(e.stdout, done.Reversals))...)
		}
		_, err := fmt.Fprintf(e.stdout,
			"%d charge(s) reversed, %d credit(s); %d charge(s) are older than %s and stay\n",
			done.Reversed, done.Credits, done.TooOld, account.ReversalWindow)
		return errors.Join(append(failed, err)...)
	})
	c.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !flags.Changed("since"):
			return usageError{errors.New("--since is needed: a time like 2026-11-21T15:04:05Z")}
		case !*reverse && *yes:
			return usageError{errors.New("--yes needs --reverse")}
		case !*reverse:
			return show(cmd, args)
		case *yes:
			return undo(cmd, args)
		}
		if err := show(cmd, args); err != nil {
			return err
		}
		if err := confirm(os.Stdin, e.stderr, "Reverse these charges?"); err != nil {
			return err
		}
		return undo(cmd, args)
	}
	return c
}
