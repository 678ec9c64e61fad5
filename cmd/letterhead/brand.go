package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

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
	c := &cobra.Command{Use: "get IDENTIFIER", Short: "Print a brand as the API answers it, without a charge", Args: exactArgs("IDENTIFIER"),
		Long: "Print a brand as the API answers it, without a charge. With --as-of, print its record as it was then, unless the brand has been withdrawn or restricted since."}
	asOf := asOfFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		id, err := brand.ParseIdentifier(args[0])
		if err != nil {
			return usageError{err}
		}
		at, err := asOf(n.Now())
		if err != nil {
			return err
		}
		if err := n.CatchUp(ctx); err != nil {
			return err
		}
		if !at.IsZero() {
			return e.getPast(ctx, n, args[0], id, at)
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

// getPast prints a brand as it was.
func (e *environment) getPast(ctx context.Context, n *node.Node, text string, id brand.Identifier, at past) error {
	domain, err := id.Domain, error(nil)
	if id.Kind == brand.BrandID {
		var entry *brands.Entry
		if entry, err = n.BrandReader.ByID(ctx, id.BrandID); err == nil {
			domain = entry.Domain
		}
	}
	var body brands.Body
	if err == nil {
		body, err = brands.AsOf(ctx, n.Log, domain, at.Time)
	}
	switch {
	case errors.Is(err, brands.ErrNotFound):
		return fmt.Errorf("there was no brand %s at %s, or it has been withdrawn", text, at.Format(time.RFC3339Nano))
	case errors.Is(err, brands.ErrRestricted):
		return fmt.Errorf("%s is restricted now, so its older records are not shown", text)
	case err != nil:
		return err
	}
	object := body.AppendTo(nil, n.Config.BaseURL)
	if at.Provisional {
		object = append(bytes.TrimSuffix(object, []byte("}")), `,"provisional":true}`...)
	}
	_, err = fmt.Fprintf(e.stdout, "%s\n", object)
	return err
}

func brandList(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the brands of the index", Args: exactArgs()}
	var s brands.Selection
	c.Flags().StringVar(&s.Status, "status", "", "only brands with this status: ready, partial or failed")
	c.Flags().BoolVar(&s.Claimed, "claimed", false, "only claimed brands")
	c.Flags().BoolVar(&s.WithoutLogo, "without-logo", false, "only brands without a logo")
	order := addSortFlag(c, brands.Sorts)
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if !slices.Contains([]string{"", "ready", "partial", "failed"}, s.Status) {
			return usageError{fmt.Errorf("--status is ready, partial or failed, not %q", s.Status)}
		}
		var err error
		if s.Sort, s.Descending, err = order(); err != nil {
			return err
		}
		if err := n.CatchUp(ctx); err != nil {
			return err
		}
		shown := newList(e.stdout, *asJSON, "DOMAIN\tSTATUS\tLOGO\tQUALITY\tID")
		limit := brands.MaxPage
		if s.Sort != "" && s.Sort != "domain" {
			limit = math.MaxInt // each page would sort all brands again
		}
		for last := (*brands.Listed)(nil); ; {
			page, err := n.BrandReader.List(ctx, s, last, limit)
			if err != nil {
				return err
			}
			for i := range page {
				last = &page[i]
				if err := shown.add(last, last.Domain, last.Status, last.HasLogo, fmt.Sprintf("%.2f", last.Quality), last.ID); err != nil {
					return err
				}
			}
			if len(page) < limit {
				return shown.end()
			}
		}
	})
	return c
}

func brandOverride(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "override DOMAIN FIELD JSON", Short: "Set one field by hand; it takes precedence over crawls", Args: exactArgs("DOMAIN", "FIELD", "JSON")}
	reason := c.Flags().String("reason", "", fmt.Sprintf("why, in at most %d bytes; kept forever, so name no person", brand.MaxReasonBytes))
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		domain, err := brand.ParseDomain(args[0])
		if err != nil {
			return usageError{err}
		}
		if !json.Valid([]byte(args[2])) {
			return usageError{fmt.Errorf("%s is not JSON; a string needs double quotes", args[2])}
		}
		err = n.Brands.OverrideField(ctx, commands.OverrideField{Request: n.Operator(), Domain: domain, Field: args[1], Value: json.RawMessage(args[2]), Reason: *reason})
		return answered(ctx, n, e, err, domain+": "+args[1]+" is set")
	})
	return c
}

func brandRemoveOverride(e *environment) *cobra.Command {
	return &cobra.Command{Use: "remove-override DOMAIN FIELD", Short: "Let crawls decide a field again", Args: exactArgs("DOMAIN", "FIELD"),
		RunE: e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
			domain, err := brand.ParseDomain(args[0])
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
			domain, err := brand.ParseDomain(args[0])
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
