package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/searchindex"
	"letterhead/projections/search"
	"letterhead/workers/loss"
)

func recoverCommand(e *environment) *cobra.Command {
	return group("recover", "Bring a damaged service back", acceptLossCommand(e))
}

type acceptOptions struct {
	reason    string
	yes, json bool
}

// args is the command line for a server that holds the folder.
func (o acceptOptions) args() []string {
	return []string{"recover", "accept-loss", "--reason=" + o.reason, fmt.Sprintf("--yes=%t", o.yes), fmt.Sprintf("--json=%t", o.json)}
}

func acceptLossCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "accept-loss", Short: "Go on without events that the log has lost", Args: exactArgs(),
		Long: `Go on with an event log that does not hold every event that was acknowledged: it is
shorter than it was, it is another log, or a part of it cannot be read. Until then
every command refuses it with exit code 3, and so does the start on a data folder;
nodes that share an event store wait, not ready.

Restore a backup instead if you can (docs/backup.md). What is missing stays lost:
charges, grants and keys of the missing events. Accounts may have more or fewer
credits than their holders were told.

The command keeps what can be read, records the loss as the event LossAccepted on
the stream "log", and discards read models, snapshots, checkpoints and search
documents of events that are gone. The next start rebuilds the read models. An
interrupted run is finished by running the command again. Nodes that share the event
store may run meanwhile: they begin again by themselves, with nothing in memory.`}
	var o acceptOptions
	flags := c.Flags()
	flags.StringVar(&o.reason, "reason", "", "why, for the record")
	flags.BoolVar(&o.yes, "yes", false, "do not ask")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	c.RunE = func(cmd *cobra.Command, _ []string) error { return e.acceptLoss(cmd.Context(), o) }
	return c
}

func (e *environment) acceptLoss(ctx context.Context, o acceptOptions) error {
	if e.service != nil {
		return usageError{errors.New("a server serves this folder, so its log holds what is remembered of it; stop it to look again")}
	}
	cfg, err := e.config()
	if err != nil {
		return err
	}
	if cfg.Shared() { // the folder holds no data, and a node that waits for another store holds it
		return e.acceptLossOf(ctx, cfg, nil, o)
	}
	lock, err := lockFolder(cfg.Data, folderMustExist)
	if errors.Is(err, errFolderInUse) {
		return runRemotely(ctx, cfg.Data, o.args(), e.stdout, e.stderr)
	}
	if err != nil {
		return err
	}
	if err := refuseHalfRestored(cfg.Data); err != nil {
		return errors.Join(err, lock.release())
	}
	return e.acceptLossOf(ctx, cfg, lock, o)
}

func (e *environment) acceptLossOf(ctx context.Context, cfg config.Config, lock *folderLock, o acceptOptions) error {
	s, err := storageOnly(ctx, cfg, lock, e.stderr, (*service).openDatabase)
	if err != nil {
		return err
	}
	return errors.Join(e.acceptLossIn(ctx, s, o), s.close())
}

func (e *environment) acceptLossIn(ctx context.Context, s *service, o acceptOptions) error {
	losses, err := s.survey(ctx)
	if err != nil {
		return err
	}
	by := loss.Accepting{Actor: s.operator().Actor, Reason: o.reason, Now: s.clock.Now(), Done: crawlCheckpoints(), ForgetSearch: s.forgetSearch}
	a, err := loss.Prepare(ctx, s.store, by, losses)
	if err != nil {
		return err
	}
	moot := a == nil
	if !moot && len(losses) == 0 {
		if moot, err = a.Moot(ctx, s.log); err != nil {
			return err
		}
	}
	if moot {
		if o.json {
			return printJSON(e.stdout, map[string]any{"lost": false})
		}
		_, err := fmt.Fprintln(e.stdout, "nothing is missing: the event log holds everything that is remembered of it")
		return err
	}
	if !o.yes {
		for _, w := range a.Witnesses() {
			fmt.Fprintf(e.stderr, "%s (position %d): %s\n", w.Name, w.Remembered, w.Detail)
		}
		if err := confirm(os.Stdin, e.stderr, "The missing events stay lost. Go on without them?"); err != nil {
			return err
		}
	}
	if err := a.Begin(ctx); err != nil {
		return err
	}
	if err := s.openWhatIsLeft(ctx); err != nil {
		return errors.Join(err, s.withdraw(ctx, a))
	}
	out, err := a.Finish(ctx, s.log, by)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(e.stdout, struct {
			Lost bool `json:"lost"`
			loss.Accepted
		}{true, out})
	}
	next := "start the service: it rebuilds"
	if s.config.Shared() {
		next = "nodes that run begin again by themselves, and rebuild"
	}
	_, err = fmt.Fprintf(e.stdout, "accepted: the log ended at position %d; event %s at position %d records the loss\n%s the read models from what is left\n",
		out.Head, out.EventID, out.Position, next)
	return err
}

