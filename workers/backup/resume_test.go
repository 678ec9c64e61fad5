package backup_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"letterhead/internal/accountnames"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
	"letterhead/workers/backup"
)

// errKilled simulates the end of the process: nothing retries after it.
var errKilled = errors.New("killed")

// killable is a log whose process ends after a number of writes, before or after the last one is written. It
// is not an importer.
type killable struct {
	eventlog.Log
	left   atomic.Int64
	stored bool
}

func (m *killable) write(do func() error) error {
	if left := m.left.Add(-1); left < 0 {
		if left == -1 && m.stored {
			if err := do(); err != nil {
				return err
			}
		}
		return errKilled
	}
	return do()
}

func (m *killable) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (appended eventlog.Appended, err error) {
	err = m.write(func() (err error) {
		// Appends in progress when another one fails must end before the next run begins.
		appended, err = m.Log.Append(context.WithoutCancel(ctx), stream, expected, events)
		return err
	})
	return appended, err
}

// killableImporter is killable, and an importer.
type killableImporter struct{ killable }

func (m *killableImporter) Import(ctx context.Context, runs []eventlog.Run) error {
	return m.write(func() error { return m.Log.(eventlog.Importer).Import(ctx, runs) })
}

// drawKillable draws the number of writes after which the process ends.
func drawKillable(r *rapid.T, log eventlog.Log, imports bool) eventlog.Log {
	m := &killableImporter{killable{Log: log, stored: rapid.Bool().Draw(r, "stored")}}
	if imports {
		m.left.Store(rapid.Int64Range(0, 4).Draw(r, "writes"))
		return m
	}
	m.left.Store(rapid.Int64Range(0, 20).Draw(r, "writes"))
	return &m.killable
}

// plain is a log that is not an importer.
type plain struct{ eventlog.Log }

// killableNames is killable for the table of names.
type killableNames struct {
	backup.Names
	dead bool
}

func (m killableNames) PutAll(ctx context.Context, names []backup.Name) error {
	if m.dead {
		return errKilled
	}
	return m.Names.PutAll(ctx, names)
}

func TestRestore_Interrupted_Continues(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	fill(t, from, 8)
	run(t, tiny(), from, folder)
	rapid.Check(t, func(r *rapid.T) {
		to, imports := embeddedIn(r, freshFolder(t, r)), rapid.Bool().Draw(r, "imports")
		for again := rapid.IntRange(1, 3).Draw(r, "kills"); again > 0; again-- {
			target := to.target()
			target.Log = drawKillable(r, to.log, imports)
			target.Names = killableNames{to.names, true}
			if _, err := backup.Restore(t.Context(), backup.RestoreConfig{Config: tiny()}, folder, opened(target)); !errors.Is(err, errKilled) {
				r.Fatalf("restore: %v, want to be killed", err)
			}
		}
		present := uint64(len(all(r, to.log)))
		if !imports {
			to.log = plain{to.log}
		}
		if out := restore(r, folder, to); out.Present != present {
			r.Errorf("%d events existed, but the restore reports %d", present, out.Present)
		}
		sameStreams(r, to, from)
		if imports {
			same(r, to, from)
		}
	})
}

// freshFolder is a folder that is removed at the end of a check of rapid.
func freshFolder(t *testing.T, r *rapid.T) string {
	r.Helper()
	folder := testmust.Get(os.MkdirTemp(t.TempDir(), "side"))(r)
	r.Cleanup(func() { testmust.Succeed(t, os.RemoveAll(folder)) })
	return folder
}

func TestMigrate_Interrupted_Continues(t *testing.T) {
	from := embedded(t)
	w := fill(t, from, 8)
	rapid.Check(t, func(r *rapid.T) {
		to, imports := embeddedIn(r, freshFolder(t, r)), rapid.Bool().Draw(r, "imports")
		for again := rapid.IntRange(1, 3).Draw(r, "kills"); again > 0; again-- {
			target := to.target()
			target.Log = drawKillable(r, to.log, imports)
			target.Names = killableNames{to.names, true}
			if _, err := backup.Migrate(t.Context(), tiny(), rapid.Bool().Draw(r, "final"), from.source(), target); err != nil && !errors.Is(err, errKilled) {
				r.Fatal(err)
			}
			w.charge("a1", 1) // the server continues between the passes
		}
		if !imports {
			to.log = plain{to.log}
		}
		if out, err := backup.Migrate(t.Context(), tiny(), true, from.source(), to.target()); err != nil || !out.Final {
			r.Fatalf("Migrate = %+v, %v, want a final pass", out, err)
		}
		sameStreams(r, to, from)
		if imports {
			same(r, to, from)
		}
	})
}

