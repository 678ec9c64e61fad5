package backup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/accountnames"
	"letterhead/internal/assets"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
)

var errCut = errors.New("the process ends here")

// killablePlace ends the process after a number of writes and removals. Images are written concurrently.
type killablePlace struct {
	place
	left atomic.Int64
}

func (m *killablePlace) put(ctx context.Context, name string, data []byte) error {
	if m.left.Add(-1) < 0 {
		return errCut
	}
	return m.place.put(ctx, name, data)
}

func (m *killablePlace) remove(ctx context.Context, name string) error {
	if m.left.Add(-1) < 0 {
		return errCut
	}
	return m.place.remove(ctx, name)
}

func internalSource(t testing.TB) Source {
	t.Helper()
	folder := t.TempDir()
	log := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(folder, "events.db")}))(t)
	store := testmust.Get(sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(folder, "letterhead.db")}))(t)
	names := testmust.Get(accountnames.New(t.Context(), store))(t)
	u := "file://" + filepath.Join(folder, "assets")
	files := testmust.Get(assets.Open(t.Context(), u))(t)
	t.Cleanup(func() { _ = errors.Join(log.Close(), store.Close(), files.Close()) })
	return Source{Log: log, Names: names, Assets: files}
}

// brandEvents appends imports, each of which refers to an image.
func brandEvents(t testing.TB, to Source, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		id, err := to.Assets.Put(t.Context(), fmt.Appendf(nil, "<svg>%d</svg>", i), "svg")
		testmust.Succeed(t, err)
		body := fmt.Appendf(nil, `{"source":"s","record":{"logos":[{"type":"logo","theme":null,"tags":[],"formats":[{"id":%q,"format":"svg","size":1}]}]},"evidence":[],"padding":%q}`, id, fmt.Sprintf("%0400d", i))
		_, err = to.Log.Append(t.Context(), fmt.Sprintf("brand-%d.com", i), eventlog.NoStream(), []eventlog.Proposed{{
			ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)), Type: "BrandImported", SchemaVersion: 1, OccurredAt: time.UnixMicro(int64(i)).UTC(), Data: body,
		}})
		testmust.Succeed(t, err)
	}
}

// A run that ends after any of its writes leaves the old backup complete, and the next run completes the new one.
func TestRun_EndsAfterAnyWrite_Continues(t *testing.T) {
	from := internalSource(t)
	brandEvents(t, from, 0, 8)
	testmust.Succeed(t, from.Names.PutAll(t.Context(), []Name{{ID: "1", Name: "One"}}))
	cfg := Config{SegmentBytes: 1 << 10, RetryAfter: time.Millisecond}.withDefaults()
	first := testmust.Get(openPlace(t.Context(), t.TempDir(), true))(t)
	testmust.Succeed(t, testmust.Err(runTo(t.Context(), cfg, from, first)))
	old := testmust.Get(readManifest(t.Context(), first))(t)
	brandEvents(t, from, 8, 6)
	testmust.Succeed(t, from.Names.PutAll(t.Context(), []Name{{ID: "2", Name: "Two"}}))
	for writes := 0; ; writes++ {
		at, err := openPlace(t.Context(), t.TempDir(), true)
		testmust.Succeed(t, err)
		copyPlace(t, first, at)
		killable := &killablePlace{place: at}
		killable.left.Store(int64(writes))
		_, err = runTo(t.Context(), cfg, from, killable)
		if err == nil {
			if writes < 10 {
				t.Errorf("a run of %d writes", writes)
			}
			break
		}
		if !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		m, err := readManifest(t.Context(), at)
		if err != nil {
			t.Fatalf("after %d writes: %v", writes, err)
		}
		checkWhole(t, at, m)
		if m.Position != old.Position && m.Events != 14 {
			t.Errorf("after %d writes the manifest has %d events", writes, m.Events)
		}
		testmust.Succeed(t, at.close())
		again := testmust.Get(openPlace(t.Context(), at.String(), false))(t)
		if _, err := runTo(t.Context(), cfg, from, again); err != nil {
			t.Fatalf("after %d writes: %v", writes, err)
		}
		if m, err = readManifest(t.Context(), again); err != nil || m.Events != 14 || m.NameCount() != 2 {
			t.Fatalf("after %d writes: %+v, %v, want 14 events and 2 names", writes, m, err)
		}
		checkWhole(t, again, m)
		testmust.Succeed(t, again.close())
	}
}

