package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	sqlite3 "modernc.org/sqlite/lib"

	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

// FuzzDecodeRow decodes arbitrary columns with a valid checksum, as a faulty writer could produce: decoding must not
// panic, content has the limits of an event, and every accepted event must survive another round in both forms.
func FuzzDecodeRow(f *testing.F) {
	const id = "0192f3a4-0000-7000-8000-000000000001"
	for _, m := range []eventlog.Metadata{
		{}, {RequestID: "r", Actor: "account:1", CorrelationID: "c", CausationID: "d", Hash: "00ff"},
		{RequestID: id, Actor: "account:" + id, CorrelationID: id, Hash: strings.Repeat("0f", 32)},
	} {
		e := &eventlog.Proposed{ID: uuid.Max, SchemaVersion: 300, OccurredAt: time.UnixMicro(1), Metadata: m,
			Data: []byte(`{"charge_id":"` + id + `","credits":1,"domain":"a.example","hash":"` + strings.Repeat("0f", 32) + `"}`)}
		envelope, data, _ := encodePlain(e)
		f.Add(envelope, data, false)
		f.Add(envelope[:len(envelope)-1], data, false)
		envelope, _, _, _ = encodePacked(e, "account-"+id)
		f.Add(envelope, []byte{}, true)
		f.Add(envelope[:len(envelope)-1], []byte{}, true)
	}
	f.Add([]byte{}, []byte{}, false)
	f.Add(make([]byte, envelopeVersion), []byte(nil), true)
	f.Add(append(make([]byte, envelopeVersion), 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), []byte(nil), false)
	f.Fuzz(func(t *testing.T, envelope, data []byte, packed bool) {
		at := rowKey{position: 3, stream: 2, revision: 1, typ: 4}
		if packed {
			at.typ = -4
		}
		if len(envelope) >= envelopeID {
			seal(envelope, checksum(envelope, data), at)
		}
		var room []byte
		e := eventlog.Recorded{Stream: "account-" + id}
		if err := decodeRow(&e, envelope, data, at, &room); err != nil {
			return
		}
		if packed && len(e.Data) > len(envelope)+eventlog.MaxEventBytes {
			t.Fatalf("%d bytes became %d", len(envelope), len(e.Data))
		}
		for _, form := range []bool{false, true} {
			p := newRequest(e.Stream, eventlog.NoStream(), []eventlog.Proposed{e.Proposed}, form).events[0]
			at := rowKey{position: 3, stream: 2, revision: 1, typ: 4}
			if p.packed {
				at.typ = -4
			}
			seal(p.envelope, p.crc, at)
			e2 := eventlog.Recorded{Stream: e.Stream}
			if err := decodeRow(&e2, p.envelope, p.data, at, &room); err != nil {
				if eventlog.Size(&e.Proposed) > eventlog.MaxEventBytes {
					continue // it cannot be appended
				}
				t.Fatalf("%+v does not survive: %v", e, err)
			}
			if e.ID != e2.ID || !e.OccurredAt.Equal(e2.OccurredAt) || e.SchemaVersion != e2.SchemaVersion ||
				e.Metadata != e2.Metadata || string(e.Data) != string(e2.Data) {
				t.Fatalf("%+v became %+v", e, e2)
			}
			for _, elsewhere := range []rowKey{
				{position: 3, stream: 2, revision: 2, typ: at.typ}, {position: 3, stream: 2, revision: 1, typ: -at.typ},
			} {
				if err := decodeRow(&e2, p.envelope, p.data, elsewhere, &room); err == nil {
					t.Fatal("an event was accepted at the wrong revision, or in the wrong form")
				}
			}
		}
	})
}

// After a failed commit only these codes prove that nothing was written.
func TestClassifyCommit_FailedCommit_IsAmbiguousUnlessCertain(t *testing.T) {
	for code, certain := range map[int]bool{
		sqlite3.SQLITE_FULL:               true,
		sqlite3.SQLITE_IOERR_WRITE:        true,
		sqlite3.SQLITE_BUSY:               true,
		sqlite3.SQLITE_CORRUPT:            true,
		sqlite3.SQLITE_IOERR_FSYNC:        false,
		sqlite3.SQLITE_IOERR_DIR_FSYNC:    false,
		sqlite3.SQLITE_IOERR_SHMMAP:       false,
		sqlite3.SQLITE_NOMEM:              false,
		0 /* not an error of SQLite's */ : false,
	} {
		if got := certainlyNotCommitted(code); got != certain {
			t.Errorf("code %d: certainly not committed: %v, want %v", code, got, certain)
		}
	}
}

