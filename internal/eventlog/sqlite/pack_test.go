package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

// Rows name fields by number: a change would give stored events other fields.
func TestPackedNames_KeepTheirNumbers(t *testing.T) {
	const format2 = "77b8de60-6aca-5079-8802-e65e56b76586"
	if got := uuid.NewSHA1(uuid.Nil, []byte(strings.Join(packedNames[:], " "))).String(); got != format2 {
		t.Errorf("the names of format 2 changed (%s, want %s)", got, format2)
	}
	for i, name := range packedNames {
		if nameTokens[name] != tokenName+byte(i) || len(name) > maxName {
			t.Errorf("name %d, %s, is packed as %d, and has %d bytes", i, name, nameTokens[name], len(name))
		}
	}
}

// roundTrip prepares an event for a file of format 2, decodes its row, and returns the size of its columns.
func roundTrip(t interface{ Fatalf(string, ...any) }, stream string, e eventlog.Proposed) (size int, packed bool) {
	p := newRequest(stream, eventlog.NoStream(), []eventlog.Proposed{e}, true).events[0]
	at := rowKey{position: 1, stream: 2, revision: 3, typ: 4}
	if p.packed {
		at.typ = -4
	}
	seal(p.envelope, p.crc, at)
	if string(p.recorded.Data) != string(e.Data) {
		t.Fatalf("the copy of %q is %q", e.Data, p.recorded.Data)
	}
	got := eventlog.Recorded{Stream: stream}
	room := []byte("left from the row before")
	if err := decodeRow(&got, p.envelope, p.data, at, &room); err != nil {
		t.Fatalf("%+v: %v", e, err)
	}
	if got.ID != e.ID || !got.OccurredAt.Equal(e.OccurredAt) || got.SchemaVersion != e.SchemaVersion ||
		got.Metadata != e.Metadata || string(got.Data) != string(e.Data) {
		t.Fatalf("%+v became %+v", e, got)
	}
	return len(p.envelope) + len(p.data), p.packed
}

// Any data and any metadata survive; what looks like the parts that are packed most of all.
func TestPackedRow_AnyEvent_IsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SampledFrom([]string{"", "a", `"`, "0192f3a4-0000-7000-8000-000000000001", "0192F3A4-0000-7000-8000-000000000001",
			"0192f3a4-0000-7000-8000-00000000000", "0192f3a4x0000-7000-8000-000000000001", strings.Repeat("0f", 32), strings.Repeat("0F", 32)})
		part := rapid.OneOf(rapid.SampledFrom([]string{`{"`, `,"`, `":`, `"`, "{", ",", ":", "1", "\x01", "\x06", "\x7f", "\x00", "\n"}),
			rapid.SampledFrom(packedNames[:]), rapid.Map(rapid.SampledFrom(packedNames[:]), func(s string) string { return s[2:] }), id, rapid.Map(id, func(s string) string { return `"` + s + `"` }), rapid.String())
		text := rapid.Map(rapid.SliceOfN(part, 0, 12), func(parts []string) string { return strings.Join(parts, "") })
		value := rapid.OneOf(id, rapid.Map(id, func(s string) string { return "account:" + s }), rapid.String())
		stream := rapid.OneOf(rapid.Map(id, func(s string) string { return "account-" + s }), value).Draw(t, "stream")
		roundTrip(t, stream, eventlog.Proposed{
			ID: uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")), SchemaVersion: rapid.IntMin(0).Draw(t, "version"),
			OccurredAt: time.UnixMicro(rapid.Int64().Draw(t, "time")), Data: []byte(text.Draw(t, "data")),
			Metadata: eventlog.Metadata{RequestID: value.Draw(t, "request"), Actor: value.Draw(t, "actor"),
				CorrelationID: value.Draw(t, "correlation"), CausationID: value.Draw(t, "causation"), Hash: value.Draw(t, "hash")},
		})
	})
}

// FuzzPack packs arbitrary text, and unpacks arbitrary bytes.
func FuzzPack(f *testing.F) {
	f.Add([]byte(`"r"{"charge_id":"0192f3a4-0000-7000-8000-000000000001","credits":1,"request_id":"r"}`), "r", "account-a")
	f.Add([]byte{tokenUUID, 1, tokenDigest, 2, tokenName, 31, tokenRequest, 31, 30, 0}, "", "")
	f.Add([]byte{'"', '"', tokenRequest, tokenActor, tokenActor}, "", strings.Repeat("a", eventlog.MaxEventBytes))
	f.Fuzz(func(t *testing.T, text []byte, request, stream string) {
		begin := len(request) + 2
		whole := append([]byte(`"`+request+`"`), text...)
		if packed, ok := pack(nil, whole, whole[:begin], appendActor(nil, stream)); ok && !strings.Contains(request, `"`) {
			if len(packed) > len(whole) {
				t.Errorf("%d bytes became %d", len(whole), len(packed))
			}
			again, err := unpack(nil, packed, stream)
			if len(whole) <= maxText && (err != nil || string(again) != string(whole)) {
				t.Errorf("%q became %q, %v", whole, again, err)
			}
		}
		unpacked, err := unpack(nil, text, stream)
		if err == nil && len(unpacked) > maxText {
			t.Errorf("%d bytes became %d, at most %d", len(text), len(unpacked), maxText)
		}
	})
}

