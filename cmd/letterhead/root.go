package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/commands/streamwriter"
	"letterhead/internal/config"
	"letterhead/projections/engine"
)

// environment is what a command line runs in: a terminal's process, or a server that answers on its
// admin socket. The commands themselves do not know which.
type environment struct {
	args           []string
	stdout, stderr io.Writer

	// service is set inside a server: commands use it as it is.
	service *service

	data, listen, baseURL, renderer, roles string // flags
}

// newRoot builds the command tree.
func newRoot(e *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "letterhead",
		Short: "A self-hosted brand identity service",
		Long: `Letterhead answers "what does this company's brand look like?" and charges exactly one
credit when it knows. "letterhead serve" starts it; the other commands work on the
same data folder, also while it serves.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate(versionLine())
	root.PersistentFlags().StringVar(&e.data, "data", "", "data folder (LETTERHEAD_DATA; default ./data)")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %q", err, cmd.CommandPath()+" --help")}
	})
	root.AddCommand(
		serveCommand(e),
		accountCommand(e),
		keyCommand(e),
		creditsCommand(e),
		ledgerCommand(e),
		brandCommand(e),
		logoCommand(e),
		crawlCommand(e),
		projectionsCommand(e),
		eventsCommand(e),
		doctorCommand(e),
		healthCommand(e),
		backupCommand(e),
		restoreCommand(e),
		migrateCommand(e),
		upgradeCommand(e),
		archiveCommand(e),
		recoverCommand(e),
		versionCommand(e),
	)
	addExamples(root, "")
	return root
}

// group is a command that only holds others.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noSuchCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(children...)
	return c
}

// maxTypos is the most edits between a word and a command that is suggested for it.
const maxTypos = 2

// noSuchCommand refuses the arguments of a command that only holds others, and suggests commands like the first.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	suggestion := ""
	cmd.SuggestionsMinimumDistance = maxTypos
	if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
		suggestion = fmt.Sprintf(" (similar: %s)", strings.Join(names, ", "))
	}
	return usageError{fmt.Errorf("%s has no command %q%s; see %q", cmd.CommandPath(), args[0], suggestion, cmd.CommandPath()+" --help")}
}

// exactArgs wants so many arguments, and says which.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return usageError{fmt.Errorf("%s takes %d argument(s) %v, not %d; see %q", cmd.CommandPath(), len(names), names, len(args), cmd.CommandPath()+" --help")}
	}
}

// config reads the settings, flags over environment.
func (e *environment) config() (config.Config, error) {
	c, err := config.FromEnvironment(map[string]string{
		"LETTERHEAD_DATA":     e.data,
		"LETTERHEAD_LISTEN":   e.listen,
		"LETTERHEAD_BASE_URL": e.baseURL,
		"LETTERHEAD_RENDERER": e.renderer,
		"LETTERHEAD_ROLES":    e.roles,
	})
	if err != nil {
		return c, usageError{fmt.Errorf("settings: %w", err)}
	}
	return c, nil
}

// folderRun is a command that works on the data folder.
type folderRun func(ctx context.Context, s *service, cmd *cobra.Command, args []string) error

// onFolder runs a command on the data folder: inside the server when one holds the folder, else by
// opening the folder here.
func (e *environment) onFolder(run folderRun) func(*cobra.Command, []string) error {
	return e.withFolder(toWrite, run)
}

// looksAt is onFolder for a command that appends nothing.
func (e *environment) looksAt(run folderRun) func(*cobra.Command, []string) error {
	return e.withFolder(toRead, run)
}

func (e *environment) withFolder(use folderUse, run folderRun) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx := streamwriter.WaitForLoading(cmd.Context())
		return e.onService(ctx, e.args, e.openOwn(ctx, use), func(s *service) error { return run(ctx, s, cmd, args) })
	}
}

// onService runs a command on a service: inside the server when one holds the data folder, which then gets
// args as its command line, else on what open makes of the folder and closes it again.
func (e *environment) onService(ctx context.Context, args []string, open func(config.Config, *folderLock) (*service, error), run func(*service) error) error {
	if e.service != nil {
		return run(e.service)
	}
	cfg, err := e.config()
	if err != nil {
		return err
	}
	mode := folderMustExist
	if cfg.Shared() {
		mode = folderMayBeNew // it holds no data
	}
	lock, err := lockFolder(cfg.Data, mode)
	if errors.Is(err, errFolderInUse) {
		return runRemotely(ctx, cfg.Data, args, e.stdout, e.stderr)
	}
	if err != nil {
		return err
	}
	s, err := open(cfg, lock)
	if err != nil {
		return err
	}
	return errors.Join(run(s), s.close())
}

// current waits until the read models hold what the log holds, and warns about those that do not: what needs
// them will say so, and what mends them must run.
func (s *service) current(ctx context.Context, e *environment) error {
	err := s.catchUp(ctx)
	switch {
	case err == nil || ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, new(*engine.QuarantinedError)), errors.Is(err, errBehind):
		fmt.Fprintf(e.stderr, "warning: %v\n", err)
		return nil
	}
	return err
}

// printJSON prints one value as one line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// jsonFlag adds --json.
func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON")
}
