package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"letterhead/internal/webhook"
	"letterhead/node"
	"letterhead/operations"
)

func accountNotices(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "notices ID", Short: "Show, set or retry the notices of an account"}
	c.Flags().Int64("low-balance", 0, "credits below which the balance is low; 0 for no notice of it")
	c.Flags().String("webhook", "", "https URL to which notices are sent")
	c.Flags().String("email", "", "e-mail address to which notices are sent")
	retry := c.Flags().String("retry", "", "id of a notice to attempt again")
	public := c.Flags().Bool("public-key", false, "print the public key of webhooks")
	fresh := c.Flags().Bool("new-key", false, "print a new private key of webhooks")
	asJSON := jsonFlag(c)
	c.MarkFlagsMutuallyExclusive("public-key", "new-key", "retry")
	c.Args = func(cmd *cobra.Command, args []string) error {
		if !*public && !*fresh {
			return exactArgs("ID")(cmd, args)
		}
		return exactArgs()(cmd, args)
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if *fresh {
			key, err := webhook.NewKey(rand.Reader)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(e.stdout, key.Private())
			return err
		}
		if *public {
			return e.onFolder(node.ToWrite, func(_ context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
				key, err := n.Operations.Notices.Key()
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(e.stdout, key.Public())
				return err
			})(cmd, args)
		}
		use := node.ToRead
		set := slices.ContainsFunc([]string{"low-balance", "webhook", "email"}, cmd.Flags().Changed)
		if set && *retry != "" {
			return usageError{errors.New("--retry cannot be combined with settings; run the command twice")}
		}
		if set || *retry != "" {
			use = node.ToWrite
		}
		return e.onAPI(use, func(x *client) error {
			var shown operations.NoticeSettings
			var err error
			switch {
			case set:
				err = x.request("PATCH", "/admin/accounts/{ID}/notices", &shown)
			case *retry != "":
				err = x.request("POST", "/admin/accounts/{ID}/notices/{retry}/retry", &shown)
			default:
				err = x.request("GET", "/admin/accounts/{ID}/notices", &shown)
			}
			if err != nil {
				return err
			}
			if *asJSON {
				_, err = e.stdout.Write(x.answer)
				return err
			}
			return e.printNotices(&shown)
		})(cmd, args)
	}
	return c
}

// printNotices prints the settings and the last notices of an account.
func (e *environment) printNotices(shown *operations.NoticeSettings) error {
	threshold := "no notice"
	if shown.LowBalance > 0 {
		threshold = fmt.Sprintf("below %d credits", shown.LowBalance)
	}
	fmt.Fprintf(e.stdout, "low balance  %s\nwebhook      %s\ne-mail       %s\n",
		threshold, cmp.Or(shown.Webhook, "none"),
		cmp.Or(shown.Email, "none"))
	if len(shown.Notices) == 0 {
		return nil
	}
	table := newTable(e.stdout)
	fmt.Fprintln(table, "NOTICE\tKIND\tRAISED\tABOUT\tDESTINATION\tSTATE\tATTEMPTS\tNEXT\tREASON")
	for _, d := range shown.Notices {
		next := "-"
		if !d.NextAt.IsZero() {
			next = d.NextAt.Format(time.RFC3339)
		}
		about := fmt.Sprintf("%d of %d credits", d.Balance, d.Threshold)
		if d.Payment != nil {
			about = d.Payment.ID
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", d.NoticeID, d.Kind,
			d.RaisedAt.Format(time.RFC3339), about,
			d.Destination, d.State, d.Attempts, next, cmp.Or(d.Reason, "-"))
	}
	return table.Flush()
}