// chargeOf is a look-up's event as the desk writes it.
func chargeOf(account string, n int) eventlog.Proposed {
	id := func(kind string) string { return uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s %d", kind, n)).String() }
	request := id("request")
	return eventlog.Proposed{ID: uuid.MustParse(id("event")), Type: "CreditsCharged", SchemaVersion: 2,
		OccurredAt: time.UnixMicro(1_790_000_000_000_000 + int64(n)).UTC(),
		Data: fmt.Appendf(nil, `{"charge_id":"%s","credits":1,"request_id":"%s","brand_id":"%s","domain":"brand-12.example","record_revision":3,"key_id":"%s"}`,
			id("charge"), request, id("brand"), id("key")),
		Metadata: eventlog.Metadata{RequestID: request, Actor: "account:" + account, CorrelationID: request,
			Hash: strings.Repeat("0123456789abcdef", 4)}}
}

const someAccount = "0192f3a4-0000-7000-8000-000000000001"

func TestPackedRow_OfACharge_IsSmall(t *testing.T) {
	e := chargeOf(someAccount, 1)
	size, packed := roundTrip(t, "account-"+someAccount, e)
	if most := 165; size > most || !packed {
		t.Errorf("the columns of a charge have %d bytes, at most %d (plain: %d)", size, most, 72+eventlog.Size(&e))
	}
}

// A file of format 1, as release 0.1.0 wrote it, opens; its rows stay as they are, beside packed ones, and every way of
// reading finds both.
func TestOpen_FileOfFormat1_HasRowsOfBothForms(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "events.db")
	const streams, each = 3, 100
	fill := func(l *Log, from int) {
		t.Helper()
		for i := range streams {
			stream := fmt.Sprintf("account-%d", i)
			for n := range each {
				e := chargeOf(stream[len("account-"):], i*1000+from+n)
				testmust.Succeed(t, testmust.Err(l.Append(ctx, stream, eventlog.After(uint64(from+n)), []eventlog.Proposed{e})))
			}
		}
	}
	l := testmust.Get(Open(ctx, Config{Path: path}))(t)
	l.packed = false
	fill(l, 0)
	testmust.Succeed(t, l.Close())
	setFormat(t, path, 1)
	readable := testmust.Get(OpenReadOnly(ctx, Config{Path: path}))(t)
	old := testmust.Get(readable.ReadAll(ctx, 0, eventlog.Filter{}, eventlog.MaxPage))(t).Events
	testmust.Succeed(t, readable.Close())
	if format := formatOf(t, path); format != 1 || len(old) != streams*each {
		t.Fatalf("a reader found %d events and left format %d", len(old), format)
	}

	l = testmust.Get(Open(ctx, Config{Path: path}))(t)
	if format := formatOf(t, path); format != formatVersion {
		t.Errorf("the opened file has format %d: a release that knows only format 1 would open it", format)
	}
	fill(l, each)
	testmust.Succeed(t, l.Check(ctx, nil))
	if report, err := l.scrubOnce(ctx); err != nil || report.Problem != nil {
		t.Errorf("scrub: %+v, %v", report, err)
	}
	repeat := chargeOf("1", 1000+each-1) // the last row of form 1
	if _, err := l.Append(ctx, "account-1", eventlog.Exact(each-2), []eventlog.Proposed{repeat}); err != nil {
		t.Errorf("the repeat of an append of format 1: %v", err)
	}
	want := testmust.Get(l.ReadAll(ctx, 0, eventlog.Filter{}, eventlog.MaxPage))(t).Events
	testmust.Succeed(t, l.Close())

	rows := make(map[bool]int)
	c := testmust.Get(connect(path, "ro"))(t)
	testmust.Succeed(t, c.once(selectEvents, eventColumns, func(row []driver.Value) error {
		at, err := rowKeyOf(row)
		rows[at.packed()]++
		return err
	}))
	testmust.Succeed(t, c.close())
	if rows[false] != streams*each || rows[true] != streams*each {
		t.Errorf("%d plain and %d packed rows, want %d of each", rows[false], rows[true], streams*each)
	}

	l = testmust.Get(Open(ctx, Config{Path: path}))(t) // it verifies the digest over both forms
	got := testmust.Get(l.ReadAll(ctx, 0, eventlog.Filter{}, eventlog.MaxPage))(t).Events
	stream := testmust.Get(l.ReadStream(ctx, "account-2", 2*each-1, eventlog.Backward, 2*each))(t)
	testmust.Succeed(t, l.Close())
	if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(got[:len(old)], old) || len(stream) != 2*each {
		t.Errorf("%d events, and %d of a stream, differ from the %d that were written", len(got), len(stream), len(want))
	}
	copied := filepath.Join(t.TempDir(), "events.db")
	testmust.Succeed(t, copyIntact(ctx, Config{Path: path}, copied, true))
	l = testmust.Get(Open(ctx, Config{Path: copied}))(t)
	if got := testmust.Get(l.ReadAll(ctx, 0, eventlog.Filter{}, eventlog.MaxPage))(t).Events; !reflect.DeepEqual(got, want) {
		t.Errorf("the %d events of a copy differ from the %d of the log", len(got), len(want))
	}
	testmust.Succeed(t, l.Close())
}

