package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/domain/brand"
	"letterhead/node"
	"letterhead/projections/brands"
)

func brandGet(e *environment) *cobra.Command {
	c := command("get IDENTIFIER", "Print a brand as the API answers it, without a charge")
	asOf := asOfFlag(c)
	c.RunE = e.onAPI(node.ToRead, func(x *client) error {
		id, err := brand.ParseIdentifier(x.args[0])
		if err != nil {
			return usageError{Err: err}
		}
		name := id.Domain
		if id.Kind == brand.BrandID {
			name = id.BrandID.String()
		}
		err = x.call("GET", withQuery("/admin/brands/"+name, map[string]any{"as_of": *asOf}), nil, &struct{}{})
		switch answered := (*apiError)(nil); {
		case !errors.As(err, &answered) || answered.status != http.StatusNotFound:
		case *asOf != "":
			return fmt.Errorf("there was no brand %s at %s, or it has been withdrawn", x.args[0], *asOf)
		default:
			return fmt.Errorf(
				"there is no brand %s in the index; an API look-up crawls it, and %q shows what a crawl would "+
					"find", x.args[0], "letterhead crawl "+x.args[0])
		}
		if err == nil {
			_, err = e.stdout.Write(x.answer)
		}
		return err
	})
	return c
}

func brandList(e *environment) *cobra.Command {
	c := command("list", "List the brands of the index")
	c.Flags().String("status", "", "only brands with this status: ready, partial or failed")
	c.Flags().Bool("claimed", false, "only claimed brands")
	c.Flags().Bool("without-logo", false, "only brands without a logo")
	sort := sortFlag(c, brands.Sorts)
	asJSON := jsonFlag(c)
	l := listing[brands.Listed]{path: "/admin/brands", field: "brands", page: somePages,
		titles: "DOMAIN\tSTATUS\tLOGO\tQUALITY\tID",
		cells: func(b *brands.Listed) []any {
			return []any{b.Domain, b.Status, b.HasLogo, fmt.Sprintf("%.2f", b.Quality), b.ID}
		}}
	c.RunE = e.onAPI(node.ToRead, func(x *client) error {
		if by := strings.TrimPrefix(*sort, "-"); by != "" && by != "domain" {
			l.page = wholePage // each page would sort all brands again
		}
		return l.list(x, e, *asJSON, nil)
	})
	return c
}

// decidedBrand is a decision about a brand as the admin API answers it.
type decidedBrand struct{ Domain string }

func brandOverride(e *environment) *cobra.Command {
	c := command("override DOMAIN FIELD JSON", "Set one field by hand; it takes precedence over crawls")
	reason := c.Flags().String("reason", "", fmt.Sprintf("why, in at most %d bytes; kept forever, so name no person",
		brand.MaxReasonBytes))
	c.RunE = e.onAPI(node.ToWrite, func(x *client) error {
		path, _, err := x.fill("/admin/brands/{DOMAIN}/overrides/{FIELD}")
		if err != nil {
			return err
		}
		value := json.RawMessage(x.args[2])
		if !json.Valid(value) {
			return misuse("%s is not JSON; a string needs double quotes", value)
		}
		var done decidedBrand
		if err := x.call("PUT", path, map[string]any{"value": value, "reason": *reason}, &done); err != nil {
			return err
		}
		return e.printf("%s: %s is set\n", done.Domain, x.args[1])
	})
	return c
}

func brandDecision(e *environment, use, short, method, path string) *cobra.Command {
	words := strings.Fields(use)
	c := command(use, short)
	return act(e, c, method, path, func(x *client, done decidedBrand) error {
		what := words[0] + " is done"
		if method == http.MethodDelete {
			what = x.args[1] + " is left to crawls"
		}
		return e.printf("%s: %s\n", done.Domain, what)
	})
}