// ended is a log that cannot be read after a number of pages.
type ended struct {
	eventlog.Log
	pages int
}

func (e *ended) ReadAll(ctx context.Context, after eventlog.Position, f eventlog.Filter, limit int) (eventlog.Page, error) {
	if e.pages--; e.pages < 0 {
		return eventlog.Page{}, errKilled
	}
	return e.Log.ReadAll(ctx, after, f, min(limit, 20))
}

func TestBackup_Interrupted_Continues(t *testing.T) {
	from := embedded(t)
	small(t, from)
	whole := t.TempDir()
	sum := run(t, tiny(), from, whole)
	for pages := range 10 {
		folder := t.TempDir()
		source := from.source()
		source.Log = &ended{from.log, pages}
		if _, err := backup.Run(t.Context(), tiny(), source, folder); !errors.Is(err, errKilled) {
			t.Fatalf("after %d pages: %v, want to be killed", pages, err)
		}
		if _, err := backup.Restore(t.Context(), backup.RestoreConfig{}, folder, opened(embedded(t).target())); !errors.Is(err, backup.ErrUnfinished) {
			t.Errorf("the backup after %d pages: %v, want ErrUnfinished", pages, err)
		}
		left := files(t, folder)
		again := run(t, tiny(), from, folder)
		if again.Adopted+again.NewEvents != sum.Events || pages > 4 && again.Adopted == 0 {
			t.Errorf("after %d pages: %+v", pages, again)
		}
		for name, content := range files(t, folder) {
			if old, there := left[name]; there && strings.HasPrefix(name, "segments/") && old != content {
				t.Errorf("after %d pages: %s was written again", pages, name)
			}
		}
		to := embedded(t)
		restore(t, folder, to)
		same(t, to, from)
	}
}

func TestBackup_Again_AddsNewEvents(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	w := small(t, from)
	first := run(t, tiny(), from, folder)
	before := files(t, folder)
	w.charge("a0", 2)
	w.brand("new.com", "<svg>new</svg>")
	w.brand("other.com", "<svg>brand0.com</svg>") // an image that is in the backup
	w.name("holder-3", "Katherine Johnson")
	second := run(t, tiny(), from, folder)
	if second.NewEvents != 4 || second.Events != first.Events+4 || second.NewAssets != 1 || second.KnownAssets != 1 || second.Adopted != 0 {
		t.Errorf("second backup: %+v after %+v", second, first)
	}
	written := 0
	for name, content := range files(t, folder) {
		old, there := before[name]
		switch {
		case there && old == content:
		case name == "manifest.json" || strings.HasPrefix(name, "names/"):
		case there:
			t.Errorf("%s was written again", name)
		default:
			written++
		}
	}
	if written != 2 { // a segment and an image
		t.Errorf("%d files are new, want 2", written)
	}
	to := embedded(t)
	restore(t, folder, to)
	same(t, to, from)

	// A target filled from the first backup also accepts the second one: a standby.
	standby := embedded(t)
	restore(t, copyOf(t, before), standby)
	if out := restore(t, folder, standby); out.Present != first.Events || out.Events != second.Events {
		t.Errorf("standby: %+v", out)
	}
	same(t, standby, from)
}

func TestBackup_ErasedName_IsRemoved(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	small(t, from)
	run(t, tiny(), from, folder)
	table := testmust.Get(accountnames.New(t.Context(), from.store))(t)
	testmust.Succeed(t, table.Erase(t.Context(), "holder-1"))
	run(t, tiny(), from, folder)
	named := 0
	for name := range files(t, folder) {
		if strings.HasPrefix(name, "names/") {
			named++
		}
	}
	if named != 1 {
		t.Errorf("%d files of names, want only the new one", named)
	}
	to := embedded(t)
	restore(t, folder, to)
	if names := namesOf(t, to); len(names) != 2 || names["holder-1"] != "" {
		t.Errorf("restored names %v", names)
	}
}

