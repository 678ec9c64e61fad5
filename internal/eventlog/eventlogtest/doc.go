// Package eventlogtest is the contract suite of eventlog.Log. Every adapter runs it:
//
//	func TestContract(t *testing.T) {
//		eventlogtest.Run(t, func(t *testing.T) eventlog.Log { … })
//	}
//
// RunNodes tests two nodes on one store, RunImport an adapter that is an eventlog.Importer.
//
// The groups can be run separately, for an adapter under construction. The suite assumes of positions only
// what the port promises: they grow, with gaps, and only positions returned by the log may be passed to it.
// It needs an empty log for each test; Scope makes one from a log in use.
package eventlogtest

import (
	"testing"

	"letterhead/internal/eventlog"
)

// Open makes an empty log for one test and closes it at the end of the test. Closing it twice must be allowed.
type Open func(t *testing.T) eventlog.Log

// Run runs all groups.
func Run(t *testing.T, open Open) {
	t.Helper()
	t.Run("Append", func(t *testing.T) { RunAppend(t, open) })
	t.Run("Read", func(t *testing.T) { RunRead(t, open) })
	t.Run("Subscribe", func(t *testing.T) { RunSubscribe(t, open) })
	t.Run("Concurrency", func(t *testing.T) { RunConcurrency(t, open) })
}
