// Command esdb-standin serves a stand-in for an EventStoreDB server until it is interrupted, so that several
// processes on this machine can share one event log. It speaks the real protocol to the real client, and
// keeps EventStoreDB's guarantees about order, revisions and repeated appends.
//
//	go run ./tools/esdb-standin --listen 127.0.0.1:2113 --dir ./eventstore
//	go run ./tools/esdb-standin --fault lose-reply=0.01 --fault reset=30s --fault down=60s/5s
//
// It is for development and tests, not for data that you need: it holds the whole log in memory, has one
// disk and no replicas, and implements only what letterhead uses.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"letterhead/internal/eventlog/esdb/esdbtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1) // cobra has printed it
	}
}

func command() *cobra.Command {
	c := &cobra.Command{Use: "esdb-standin", Short: "Serve a stand-in for an EventStoreDB server", Args: cobra.NoArgs,
		SilenceUsage: true}
	listen := c.Flags().StringSlice("listen", []string{"127.0.0.1:2113"},
		"address of a node; several form a cluster over one log, led by the first")
	dir := c.Flags().String("dir", "", "folder that keeps the log; without it the log ends with the process")
	faults := c.Flags().StringSlice("fault", nil, "a fault that occurs now and then: "+esdbtest.FaultNames)
	users := c.Flags().StringSlice("user", nil,
		"name:password; with any, reads and appends need credentials (only with TLS)")
	certificate := c.Flags().String("cert", "", "file of a certificate (PEM); enables TLS")
	key := c.Flags().String("key", "", "file of the certificate's private key (PEM)")
	noise := c.Flags().Bool("noise", false,
		"append system events and links between the clients' events, as servers with projections do")
	refuse := c.Flags().Bool("followers-refuse", false,
		"followers answer appends with \"not leader\" instead of forwarding them")
	flushTime := c.Flags().Duration("flush-time", 0, "minimum time until an appended event is durable and readable")
	liveBuffer := c.Flags().Int("live-buffer", 0,
		"events that may wait for a live subscriber before it counts as too slow; 0 means 32")
	release := c.Flags().String("release", "",
		"version that the server reports; before 24.2 it drops subscribers that are too slow (default 24.10.0)")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg := esdbtest.Config{Listen: *listen, Dir: *dir, Noise: *noise, FollowersReject: *refuse,
			FlushTime: *flushTime, LiveBuffer: *liveBuffer, Version: *release,
			Logger: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))}
		problems := []error{setUsers(&cfg, *users), setCertificate(&cfg, *certificate, *key)}
		for _, fault := range *faults {
			problems = append(problems, cfg.Chaos.Set(fault))
		}
		if err := errors.Join(append(problems, cfg.Validate())...); err != nil {
			return err
		}
		server, err := esdbtest.New(cfg)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), server.ConnectionString()); err != nil {
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
