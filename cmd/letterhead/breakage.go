package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/eventschemas"
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

// breakage is what is recognized of an account in a currency.
type breakage struct {
	Account  string `json:"account"`
	Breakage int64  `json:"breakage"`
	Credits  int64  `json:"credits"`
	Currency string `json:"currency"`
}

func (b breakage) row() reportRow {
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
			of, err := breakageRows(ctx, n, id, 0)
			if err != nil {
				return err
			}
			for _, row := range of {
				if err := printJSON(e.stdout, row.object); err != nil {
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
		var b breakage
		if err := in.Decode(&b); err != nil {
			return err
		}
		rows = append(rows, b.row())
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
		of, err := recognizeBreakage(ctx, n, id, policy)
		rows = append(rows, of...)
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

// maxBreakageAttempts limits the attempts to recognize the breakage of an account while the outcome is not known.
const maxBreakageAttempts = 3

// recognizeBreakage removes the credits of an account, and returns a row for each currency of its lots.
func recognizeBreakage(ctx context.Context, n *node.Node, id, policy string) (rows []reportRow, err error) {
	in := commands.RecognizeBreakage{Request: n.Operator(), AccountID: id, Policy: policy}
	done, err := n.AccountWriter.RecognizeBreakage(ctx, in)
	for attempt := 1; attempt < maxBreakageAttempts && errors.Is(err, commands.ErrUnknownOutcome); attempt++ {
		done, err = n.AccountWriter.RecognizeBreakage(ctx, in)
	}
	if err != nil || done.Credits == 0 {
		return nil, err
	}
	if err := n.CatchUp(ctx, ledger.Name); err != nil {
		return nil, err
	}
	revision, err := n.Ledger.Last(ctx, id, ledger.Filter{Type: eventschemas.BreakageRecognized{}.EventType()}, 1)
	if err != nil {
		return nil, err
	}
	return breakageRows(ctx, n, id, revision)
}

// breakageRows returns a row for each currency of the lots of an account before a revision, or at its end if it is 0.
func breakageRows(ctx context.Context, n *node.Node, id string, revision uint64) (rows []reportRow, err error) {
	if revision == 0 {
		last, err := n.Ledger.Last(ctx, id, ledger.Filter{}, 1)
		if err != nil {
			return nil, err
		}
		revision = last + 1
	}
	for before, err := range n.Ledger.Entries(ctx, id, ledger.Filter{FromRevision: revision - 1, Limit: 1}) {
		if err != nil {
			return nil, err
		}
		lots, err := n.Ledger.Books(ctx, before)
		if err != nil {
			return nil, err
		}
		rests := lots.Rests()
		for _, currency := range slices.Sorted(maps.Keys(rests)) {
			rest := rests[currency]
			rows = append(rows, breakage{id, rest.Deferred, rest.Credits, currency}.row())
		}
	}
	return rows, nil
}
