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

// Limits of one health check.
const (
	healthTimeout  = 2 * time.Second
	maxHealthBytes = 1 << 10
)

func healthCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "health", Short: "Check whether the node on this machine is ready", Args: exactArgs()}
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
		_, err = fmt.Fprintln(e.stdout, text)
		return err
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
