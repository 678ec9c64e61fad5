// Package eventlogtest is the contract of eventlog.Log as tests. Every adapter runs it:
//
//	func TestContract(t *testing.T) {
//		eventlogtest.Run(t, func(t *testing.T) eventlog.Log { … })
//	}
//
// RunNodes is for what two nodes on one store see of each other, RunImport for an adapter that is an
// eventlog.Importer.
//
// The groups can be run apart, for an adapter that is still being built. The suite assumes of positions
// only what the port promises: they grow, with gaps, and only those that the log gave may be handed back.
// It wants an empty log for each test; Scope makes one of a log that others have used.
package eventlogtest

import (
	"testing"

	"letterhead/internal/eventlog"
)

// Open makes an empty log for one test and closes it when the test ends. Closing it twice must be allowed.
type Open func(t *testing.T) eventlog.Log

// Run runs all groups.
func Run(t *testing.T, open Open) {
	t.Helper()
	t.Run("Append", func(t *testing.T) { RunAppend(t, open) })
	t.Run("Read", func(t *testing.T) { RunRead(t, open) })
	t.Run("Subscribe", func(t *testing.T) { RunSubscribe(t, open) })
	t.Run("Concurrency", func(t *testing.T) { RunConcurrency(t, open) })
}
