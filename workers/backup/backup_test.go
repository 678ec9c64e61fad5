package backup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/workers/backup"
)

func TestRoundTrip_Embedded(t *testing.T) {
	from, to, folder := embedded(t), embedded(t), filepath.Join(t.TempDir(), "new", "backup")
	small(t, from)
	events := len(all(t, from.log))
	sum := run(t, tiny(), from, folder)
	if sum.Events != uint64(events) || sum.NewEvents != sum.Events || sum.Names != 3 || sum.NewAssets != 10 || sum.MissingAssets != 0 {
		t.Errorf("summary %+v of %d events", sum, events)
	}
	out := restore(t, folder, to)
	if out.Events != uint64(events) || out.Present != 0 || out.Accounts != 3 || out.ChainEvents != 150 || out.Names != 3 || out.Assets != 10 {
		t.Errorf("restored %+v", out)
	}
	same(t, to, from)
	// Positions of the embedded log have no gaps, so a restored log can be backed up further into the same folder.
	if sum := run(t, tiny(), to, folder); sum.NewEvents != 0 || sum.Events != uint64(events) {
		t.Errorf("backup of the restored log: %+v", sum)
	}
}

func TestRoundTrip_ThroughEventStoreDB(t *testing.T) {
	from := embedded(t)
	small(t, from)
	first, second := t.TempDir(), t.TempDir()
	run(t, tiny(), from, first)
	_, log := eventStore(t)
	there := withDatabase(t, log, sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")})
	there.assets = openAssets(t, t.TempDir())
	restore(t, first, there)
	sameStreams(t, there, from)
	run(t, tiny(), there, second)
	back := embedded(t)
	restore(t, second, back)
	same(t, back, there)
}

func TestMigrate_CopiesEverything(t *testing.T) {
	from := embedded(t)
	w := small(t, from)
	_, log := eventStore(t)
	to := withDatabase(t, log, sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")})
	to.assets = openAssets(t, t.TempDir())
	positions := testmust.Get(sqlstore.NewPositions(t.Context(), to.store))(t)
	target := to.target()
	target.Positions, target.Done = positions, []string{"relay crawl.live"}
	before := uint64(len(all(t, from.log)))
	out, err := backup.Migrate(t.Context(), tiny(), false, from.source(), target)
	if err != nil || out.Final || out.Events != before || out.Present != 0 {
		t.Fatalf("first pass: %+v, %v", out, err)
	}
	if _, found, err := positions.Load(t.Context(), "relay crawl.live"); found || err != nil {
		t.Errorf("a pass that is not final has saved positions (%v)", err)
	}
	if err := positions.Save(t.Context(), "relay crawl.live", 1<<40); err != nil { // of an earlier, longer log
		t.Fatal(err)
	}
	w.charge("a1", 3)
	w.brand("late.com", "<svg>late</svg>")
	out, err = backup.Migrate(t.Context(), tiny(), true, from.source(), target)
	if err != nil || !out.Final || out.Events != before+4 || out.Present != before || out.NewAssets != 1 || out.Names != 3 || out.ChainEvents != 153 {
		t.Fatalf("final pass: %+v, %v", out, err)
	}
	sameStreams(t, to, from)
	head := testmust.Get(log.Head(t.Context()))(t)
	if at, _, err := positions.Load(t.Context(), "relay crawl.live"); at != head || err != nil {
		t.Errorf("the relay begins at %d (%v), want the head %d", at, err, head)
	}
	// Another pass changes nothing.
	again, err := backup.Migrate(t.Context(), tiny(), true, from.source(), target)
	if err != nil || again.Present != before+4 || again.NewAssets != 0 {
		t.Errorf("once more: %+v, %v, want only present events and no new assets", again, err)
	}
	sameStreams(t, to, from)
}

// counting counts the writes to a log that is not an importer.
type counting struct {
	eventlog.Log
	writes atomic.Int64
}

func (c *counting) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	c.writes.Add(1)
	return c.Log.Append(ctx, stream, expected, events)
}

// countingImporter counts imports.
type countingImporter struct{ counting }

func (c *countingImporter) Import(ctx context.Context, runs []eventlog.Run) error {
	c.writes.Add(1)
	return c.Log.(eventlog.Importer).Import(ctx, runs)
}

// Every append to EventStoreDB costs a round trip and a flush.
func TestEventsOfOneStream_ShareAnAppend(t *testing.T) {
	from, to := embedded(t), embedded(t)
	w := newWriter(t, from)
	for range 40 {
		w.charge("a", 1)
	}
	w.charge("b", 2)
	w.charge("a", 3)
	target := to.target()
	log := &counting{Log: to.log}
	target.Log = log
	testmust.Succeed(t, testmust.Err(backup.Migrate(t.Context(), backup.Config{}, true, from.source(), target)))
	sameStreams(t, to, from)
	if n := log.writes.Load(); n != 2 {
		t.Errorf("%d appends, want 2", n)
	}
}

// One page of the backup exceeds the limits of an import, in events and in bytes.
func TestImport_KeepsLimits(t *testing.T) {
	from, to, folder := embedded(t), embedded(t), t.TempDir()
	w := newWriter(t, from)
	for i := range 6 {
		for range 2 {
			w.charge(fmt.Sprint("a", i), 500)
		}
	}
	for i := range 50 {
		stream := fmt.Sprint("brand-", i%7)
		w.append(stream, w.event(stream, "A", 1, bytes.Repeat([]byte{'x'}, 120<<10)))
	}
	run(t, backup.Config{SegmentBytes: 32 << 20}, from, folder)
	target := to.target()
	log := &countingImporter{counting{Log: to.log}}
	target.Log = log
	testmust.Succeed(t, testmust.Err(backup.Restore(t.Context(), backup.RestoreConfig{}, folder, opened(target))))
	same(t, to, from)
	if n := log.writes.Load(); n != 3 { // 4096 events, then the rest with large events up to the byte limit, then the rest of these
		t.Errorf("%d imports, want 3", n)
	}
}

// Run reads the format in force after the end of the log, so that a backup with an older format contains no
// event of a newer one.
func TestRun_UpgradeFinishesDuringBackup_RecordsNewFormat(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	small(t, from)
	inForce := 1
	source := from.source()
	source.Format = func(context.Context) (int, error) { return inForce, nil }
	marks := func() (begun, finished int) {
		t.Helper()
		held := files(t, folder)
		for name, into := range map[string]*int{"begun.json": &begun, "manifest.json": &finished} {
			testmust.Succeed(t, json.Unmarshal([]byte(held[name]), &struct{ Format *int }{into}))
		}
		return begun, finished
	}
	testmust.Succeed(t, testmust.Err(backup.Run(t.Context(), tiny(), source, folder)))
	if begun, finished := marks(); begun != 1 || finished != 1 {
		t.Errorf("the marks are %d and %d, want 1 and 1", begun, finished)
	}
	source.Log = busy{from.log, func() { inForce = 2 }}
	w := newWriter(t, from)
	w.n = 9000
	w.charge("later", 1)
	testmust.Succeed(t, testmust.Err(backup.Run(t.Context(), tiny(), source, folder)))
	if _, finished := marks(); finished != 2 {
		t.Errorf("the mark is %d, want 2", finished)
	}
}
