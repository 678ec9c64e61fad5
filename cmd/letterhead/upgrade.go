package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/node"
)

func upgradeCommand(e *environment) *cobra.Command {
	return group("upgrade", "Show and finish the upgrade of a service of several nodes", upgradeStatus(e), upgradeFinish(e))
}

func upgradeStatus(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "status", Short: "Show how far an upgrade is, and which nodes run", Args: exactArgs(),
		Long: "Show which data format is in force, how far the read models of this release are built, and which nodes are connected to the database. Exit code 0 also while an upgrade is not finished."}
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		u, err := n.UpgradeState(ctx)
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

func printUpgrade(e *environment, u node.UpgradeState) error {
	var b strings.Builder
	if u.Finished {
		fmt.Fprintf(&b, "data format %d is in force, that of this release: no upgrade is under way\n", u.Format)
	} else {
		fmt.Fprintf(&b, "data format %d is in force, this release has format %d: the upgrade is not finished\n", u.Format, u.Release)
	}
	for _, m := range u.Models {
		fmt.Fprintf(&b, "  %s: version %d is served; version %d is at position %d, %d behind %s\n", m.Name, m.Live, m.Next, m.Position, m.Lag, m.Error)
	}
	for _, n := range u.Nodes {
		switch {
		case n.Format == 0:
			b.WriteString("  a node of an older release, which does not give its name\n")
		default:
			fmt.Fprintf(&b, "  node %s has data format %d\n", n.Node, n.Format)
		}
	}
	switch {
	case u.Ready:
		b.WriteString("\"letterhead upgrade finish\" ends the upgrade; going back to the release before is possible until then\n")
	case !u.Finished && len(u.Older()) > 0:
		b.WriteString("nodes of the release before still run; the upgrade can be finished when they have been replaced\n")
	case !u.Finished:
		b.WriteString("the upgrade can be finished when every version above is level\n")
	}
	_, err := e.stdout.Write([]byte(b.String()))
	return err
}

func upgradeFinish(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "finish", Short: "End an upgrade: from then on there is no way back to the release before", Args: exactArgs(),
		Long: `End an upgrade, when every node runs the new release: the read models of its versions become the ones
that are read, and new versions of events are written from then on. Nodes of the release before stop, and
do not start any more. Repeating it does nothing. It waits until the new versions are built; interrupting
it leaves the upgrade unfinished.`}
	force := c.Flags().Bool("force", false, "although nodes of the release before seem to run")
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		u, err := n.UpgradeState(ctx)
		if err != nil {
			return err
		}
		if u.Finished {
			_, err := fmt.Fprintf(e.stdout, "data format %d is in force: no upgrade is under way\n", u.Format)
			return err
		}
		if older := u.Older(); len(older) > 0 && !*force {
			return fmt.Errorf("nodes of the release before still run: %s; replace them first (they would stop), or finish all the same with --force",
				strings.Join(older, ", "))
		}
		if err := n.FinishUpgrade(ctx, progress(e.stderr, "upgrade")); err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "the upgrade is finished: data format %d is in force\n", u.Release)
		return err
	})
	return c
}
