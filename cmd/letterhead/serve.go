package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/domain/plan"
	"letterhead/internal/config"
	"letterhead/internal/telemetry"
	"letterhead/projections/accounts"
	"letterhead/projections/brands"
	"letterhead/projections/engine"
	"letterhead/projections/keys"
	"letterhead/readapi"
	"letterhead/starter"
)

const (
	// shutdownTimeout, beyond the time of a live crawl, bounds how long a stopping server waits for requests
	// under way and for what they hand back.
	shutdownTimeout = 8 * time.Second
	// enforceTimeout bounds how long a command waits to see its decision enforced.
	enforceTimeout = 10 * time.Second
)

func serveCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "serve", Short: "Serve the API with everything in one folder, or some roles of a distributed service", Args: exactArgs(), Long: serveHelp()}
	c.Flags().StringVar(&e.listen, "listen", "", "address to serve on (LETTERHEAD_LISTEN; default 127.0.0.1:8080)")
	c.Flags().StringVar(&e.baseURL, "base-url", "", "how clients reach this service (LETTERHEAD_BASE_URL)")
	c.Flags().StringVar(&e.renderer, "renderer", "", "browser for pages that are empty without their scripts: off or chromium (LETTERHEAD_RENDERER)")
	c.Flags().StringVar(&e.roles, "roles", "", "what this process does: all, or some of api,crawler,projector,relay,sweeper,refresher (LETTERHEAD_ROLES)")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if e.service != nil {
			return usageError{errors.New("this server is serving already")}
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
	b.WriteString(`Serve the API on embedded defaults: event log, read models, search index and assets in the data folder.

Settings, from the environment:
`)
	for _, s := range config.Settings() {
		fmt.Fprintf(&b, "  %-29s %s\n  %-29s default: %s\n", s.Name, s.Help, "", s.ShownDefault())
	}
	return b.String()
}

// serve runs this process's roles until ctx ends, then drains.
func serve(ctx context.Context, e *environment, cfg config.Config) error {
	logger, err := telemetry.NewLogger(e.stderr, cfg.LogLevel, cfg.LogFormat)
	if err != nil {
		return err
	}
	for _, unknown := range config.UnknownSettings(os.Environ()) {
		logger.Warn("an environment variable has no effect, because it is not a setting", unknown.LogAttrs()...)
	}
	lock, err := awaitFolder(ctx, cfg.Data, folderTimeout, logger)
	if errors.Is(err, errFolderInUse) {
		return fmt.Errorf("%w; stop it first, or serve another folder with --data", err)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop
		}
		return err
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen on %s: %w; choose another address with --listen", cfg.Listen, err), lock.release())
	}
	clients := readapi.NewListener(listener, cfg.TrustedProxies, logger)
	front := newDoor(clients)
	server := readapi.NewServer(front)
	failed := make(chan error, 2)
	metrics, err := serveMetrics(cfg, &front.operators, failed)
	if err != nil {
		return errors.Join(err, listener.Close(), lock.release())
	}
	go func() {
		if err := server.Serve(clients); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve on %s: %w", cfg.Listen, err)
		}
	}()
	for {
		err := serveOnce(ctx, e, cfg, lock, front, server, failed, logger)
		if !errors.Is(err, errForget) || ctx.Err() != nil {
			return errors.Join(err, server.Close(), metrics.Close())
		}
		logger.Warn("the node begins again", "because", err)
		lock = nil // which was released
	}
}

