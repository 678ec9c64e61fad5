package sqlite_test

import (
	"path/filepath"
	"testing"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

func TestContract(t *testing.T) {
	eventlogtest.Run(t, func(t *testing.T) eventlog.Log {
		return open(t, sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")})
	})
}

// The same with minimal limits, so that queues fill up, groups are split, dropped heads are read again,
// followers read the file, and checkpoints run all the time.
func TestContract_SmallLimits(t *testing.T) {
	eventlogtest.Run(t, func(t *testing.T) eventlog.Log {
		return open(t, sqlite.Config{
			Path:        filepath.Join(t.TempDir(), "events.db"),
			QueueLength: 1, GroupEvents: 1, HeadCache: 1, Readers: 1, TailEvents: 1, CheckpointPages: 1,
		})
	})
}

// open opens a log and closes it at the end of the test.
func open(t *testing.T, cfg sqlite.Config) *sqlite.Log {
	t.Helper()
	l := testmust.Get(sqlite.Open(t.Context(), cfg))(t)
	t.Cleanup(func() { testmust.Succeed(t, l.Close()) })
	return l
}

func TestContract_Imports(t *testing.T) {
	eventlogtest.RunImport(t, func(t *testing.T) eventlog.Log {
		return open(t, sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")})
	})
}

func TestContract_ImportsSmallLimits(t *testing.T) {
	eventlogtest.RunImport(t, func(t *testing.T) eventlog.Log {
		return open(t, sqlite.Config{
			Path:        filepath.Join(t.TempDir(), "events.db"),
			QueueLength: 1, GroupEvents: 1, HeadCache: 1, Readers: 1, TailEvents: 1, CheckpointPages: 1,
		})
	})
}

// Two processes cannot open one file: both nodes share a log.
func TestContract_Nodes(t *testing.T) {
	eventlogtest.RunNodes(t, func(t *testing.T) (_, _ eventlog.Log) {
		l := open(t, sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")})
		return l, l
	})
}
