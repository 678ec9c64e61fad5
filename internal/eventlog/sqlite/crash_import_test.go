package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

const (
	importCrashes = 25
	importRounds  = 8 // runs of each stream in one import
	importEvents  = importRounds * crashWriters * 2
)

// crashImport returns import number n: runs of two events for each writer's stream, each time beginning
// with another stream.
func crashImport(n uint64) (runs []eventlog.Run) {
	for i := range uint64(importRounds * crashWriters) {
		w := int((i + n) % crashWriters)
		next := 2 * (n*importRounds + i/crashWriters)
		runs = append(runs, eventlog.Run{
			Stream: crashStream(w), Expected: eventlog.After(next),
			Events: []eventlog.Proposed{crashEvent(w, next), crashEvent(w, next+1)},
		})
	}
	return runs
}

// crashImportChild imports until it is killed, like a restore that is run again: it begins by repeating the
// last existing import.
func crashImportChild(path string) error {
	ctx := context.Background()
	l, err := sqlite.Open(ctx, sqlite.Config{Path: path, CheckpointPages: 4})
	if err != nil {
		return err
	}
	fmt.Println("open")
	head, err := l.Head(ctx)
	if err != nil {
		return err
	}
	for n := max(uint64(head)/importEvents, 1) - 1; ; n++ {
		if err := l.Import(ctx, crashImport(n)); err != nil {
			return fmt.Errorf("import %d: %w", n, err)
		}
		if _, err := os.Stdout.WriteString(fmt.Sprintf("ack 0 %d\n", n)); err != nil {
			return err
		}
	}
}

// Rule 2.
func TestImports_SurviveKillsWholeAndInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	acknowledged := make([]uint64, 1) // imports
	total := 0
	for range kills(importCrashes) {
		total += crashOnce(t, "crash import", path, acknowledged)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d killed processes acknowledged %d imports", kills(importCrashes), total)
	l := open(t, sqlite.Config{Path: path})
	if err := l.Check(t.Context(), nil); err != nil {
		t.Error(err)
	}
	head := testmust.Get(l.Head(t.Context()))(t)
	imports := uint64(head) / importEvents
	if uint64(head)%importEvents != 0 || imports < acknowledged[0] {
		t.Errorf("found %d events, want those of %d acknowledged imports of %d", head, acknowledged[0], importEvents)
	}
	at := eventlog.Position(0)
	for n := range imports {
		page := testmust.Get(l.ReadAll(t.Context(), at, eventlog.Filter{}, importEvents))(t)
		i := 0
		for _, r := range crashImport(n) {
			first := r.Expected.Next()
			for j, e := range r.Events {
				if i >= len(page.Events) || page.Events[i].ID != e.ID || page.Events[i].Stream != r.Stream || page.Events[i].Revision != first+uint64(j) {
					t.Fatalf("event %d of import %d differs from the imported one", i, n)
				}
				i++
			}
		}
		at = page.Next
	}
}