func TestRecent_DropsOldest(t *testing.T) {
	const limit = 10
	r := newRecent[int, int](limit)
	for i := range 1000 {
		r.put(i, i*i)
		if got, ok := r.get(0); i < 200 && (!ok || got != 0) {
			t.Fatalf("an entry in constant use was dropped after %d others", i)
		}
		if n := len(r.young) + len(r.old); n > limit {
			t.Fatalf("%d entries, limit %d", n, limit)
		}
		for j := max(0, i-limit/2+2); j <= i; j++ {
			if got, ok := r.get(j); !ok || got != j*j {
				t.Fatalf("after %d entries number %d is %d, %v", i, j, got, ok)
			}
		}
	}
	if _, ok := r.get(500); ok {
		t.Error("an entry unused for long was not dropped")
	}
}

// Names are read in blocks of successive streams, and again for streams that are newer than the block.
func TestNames_ManyStreams_EachHasItsName(t *testing.T) {
	ctx := t.Context()
	l := testmust.Get(Open(ctx, Config{Path: filepath.Join(t.TempDir(), "events.db"), TailEvents: 1}))(t)
	defer l.Close()
	const streams = 3*namesBlock + 5
	stream := func(i int) string { return fmt.Sprintf("account-%d", i) }
	for i := range streams {
		e := chargeOf(fmt.Sprint(i), i)
		testmust.Succeed(t, testmust.Err(l.Append(ctx, stream(i), eventlog.NoStream(), []eventlog.Proposed{e})))
		if i%50 == 0 || i == streams-1 {
			for j, e := range testmust.Get(l.ReadAll(ctx, 0, eventlog.Filter{}, eventlog.MaxPage))(t).Events {
				if e.Stream != stream(j) {
					t.Errorf("event %d is of %s, want %s", j+1, e.Stream, stream(j))
				}
			}
		}
	}
	if len(l.names.streams) != streams/namesBlock+1 {
		t.Errorf("%d blocks of %d streams", len(l.names.streams), streams)
	}
	for i := int64(1); len(l.names.streams) < maxBlocks; i++ { // the next block is one too many
		l.names.streams[-i] = l.names.streams[0]
	}
	clear(l.names.types)
	page := testmust.Get(l.ReadAll(ctx, streams-2, eventlog.Filter{}, 1))(t).Events
	if page[0].Stream != stream(streams-2) || len(l.names.streams) > 2 {
		t.Errorf("%s, and %d blocks of names", page[0].Stream, len(l.names.streams))
	}
}

// A damaged page may return a name whose number is outside of the block that is read, or a number twice.
func TestNames_NumberOfANameIsDamaged_OnlyItsEventsAreCorrupt(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "events.db")
	l := testmust.Get(Open(ctx, Config{Path: path}))(t)
	const streams, damaged = namesBlock + 20, namesBlock + 6
	for i := 1; i <= streams; i++ {
		testmust.Succeed(t, testmust.Err(l.Append(ctx, fmt.Sprintf("account-%02d", i), eventlog.NoStream(),
			[]eventlog.Proposed{chargeOf("1", i)})))
	}
	testmust.Succeed(t, l.Close())
	file := testmust.Get(os.ReadFile(path))(t)
	name := fmt.Appendf(nil, "account-%02d", damaged)
	row := append([]byte{byte(len(name)) + 3, damaged, 3, 0, byte(13 + 2*len(name))}, name...) // length, id, header, columns
	if bytes.Count(file, row) != 1 {
		t.Fatalf("the row of %s is there %d times", name, bytes.Count(file, row))
	}
	for _, id := range []byte{5, damaged - 1} {
		file[bytes.Index(file, row[2:])-1] = id
		testmust.Succeed(t, os.WriteFile(path, file, 0o600))
		readable := testmust.Get(OpenReadOnly(ctx, Config{Path: path}))(t)
		for at := eventlog.Position(1); at <= streams; at++ {
			page, err := readable.ReadAll(ctx, at-1, eventlog.Filter{}, 1)
			if want := fmt.Sprintf("account-%02d", at); at != damaged && (err != nil || page.Events[0].Stream != want) {
				t.Errorf("the event of %s beside number %d: %+v, %v", want, id, page.Events, err)
			} else if at == damaged && !errors.Is(err, eventlog.ErrCorrupt) {
				t.Errorf("the event of %s as number %d: %+v, %v; want ErrCorrupt", want, id, page.Events, err)
			}
		}
		testmust.Succeed(t, readable.Close())
	}
}
