package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/node"
	"letterhead/projections/brands"
)

func brandCommand(e *environment) *cobra.Command {
	return group("brand", "Show and change brands",
		brandGet(e), brandList(e), brandOverride(e), brandRemoveOverride(e),
		brandDecision(e, "claim DOMAIN", "Mark a brand as claimed by its owner", func(ctx context.Context, n *node.Node, domain string) error {
			return n.Brands.ClaimBrand(ctx, commands.ClaimBrand{Request: n.Operator(), Domain: domain})
		}),
		brandDecision(e, "withdraw DOMAIN", "Remove a brand permanently at its owner's request", func(ctx context.Context, n *node.Node, domain string) error {
			return n.Brands.WithdrawBrand(ctx, commands.WithdrawBrand{Request: n.Operator(), Domain: domain, Reason: "owner"})
		}),
	)
}

func brandGet(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "get IDENTIFIER", Short: "Print a brand as the API answers it, without a charge", Args: exactArgs("IDENTIFIER")}
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		id, err := brand.ParseIdentifier(args[0])
		if err != nil {
			return usageError{err}
		}
		if err := n.CatchUp(ctx); err != nil {
			return err
		}
		var entry *brands.Entry
		if id.Kind == brand.BrandID {
			entry, err = n.BrandReader.ByID(ctx, id.BrandID)
		} else {
			entry, err = n.BrandReader.Get(ctx, id.Domain)
		}
		if errors.Is(err, brands.ErrNotFound) {
			return fmt.Errorf("there is no brand %s in the index; an API look-up crawls it, and %q shows what a crawl would find", args[0], "letterhead crawl "+args[0])
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "%s\n", entry.Body.AppendTo(nil, n.Config.BaseURL))
		return err
	})
	return c
}

func brandList(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the brands of the index by domain", Args: exactArgs()}
	status := c.Flags().String("status", "", "only brands with this status: ready, partial or failed")
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if !slices.Contains([]string{"", "ready", "partial", "failed"}, *status) {
			return usageError{fmt.Errorf("--status is ready, partial or failed, not %q", *status)}
		}
		if err := n.CatchUp(ctx); err != nil {
			return err
		}
		table := tabwriter.NewWriter(e.stdout, 0, 4, 2, ' ', 0)
		if !*asJSON {
			fmt.Fprintln(table, "DOMAIN\tSTATUS\tLOGO\tID")
		}
		for after := ""; ; {
			rows, err := n.BrandReader.List(ctx, after, listPage)
			if err != nil {
				return err
			}
			for _, r := range rows {
				after = r.Domain
				if *status != "" && r.Status != *status {
					continue
				}
				if *asJSON {
					err = printJSON(e.stdout, map[string]any{"domain": r.Domain, "id": r.ID, "status": r.Status, "has_logo": r.HasLogo, "revision": r.Revision})
				} else {
					_, err = fmt.Fprintf(table, "%s\t%s\t%t\t%s\n", r.Domain, r.Status, r.HasLogo, r.ID)
				}
				if err != nil {
					return err
				}
			}
			if len(rows) < listPage {
				return table.Flush()
			}
		}
	})
	return c
}

func brandOverride(e *environment) *cobra.Command {
	return &cobra.Command{Use: "override DOMAIN FIELD JSON", Short: "Set one field by hand; it takes precedence over crawls", Args: exactArgs("DOMAIN", "FIELD", "JSON"),
		RunE: e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
			domain, err := brand.RegistrableDomain(args[0])
			if err != nil {
				return usageError{err}
			}
			if !json.Valid([]byte(args[2])) {
				return usageError{fmt.Errorf("%s is not JSON; a string needs double quotes", args[2])}
			}
			err = n.Brands.OverrideField(ctx, commands.OverrideField{Request: n.Operator(), Domain: domain, Field: args[1], Value: json.RawMessage(args[2])})
			return answered(ctx, n, e, err, domain+": "+args[1]+" is set")
		})}
}

func brandRemoveOverride(e *environment) *cobra.Command {
	return &cobra.Command{Use: "remove-override DOMAIN FIELD", Short: "Let crawls decide a field again", Args: exactArgs("DOMAIN", "FIELD"),
		RunE: e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
			domain, err := brand.RegistrableDomain(args[0])
			if err != nil {
				return usageError{err}
			}
			err = n.Brands.RemoveOverride(ctx, commands.RemoveOverride{Request: n.Operator(), Domain: domain, Field: args[1]})
			return answered(ctx, n, e, err, domain+": "+args[1]+" is left to crawls")
		})}
}

func brandDecision(e *environment, use, short string, do func(context.Context, *node.Node, string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: exactArgs("DOMAIN"),
		RunE: e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
			domain, err := brand.RegistrableDomain(args[0])
			if err != nil {
				return usageError{err}
			}
			verb, _, _ := strings.Cut(use, " ")
			return answered(ctx, n, e, do(ctx, n, domain), domain+": "+verb+" is done")
		})}
}

// answered waits until look-ups follow a decision about a brand, and prints a confirmation.
func answered(ctx context.Context, n *node.Node, e *environment, err error, what string) error {
	if err != nil {
		return err
	}
	if err := n.AwaitBrands(ctx); err != nil {
		return fmt.Errorf("%s: %w: %w", what, node.ErrNotSeen, err)
	}
	_, err = fmt.Fprintln(e.stdout, what)
	return err
}
