package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

// damagedRow makes a closed log with its marker and changes the data of the event at a position.
func damagedRow(t *testing.T, events int, position uint64) (path string) {
	t.Helper()
	path = logPath(t)
	l := open(t, sqlite.Config{Path: path})
	fill(t, l, events)
	var data []byte
	for _, e := range readAll(t, l) {
		if uint64(e.Position) == position {
			data, _, _ = bytes.Cut(bytes.TrimPrefix(e.Data, []byte(`{"charge_id":`)), []byte(",")) // text in a packed row
		}
	}
	testmust.Succeed(t, l.Close())
	file := testmust.Get(os.ReadFile(path))(t)
	for at := 0; ; at++ { // also in the copies that page splits leave
		i := bytes.Index(file[at:], data)
		if i < 0 {
			break
		}
		at += i
		file[at+5] ^= 1
	}
	write(t, path, file)
	return path
}

// A start does not read a large log completely: the scrub finds damage in its middle.
func TestScrub_ReportsDamage(t *testing.T) {
	path := damagedRow(t, 2000, 700)
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); !errors.Is(err, eventlog.ErrLoss) || !strings.Contains(err.Error(), "positions 700 to 2000 (1301) are missing") {
		t.Errorf("a log small enough to be read completely: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		metrics := prometheus.NewRegistry()
		const rate, pause = 10_000, time.Hour // bytes per second
		l := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: path, VerifyBytes: 1, ScrubBytes: rate, ScrubEvery: pause, Registerer: metrics}))(t)
		begun := time.Now()
		ended := make(chan error)
		go func() { ended <- l.Scrub(t.Context()) }()
		time.Sleep(pause - time.Second)
		report := l.LastScrub()
		if report.Finished.IsZero() || report.Events != 2000 || report.Damaged != 1 || report.First != 700 || !errors.Is(report.Problem, eventlog.ErrCorrupt) {
			t.Errorf("the scrub found %+v", report)
		}
		if took, least := report.Finished.Sub(begun), 2000*150*time.Second/rate; took < least {
			t.Errorf("the scrub read 2000 events of more than 150 bytes in %s, less than %s", took, least)
		}
		families, err := metrics.Gather()
		if err != nil {
			t.Error(err)
		}
		values := map[string]float64{}
		for _, f := range families {
			values[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
		for name, want := range map[string]float64{
			"letterhead_eventlog_damaged_events": 1, "letterhead_eventlog_scrubbed_events_total": 2000,
			"letterhead_eventlog_scrub_last_complete_timestamp_seconds": float64(report.Finished.UnixMicro()) / 1e6,
		} {
			if values[name] != want {
				t.Errorf("%s is %v, want %v", name, values[name], want)
			}
		}
		wantCorrupt(t, "check", l.Check(t.Context(), nil))
		if _, err := l.ReadAll(t.Context(), 699, eventlog.Filter{}, 1); err == nil {
			t.Error("the damaged event was read")
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the scrub of a log that closed ended with %v", err)
		}
	})
}

func TestScrub_OfASoundLog_RepeatsAndFollowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: logPath(t), ScrubEvery: time.Hour}))(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Scrub(ctx) }()
		time.Sleep(time.Minute)
		if r := l.LastScrub(); r.Finished.IsZero() || r.Events != 0 {
			t.Errorf("of an empty log: %+v", r)
		}
		fill(t, l, 500)
		time.Sleep(time.Hour)
		if r := l.LastScrub(); r.Events != 500 || r.Problem != nil {
			t.Errorf("the second pass: %+v", r)
		}
		stop()
		if err := errors.Join(<-ended, l.Close()); err != nil {
			t.Error(err)
		}
	})
}

// grow appends count events to their own stream.
func grow(t *testing.T, l *sqlite.Log, count uint64) {
	t.Helper()
	last := testmust.Get(l.ReadStream(t.Context(), "grown", eventlog.End, eventlog.Backward, 1))(t)
	next := uint64(0)
	if len(last) > 0 {
		next = last[0].Revision + 1
	}
	for end := next + count; next < end; {
		batch := batchFrom(next, int(min(end-next, 100)))
		for i := range batch {
			batch[i].ID = uuid.New()
		}
		testmust.Succeed(t, testmust.Err(l.Append(t.Context(), "grown", eventlog.After(next), batch)))
		next += uint64(len(batch))
	}
}

// copyLog copies the files of an idle open log: the state after a kill -9.
func copyLog(t *testing.T, path string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, suffix := range []string{".db", ".db-wal", ".head"} {
		data := testmust.Get(os.ReadFile(strings.TrimSuffix(path, ".db") + suffix))(t)
		files[suffix] = data
	}
	return files
}

func writeLog(t *testing.T, path string, files map[string][]byte) {
	t.Helper()
	for suffix, data := range files {
		write(t, strings.TrimSuffix(path, ".db")+suffix, data)
	}
}

