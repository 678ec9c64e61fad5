package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/node"
	"letterhead/projections/accounts"
	"letterhead/projections/ledger"
)

func booksBreakage(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "breakage", Short: "Recognize the remaining credits of closed accounts as revenue", Args: exactArgs(),
		Long: "Remove all remaining credits of a closed account, or of all accounts that were closed before a time, and recognize their deferred revenue as breakage. It cannot be undone: with --closed-before, the command shows what it would recognize, and asks. The policy, such as a clause of your terms, is recorded with the event. Accounts without credits are left out; an account with open holds is rejected. \"books deferred\" shows the credits of closed accounts.\n\nTimes are " + timeForms + "; a month or a day means its beginning."}
	var o breakageOptions
	flags := c.Flags()
	flags.StringVar(&o.accountID, "account", "", "account id")
	before := flags.String("closed-before", "", "all accounts that were closed before this time")
	flags.StringVar(&o.policy, "policy", "", "why the credits will not be used")
	flags.BoolVar(&o.yes, "yes", false, "do not ask")
	flags.BoolVar(&o.show, breakageShowFlag, false, "only show what would be recognized")
	flags.StringSliceVar(&o.shown, breakageShownFlag, nil, "only these accounts")
	if err := errors.Join(flags.MarkHidden(breakageShowFlag), flags.MarkHidden(breakageShownFlag)); err != nil {
		panic(err) // the flags were defined in the lines above
	}
	r := reportFlags(c, "account", "currency", "credits", "breakage")
	c.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		o.before, err = startOf("--closed-before", *before)
		switch {
		case err != nil:
			return err
		case o.policy == "":
			return usageError{errors.New("--policy is needed: why the credits will not be used, such as a clause of your terms")}
		case (o.accountID == "") == (*before == ""):
			return usageError{errors.New("either --account or --closed-before is needed")}
		}
		return e.breakage(streamwriter.WaitForLoading(cmd.Context()), o, r)
	}
	return c
}

// Flags with which breakage has a running server print what it would recognize as JSON, and recognize what was shown.
const (
	breakageShowFlag  = "show"
	breakageShownFlag = "shown"
)

// maxShown limits the accounts that are shown at a time. A running server gets their ids in one request.
const maxShown = 20_000

type breakageOptions struct {
	accountID, policy string
	before            time.Time // without accountID
	shown             []string  // the accounts that were closed before and shown; nil if none were
	yes, show         bool
}

func breakageRow(b *adminapi.Breakage) reportRow {
	return reportRow{[]any{b.Account, b.Currency, b.Credits, money{b.Breakage, b.Currency}}, b}
}

func (e *environment) breakage(ctx context.Context, o breakageOptions, r *reportWriter) error {
	asks := o.accountID == "" && !o.yes && !o.show
	if e.node != nil && asks {
		return usageError{errors.New("a server holds this folder, and it cannot ask you; add --yes")}
	}
	on := func(args []string, run func(n *node.Node, ids []string) error) error {
		return e.onNode(ctx, args, node.ToWrite, node.OpenCurrent, func(n *node.Node) error {
			if err := n.CatchUp(ctx, accounts.Name, ledger.Name); err != nil {
				return err
			}
			if o.accountID != "" {
				return run(n, []string{o.accountID})
			}
			if len(o.shown) > 0 {
				return run(n, o.shown)
			}
			ids, err := closedBefore(ctx, n, o.before)
			if err != nil {
				return err
			}
			return run(n, ids)
		})
	}
	show := func(n *node.Node, ids []string) error {
		for _, id := range ids {
			of, err := n.BreakageOf(ctx, id)
			if err != nil {
				return err
			}
			for _, b := range of {
				if err := printJSON(e.stdout, b); err != nil {
					return err
				}
			}
		}
		return nil
	}
	recognize := func(n *node.Node, ids []string) error { return e.recognizeBreakage(ctx, n, ids, o.policy, r) }
	switch {
	case o.show:
		return on(e.args, show)
	case !asks:
		return on(e.args, recognize)
	}
	// This process asks for confirmation, even if a server does the work. An account that is closed meanwhile is left out.
	var out bytes.Buffer
	asking := *e
	asking.stdout, asking.args, o.show = &out, append(slices.Clone(e.args), "--"+breakageShowFlag), true
	if err := asking.breakage(ctx, o, r); err != nil {
		return err
	}
	var rows []reportRow
	for in := json.NewDecoder(&out); in.More(); {
		var b adminapi.Breakage
		if err := in.Decode(&b); err != nil {
			return err
		}
		rows = append(rows, breakageRow(&b))
		if !slices.Contains(o.shown[max(0, len(o.shown)-1):], b.Account) { // the rows of an account follow each other
			o.shown = append(o.shown, b.Account)
		}
	}
	switch {
	case len(rows) == 0:
		return r.write(e.stdout, nil)
	case len(o.shown) > maxShown:
		return fmt.Errorf("%d accounts are too many to be shown at a time; give an earlier --closed-before, so that there are at most %d", len(o.shown), maxShown)
	}
	if err := r.write(e.stderr, rows); err != nil {
		return err
	}
	if err := confirm(os.Stdin, e.stderr, "Recognize this breakage? It cannot be undone."); err != nil {
		return err
	}
	return on(append(slices.Clone(e.args), "--yes", "--"+breakageShownFlag, strings.Join(o.shown, ",")), recognize)
}

// recognizeBreakage removes the credits of accounts, and prints what was recognized.
func (e *environment) recognizeBreakage(ctx context.Context, n *node.Node, ids []string, policy string, r *reportWriter) error {
	var rows []reportRow
	var rejected []error
	for _, id := range ids {
		of, err := n.RecognizeBreakage(ctx, n.Operator(), id, policy)
		for i := range of {
			rows = append(rows, breakageRow(&of[i]))
		}
		switch {
		case errors.Is(err, account.ErrOpenHolds):
			rejected = append(rejected, fmt.Errorf("account %s: %w; they end within minutes, try again then", id, err))
		case err != nil: // those before are recorded
			return errors.Join(r.write(e.stdout, rows), explainAccount(id, err))
		}
	}
	return errors.Join(append(rejected, r.write(e.stdout, rows))...)
}

// closedBefore returns the accounts with credits that were closed before a time.
func closedBefore(ctx context.Context, n *node.Node, until time.Time) (ids []string, err error) {
	for last := (*accounts.Account)(nil); ; {
		page, err := n.Accounts.Select(ctx, accounts.Selection{Status: account.Closed}, last, accounts.MaxPage)
		if err != nil {
			return nil, err
		}
		for i := range page {
			last = &page[i]
			if last.Balance <= 0 {
				continue
			}
			then, err := n.Ledger.State(ctx, last.ID, until.Add(-time.Microsecond))
			switch {
			case err == nil && then.Status == account.Closed:
				ids = append(ids, last.ID)
			case err != nil && !errors.Is(err, ledger.ErrNotFound): // opened later
				return nil, err
			}
		}
		if len(page) < accounts.MaxPage {
			return ids, nil
		}
	}
}
