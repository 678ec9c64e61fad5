package sqlite

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	dto "github.com/prometheus/client_model/go"

	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

func testMark(sequence uint64) mark {
	return mark{
		Marker: Marker{
			LogID: uuid.MustParse("0192f3a4-0000-7000-8000-000000000001"), Position: 700 + eventlog.Position(sequence), Count: 700 + sequence,
			Digest: [32]byte{1, 2, byte(sequence)}, WrittenAt: time.UnixMicro(1_760_000_000_000_000).UTC(),
		},
		sequence: sequence, anchor: chain{position: 256, digest: [32]byte{3}}, salts: 42,
	}
}

func markerFile(even, odd mark) []byte {
	raw := make([]byte, markerBytes)
	even.encode(raw[:markBytes])
	odd.encode(raw[markSpacing : markSpacing+markBytes])
	return raw
}

func TestMarker_TornSlot_LeavesTheOther(t *testing.T) {
	older, younger := testMark(1), testMark(2)
	raw := markerFile(younger, older)
	if m, both := decodeMarker(raw); !both || *m != younger {
		t.Fatalf("read %+v, %v", m, both)
	}
	for at := range markBytes {
		torn := bytes.Clone(raw)
		torn[at] ^= 0x20
		if m, both := decodeMarker(torn); both || m == nil || *m != older {
			t.Errorf("with byte %d of the younger slot changed: %+v, %v", at, m, both)
		}
		torn[markSpacing+at] ^= 0x20
		if m, _ := decodeMarker(torn); m != nil {
			t.Errorf("with byte %d of both slots changed: %+v", at, m)
		}
	}
	for length := range len(raw) {
		if m, _ := decodeMarker(raw[:length]); m != nil && *m != younger {
			t.Errorf("cut to %d bytes: %+v", length, m)
		}
	}
}

func FuzzDecodeMarker(f *testing.F) {
	f.Add(markerFile(testMark(4), testMark(3)))
	f.Add(markerFile(testMark(4), testMark(5))[:markSpacing])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, _ := decodeMarker(raw)
		if m == nil {
			return
		}
		var again mark
		slot := make([]byte, markBytes)
		m.encode(slot)
		if !again.decode(slot) || again != *m {
			t.Errorf("%+v became %+v", m, again)
		}
	})
}

// After every append the file describes the log, before the append returns.
// Rule 2.
func TestMarkerFile_FollowsEveryAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	l, err := Open(t.Context(), Config{Path: path})
	testmust.Succeed(t, err)
	defer l.Close()
	if m, err := readMarker(path); err != nil || m == nil || m.Position != 0 || m.LogID != uuid.Nil {
		t.Fatalf("of a new log: %+v (%v)", m, err)
	}
	var first uuid.UUID
	for n := range uint64(3 * anchorEvery) {
		e := eventlog.Proposed{ID: uuid.New(), Type: "Tested", SchemaVersion: 1, OccurredAt: time.Now(), Data: []byte(`{}`)}
		if n == 0 {
			first = e.ID
		}
		appended, err := l.Append(t.Context(), "stream", eventlog.After(n), []eventlog.Proposed{e})
		testmust.Succeed(t, err)
		m, both, err := readMark(path)
		if err != nil || !both || m.Position != appended.Position || m.Count != n+1 || m.LogID != first || m.salts == 0 {
			t.Fatalf("after event %d: %+v, %v (%v)", n, m, both, err)
		}
		if behind := int64(m.Position) - m.anchor.position; behind > 2*anchorEvery || n > anchorEvery && behind < anchorEvery {
			t.Fatalf("after event %d the anchor is at %d", n, m.anchor.position)
		}
	}
	if err := l.Check(t.Context(), nil); err != nil { // recomputes the digest
		t.Error(err)
	}
	// A repeat or a rejection changes nothing.
	before := l.head.current().Marker
	if _, err := l.Append(t.Context(), "stream", eventlog.NoStream(), []eventlog.Proposed{{ID: first, Type: "Tested", SchemaVersion: 1, OccurredAt: time.Now(), Data: []byte(`{}`)}}); err != nil {
		t.Error(err)
	}
	if after := l.head.current().Marker; after != before {
		t.Errorf("a repeat moved the marker from %+v to %+v", before, after)
	}
	testmust.Succeed(t, l.Close())
	m, both, err := readMark(path)
	if err != nil || !both || m.Position != before.Position || m.Digest != before.Digest || m.salts != 0 {
		t.Errorf("after Close: %+v, %v (%v)", m, both, err)
	}
	if info, err := os.Stat(MarkerPath(path)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v (%v)", info.Mode(), err)
	}
}