// checkWhole reads everything that a manifest lists.
func checkWhole(t *testing.T, at place, m *Manifest) {
	t.Helper()
	c := testmust.Get(newCodec())(t)
	defer c.close()
	r := &restore{cfg: RestoreConfig{Config: Config{}.withDefaults()}, from: at, m: m, codec: c}
	r.to.Assets = &assets.Store{}
	if err := r.checkBackup(t.Context()); err != nil {
		t.Error(err)
	}
}

func copyPlace(t *testing.T, from, to place) {
	t.Helper()
	var walk func(prefix string)
	walk = func(prefix string) {
		names := testmust.Get(from.list(t.Context(), prefix))(t)
		for _, n := range names {
			if there, err := from.has(t.Context(), n); err != nil {
				t.Fatal(err)
			} else if !there {
				walk(n + "/")
				continue
			}
			data := testmust.Get(from.get(t.Context(), n, maxSegmentBytes))(t)
			testmust.Succeed(t, to.(*folder).copyIn(n, data))
		}
	}
	walk("")
}

// copyIn puts without the lock's folder.
func (f *folder) copyIn(name string, data []byte) error {
	if err := f.lock(); err != nil {
		return err
	}
	if err := f.put(context.Background(), name, data); err != nil {
		return err
	}
	return f.close()
}

func event(i int) eventlog.Recorded {
	return eventlog.Recorded{Stream: "account-ü", Revision: uint64(i), Position: eventlog.Position(10 + 7*i), Proposed: eventlog.Proposed{
		ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)), Type: "T", SchemaVersion: i, OccurredAt: time.UnixMicro(int64(-i)).UTC(),
		Data:     make([]byte, i*100),
		Metadata: eventlog.Metadata{RequestID: "r", Actor: "a", CorrelationID: "", CausationID: "x\x00y", Hash: "h"},
	}}
}

func TestSegment_ReadsBack(t *testing.T) {
	b := newBuilder(3, 9, 1<<10)
	var want []eventlog.Recorded
	for i := range 5 {
		e := event(i)
		b.add(&e)
		want = append(want, e)
	}
	b.refer(assetKey{[32]byte{1}, "png"})
	b.refer(assetKey{[32]byte{1}, "png"})
	b.refer(assetKey{[32]byte{2}, "svg"})
	b.refs[0].present = true
	s := testmust.Get(decodeSegment(b.end()))(t)
	if !reflect.DeepEqual(s.events, want) || s.number != 3 || s.after != 9 || s.through != 38 {
		t.Errorf("read %+v", s)
	}
	if refs := []assetRef{{[32]byte{1}, "png", true}, {[32]byte{2}, "svg", false}}; !reflect.DeepEqual(s.assets, refs) {
		t.Errorf("assets %+v, want %+v", s.assets, refs)
	}
}

func FuzzDecodeSegment(f *testing.F) {
	b := newBuilder(1, 0, 1<<10)
	for i := range 3 {
		e := event(i)
		b.add(&e)
	}
	b.refer(assetKey{[32]byte{1}, "png"})
	whole := b.end()
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(binary.AppendUvarint(append([]byte(segmentMagic), segmentFormat), 1<<63))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := decodeSegment(raw)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Errorf("unexpected error %v", err)
			}
			return
		}
		// Everything that can be read can be written, and reads the same again.
		b := newBuilder(s.number, s.after, 0)
		for i := range s.events {
			b.add(&s.events[i])
		}
		b.refs = s.assets
		again, err := decodeSegment(b.end())
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("segment %+v is decoded as %+v, %v", s, again, err)
		}
	})
}

func FuzzDecodeManifest(f *testing.F) {
	m := Manifest{Format: Format, Product: product, Segments: []SegmentFile{}, Names: []NamesFile{}}
	sum := testmust.Get(m.sum())(f)
	f.Add(fmt.Appendf(nil, `{"format":1,"product":"letterhead","version":"","finished_at":"0001-01-01T00:00:00Z","position":0,"events":0,"segments":[],"names":[],"checksum":%q}`, sum))
	f.Add([]byte(`{"format":2,"product":"letterhead"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := decodeManifest(raw)
		switch {
		case err == nil && (m.Format > Format || m.Product != product):
			t.Errorf("took %+v", m)
		case err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) && !errors.Is(err, ErrNotBackup):
			t.Errorf("unexpected error %v", err)
		}
	})
}
