// Command letterhead is the whole service: one binary. This package parses flags and prints, in a file per group of
// commands; package node opens, connects and starts the parts.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"letterhead/domain/text"
	"letterhead/internal/eventlog"
	"letterhead/node"
	"letterhead/operations"
	"letterhead/workers/checkpoint"
)

// Exit codes, for scripts.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	// exitLoss means that acknowledged events are missing from the event log, or have changed after they were signed. Nothing
	// was changed.
	exitLoss = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	e := &environment{
		args:   os.Args[1:],
		stdout: os.Stdout,
		stderr: os.Stderr,
	}
	if err := node.LimitMemory(node.CgroupLimit); err != nil {
		fmt.Fprintf(os.Stderr, "letterhead: could not apply the memory limit of the container: %v\n", err)
	}
	code := e.run(ctx)
	stop()
	os.Exit(code)
}

// run executes the command line and returns the exit code.
func (e *environment) run(ctx context.Context) int {
	root := newRoot(e)
	root.SetArgs(e.args)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	err := root.ExecuteContext(ctx)
	var exit exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		// The command ran inside a server, which has printed any error.
		return int(exit)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil && !mayBeDone(err):
		fmt.Fprintln(e.stderr, "letterhead: interrupted")
		return exitFailure
	}
	fmt.Fprintf(e.stderr, "letterhead: %v\n", err)
	switch {
	case errors.As(err, new(usageError)), errors.As(err, new(*text.EmailError)):
		return exitUsage
	case errors.Is(err, eventlog.ErrLoss), errors.Is(err, checkpoint.ErrChanged):
		return exitLoss
	}
	return exitFailure
}

// exitError carries the exit code of a command that ran inside a server.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// usageError is an invalid command line.
type usageError = operations.UsageError

// misuse returns a usageError as fmt.Errorf returns an error.
func misuse(format string, args ...any) error { return usageError{Err: fmt.Errorf(format, args...)} }
