package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"letterhead/node"
)

func ledgerVerify(e *environment) *cobra.Command {
	c := &cobra.Command{
		Use: "verify", Short: "Fold one account, or all, from the first event and compare", Args: exactArgs(),
	}
	accountID := c.Flags().String("account", "", "account id (default: all accounts)")
	asJSON := jsonFlag(c)
	c.RunE = e.reads(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if n.Reading() && !n.Served() {
			if err := e.warnBehind(ctx, n); err != nil {
				return err
			}
		}
		audit, err := n.Operations.Audits.Audit(ctx, *accountID, stages(e.stderr, "verify"))
		if err != nil {
			return explainAccount(*accountID, err)
		}
		findings := audit.Findings
		if *asJSON {
			texts := make([]string, len(findings))
			for i, f := range findings {
				texts[i] = f.Error()
			}
			err = printJSON(e.stdout, map[string]any{"accounts": audit.Accounts, "events": audit.Events,
				"broken": audit.Broken, "findings": texts})
		} else if audit.Broken == 0 {
			_, err = fmt.Fprintf(e.stdout,
				"every chain holds, every snapshot and every balance agrees: %d account(s), %d events\n",
				audit.Accounts, audit.Events)
		}
		if omitted := audit.Broken - len(findings); omitted > 0 {
			findings = append(findings, fmt.Errorf("and %d more", omitted))
		}
		return errors.Join(append(findings, err)...)
	})
	return c
}
