package backup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"letterhead/commands/streamwriter"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/testmust"
	"letterhead/workers/backup"
)

// files returns the names of all files below a folder, with their content.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		rel, _ := filepath.Rel(folder, path)
		found[filepath.ToSlash(rel)] = string(raw)
		return err
	})
	testmust.Succeed(t, err)
	return found
}

// copyOf writes files to a new folder.
func copyOf(t *testing.T, all map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range all {
		path := filepath.Join(folder, filepath.FromSlash(name))
		testmust.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testmust.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return folder
}

// untouched checks that nothing was written to a side.
func untouched(t *testing.T, s side) {
	t.Helper()
	if n := len(all(t, s.log)); n > 0 {
		t.Errorf("%d events were written", n)
	}
	if n := len(namesOf(t, s)); n > 0 {
		t.Errorf("%d names were written", n)
	}
	if n := len(storedAssets(t, s)); n > 0 {
		t.Errorf("%d images were written", n)
	}
}

func TestRestore_DamagedBackup_WritesNothing(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	small(t, from)
	run(t, tiny(), from, folder)
	sound := files(t, folder)
	pick := func(prefix string, i int) string {
		var names []string
		for n := range sound {
			if strings.HasPrefix(n, prefix) {
				names = append(names, n)
			}
		}
		if len(names) <= i {
			t.Fatalf("%d files begin with %s", len(names), prefix)
		}
		return names[i]
	}
	change := func(name string, f func([]byte) []byte) func(map[string]string) {
		return func(all map[string]string) { all[name] = string(f([]byte(all[name]))) }
	}
	flip := func(at float64) func([]byte) []byte {
		return func(b []byte) []byte { b[int(at*float64(len(b)-1))] ^= 0x20; return b }
	}
	cut := func(b []byte) []byte { return b[:len(b)-1] }
	manifest := func(f func(m map[string]any)) func(map[string]string) {
		return change("manifest.json", func(b []byte) []byte {
			var m map[string]any
			testmust.Succeed(t, json.Unmarshal(b, &m))
			f(m)
			b, err := json.Marshal(m)
			testmust.Succeed(t, err)
			return b
		})
	}
	for _, c := range []struct {
		name   string
		damage func(map[string]string)
		want   error
		says   string
	}{
		{"a segment's first byte", change("segments/0000000002.lhb", flip(0)), backup.ErrDamaged, "0000000002"},
		{"a segment's middle", change("segments/0000000002.lhb", flip(.5)), backup.ErrDamaged, "0000000002"},
		{"a segment's last byte", change("segments/0000000001.lhb", flip(1)), backup.ErrDamaged, "0000000001"},
		{"a truncated segment", change("segments/0000000003.lhb", cut), backup.ErrDamaged, "0000000003"},
		{"an empty segment", change("segments/0000000003.lhb", func([]byte) []byte { return nil }), backup.ErrDamaged, "0000000003"},
		{"a missing segment", func(m map[string]string) { delete(m, "segments/0000000001.lhb") }, backup.ErrDamaged, "missing"},
		{"another segment in its place", func(m map[string]string) { m["segments/0000000001.lhb"] = m["segments/0000000002.lhb"] }, backup.ErrDamaged, "0000000001"},
		{"names", change(pick("names/", 0), flip(.5)), backup.ErrDamaged, "names/"},
		{"missing names", func(m map[string]string) { delete(m, pick("names/", 0)) }, backup.ErrDamaged, "missing"},
		{"an asset", change(pick("assets/", 3), flip(.5)), backup.ErrDamaged, "assets/"},
		{"a missing image", func(m map[string]string) { delete(m, pick("assets/", 3)) }, backup.ErrDamaged, "missing"},
		{"the manifest's position", manifest(func(m map[string]any) { m["position"] = 7 }), backup.ErrDamaged, "checksum"},
		{"the manifest's checksum", manifest(func(m map[string]any) { m["checksum"] = "00" }), backup.ErrDamaged, "checksum"},
		{"fewer segments", manifest(func(m map[string]any) { m["segments"] = m["segments"].([]any)[1:] }), backup.ErrDamaged, "checksum"},
		{"half a manifest", change("manifest.json", func(b []byte) []byte { return b[:len(b)/2] }), backup.ErrDamaged, "manifest"},
		{"a newer format", manifest(func(m map[string]any) { m["format"] = backup.Format + 1; m["version"] = "9.0" }), backup.ErrNewer, "9.0"},
		{"no manifest", func(m map[string]string) { delete(m, "manifest.json") }, backup.ErrUnfinished, "never finished"},
		{"nothing", func(m map[string]string) { clear(m) }, backup.ErrNotBackup, ""},
		{"something else", func(m map[string]string) { clear(m); m["photo.jpg"] = "x" }, backup.ErrNotBackup, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken := copyOf(t, sound)
			changed := files(t, broken)
			c.damage(changed)
			to := embedded(t)
			_, err := backup.Restore(t.Context(), backup.RestoreConfig{Config: tiny()}, copyOf(t, changed), opened(to.target()))
			if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("restore: %v, want %v with the text %q", err, c.want, c.says)
			}
			untouched(t, to)
		})
	}
	if _, err := backup.Restore(t.Context(), backup.RestoreConfig{}, filepath.Join(folder, "nowhere"), opened(embedded(t).target())); !errors.Is(err, backup.ErrNotBackup) {
		t.Errorf("no folder: %v, want %v", err, backup.ErrNotBackup)
	}
}

