package esdb

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// An append that waited for other calls until its own timeout was not sent: its caller has time left and may retry.
func TestAppendError_CallTimeoutBeforeSending_IsUnavailable(t *testing.T) {
	err := appendError(t.Context(), "s", eventlog.NoStream(), notSent{context.DeadlineExceeded})
	if !errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want %q", err, eventlog.ErrUnavailable)
	}
}

// FuzzDecodeMetadata decodes user metadata of arbitrary programs: decoding must not panic, and accepted
// metadata must survive another round.
func FuzzDecodeMetadata(f *testing.F) {
	good, err := encodeMetadata(&eventlog.Proposed{
		SchemaVersion: 2, OccurredAt: time.Date(2026, 11, 1, 2, 3, 4, 5000, time.UTC),
		Metadata: eventlog.Metadata{RequestID: "r", Actor: "operator:<é>", CorrelationID: "x", CausationID: "y", Hash: "00ff"},
	}, true)
	testmust.Succeed(f, err)
	f.Add(good)
	for _, s := range []string{
		``, `null`, `{}`, `[]`, `{"schema_version":1}`, `{"schema_version":-1,"occurred_at":"2026-11-01T02:03:04.000005Z"}`,
		`{"schema_version":1e99,"occurred_at":"2026-11-01T02:03:04.000005Z"}`, `{"occurred_at":"0000-00-00T00:00:00.000000Z"}`,
		`{"occurred_at":"2026-11-01T02:03:04.000005Z","actor":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"schema_version":1,"occurred_at":"2026-11-01T02:03:04.000005Z","request_id":"r","request_id":"s"}`))
	f.Add([]byte(`{"schema_version":01,"occurred_at":"2026-11-01T02:03:04.000005Z","hash":"\xff"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, plain := plainMetadata(string(b)); plain { // the fast path returns the same as the general one
			var general userMetadata
			if err := json.Unmarshal(b, &general); err != nil || m != general {
				t.Fatalf("%q is %+v in short and %+v, %v in general", b, m, general, err)
			}
		}
		var e eventlog.Proposed
		if err := decodeMetadata(b, &e); err != nil {
			return
		}
		again := testmust.Get(encodeMetadata(&e, true))(t)
		var e2 eventlog.Proposed
		if err := decodeMetadata(again, &e2); err != nil {
			t.Fatalf("decode the metadata of %+v again: %v", e, err)
		}
		if !e.OccurredAt.Equal(e2.OccurredAt) || e.SchemaVersion != e2.SchemaVersion || e.Metadata != e2.Metadata {
			t.Fatalf("%+v became %+v", e, e2)
		}
	})
}

// Usual metadata takes the fast path.
func TestPlainMetadata_UsualMetadata_IsPlain(t *testing.T) {
	const names = true
	for _, metadata := range []eventlog.Metadata{
		{}, {RequestID: "r"}, {Hash: "00ff"}, {Actor: "operator:é <x>", CausationID: "c"},
		{RequestID: "r", Actor: "a", CorrelationID: "b", CausationID: "c", Hash: "d"},
	} {
		b := testmust.Get(encodeMetadata(&eventlog.Proposed{SchemaVersion: 3, OccurredAt: time.Unix(1, 0), Metadata: metadata}, names))(t)
		if m, plain := plainMetadata(string(b)); !plain || m.Metadata != metadata || m.SchemaVersion != 3 {
			t.Errorf("%s: %+v, %t", b, m, plain)
		}
	}
}

// Events written before the server's names were added are still readable.
func TestDecodeMetadata_EventsOfOlderReleases(t *testing.T) {
	const old = `{"schema_version":2,"occurred_at":"2026-11-01T02:03:04.000005Z","request_id":"r","actor":"a","correlation_id":"b","causation_id":"c","hash":"d"}`
	want := eventlog.Proposed{
		SchemaVersion: 2, OccurredAt: time.Date(2026, 11, 1, 2, 3, 4, 5000, time.UTC),
		Metadata: eventlog.Metadata{RequestID: "r", Actor: "a", CorrelationID: "b", CausationID: "c", Hash: "d"},
	}
	var e eventlog.Proposed
	if err := decodeMetadata([]byte(old), &e); err != nil || !reflect.DeepEqual(e, want) {
		t.Errorf("%+v, %v; want %+v", e, err, want)
	}
	now := testmust.Get(encodeMetadata(&e, true))(t)
	if want := strings.TrimSuffix(old, "}") + `,"$correlationId":"b","$causationId":"c"}`; string(now) != want {
		t.Errorf("written as %s, want %s", now, want)
	}
	e = eventlog.Proposed{}
	if err := decodeMetadata(now, &e); err != nil || !reflect.DeepEqual(e, want) {
		t.Errorf("%+v, %v; want %+v", e, err, want)
	}
}

// Ids that would exceed the limit if stored twice are stored once.
func TestToStore_LargeIDs_FitWithoutTheServersNames(t *testing.T) {
	large := eventlog.Proposed{ID: uuid.New(), Type: "Happened", Data: []byte(`{}`),
		Metadata: eventlog.Metadata{CorrelationID: strings.Repeat("x", eventlog.MaxEventBytes-2)}}
	events := make([]eventlog.Proposed, eventlog.MaxAppendBytes/eventlog.MaxEventBytes)
	for i := range events {
		events[i] = large
	}
	testmust.Succeed(t, eventlog.CheckAppend("s", events))
	out, err := toStore(events)
	if err != nil || len(out) != len(events) || strings.Contains(string(out[0].CustomMetadata), "$correlationId") {
		t.Errorf("toStore returned %d events and %v, want all without the server's names", len(out), err)
	}
	out, err = toStore(events[:1])
	if err != nil || !strings.Contains(string(out[0].CustomMetadata), "$correlationId") {
		t.Errorf("one event: %v, want metadata with $correlationId", err)
	}
}

func TestPauseAfter_DoublesUntilStable(t *testing.T) {
	pause, want := time.Duration(0), firstRebuild
	for range 8 {
		if pause = pauseAfter(stableAfter-1, pause); pause != want {
			t.Errorf("pause = %s, want %s", pause, want)
		}
		want = min(2*want, lastRebuild)
	}
	if pause = pauseAfter(stableAfter, pause); pause != 0 {
		t.Errorf("pause = %s after a stable member, want 0", pause)
	}
}

// A client whose call is rejected by a live server forgets its connection on the next call without closing it.
func TestSingleConn_ClientForgetsConnection_EndClosesIt(t *testing.T) {
	server := esdbtest.Start(t)
	l := testmust.Get(Open(t.Context(), Config{ConnectionString: server.ConnectionString()}))(t)
	defer l.Close()
	m, err := l.supervisor.connect(t.Context())
	testmust.Succeed(t, err)
	server.Faults.Append(esdbtest.NotReady)
	_, err = m.client.AppendToStream(t.Context(), "account-1", esdb.AppendToStreamOptions{}, esdb.EventData{EventID: uuid.New(), EventType: "Counted"})
	if again := ping(t.Context(), m.client); !isLost(err) || again == nil {
		t.Fatalf("append: %v, then read: %v; want a lost connection and an error", err, again)
	}
	m.conn.end()
	testmust.Succeed(t, m.client.Close())
	if _, ok := testwait.Until(testwait.Timeout, func() bool { return server.Connections() <= 1 }); !ok { // the log's
		t.Fatalf("%d connections are open, want 1", server.Connections())
	}
}

func TestChoose_NoLeader_OnlyOtherPreferencesTakeFollower(t *testing.T) {
	members := []*gossip.MemberInfo{{
		State: gossip.MemberInfo_Follower, IsAlive: true, HttpEndPoint: &gossip.EndPoint{Address: "host", Port: 1},
	}}
	for preference, want := range map[esdb.NodePreference]bool{
		esdb.NodePreferenceLeader: false, esdb.NodePreferenceFollower: true, esdb.NodePreferenceRandom: true, esdb.NodePreferenceReadOnlyReplica: true,
	} {
		if server, found := choose(members, preference); found != want {
			t.Errorf("preference %s: choose = %q, %t, want %t", preference, server, found, want)
		}
	}
}