// survey returns what remembers more than the log holds. A log file that cannot be opened as it is stays closed and
// untouched.
func (s *service) survey(ctx context.Context) ([]*eventlog.LossError, error) {
	if !s.config.Shared() {
		if err := s.expectLogFile(ctx); err != nil {
			return asLoss(err)
		}
	}
	if err := s.openLog(ctx, nil); err != nil {
		return asLoss(err)
	}
	losses, err := loss.Survey(ctx, s.store, eventlog.Probe(s.log))
	if err != nil {
		return nil, err
	}
	inSearch, err := s.surveySearch(ctx)
	if inSearch != nil {
		losses = append(losses, inSearch)
	}
	return losses, err
}

// openWhatIsLeft opens the log, if it is not open, and cuts off what cannot be read.
func (s *service) openWhatIsLeft(ctx context.Context) error {
	if s.log != nil {
		return nil
	}
	return s.openLogFile(ctx, true)
}

// withdraw takes an acceptance back that failed before it changed the log, which then still shows its loss by itself, so
// that the folder is in order again when the missing file is back.
func (s *service) withdraw(ctx context.Context, a *loss.Acceptance) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout) // it may have failed because ctx ended
	defer cancel()
	if replacing, err := sqlite.Replacing(s.config.EventsPath()); replacing || err != nil {
		return err
	}
	left, err := sqlite.Inspect(ctx, s.config.EventsPath())
	if err != nil || left.Loss == nil {
		return err
	}
	return a.Withdraw(ctx)
}

func asLoss(err error) ([]*eventlog.LossError, error) {
	var lost *eventlog.LossError
	if errors.As(err, &lost) {
		return []*eventlog.LossError{lost}, nil
	}
	return nil, err
}

func (s *service) surveySearch(ctx context.Context) (lost *eventlog.LossError, err error) {
	if s.config.Search == config.Embedded {
		if s.config.Shared() { // each node has its own, which openIndex compares
			return nil, nil
		}
		if _, err := os.Stat(s.config.SearchPath()); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	err = s.eachIndex(ctx, func(index searchindex.Index) error {
		if lost != nil {
			return nil
		}
		lost, err = searchLoss(ctx, index, eventlog.Probe(s.log))
		return err
	})
	return lost, err
}

// eachIndex opens the search index of each version of the analysis, one after the other.
func (s *service) eachIndex(ctx context.Context, do func(searchindex.Index) error) error {
	for _, a := range searchindex.Analyzers() {
		index, err := s.openIndex(ctx, a, nil)
		if err != nil {
			return err
		}
		if err := errors.Join(do(index), index.Close()); err != nil {
			return err
		}
		if s.config.Search == config.Embedded {
			return nil // it has the current version only
		}
	}
	return nil
}

// forgetSearch empties the search index.
func (s *service) forgetSearch(ctx context.Context) error {
	if s.config.Search == config.Embedded {
		if s.config.Shared() { // each node has its own, which openIndex compares
			return nil
		}
		return os.RemoveAll(s.config.SearchPath())
	}
	return s.eachIndex(ctx, func(index searchindex.Index) error { return search.Empty(ctx, index) })
}

// confirm asks a question and fails unless the answer is yes.
func confirm(in io.Reader, out io.Writer, question string) error {
	fmt.Fprintf(out, "%s [yes/no] ", question)
	answer, err := bufio.NewReader(io.LimitReader(in, 64)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}
