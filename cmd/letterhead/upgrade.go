package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/node"
	"letterhead/operations"
	"letterhead/projections/engine"
)

func upgradeCommand(e *environment) *cobra.Command {
	return group("upgrade", "Show and finish the upgrade of a cluster", upgradeStatus(e), upgradeFinish(e))
}

func upgradeStatus(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "status", Short: "Show the progress of an upgrade, and which nodes run", Args: exactArgs()}
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(node.ToRead, func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		u, err := n.Operations.Upgrades.State(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(e.stdout, u)
		}
		return printUpgrade(e, u)
	})
	return c
}

func printUpgrade(e *environment, u operations.UpgradeState) error {
	var b strings.Builder
	if u.Finished {
		fmt.Fprintf(&b, "data format %d of this release is in force: no upgrade is under way\n", u.Format)
	} else {
		fmt.Fprintf(&b, "data format %d is in force, this release has format %d: the upgrade is not finished\n",
			u.Format, u.Release)
	}
	for _, m := range u.Models {
		fmt.Fprintf(&b, "  %s: version %d is served; version %d has %d %% of the log, %s %s\n", m.Name, m.Live,
			m.Next, uint64(m.Position)*100/max(uint64(m.Position)+m.Lag, 1), engine.Late(m.Lag, m.Behind), m.Error)
	}
	for _, n := range u.Nodes {
		switch {
		case n.Format == 0:
			b.WriteString("  a node of an older release, which does not report its name\n")
		default:
			fmt.Fprintf(&b, "  node %s has data format %d\n", n.Node, n.Format)
		}
	}
	switch {
	case u.Ready:
		b.WriteString(
			"\"letterhead upgrade finish\" finishes the upgrade; until then you can go back to the previous release\n")
	case !u.Finished && len(u.Older()) > 0:
		b.WriteString(
			"nodes of the previous release still run; the upgrade can be finished when they have been replaced\n")
	case !u.Finished:
		b.WriteString("the upgrade can be finished when every version above has caught up\n")
	}
	_, err := e.stdout.Write([]byte(b.String()))
	return err
}

func upgradeFinish(e *environment) *cobra.Command {
	c := &cobra.Command{
		Use: "finish", Short: "Finish an upgrade; you cannot go back to the previous release afterwards",
		Args: exactArgs(),
	}
	force := c.Flags().Bool("force", false, "finish even if nodes of the previous release seem to run")
	c.RunE = e.onFolder(node.ToWrite, func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		u, err := n.Operations.Upgrades.State(ctx)
		if err != nil {
			return err
		}
		if u.Finished {
			_, err := fmt.Fprintf(e.stdout, "data format %d is in force: no upgrade is under way\n", u.Format)
			return err
		}
		if older := u.Older(); len(older) > 0 && !*force {
			return fmt.Errorf("nodes of the previous release still run: %s; replace them first (they would stop), or finish anyway with --force",
				strings.Join(older, ", "))
		}
		if err := n.Operations.Upgrades.Finish(ctx, progress(e.stderr, "upgrade")); err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "the upgrade is finished: data format %d is in force\n", u.Release)
		return err
	})
	return c
}
