package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/node"
	"letterhead/node/datafolder"
)

func doctorCommand(e *environment) *cobra.Command {
	c := command("doctor", "Check a node and its data folder")
	asJSON := jsonFlag(c)
	examined := false
	onNode := e.onFolder(node.ToRead, func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		examined = true
		return examine(ctx, e, n.Checks(), *asJSON)
	})
	c.RunE = func(cmd *cobra.Command, args []string) error {
		examined = false
		if e.node == nil {
			cfg, err := e.config()
			if err != nil {
				return err
			}
			if !cfg.Shared() && errors.Is(datafolder.CheckWritable(cfg.Data), datafolder.ErrReadOnly) {
				ctx := cmd.Context()
				return e.onStores(ctx, e.args, node.AllShared, nil,
					func(n *node.Node) error { return examine(ctx, e, n.Checks(), *asJSON) })
			}
			if cfg.Shared() { // opening a node fails if any service is down, so first find out which
				if err := examine(cmd.Context(), e, node.Reachable(cfg), *asJSON); err != nil {
					return err
				}
			}
		}
		err := onNode(cmd, args)
		for name, cause := range map[string]error{"event log": eventlog.ErrLoss, "search": searchindex.ErrOtherLog} {
			if !examined && errors.Is(err, cause) {
				return examine(cmd.Context(), e,
					[]node.Check{{Name: name, Run: func(context.Context) (string, error) { return "", err }}}, *asJSON)
			}
		}
		return err
	}
	return c
}

func examine(ctx context.Context, e *environment, checks []node.Check, asJSON bool) error {
	var failed []error
	for _, check := range checks {
		detail, err := check.Run(ctx)
		word := "ok"
		if err != nil {
			word, detail = "FAIL", err.Error()
			failed = append(failed, fmt.Errorf("%s: %w", check.Name, err))
		}
		if asJSON {
			err = printJSON(e.stdout, map[string]any{"check": check.Name, "ok": err == nil, "detail": detail})
		} else {
			_, err = fmt.Fprintf(e.stdout, "%-4s %-14s %s\n", word, check.Name, detail)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// Limits of one health check.
const (
	healthTimeout  = 2 * time.Second
	maxHealthBytes = 1 << 10
)

func healthCommand(e *environment) *cobra.Command {
	c := command("health", "Check whether the node on this machine is ready")
	c.Flags().StringVar(&e.listen, "listen", "",
		"address that the node serves on (LETTERHEAD_LISTEN; default 127.0.0.1:8080)")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := e.config()
		if err != nil {
			return err
		}
		text, err := checkReady(cmd.Context(), cfg.Listen)
		if err != nil {
			return err
		}
		return e.printf("%s\n", text)
	}
	return c
}

// checkReady returns the body of /readyz. It fails unless the status is 200.
func checkReady(ctx context.Context, listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return "", err
	}
	// The default client would use a proxy from the environment; this one connects to the node directly.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("the node does not answer: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealthBytes))
	if err != nil {
		return "", fmt.Errorf("read the node's answer: %w", err)
	}
	text := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the node is not ready (%s): %s", resp.Status, text)
	}
	return text, nil
}
