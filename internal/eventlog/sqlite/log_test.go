package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

func logPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "events.db")
}

// fill appends count events, 25 at a time, alternating between a few streams.
func fill(t *testing.T, l *sqlite.Log, count int) {
	t.Helper()
	const streams, batch = 5, 25
	var next [streams]uint64
	for n := 0; n < count; n += batch {
		s := n / batch % streams
		testmust.Succeed(t, testmust.Err(l.Append(t.Context(), fmt.Sprintf("account-%d", s), eventlog.After(next[s]), batchFrom(uint64(n), batch))))
		next[s] += batch
	}
}

func readAll(t *testing.T, l *sqlite.Log) []eventlog.Recorded {
	t.Helper()
	var events []eventlog.Recorded
	for at := eventlog.Position(0); ; {
		page := testmust.Get(l.ReadAll(t.Context(), at, eventlog.Filter{}, 1000))(t)
		events, at = append(events, page.Events...), page.Next
		if page.End {
			return events
		}
	}
}

func TestOpen_Reopened_SameEvents(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	fill(t, l, 1000)
	before := readAll(t, l)
	testmust.Succeed(t, l.Close())
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a clean close left the write-ahead log behind: %v", err)
	}

	l = open(t, sqlite.Config{Path: path})
	after := readAll(t, l)
	if len(after) != len(before) {
		t.Fatalf("%d events after the reopening, %d before", len(after), len(before))
	}
	for i := range after {
		if after[i].ID != before[i].ID || after[i].Position != before[i].Position || string(after[i].Data) != string(before[i].Data) {
			t.Fatalf("event %d changed from %+v to %+v", i, before[i], after[i])
		}
		if after[i].Position != eventlog.Position(i+1) {
			t.Fatalf("event %d is at position %d, but positions must have no gaps", i, after[i].Position)
		}
	}
	// It continues where it was: revisions, repeats, types, streams.
	last := after[len(after)-1]
	if _, err := l.Append(t.Context(), last.Stream, eventlog.Exact(last.Revision-1), []eventlog.Proposed{last.Proposed}); err != nil {
		t.Errorf("the repeat after a reopening: %v", err)
	}
	appended, err := l.Append(t.Context(), "new", eventlog.NoStream(), batchFrom(5000, 1))
	if err != nil || appended.Position != last.Position+1 {
		t.Errorf("the next append = %+v, %v, want position %d", appended, err, last.Position+1)
	}
}

func TestOpen_FileInUse_Fails(t *testing.T) {
	path := logPath(t)
	holder := child(t, "hold", path)
	in := testmust.Get(holder.StdinPipe())(t)
	out, err := holder.StdoutPipe()
	testmust.Succeed(t, err)
	testmust.Succeed(t, holder.Start())
	bufio.NewScanner(out).Scan() // this process has the log open
	_, err = sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if !errors.Is(err, sqlite.ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("opening a log that another process has open: %v", err)
	}
	testmust.Succeed(t, errors.Join(in.Close(), holder.Wait()))

	l := open(t, sqlite.Config{Path: path})
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); !errors.Is(err, sqlite.ErrInUse) {
		t.Errorf("opening a log that this process has open: %v", err)
	}
	fill(t, l, 25)
}

func TestOpen_MissingFolderOrEndedContext_Fails(t *testing.T) {
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "no", "folder", "events.db")}); err == nil {
		t.Error("a path in a folder that does not exist was accepted")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlite.Open(ended, sqlite.Config{Path: logPath(t)}); !errors.Is(err, context.Canceled) {
		t.Errorf("open with a canceled context: %v", err)
	}
}

func TestOpen_PathWithSpecialCharacters_Works(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "100% of a?b#c&d=é 1;2")
	testmust.Succeed(t, os.Mkdir(folder, 0o700))
	path := filepath.Join(folder, "events.db")
	l := open(t, sqlite.Config{Path: path})
	fill(t, l, 25)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the log is not at its path: %v", err)
	}
}

func TestAppend_UnderLoad_SharesCommits(t *testing.T) {
	registry := prometheus.NewRegistry()
	l := open(t, sqlite.Config{Path: logPath(t), Registerer: registry})
	const writers, perWriter = 64, 40
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := range uint64(perWriter) {
				if _, err := l.Append(t.Context(), crashStream(w), eventlog.After(n), batchFrom(n, 1)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	found := map[string]*dto.Metric{}
	families := testmust.Get(registry.Gather())(t)
	for _, family := range families {
		found[family.GetName()] = family.GetMetric()[0]
	}
	const events = writers * perWriter
	if n := found["letterhead_eventlog_append_duration_seconds"].GetHistogram().GetSampleCount(); n != events {
		t.Errorf("%d latencies for %d appends", n, events)
	}
	groups := found["letterhead_eventlog_group_events"].GetHistogram()
	if sum := groups.GetSampleSum(); sum != events {
		t.Errorf("groups of %v events together, want %d", sum, events)
	}
	if n := groups.GetSampleCount(); n > events/4 {
		t.Errorf("%d commits for %d appends of %d writers: they must share flushes", n, events, writers)
	}
	if head := found["letterhead_eventlog_head_position"].GetGauge().GetValue(); head != events {
		t.Errorf("head position %v, want %d", head, events)
	}
}

func TestClose_UnregistersMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		l := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: logPath(t), Registerer: registry}))(t)
		testmust.Succeed(t, l.Close())
	}
}

