package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Limits of a health check.
const (
	healthTimeout  = 2 * time.Second
	maxHealthBytes = 1 << 10
)

func healthCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "health", Short: "Ask a serving node of this machine whether it is ready", Args: exactArgs(),
		Long: "Ask /readyz of the node that listens at LETTERHEAD_LISTEN. Exit code 0 when it is ready, 1 when it is not or does not answer. For containers, which have no shell to ask with."}
	c.Flags().StringVar(&e.listen, "listen", "", "address that the node serves on (LETTERHEAD_LISTEN; default 127.0.0.1:8080)")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := e.config()
		if err != nil {
			return err
		}
		said, err := askReady(cmd.Context(), cfg.Listen)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(e.stdout, said)
		return err
	}
	return c
}

// askReady returns what /readyz says, and an error unless that is 200.
func askReady(ctx context.Context, listen string) (string, error) {
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
	// A client of its own: the node itself is asked, whatever proxy the environment names.
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
	said := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the node is not ready (%s): %s", resp.Status, said)
	}
	return said, nil
}