// serveOnce serves until ctx ends or a part of the node has ended. With errForget it leaves the server open, for the
// node to begin again.
func serveOnce(ctx context.Context, e *environment, cfg config.Config, lock *folderLock, front *door, server *http.Server, failed <-chan error, logger *slog.Logger) error {
	s, admin, err := startNode(ctx, e, cfg, lock, front, logger)
	if err != nil {
		if ctx.Err() != nil {
			err = nil // asked to stop
		}
		return err
	}
	slog.SetDefault(s.logger) // net/http and others write to the standard logger
	s.logger.Info("serving", "listen", front.listener.Addr().String(), "base_url", cfg.BaseURL, "data", cfg.Data, "node", cfg.Node, "roles", cfg.Roles, "memory_limit", debug.SetMemoryLimit(-1))

	go func() {
		select {
		case err := <-failed:
			s.kill(err)
		case <-s.alive.Done():
		case <-ctx.Done():
		}
	}()
	err = s.begin(ctx, e)
	if err == nil {
		select {
		case <-ctx.Done():
		case <-s.alive.Done():
			err = context.Cause(s.alive)
		}
	}
	if ctx.Err() != nil {
		err = nil // asked to stop
	}
	s.logger.Info("stopping")
	s.stopAPI()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.CrawlTimeout+shutdownTimeout)
	defer cancel()
	if errors.Is(err, errForget) {
		if front.shut(stopping) != nil {
			s.unclean.Store(true)
		}
		if closed := errors.Join(admin.close(stopping), s.close()); closed != nil {
			s.logger.Warn("not all of the node could be ended in order", "error", closed)
		}
		return err
	}
	drained := front.listener.Drain(stopping, server)
	if drained != nil {
		s.unclean.Store(true)
	}
	return errors.Join(err, drained, admin.close(stopping), s.close())
}

// serveMetrics serves what operators read at an address of its own, if there is one. It may be closed in any case.
func serveMetrics(cfg config.Config, handler http.Handler, failed chan<- error) (*http.Server, error) {
	server := readapi.NewServer(handler)
	if cfg.MetricsListen == "" || cfg.MetricsListen == config.MetricsWithAPI {
		return server, nil
	}
	listener, err := net.Listen("tcp", cfg.MetricsListen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with LETTERHEAD_METRICS_LISTEN", cfg.MetricsListen, err)
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve metrics on %s: %w", cfg.MetricsListen, err)
		}
	}()
	return server, nil
}

// begin brings a started server to where it serves everything: read models caught up, starter index
// searchable, and, with a log of its own, the first account there. It greets somebody at a terminal.
func (s *service) begin(ctx context.Context, e *environment) error {
	if s.config.Shared() {
		return s.beginShared(ctx)
	}
	if err := s.catchUp(ctx); err != nil {
		// A read model that stands still keeps nobody from the others, nor from rebuilding it.
		if !errors.As(err, new(*engine.QuarantinedError)) {
			return err
		}
		s.logger.Error("serving without all read models", "error", err)
		if err := s.catchUp(ctx, keys.Name, accounts.Name, brands.Name); err != nil {
			return err
		}
	}
	first, err := s.accounts.List(ctx, "", 1)
	if err != nil {
		return err
	}
	if s.config.Starter {
		if err := s.importStarter(ctx, starter.FileMarker{Path: filepath.Join(s.config.Data, "starter")}); err != nil {
			return err
		}
	}
	if err := s.vectors.await(ctx); err != nil {
		return err
	}
	if len(first) > 0 && !s.greetingOwed() {
		s.ready.Store(true)
		return s.greetAgain(e, first[0].ID)
	}
	created, err := s.firstAccount(ctx, first)
	if err != nil {
		return err
	}
	s.ready.Store(true)
	return s.greetFirst(e, created)
}

