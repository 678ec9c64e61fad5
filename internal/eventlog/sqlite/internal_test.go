package sqlite

import (
	"testing"
	"time"

	"github.com/google/uuid"
	sqlite3 "modernc.org/sqlite/lib"

	"letterhead/internal/eventlog"
)

// FuzzDecodeEnvelope decodes arbitrary bytes with a valid checksum, as a faulty writer could produce:
// decoding must not panic, and every accepted envelope must survive another round.
func FuzzDecodeEnvelope(f *testing.F) {
	for _, m := range []eventlog.Metadata{
		{}, {RequestID: "r", Actor: "account:1", CorrelationID: "c", CausationID: "d", Hash: "00ff"},
	} {
		envelope, data, _ := encodeEnvelope(&eventlog.Proposed{
			ID: uuid.Max, SchemaVersion: 300, OccurredAt: time.UnixMicro(1), Data: []byte(`{}`), Metadata: m,
		})
		f.Add(envelope, data)
		f.Add(envelope[:len(envelope)-1], data)
	}
	f.Add([]byte{}, []byte{})
	f.Add(make([]byte, envelopeVersion), []byte(nil))
	f.Add(append(make([]byte, envelopeVersion), 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), []byte(nil))
	at := rowKey{position: 3, stream: 2, revision: 1, typ: 4}
	f.Fuzz(func(t *testing.T, envelope, data []byte) {
		if len(envelope) >= envelopeID {
			seal(envelope, checksum(envelope, data), at)
		}
		var e eventlog.Recorded
		if err := decodeEnvelope(&e, envelope, data, at); err != nil {
			return
		}
		again, copied, crc := encodeEnvelope(&e.Proposed)
		seal(again, crc, at)
		var e2 eventlog.Recorded
		if err := decodeEnvelope(&e2, again, copied, at); err != nil {
			t.Fatalf("%+v does not survive: %v", e, err)
		}
		if e.ID != e2.ID || !e.OccurredAt.Equal(e2.OccurredAt) || e.SchemaVersion != e2.SchemaVersion ||
			e.Metadata != e2.Metadata || string(e.Data) != string(e2.Data) {
			t.Fatalf("%+v became %+v", e, e2)
		}
		elsewhere := at
		elsewhere.revision++
		if err := decodeEnvelope(&e2, again, copied, elsewhere); err == nil {
			t.Fatal("an event was accepted at the wrong revision")
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