// A crash at any point of a replacement leaves one complete log: the new one, once its record exists.
func TestReplace_CutOffAnywhere_IsFinishedAtTheNextStart(t *testing.T) {
	events := func(path string, n uint64) {
		l, err := Open(t.Context(), Config{Path: path})
		testmust.Succeed(t, err)
		for i := range n {
			testmust.Succeed(t, testmust.Err(l.Append(t.Context(), "stream", eventlog.After(i), []eventlog.Proposed{{ID: uuid.New(), Type: "Tested", SchemaVersion: 1, OccurredAt: time.Now(), Data: []byte(`{}`)}})))
		}
		testmust.Succeed(t, l.Close())
	}
	const suffix = suffixLost + "then"
	for done := range 7 {
		folder := t.TempDir()
		path, with := filepath.Join(folder, "events.db"), filepath.Join(folder, "other.db")
		events(path, 5)
		events(with, 3)
		rename := func(from, to string) func() error { return func() error { return os.Rename(from, to) } }
		for _, step := range []func() error{
			func() error {
				return os.WriteFile(path+suffixReplace, []byte(`{"with":"other.db","lost":"`+suffix+`"}`), 0o600)
			},
			rename(MarkerPath(path), MarkerPath(path)+suffix),
			rename(path, path+suffix),
			rename(with, path),
			rename(MarkerPath(with), MarkerPath(path)),
			func() error { return os.Remove(with + ".lock") },
		}[:min(done, 6)] {
			testmust.Succeed(t, step())
		}
		want := eventlog.Position(3)
		if done == 0 {
			want = 5
		}
		l, err := Open(t.Context(), Config{Path: path})
		if err != nil {
			t.Fatalf("after %d steps: %v", done, err)
		}
		if head, err := l.Head(t.Context()); err != nil || head != want {
			t.Errorf("after %d steps the log ends at position %d (%v)", done, head, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path + suffixReplace); err == nil {
			t.Errorf("after %d steps the record still exists", done)
		}
	}
	folder := t.TempDir()
	path, with := filepath.Join(folder, "events.db"), filepath.Join(folder, "other.db")
	events(path, 5)
	events(with, 3)
	testmust.Succeed(t, Replace(path, with, suffix))
	if r, err := Inspect(t.Context(), path); err != nil || r.Loss != nil || r.Head != 3 {
		t.Errorf("after Replace: %+v (%v)", r, err)
	}
}

// The marker's share of a group of appends: events of the usual size from 64 callers, and from one.
func BenchmarkMarker(b *testing.B) {
	for _, events := range []int{1, 64} {
		b.Run(fmt.Sprintf("%d events", events), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "events.db")
			testmust.Succeed(b, os.WriteFile(path+"-wal", make([]byte, walHeaderBytes), 0o600))
			h, err := openHead(path, mark{})
			testmust.Succeed(b, err)
			defer h.closeFiles()
			proposed := make([]eventlog.Proposed, events)
			for i := range proposed {
				proposed[i] = eventlog.Proposed{ID: uuid.New(), Type: "CreditsCharged", SchemaVersion: 1, OccurredAt: time.Now(), Data: bytes.Repeat([]byte("x"), 300)}
			}
			group := []*request{newRequest("account-0192f3a4-0000-7000-8000-000000000001", eventlog.NoStream(), proposed, true)}
			at := eventlog.Position(0)
			for b.Loop() {
				for i := range group[0].events {
					at++
					group[0].events[i].recorded.Position = at
				}
				testmust.Succeed(b, h.advance(group))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
		})
	}
}

// A marker that cannot be written is reported but fails no append: acknowledged events are durable without it.
func TestMarker_WriteFails_AppendsSucceedAndErrorIsCounted(t *testing.T) {
	var logged bytes.Buffer
	path := filepath.Join(t.TempDir(), "events.db")
	l, err := Open(t.Context(), Config{Path: path, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	testmust.Succeed(t, err)
	testmust.Succeed(t, l.head.f.Close())
	for n := range uint64(3) {
		if _, err := l.Append(t.Context(), "stream", eventlog.After(n), []eventlog.Proposed{{ID: uuid.New(), Type: "Tested", SchemaVersion: 1, OccurredAt: time.Now(), Data: []byte(`{}`)}}); err != nil {
			t.Error(err)
		}
	}
	var m dto.Metric
	if err := l.metrics.markerErrors.Write(&m); err != nil || m.GetCounter().GetValue() != 3 {
		t.Errorf("%v failures were counted (%v)", m.GetCounter().GetValue(), err)
	}
	if err := l.Close(); err == nil {
		t.Error("Close reports no error of the marker")
	}
	if n := strings.Count(logged.String(), "could not be written"); n != 1 {
		t.Errorf("the failure was logged %d times: %s", n, logged.String())
	}
	// A log ahead of its marker is accepted.
	if l, err = Open(t.Context(), Config{Path: path}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A scrub waits for the time that its bytes may take, and then, for a bounded time, for waiting appends.
func TestScrubPace_YieldsToAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Log{cfg: Config{ScrubBytes: 1000}, queue: make(chan *request, 1), imports: make(chan *bulk, 1)}
		for _, step := range []struct {
			waiting int
			want    time.Duration
		}{{0, 2 * time.Second}, {1, 2*time.Second + scrubMaxWait}} {
			for range step.waiting {
				l.queue <- nil
			}
			begun := time.Now()
			if err := l.pace(t.Context(), 2000); err != nil || time.Since(begun) != step.want {
				t.Errorf("with %d appends waiting: %s, not %s (%v)", step.waiting, time.Since(begun), step.want, err)
			}
		}
	})
}

// readMarker reads the marker of the log at path, nil if there is none.
func readMarker(path string) (*Marker, error) {
	m, _, err := readMark(path)
	if m == nil {
		return nil, err
	}
	return &m.Marker, err
}
