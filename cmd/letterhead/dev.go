package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/internal/eventlog/esdb/esdbtest"
)

func devCommand(e *environment) *cobra.Command {
	return group("dev", "Stand-ins for development and tests", devEventStore(e))
}

func devEventStore(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "eventstore", Short: "Serve a stand-in for an EventStoreDB server", Args: exactArgs(),
		Long: `Serve a stand-in for an EventStoreDB server until it is interrupted, so that several processes
on this machine can share one event log. It speaks the real protocol to the real client and keeps
its promises about order, revisions and repeats.

It is for development and tests. It is not a database to trust: it holds the whole log in memory,
has one disk and no replicas, and does only what letterhead uses. Run EventStoreDB for anything
that matters.`}
	listen := c.Flags().StringSlice("listen", []string{"127.0.0.1:2113"}, "address of a node; several make a cluster over one log, of which the first leads")
	dir := c.Flags().String("dir", "", "folder that keeps the log; without it the log ends with the process")
	faults := c.Flags().StringSlice("fault", nil, "what goes wrong now and then: "+esdbtest.FaultNames)
	users := c.Flags().StringSlice("user", nil, "name:password; with any, reads and appends need credentials (only with TLS)")
	certificate := c.Flags().String("cert", "", "file of a certificate (PEM); switches TLS on")
	key := c.Flags().String("key", "", "file of the certificate's private key (PEM)")
	noise := c.Flags().Bool("noise", false, "append system events and links between other people's events, as servers with projections do")
	refuse := c.Flags().Bool("followers-refuse", false, "followers answer appends with \"not leader\" instead of handing them on")
	flushTime := c.Flags().Duration("flush-time", 0, "how long it takes at least until what was appended is durable and readable")
	liveBuffer := c.Flags().Int("live-buffer", 0, "events that may wait for a live subscriber before it counts as too slow; 0 is 32")
	release := c.Flags().String("release", "", "what the server says it is; before 24.2 it drops subscribers that are too slow (default 24.10.0)")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg := esdbtest.Config{Listen: *listen, Dir: *dir, Noise: *noise, FollowersRefuse: *refuse,
			FlushTime: *flushTime, LiveBuffer: *liveBuffer, Version: *release,
			Logger: slog.New(slog.NewTextHandler(e.stderr, nil))}
		problems := []error{setUsers(&cfg, *users), setCertificate(&cfg, *certificate, *key)}
		for _, fault := range *faults {
			problems = append(problems, cfg.Chaos.Set(fault))
		}
		if err := errors.Join(append(problems, cfg.Validate())...); err != nil {
			return usageError{err}
		}
		server, err := esdbtest.New(cfg)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(e.stdout, server.ConnectionString()); err != nil {
			return errors.Join(err, server.Close())
		}
		<-cmd.Context().Done()
		return server.Close()
	}
	return c
}

func setUsers(cfg *esdbtest.Config, users []string) error {
	cfg.Users = map[string]string{}
	for _, user := range users {
		name, password, found := strings.Cut(user, ":")
		if !found {
			return errors.New("--user must be name:password")
		}
		cfg.Users[name] = password
	}
	return nil
}

func setCertificate(cfg *esdbtest.Config, certificate, key string) error {
	if certificate == "" && key == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("--cert and --key: %w", err)
	}
	cfg.Certificate = &pair
	return nil
}
