package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/internal/config"
	"letterhead/node"
	"letterhead/node/admin"
)

func serveCommand(e *environment) *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "Serve the API with all data in one folder, or run some roles of a distributed service",
		Args: exactArgs(), Long: serveHelp(),
	}
	c.Flags().StringVar(&e.listen, "listen", "", "address to serve on (LETTERHEAD_LISTEN; default 127.0.0.1:8080)")
	c.Flags().StringVar(&e.baseURL, "base-url", "", "URL under which clients reach this service (LETTERHEAD_BASE_URL)")
	c.Flags().StringVar(&e.renderer, "renderer", "",
		"browser for pages that are empty without their scripts: off or chromium (LETTERHEAD_RENDERER)")
	c.Flags().StringVar(&e.roles, "roles", "",
		"roles of this process: all, or some of api,crawler,projector,relay,sweeper,refresher (LETTERHEAD_ROLES)")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if e.node != nil {
			return usageError{errors.New("this server is already running")}
		}
		cfg, err := e.config()
		if err != nil {
			return err
		}
		if err := cfg.CheckServe(); err != nil {
			return usageError{fmt.Errorf("settings: %w", err)}
		}
		return serve(cmd.Context(), e, cfg)
	}
	return c
}

func serveHelp() string {
	var b strings.Builder
	b.WriteString(`Serve the API. By default event log, read models, search index and assets are in the data folder.

Settings, from the environment:
`)
	for _, s := range config.Settings() {
		fmt.Fprintf(&b, "  %-29s %s\n  %-29s default: %s\n", s.Name, s.Help, "", s.ShownDefault())
	}
	return b.String()
}

// serve runs this process's roles until ctx ends.
func serve(ctx context.Context, e *environment, cfg config.Config) error {
	node.SpareCollector()
	server := node.Server{
		Settings: cfg, Release: version, Logs: e.stderr,
		Runner: func(n *node.Node) admin.Runner {
			return func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
				inside := &environment{args: args, stdout: stdout, stderr: stderr, node: n}
				return inside.run(ctx)
			}
		},
		Begun: func(n *node.Node, begun node.Begun) error {
			if begun.New != nil {
				return greetFirst(ctx, e, n, *begun.New, begun.AdminURL)
			}
			return greetAgain(ctx, e, n, begun.AccountID, begun.AdminURL)
		},
	}
	return server.Serve(ctx)
}
