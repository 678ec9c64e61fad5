package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"letterhead/domain/account"
	"letterhead/domain/operator"
	"letterhead/domain/signin"
	"letterhead/internal/accountnames"
	"letterhead/internal/config"
	"letterhead/internal/disk"
	"letterhead/node"
	"letterhead/projections/accounts"
	"letterhead/starter"
	"letterhead/workers/generate"
)

// demoNames are the holders of the demonstration's accounts. The companies are invented. Closed accounts have no name,
// so the last ones may not be used.
var demoNames = []string{"Harbor & Vine", "Northwind Atlas", "Aster & Pine", "Quillon Press", "Brightmoor Energy",
	"Tallow Street Foods", "Ferrous Labs", "Lumen Ferry", "Copperline Rail", "Juniper Ledger", "Saltmarsh Studio", "Oakhill Robotics"}

// demoBrands are looked up most often in the demonstration, followed by all others of the starter index.
var demoBrands = []string{"github.com", "figma.com", "spotify.com", "stripe.com", "airbnb.com", "netflix.com"}

// demoEvents and demoMonths give the busiest account some thirty look-ups a day.
const demoEvents, demoMonths = 20_000, 6

func demoCommand(e *environment) *cobra.Command {
	c := command("demo", "Serve accounts with half a year of history, and keep nothing")
	listen := c.Flags().String("listen", "127.0.0.1:8080", "address to serve on")
	c.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if e.node != nil || e.data != "" {
			return misuse("demo uses a temporary folder of its own: leave out --data")
		}
		// By default a closed terminal or pipe would end the process before it removes its folder. A write to a closed
		// pipe fails instead.
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
		defer stop()
		signal.Ignore(syscall.SIGPIPE)
		const prefix = "letterhead-demo-"
		if err := disk.RemoveLeft(os.TempDir(), prefix); err != nil { // of demonstrations that were killed
			fmt.Fprintln(e.stderr, "warning:", err)
		}
		folder, err := disk.NewTempFolder(os.TempDir(), prefix)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, folder.Remove()) }()
		// Settings of a service on this machine do not apply to the demonstration.
		cfg, err := config.Load(func(string) (string, bool) { return "", false }, map[string]string{
			"LETTERHEAD_DATA": filepath.Join(folder.Path, "data"), "LETTERHEAD_LISTEN": *listen,
			"LETTERHEAD_REFRESH": "off", "LETTERHEAD_LOG_LEVEL": "warn",
		})
		if err != nil {
			return misuse("demo: %w", err)
		}
		// Operators are on this machine, whatever the address for visitors.
		cfg.AdminListen, cfg.AdminDefault = config.DefaultAdminListen, true
		free, err := net.Listen("tcp", cfg.Listen)
		if err != nil {
			return misuse("demo: %w; choose another address with --listen", err)
		}
		if err := errors.Join(free.Close(), e.printf("Making a history of %d months…\n", demoMonths)); err != nil {
			return err
		}
		if err := generateDemo(ctx, e, cfg); err != nil {
			return err
		}
		return serve(ctx, e, cfg, func(n *node.Node, _ node.Begun) error { return greetDemo(ctx, e, n) })
	}
	return c
}

// generateDemo writes the history of the demonstration, which ends now, with look-ups of the brands of the starter index.
func generateDemo(ctx context.Context, e *environment, cfg config.Config) error {
	history := generate.Defaults()
	history.Accounts, history.Events, history.Months, history.Hot = len(demoNames), demoEvents, demoMonths, 0.3
	history.Until, history.Brands = time.Now(), demoBrands
	err := starter.Each(func(b starter.Brand) error {
		history.Brands = append(history.Brands, b.Domain)
		return nil
	})
	if err != nil {
		return err
	}
	_, err = node.Generate(ctx, cfg, e.options(node.ToWrite), history, func(int) {})
	return err
}

// greetDemo names the accounts, and prints links with which a visitor signs in to the busiest one and as an operator.
func greetDemo(ctx context.Context, e *environment, n *node.Node) error {
	all, err := n.Models.Accounts.List(ctx, "", len(demoNames))
	if err != nil {
		return err
	}
	var names []accountnames.Entry
	var busiest accounts.Account
	for _, a := range all {
		if a.Status == account.Closed {
			continue // its names are erased
		}
		names = append(names, accountnames.Entry{ID: a.Holder, Name: demoNames[len(names)]})
		if a.Revision > busiest.Revision {
			busiest = a
		}
	}
	if err := n.Stores.Names.PutAll(ctx, names); err != nil {
		return err
	}
	customer, err := n.Operations.SignIns.IssueLink(ctx, n.Operator(), busiest.ID, signin.Owner)
	if err != nil {
		return err
	}
	visitor, err := n.Operations.Tokens.IssueLink(ctx, n.Operator(), "Demo operator", operator.Admin)
	if err != nil {
		return err
	}
	return e.printf(`
  first page   %s/
  a brand      %[1]s/brands/github.com
  dashboard    %s
  operators    %s
  Each link signs in once, within %d minutes. Ctrl-C ends the demonstration and removes its data.

`, n.Config.BaseURL, customer.URL, visitor.URL, signin.LinkLifetime/time.Minute)
}