func TestBackup_WithoutNames_OmitsThem(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	small(t, from)
	run(t, tiny(), from, folder)
	for _, c := range []struct {
		cfg  backup.RestoreConfig
		want map[string]string
	}{
		{backup.RestoreConfig{WithoutNames: true}, map[string]string{}},
		{backup.RestoreConfig{Erased: map[string]bool{"holder-1": true, "key-1": true, "unknown": true}}, map[string]string{"holder-2": "Grace Hopper"}},
	} {
		to := embedded(t)
		out, err := backup.Restore(t.Context(), c.cfg, folder, opened(to.target()))
		if err != nil || out.Names != uint64(len(c.want)) {
			t.Errorf("restore: %+v, %v", out, err)
		}
		if got := namesOf(t, to); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("names %v, want %v", got, c.want)
		}
		equal(t, all(t, to.log), all(t, from.log))
	}
}

func TestBackup_MissingImages_Continues(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	w := newWriter(t, from)
	kept := w.brand("kept.com", "<svg>kept</svg>")
	w.brand("gone.com", "<svg>gone</svg>")
	rotten := w.brand("rotten.com", "<svg>rotten</svg>")
	store := t.TempDir()
	from.assets = openAssets(t, store)
	testmust.Succeed(t, testmust.Err(from.assets.Put(t.Context(), []byte("<svg>kept</svg>"), "svg")))
	path := filepath.Join(store, rotten.ID[:2], rotten.ID[2:4], rotten.ID+".svg")
	testmust.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
	testmust.Succeed(t, os.WriteFile(path, []byte("<svg>r0tten</svg>"), 0o600))
	sum := run(t, tiny(), from, folder)
	if sum.NewAssets != 1 || sum.MissingAssets != 1 || len(sum.DamagedAssets) != 1 || sum.DamagedAssets[0] != rotten.ID {
		t.Errorf("summary %+v", sum)
	}
	to := embedded(t)
	if out := restore(t, folder, to); out.Assets != 1 || out.Missing != 2 {
		t.Errorf("restored %+v", out)
	}
	if got := storedAssets(t, to); got[kept.ID+".svg"] == "" || len(got) != 1 {
		t.Errorf("storedAssets() = %v, want only %s.svg", got, kept.ID)
	}
	if _, err := backup.Migrate(t.Context(), tiny(), true, from.source(), embedded(t).target()); err != nil {
		t.Errorf("migrate: %v", err)
	}
}

func TestBackup_OnlyOwnerMayRead(t *testing.T) {
	from, folder := embedded(t), filepath.Join(t.TempDir(), "backup")
	small(t, from)
	run(t, tiny(), from, folder)
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	testmust.Succeed(t, err)
}

// doubtful is an importer that loses answers: of some imports that were written, and of some that were not.
type doubtful struct {
	eventlog.Importer
	calls int
}

func (d *doubtful) Import(ctx context.Context, runs []eventlog.Run) error {
	d.calls++
	switch d.calls % 4 {
	case 1:
		return fmt.Errorf("import: %w", eventlog.ErrAmbiguous)
	case 2:
		if err := d.Importer.Import(ctx, runs); err != nil {
			return err
		}
		return fmt.Errorf("import: %w", eventlog.ErrAmbiguous)
	case 3:
		return fmt.Errorf("import: %w", eventlog.ErrUnavailable)
	}
	return d.Importer.Import(ctx, runs)
}

func TestRestore_AmbiguousImport_IsRepeated(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	small(t, from)
	run(t, tiny(), from, folder)
	to := embedded(t)
	target := to.target()
	log := &doubtful{Importer: to.log.(eventlog.Importer)}
	target.Log = log
	testmust.Succeed(t, testmust.Err(backup.Restore(t.Context(), backup.RestoreConfig{Config: tiny()}, folder, opened(target))))
	if log.calls < 8 {
		t.Errorf("%d imports, but the test needs more", log.calls)
	}
	same(t, to, from)
}