// While another process reads an older state of the file, a release that knows only format 1 could still open it.
func TestOpen_FileOfFormat1BesideAReader_StaysInFormat1(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "events.db")
	testmust.Succeed(t, testmust.Get(Open(ctx, Config{Path: path}))(t).Close())
	setFormat(t, path, 1)
	read := func() *connection {
		reading := testmust.Get(connect(path, "rw", "query_only(1)"))(t)
		testmust.Succeed(t, reading.exec("BEGIN; SELECT count(*) FROM events"))
		return reading
	}
	reading := read()
	l := testmust.Get(Open(ctx, Config{Path: path}))(t)
	if format := formatOf(t, path); format != 1 || l.packed {
		t.Errorf("format %d in the file, rows are packed: %t", format, l.packed)
	}
	testmust.Succeed(t, testmust.Err(l.Append(ctx, "account-1", eventlog.NoStream(), []eventlog.Proposed{chargeOf("1", 0)})))
	testmust.Succeed(t, reading.close())
	testmust.Succeed(t, l.Close())
	for n := range 2 {
		l = testmust.Get(Open(ctx, Config{Path: path}))(t)
		if format := formatOf(t, path); format != formatVersion || !l.packed {
			t.Errorf("at start %d after that: format %d in the file, rows are packed: %t", n+1, format, l.packed)
		}
		testmust.Succeed(t, l.Check(ctx, nil))
		// The reader prevents that the log is moved into the file, at Close and the next start.
		reading = read()
		testmust.Succeed(t, testmust.Err(l.Append(ctx, "account-1", eventlog.After(uint64(1+n)), []eventlog.Proposed{chargeOf("1", 1+n)})))
		testmust.Succeed(t, l.Close())
		defer reading.close()
	}
}

func setFormat(t *testing.T, path string, format int) {
	t.Helper()
	c := testmust.Get(connect(path, "rw"))(t)
	testmust.Succeed(t, c.exec(fmt.Sprintf("PRAGMA user_version = %d", format)))
	testmust.Succeed(t, c.close())
}

// formatOf reads the format as a starting release does. It may release locks of an open log, which no other process
// wants here.
func formatOf(t *testing.T, path string) uint32 {
	t.Helper()
	return binary.BigEndian.Uint32(testmust.Get(readHeader(path))(t)[headerUserVersion:])
}

func BenchmarkEncodeRow(b *testing.B) {
	events := []eventlog.Proposed{chargeOf(someAccount, 1)}
	for name, packed := range map[string]bool{"plain": false, "packed": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				newRequest("account-"+someAccount, eventlog.NoStream(), events, packed)
			}
		})
	}
}

func BenchmarkDecodeRow(b *testing.B) {
	for name, packed := range map[string]bool{"plain": false, "packed": true} {
		b.Run(name, func(b *testing.B) {
			at := rowKey{position: 1, stream: 2, revision: 3, typ: 4}
			if packed {
				at.typ = -4
			}
			p := newRequest("account-"+someAccount, eventlog.NoStream(), []eventlog.Proposed{chargeOf(someAccount, 1)}, packed).events[0]
			seal(p.envelope, p.crc, at)
			e := eventlog.Recorded{Stream: p.recorded.Stream}
			var room []byte
			b.ReportAllocs()
			for b.Loop() {
				testmust.Succeed(b, decodeRow(&e, p.envelope, p.data, at, &room))
			}
		})
	}
}
