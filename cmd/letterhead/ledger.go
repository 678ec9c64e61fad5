package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/node"
	"letterhead/operations"
	"letterhead/projections/ledger"
)

// listPage is the number of rows that a listing reads at a time.
const listPage = 500

func ledgerShow(e *environment) *cobra.Command {
	c := command("show", "Show the ledger of an account")
	accountID := c.Flags().String("account", "", "account id")
	var f ledger.Filter
	c.Flags().StringVar(&f.RequestID, "request-id", "", "only the lines of this request (X-Request-Id of the answer)")
	c.Flags().StringVar(&f.Type, "type", "", "only events of this type, such as CreditsCharged")
	c.Flags().StringVar(&f.PaymentID, "payment-id", "", "only the lines of this payment")
	c.Flags().StringVar(&f.KeyID, "key", "", "only the lines of this API key")
	from := c.Flags().String("from", "", "only lines from this time on")
	to := c.Flags().String("to", "", "only lines up to this time")
	asOf := c.Flags().String("as-of", "", "the same as --to")
	last := c.Flags().Int("last", 0, "only the last N lines")
	all := c.Flags().Bool("all", false, "also show events that do not change the balance")
	asJSON := jsonFlag(c)
	e.completeAccounts(c, "")
	c.RunE = e.onFolder(node.ToRead, func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if *accountID == "" {
			return misuse("--account is needed; %q lists the accounts", "letterhead account list")
		}
		if *last < 1 && c.Flags().Changed("last") {
			return misuse("--last must be a positive number")
		}
		if f.Type != "" && !slices.Contains(eventschemas.Types(), f.Type) {
			return misuse("--type: there are no events of type %q; docs/events.md lists the types",
				f.Type)
		}
		if _, err := parsePast(*asOf, n.Now()); err != nil {
			return err
		}
		if *to != "" && *asOf != "" {
			return misuse("--to and --as-of both end the list; give one of them")
		}
		until := "--to"
		if *to == "" {
			until, to = "--as-of", asOf
		}
		var err error
		if f.From, f.Until, err = rangeOf(*from, until, *to); err != nil {
			return err
		}
		if *accountID, err = accountIn(ctx, n, c, *accountID); err != nil {
			return err
		}
		// The output must include everything that was answered before the command began.
		if err := n.Operations.Reads.Folded(ctx, ledger.Name); err != nil {
			return err
		}
		f.Credits = !*all && !*asJSON && f.Type == "" && f.RequestID == ""
		if *last > 0 {
			f.FromRevision, err = n.Models.Ledger.Last(ctx, *accountID, f, *last)
			if err != nil && !errors.Is(err, ledger.ErrNotFound) {
				return err
			}
		}
		shown := newList(e.stdout, *asJSON, "REV\tAT\tTYPE\tKIND\tAMOUNT\tMONEY\tBALANCE\tDOMAIN\tREQUEST")
		for entry, err := range n.Models.Ledger.Entries(ctx, *accountID, f) {
			if err != nil {
				return err
			}
			if err := shown.add(entry, entry.Revision, entry.At.UTC().Format(time.RFC3339), entry.Type, entry.Kind,
				fmt.Sprintf("%+d", entry.Amount),
				formatMoney(entry.Money, entry.Currency), entry.Balance, entry.Domain, entry.RequestID); err != nil {
				return err
			}
		}
		return shown.end()
	})
	return c
}

func ledgerVerify(e *environment) *cobra.Command {
	c := command("verify", "Fold one account, or all, from the first event and compare")
	accountID := c.Flags().String("account", "", "account id (default: all accounts)")
	against := c.Flags().String("against", "", "file or https URL of a witness: also compare the log with each checkpoint that it keeps")
	given := c.Flags().StringArray("key", nil, "with --against: public key, or a file with them; may be given several times")
	asJSON := jsonFlag(c)
	c.RunE = e.reads(func(ctx context.Context, n *node.Node, c *cobra.Command, _ []string) (err error) {
		var keys note.Verifiers
		switch {
		case *against == "":
		case *accountID != "":
			return misuse("--against compares all accounts; leave out --account")
		default:
			if keys, err = e.publicKeys(*given); err != nil {
				return err
			}
		}
		if n.Reading() && !n.Served() {
			if err := e.warnBehind(ctx, n); err != nil {
				return err
			}
		}
		if *accountID != "" {
			if *accountID, err = accountIn(ctx, n, c, *accountID); err != nil {
				return err
			}
		}
		audit, err := n.Operations.Audits.Audit(ctx, *accountID, stages(e.stderr, "verify"))
		if err != nil {
			return explainAccount(*accountID, err)
		}
		findings := audit.Findings
		witnessed := ""
		if *against != "" {
			w := n.Operations.Checkpoints.Witness(*against)
			if witnessed, err = w.Compare(ctx, n.Operations.Checkpoints.Proofs(nil), keys); err != nil {
				findings = append(findings, fmt.Errorf("witness %s: %w", *against, err))
			}
		}
		if *asJSON {
			texts := make([]string, len(findings))
			for i, f := range findings {
				texts[i] = f.Error()
			}
			err = printJSON(e.stdout, map[string]any{"accounts": audit.Accounts, "events": audit.Events,
				"broken": audit.Broken, "findings": texts, "signed": audit.Signed, "against": witnessed})
		} else if audit.Broken == 0 {
			_, err = fmt.Fprintf(e.stdout,
				"every chain holds, every snapshot and every balance agrees: %d account(s), %d events\n",
				audit.Accounts, audit.Events)
			if witnessed != "" {
				audit.Signed += "\n" + witnessed
			}
			if err == nil {
				err = e.printf("%s\n", audit.Signed)
			}
		}
		if omitted := audit.Broken - len(audit.Findings); omitted > 0 {
			findings = append(findings, fmt.Errorf("and %d more", omitted))
		}
		return errors.Join(append(findings, err)...)
	})
	return c
}

func ledgerUndelivered(e *environment) *cobra.Command {
	c := command("undelivered", "List charges whose answers may not have been delivered")
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
		if flags.Changed("account") { // so that what is listed is reversed
			id, err := x.accountID(flags.Lookup("account").Value.String())
			if err := cmp.Or(err, flags.Set("account", id)); err != nil {
				return err
			}
		}
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
			return misuse("--since is needed: a time like 2026-11-21T15:04:05Z")
		case !*reverse && *yes:
			return misuse("--yes needs --reverse")
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