// Despite every fault of the stand-in the copy is the same.
func TestMigrate_FaultyStore_CopiesEverything(t *testing.T) {
	from := embedded(t)
	small(t, from)
	server, log := eventStore(t)
	to := from
	to.log = log
	server.Noise()
	server.Faults.Append(esdbtest.LoseReply, esdbtest.None, esdbtest.LoseRequest, esdbtest.EndEarly, esdbtest.None,
		esdbtest.TimeOut, esdbtest.NotReady, esdbtest.NoPosition, esdbtest.LoseReply, esdbtest.LoseReply)
	out := testmust.Get(backup.Migrate(t.Context(), tiny(), true, from.source(), backup.Target{Log: log}))(t)
	want := all(t, from.log)
	if out.Events != uint64(len(want)) || out.ChainEvents != 150 {
		t.Errorf("got %+v, want %d events, 150 of them in chains", out, len(want))
	}
	equal(t, byStream(all(t, log)), byStream(want))
}

func TestBackup_ContextCanceled_StopsAllWork(t *testing.T) {
	from, folder, finished := embedded(t), t.TempDir(), t.TempDir()
	small(t, from)
	run(t, tiny(), from, finished)
	for name, work := range map[string]func(context.Context, backup.Config) error{
		"run": func(ctx context.Context, cfg backup.Config) error {
			_, err := backup.Run(ctx, cfg, from.source(), folder)
			return err
		},
		"restore": func(ctx context.Context, cfg backup.Config) error {
			_, err := backup.Restore(ctx, backup.RestoreConfig{Config: cfg}, finished, opened(embedded(t).target()))
			return err
		},
		"migrate": func(ctx context.Context, cfg backup.Config) error {
			_, err := backup.Migrate(ctx, cfg, true, from.source(), embedded(t).target())
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cfg := tiny()
		cfg.Progress = func(backup.Progress) { cancel() }
		if err := work(ctx, cfg); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", name, err)
		}
		cancel()
	}
}

// away is a log that is unavailable for some calls.
type away struct {
	eventlog.Log
	calls int
}

func (a *away) ReadAll(ctx context.Context, after eventlog.Position, f eventlog.Filter, limit int) (eventlog.Page, error) {
	if a.calls--; a.calls >= 0 {
		return eventlog.Page{}, fmt.Errorf("read: %w", eventlog.ErrUnavailable)
	}
	return a.Log.ReadAll(ctx, after, f, limit)
}

func TestBackup_StoreUnavailable_Retries(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	small(t, from)
	source := from.source()
	source.Log = &away{from.log, 3}
	if _, err := backup.Run(t.Context(), tiny(), source, folder); err != nil {
		t.Errorf("temporarily unavailable: %v", err)
	}
	source.Log = &away{from.log, 1000}
	newWriter(t, from).name("n", "N")
	w := newWriter(t, from)
	w.n = 9000
	w.charge("late", 1)
	if _, err := backup.Run(t.Context(), tiny(), source, folder); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("permanently unavailable: %v, want ErrUnavailable", err)
	}
	to := embedded(t)
	out := restore(t, folder, to) // the first backup is still valid
	if out.Events == 0 || namesOf(t, to)["n"] != "" {
		t.Errorf("restored %+v with %v", out, namesOf(t, to))
	}
}

func TestBackup_Finished_ReportsFullProgress(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	small(t, from)
	last := map[backup.Stage]backup.Progress{}
	cfg := tiny()
	cfg.Progress = func(p backup.Progress) {
		if p.Done < last[p.Stage].Done {
			t.Errorf("progress goes back to %v after %v", p, last[p.Stage])
		}
		last[p.Stage] = p
	}
	sum := run(t, cfg, from, folder)
	if p := last[backup.StageEvents]; p.Done != sum.Events || p.Position != sum.Position || p.Head != sum.Position {
		t.Errorf("backup ends at %+v", p)
	}
	clear(last)
	to := embedded(t)
	testmust.Succeed(t, testmust.Err(backup.Restore(t.Context(), backup.RestoreConfig{Config: cfg}, folder, opened(to.target()))))
	for stage, want := range map[backup.Stage]uint64{
		backup.StageCheck: sum.Events, backup.StageEvents: sum.Events, backup.StageCompare: sum.Events,
		backup.StageAssets: 10, backup.StageChains: 3, backup.StageNames: 3,
	} {
		if p := last[stage]; p.Done != want {
			t.Errorf("%s ends at %+v, want %d", stage, p, want)
		}
	}
}