// Changed bytes anywhere in the files of a log, or a truncation, never lose an event silently.
// Rule 2.
func TestOpen_ChangedBytes_ReportsEveryLostEvent(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	fill(t, l, 150)
	sound, files := readAll(t, l), copyLog(t, path)
	n := 0
	folder := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		suffix := rapid.SampledFrom([]string{".db", ".db-wal", ".db-wal", ".db-wal", ".head"}).Draw(r, "file")
		bad := bytes.Clone(files[suffix])
		for range rapid.IntRange(1, 3).Draw(r, "changes") {
			at := rapid.IntRange(0, len(bad)-1).Draw(r, "at")
			bad[at] ^= rapid.ByteRange(1, 255).Draw(r, "by")
		}
		if rapid.IntRange(0, 3).Draw(r, "cut") == 0 {
			bad = bad[:rapid.IntRange(0, len(bad)).Draw(r, "length")]
		}
		damaged := maps.Clone(files)
		damaged[suffix] = bad
		n++
		path := filepath.Join(folder, time.Unix(int64(n), 0).UTC().Format("150405")+".db")
		writeLog(t, path, damaged)
		l, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		if err != nil {
			return
		}
		if err := l.Check(t.Context(), nil); err == nil && !reflect.DeepEqual(readAll(t, l), sound) {
			r.Error("events are missing or changed, and neither the start nor the check detected it")
		}
		if err := l.Close(); err != nil {
			r.Log(err)
		}
	})
}

// A log that ends like an older copy of it, or another log, is not served, whatever its size.
func TestOpen_OlderOrOtherLog_RejectsWithoutFullRead(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	grow(t, l, 1000)
	older := copyLog(t, path)
	grow(t, l, 1000)
	now := copyLog(t, path)

	fork := logPath(t)
	writeLog(t, fork, older)
	f := open(t, sqlite.Config{Path: fork})
	grow(t, f, 1500)
	forked := copyLog(t, fork)

	o := logPath(t)
	grow(t, open(t, sqlite.Config{Path: o}), 3000)
	other := copyLog(t, o)

	for name, files := range map[string]map[string][]byte{"an older copy": older, "a copy that diverged": forked, "another log": other} {
		folder := logPath(t)
		mixed := maps.Clone(files)
		mixed[".head"] = now[".head"]
		writeLog(t, folder, mixed)
		_, err := sqlite.Open(t.Context(), sqlite.Config{Path: folder, VerifyBytes: 1})
		var loss *eventlog.LossError
		if !errors.As(err, &loss) || loss.Remembered < 2000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An older release ignores the marker and may have appended after it.
func TestOpen_LogAheadOfMarker_Succeeds(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	grow(t, l, 600)
	marker := copyLog(t, path)[".head"]
	grow(t, l, 600)
	testmust.Succeed(t, l.Close())
	write(t, sqlite.MarkerPath(path), marker)
	l = open(t, sqlite.Config{Path: path, VerifyBytes: 1})
	if err := errors.Join(l.Check(t.Context(), nil), l.Close()); err != nil {
		t.Error(err)
	}
	if report, err := sqlite.Inspect(t.Context(), path); err != nil || report.Marker == nil || report.Marker.Position != 1200 {
		t.Errorf("the marker is %+v (%v), want position 1200", report.Marker, err)
	}
}

func TestAcceptLoss_OfEverything_Fails(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	fill(t, l, 50)
	testmust.Succeed(t, l.Close())
	testmust.Succeed(t, os.Remove(path))
	for _, accept := range []bool{false, true} {
		if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, AcceptLoss: accept}); !errors.Is(err, eventlog.ErrLoss) {
			t.Errorf("accept %v: %v", accept, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("a new log was created")
		}
	}
}

func TestAcceptLoss_OfAnOlderCopy_KeepsAllOfIt(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	grow(t, l, 300)
	older, kept := copyLog(t, path), readAll(t, l)
	grow(t, l, 300)
	testmust.Succeed(t, l.Close())
	delete(older, ".head")
	writeLog(t, path, older)
	report, err := sqlite.Inspect(t.Context(), path)
	if err != nil || report.Loss == nil || report.Head != 300 || report.Loss.Remembered != 600 {
		t.Errorf("the inspection found %+v (%v)", report, err)
	}
	l = open(t, sqlite.Config{Path: path, AcceptLoss: true})
	if !reflect.DeepEqual(readAll(t, l), kept) {
		t.Error("some of the remaining files are missing")
	}
	grow(t, l, 10)
	if err := errors.Join(l.Check(t.Context(), nil), l.Close()); err != nil {
		t.Error(err)
	}
	if report, err := sqlite.Inspect(t.Context(), path); err != nil || report.Loss != nil || report.Head != 310 {
		t.Errorf("afterwards: %+v (%v)", report, err)
	}
}