// beginShared is begin where other nodes fold: it waits for what answers depend on, and for as long as that
// takes. Accounts are made by `letterhead account create`, the starter index is loaded by a crawler, and a
// search index that is away keeps nobody from look-ups.
func (s *service) beginShared(ctx context.Context) error {
	pause := firstStartPause
	for {
		waiting, cancel := s.bounded(ctx)
		err := s.foldedTo(waiting, keys.Name, accounts.Name, brands.Name)
		cancel()
		if s.alive.Err() != nil {
			return context.Cause(s.alive)
		}
		if err == nil || ctx.Err() != nil {
			break
		}
		s.logger.Warn("the read models are not current yet", "error", err, "again_in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, lastStartPause)
	}
	if err := s.vectors.await(ctx); err != nil {
		return err
	}
	s.ready.Store(true)
	s.logger.Info("ready")
	return nil
}

const greetingMarker = "first-start"

// greetingOwed says whether a first start was cut off between making its account and showing the keys.
func (s *service) greetingOwed() bool {
	_, err := os.Stat(filepath.Join(s.config.Data, greetingMarker))
	return err == nil
}

// firstAccount makes the account of a first start. When an earlier first start was cut off before it had
// shown that account's keys, they are lost to everybody, and the account gets new ones.
func (s *service) firstAccount(ctx context.Context, existing []accounts.Account) (createdJSON, error) {
	if err := os.WriteFile(filepath.Join(s.config.Data, greetingMarker), nil, 0o600); err != nil {
		return createdJSON{}, err
	}
	if len(existing) == 0 {
		return s.createAccount(ctx, "first account", plan.Free)
	}
	return s.keysFor(ctx, existing[0].ID, "first account")
}

func (s *service) greetFirst(e *environment, c createdJSON) error {
	self, data := shellWord(os.Args[0]), ""
	if s.config.Data != defaultData() {
		data = " --data " + shellWord(s.config.Data)
	}
	keys, curl, err := s.showKeys(e, c.Keys[0].Key, c.Keys[1].Key)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, `
Letterhead serves on %[1]s

  account      %[2]s   plan %[3]s, %[4]d credits
%[5]s  docs         %[1]s/docs
  a logo       %[1]s/logo/github.com?size=64
               (needs no key; %[1]s/docs/logos shows more)

Try it:
  %[6]s %[1]s/v1/brands/github.com
  %[6]s '%[1]s/v1/search?q=githb'
  %[6]s %[1]s/v1/me
  %[7]s%[8]s ledger show --account %[2]s --last 1

`, s.config.BaseURL, c.Account.ID, c.Account.Plan, c.Credits.Balance, keys, curl, self, data)
	if err != nil {
		return err
	}
	return os.Remove(filepath.Join(s.config.Data, greetingMarker))
}

// keysFile holds the two keys of a first start whose output is no terminal. It is what a POSIX shell reads with
// its command ".", and the owner deletes it.
const keysFile = "first-keys"

// showKeys returns the greeting's lines about the keys and the beginning of a request with the secret one. Keys
// are printed to a terminal only: whatever else standard output is, such as a log, keeps what it gets and may be
// read by others.
func (s *service) showKeys(e *environment, secret, publishable string) (lines, curl string, err error) {
	if f, isFile := e.stdout.(*os.File); isFile && isTerminal(f) {
		return fmt.Sprintf(`  secret       %s
  publishable  %s
  The keys are shown this once; only their hashes are stored.
`, secret, publishable), "curl -s -H 'Authorization: Bearer " + secret + "'", nil
	}
	path := filepath.Join(s.config.Data, keysFile)
	text := fmt.Sprintf("LETTERHEAD_SECRET_KEY=%s\nLETTERHEAD_PUBLISHABLE_KEY=%s\n", secret, publishable)
	if err := writeDurably(path, []byte(text)); err != nil { // mode 0600
		return "", "", fmt.Errorf("write the keys of the first account to %s: %w", path, err)
	}
	return fmt.Sprintf(`  keys         %s
  The secret and the publishable key are in this file, which only its owner can read.
  Only their hashes are stored elsewhere: keep the keys, then delete the file.
`, path), ". " + shellWord(path) + `; curl -s -H "Authorization: Bearer $LETTERHEAD_SECRET_KEY"`, nil
}

func (s *service) greetAgain(e *environment, accountID string) error {
	self, data := shellWord(os.Args[0]), ""
	if s.config.Data != defaultData() {
		data = " --data " + shellWord(s.config.Data)
	}
	_, err := fmt.Fprintf(e.stdout, `
Letterhead serves on %s

  account      %s
  another key  %s%s key issue --account %s
  docs         %s/docs

`, s.config.BaseURL, accountID, self, data, accountID, s.config.BaseURL)
	return err
}

func defaultData() string {
	abs, err := filepath.Abs("data")
	if err != nil {
		return ""
	}
	return abs
}

// shellWord quotes a word for a POSIX shell when it needs that.
func shellWord(w string) string {
	if w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=+,@%") == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