func TestRestore_TargetNotEmpty_Fails(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	small(t, from)
	run(t, tiny(), from, folder)
	rejected := func(t *testing.T, to side) {
		t.Helper()
		before, names := all(t, to.log), namesOf(t, to)
		_, err := backup.Restore(t.Context(), backup.RestoreConfig{Config: tiny()}, folder, opened(to.target()))
		if !errors.Is(err, backup.ErrNotEmpty) {
			t.Errorf("restore: %v, want ErrNotEmpty", err)
		}
		_, err = backup.Migrate(t.Context(), tiny(), true, from.source(), to.target())
		if len(before) > 0 && !errors.Is(err, backup.ErrNotEmpty) {
			t.Errorf("migrate: %v, want ErrNotEmpty", err)
		}
		if len(before) > 0 {
			equal(t, all(t, to.log), before)
		}
		if len(before) > 0 && (fmt.Sprint(namesOf(t, to)) != fmt.Sprint(names) || len(storedAssets(t, to)) > 0) {
			t.Error("names or images were written")
		}
	}
	t.Run("other events", func(t *testing.T) {
		to := embedded(t)
		w := newWriter(t, to)
		w.n = 1000
		w.charge("a0", 1)
		rejected(t, to)
	})
	t.Run("a longer log", func(t *testing.T) {
		to := embedded(t)
		restore(t, folder, to)
		held := all(t, to.log)
		testmust.Succeed(t, testmust.Err(to.log.Append(t.Context(), "usage-node-main", eventlogtest.End(t, to.log, "usage-node-main"), []eventlog.Proposed{newWriter(t, to).event("x", "UsageTicked", 1, nil)})))
		if _, err := backup.Restore(t.Context(), backup.RestoreConfig{Config: tiny()}, folder, opened(to.target())); !errors.Is(err, backup.ErrNotEmpty) {
			t.Errorf("restore: %v, want ErrNotEmpty", err)
		}
		if got := all(t, to.log); len(got) != len(held)+1 {
			t.Errorf("%d events, want %d", len(got), len(held)+1)
		}
	})
	t.Run("names", func(t *testing.T) {
		to := embedded(t)
		newWriter(t, to).name("other", "Somebody")
		_, err := backup.Restore(t.Context(), backup.RestoreConfig{Config: tiny()}, folder, opened(to.target()))
		if !errors.Is(err, backup.ErrNotEmpty) || len(all(t, to.log)) > 0 {
			t.Errorf("restore: %v, want ErrNotEmpty and nothing written", err)
		}
	})
	t.Run("the same events with other data", func(t *testing.T) {
		to := embedded(t)
		first := all(t, from.log)[0].Proposed
		first.Data = bytes.Replace(first.Data, []byte(`"credits":1`), []byte(`"credits":2`), 1)
		testmust.Succeed(t, testmust.Err(to.log.Append(t.Context(), "account-a0", eventlog.NoStream(), []eventlog.Proposed{first})))
		rejected(t, to)
	})
}

func TestBackup_AnotherLog_Fails(t *testing.T) {
	one, two, folder := embedded(t), embedded(t), t.TempDir()
	small(t, one)
	w := newWriter(t, two)
	w.n = 5000
	w.charge("a0", 40)
	run(t, tiny(), one, folder)
	before := files(t, folder)
	if _, err := backup.Run(t.Context(), tiny(), two.source(), folder); !errors.Is(err, backup.ErrOtherLog) {
		t.Errorf("another log: %v, want ErrOtherLog", err)
	}
	if _, err := backup.Run(t.Context(), tiny(), embedded(t).source(), folder); !errors.Is(err, backup.ErrOtherLog) {
		t.Errorf("an empty log: %v, want ErrOtherLog", err)
	}
	if after := files(t, folder); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("the backup was changed")
	}
}