// The write-ahead log must not grow without bound under continuous writes and changing readers.
func TestWriteAheadLog_ContinuousWrites_StaysBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 250 MB")
	}
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for at := eventlog.Position(0); ctx.Err() == nil; {
			page, err := l.ReadAll(ctx, at, eventlog.Filter{}, 100)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			at = page.Next
		}
	})
	const limit = 160 << 20
	var largest int64
	for n := uint64(0); n < 4000; n += 8 {
		batch := batchFrom(n, 8)
		for i := range batch {
			batch[i].Data = []byte(`"` + strings.Repeat("x", 60<<10) + `"`)
		}
		testmust.Succeed(t, testmust.Err(l.Append(t.Context(), "large", eventlog.After(n), batch)))
		if info, err := os.Stat(path + "-wal"); err == nil {
			largest = max(largest, info.Size())
		}
	}
	stop()
	all.Wait()
	t.Logf("the write-ahead log grew to %d MiB", largest>>20)
	if largest > limit {
		t.Errorf("the write-ahead log grew to %d bytes, want at most %d", largest, limit)
	}
}

// The end of the log is served from memory, bounded by count and bytes; slower followers read the file.
// Followers that switch between the two must see no difference.
func TestSubscription_SwitchesBetweenFileAndMemory(t *testing.T) {
	l := open(t, sqlite.Config{Path: logPath(t)})
	const appends, perAppend, followers = 120, 250, 4
	const total = appends * perAppend
	var all sync.WaitGroup
	for i := range followers {
		after := eventlog.Position(i * total / 3 / followers)
		filter := eventlog.Filter{}
		if i%2 == 1 {
			filter.StreamPrefixes = []string{"account-1"}
		}
		sub := testmust.Get(l.Subscribe(t.Context(), after, filter))(t)
		all.Go(func() {
			at, next := after, after+1
			for at < total {
				batch, err := sub.Next(t.Context())
				if err != nil {
					t.Errorf("follower %d: %v", i, err)
					return
				}
				for _, e := range batch.Events {
					for !filter.Match(followedStream(next), "") {
						next++
					}
					if e.Position != next || e.Stream != followedStream(next) || e.ID != charge(uint64(next)).ID {
						t.Errorf("follower %d: %s at position %d, want position %d", i, e.Stream, e.Position, next)
						return
					}
					next++
				}
				at = batch.Position
			}
		})
	}
	var revisions [3]uint64
	for n := range appends {
		batch := batchFrom(uint64(n*perAppend+1), perAppend)
		if n%10 == 0 { // large events push others out of memory
			batch[0].Data = []byte(`"` + strings.Repeat("x", 120<<10) + `"`)
		}
		at := &revisions[n%len(revisions)]
		testmust.Succeed(t, testmust.Err(l.Append(t.Context(), followedStream(eventlog.Position(n*perAppend+1)), eventlog.After(*at), batch)))
		*at += perAppend
	}
	all.Wait()
}

// followedStream names the stream of the event that gets a position in the test above.
func followedStream(p eventlog.Position) string {
	return fmt.Sprintf("account-%d", (p-1)/250%3)
}

// Open reads the last events, however large they are.
func TestOpen_LargeLastEvents_Works(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	for n := uint64(0); n < 200; n += 5 {
		batch := batchFrom(n, 5)
		for i := range batch {
			batch[i].Data = []byte(`"` + strings.Repeat("x", 125<<10) + `"`)
		}
		testmust.Succeed(t, testmust.Err(l.Append(t.Context(), "large", eventlog.After(n), batch)))
	}
	testmust.Succeed(t, l.Close())
	if events := readAll(t, open(t, sqlite.Config{Path: path})); len(events) != 200 {
		t.Errorf("%d events, want 200", len(events))
	}
}

func TestAppend_EmptyData_StaysEmpty(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	batch := batchFrom(1, 2)
	batch[0].Data, batch[1].Data = nil, []byte{}
	testmust.Succeed(t, testmust.Err(l.Append(t.Context(), "s", eventlog.NoStream(), batch)))
	live := readAll(t, l)
	testmust.Succeed(t, l.Close())
	stored := readAll(t, open(t, sqlite.Config{Path: path}))
	if len(live) != 2 || !reflect.DeepEqual(live, stored) {
		t.Errorf("from memory %+v, from the file %+v", live, stored)
	}
}

// Changes that a caller makes to its events after Append must not affect the log.
func TestAppend_CallerChangesEvents_KeepsCopies(t *testing.T) {
	l := open(t, sqlite.Config{Path: logPath(t)})
	batch := batchFrom(1, 1)
	want := string(batch[0].Data)
	testmust.Succeed(t, testmust.Err(l.Append(t.Context(), "s", eventlog.NoStream(), batch)))
	clear(batch[0].Data)
	batch[0].Type = "Changed"
	if got := readAll(t, l)[0]; string(got.Data) != want || got.Type != charge(1).Type {
		t.Errorf("the log holds %+v", got)
	}
}

func TestAppend_NewTypes_AreBounded(t *testing.T) {
	l := open(t, sqlite.Config{Path: logPath(t)})
	const known = 4096
	next := uint64(0)
	for next < known {
		batch := batchFrom(next, 512)
		for i := range batch {
			batch[i].Type = fmt.Sprintf("Type%d", next+uint64(i))
		}
		testmust.Succeed(t, testmust.Err(l.Append(t.Context(), "types", eventlog.After(next), batch)))
		next += 512
	}
	one := batchFrom(next, 2)
	one[1].Type = "OneTooMany"
	if _, err := l.Append(t.Context(), "types", eventlog.After(next), one); !errors.Is(err, eventlog.ErrInvalid) {
		t.Errorf("one type too many: %v", err)
	}
	one[0].Type, one[1].Type = "Type0", "Type1"
	if _, err := l.Append(t.Context(), "types", eventlog.After(next), one); err != nil {
		t.Errorf("known types: %v", err)
	}
}