func TestBackup_FolderOfOtherFiles_Fails(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	small(t, from)
	testmust.Succeed(t, os.WriteFile(filepath.Join(folder, "thesis.txt"), []byte("x"), 0o600))
	_, err := backup.Run(t.Context(), tiny(), from.source(), folder)
	if !errors.Is(err, backup.ErrNotBackup) || !strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("run: %v, want ErrNotBackup with the existing file", err)
	}
	if left := files(t, folder); len(left) > 2 || left["thesis.txt"] != "x" { // and the lock
		t.Errorf("it holds %v", left)
	}
	if _, err := backup.Run(t.Context(), tiny(), from.source(), filepath.Join(folder, "thesis.txt")); !errors.Is(err, backup.ErrNotBackup) && err == nil {
		t.Errorf("a file: %v", err)
	}
}

// busy is a log that changes while it is read.
type busy struct {
	eventlog.Log
	onRead func()
}

func (b busy) ReadAll(ctx context.Context, after eventlog.Position, f eventlog.Filter, limit int) (eventlog.Page, error) {
	b.onRead()
	return b.Log.ReadAll(ctx, after, f, limit)
}

func TestBackup_TwoIntoOneFolder_OneFails(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	small(t, from)
	var second error
	source := from.source()
	source.Log = busy{from.log, func() { _, second = backup.Run(t.Context(), tiny(), from.source(), folder) }}
	testmust.Succeed(t, testmust.Err(backup.Run(t.Context(), tiny(), source, folder)))
	if !errors.Is(second, backup.ErrBusy) {
		t.Errorf("the second: %v, want ErrBusy", second)
	}
	to := embedded(t)
	restore(t, folder, to)
	same(t, to, from)
}

// intruder appends to the log while it is being filled.
type intruder struct {
	eventlog.Log
	at atomic.Int64
	do func()
}

func (i *intruder) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	if i.at.Add(-1) == 0 {
		i.do()
	}
	return i.Log.Append(ctx, stream, expected, events)
}

func TestRestore_OtherWriterInTarget_Fails(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	small(t, from)
	run(t, tiny(), from, folder)
	for _, stream := range []string{"account-a0", "elsewhere"} {
		to := embedded(t)
		target := to.target()
		log := &intruder{Log: to.log, do: func() {
			if _, err := to.log.Append(t.Context(), stream, eventlogtest.End(t, to.log, stream), []eventlog.Proposed{newWriter(t, to).event("intruder", "CreditsCharged", 1, nil)}); err != nil {
				t.Error(err)
			}
		}}
		log.at.Store(5)
		target.Log = log
		_, err := backup.Restore(t.Context(), backup.RestoreConfig{Config: tiny()}, folder, opened(target))
		if !errors.Is(err, backup.ErrForeignWriter) && !errors.Is(err, backup.ErrDiffers) {
			t.Errorf("an append to %s: %v, want ErrForeignWriter or ErrDiffers", stream, err)
		}
	}
}

func TestRestore_BrokenChain_IsReported(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	w := small(t, from)
	forged := w.event("account-a1", "CreditsCharged", 1, []byte(`{"credits":1}`))
	forged.Data = []byte(`{"credits":1000}`)
	w.append("account-a1", forged)
	run(t, tiny(), from, folder)
	_, err := backup.Restore(t.Context(), backup.RestoreConfig{Config: tiny()}, folder, opened(embedded(t).target()))
	var broken *streamwriter.ChainError
	if !errors.As(err, &broken) || broken.Stream != "account-a1" {
		t.Errorf("restore: %v, want the broken chain of account-a1", err)
	}
	_, err = backup.Migrate(t.Context(), tiny(), true, from.source(), embedded(t).target())
	if !errors.Is(err, streamwriter.ErrChainBroken) {
		t.Errorf("migrate: %v, want ErrChainBroken", err)
	}
}

func TestBackup_LogOfNewerRelease_Fails(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	w := small(t, from)
	w.append("brand-new.com", w.event("brand-new.com", "CrawlSucceeded", 1000, []byte(`{}`)))
	if _, err := backup.Run(t.Context(), tiny(), from.source(), folder); !errors.Is(err, backup.ErrNewer) {
		t.Errorf("run: %v, want ErrNewer", err)
	}
	if _, err := backup.Inspect(t.Context(), folder); !errors.Is(err, backup.ErrUnfinished) {
		t.Errorf("the rest: %v, want ErrUnfinished", err)
	}
}
