package broker_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/eventschemas"
	"letterhead/internal/broker"
	"letterhead/internal/broker/inprocess"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

// recorded appends an event to an event log and reads it.
func recorded(t *testing.T) eventlog.Recorded {
	t.Helper()
	log := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")}))(t)
	defer log.Close()
	enc, err := eventschemas.Encode(eventschemas.CrawlRequested{CrawlID: "c", Domain: "acme.com", Cause: "lookup", Priority: "live", AllowedMS: 8500})
	testmust.Succeed(t, err)
	testmust.Succeed(t, eventschemas.ValidateJSON(enc.Type, enc.SchemaVersion, enc.Data))
	_, err = log.Append(t.Context(), "brand-acme.com", eventlog.NoStream(), []eventlog.Proposed{{
		ID: uuid.New(), Type: enc.Type, SchemaVersion: enc.SchemaVersion, OccurredAt: time.Now().UTC().Truncate(time.Microsecond), Data: enc.Data,
		Metadata: eventlog.Metadata{RequestID: "r", Actor: "account:a", CorrelationID: "correlated"},
	}})
	testmust.Succeed(t, err)
	events, err := log.ReadStream(t.Context(), "brand-acme.com", 0, eventlog.Forward, 1)
	if err != nil || len(events) != 1 {
		t.Fatalf("%d events: %v, want 1", len(events), err)
	}
	return events[0]
}

func TestEvent_SurvivesBroker(t *testing.T) {
	r := recorded(t)
	bus := testmust.Get(broker.New(broker.Config{}, inprocess.New(inprocess.Config{})))(t)
	subscribed, stop := context.WithCancel(t.Context())
	got, ended := make(chan broker.Message, 1), make(chan error, 1)
	go func() {
		ended <- bus.Subscribe(subscribed, broker.CrawlLive, "g", func(_ context.Context, m broker.Message) error {
			got <- m
			return nil
		})
	}()
	testmust.Succeed(t, bus.Publish(t.Context(), broker.CrawlLive, broker.Event(r, "acme.com")))
	m := <-got
	stop()
	if err := errors.Join(<-ended, bus.Close()); err != nil {
		t.Error(err)
	}
	eventType, version, err := broker.EventType(m)
	if err != nil || eventType != r.Type || version != r.SchemaVersion {
		t.Errorf("type %q, version %d: %v", eventType, version, err)
	}
	ev, err := eventschemas.Decode(eventType, version, m.Payload)
	if want := (eventschemas.CrawlRequested{CrawlID: "c", Domain: "acme.com", Cause: "lookup", Priority: "live", AllowedMS: 8500}); err != nil || ev != eventschemas.Event(want) {
		t.Errorf("event %+v: %v", ev, err)
	}
	if m.ID != r.ID.String() || m.Key != "acme.com" || m.Metadata[broker.MetaCorrelation] != "correlated" ||
		m.Metadata[broker.MetaStream] != r.Stream || m.Metadata[broker.MetaPosition] == "" {
		t.Errorf("message %+v", m)
	}
	for key, value := range m.Metadata {
		if strings.Contains(value, r.OccurredAt.Format("2006-01-02")) {
			t.Errorf("the metadata %s contains a time: %s", key, value)
		}
	}
}

func TestEventType_MissingMetadata_IsInvalid(t *testing.T) {
	whole := broker.Event(recorded(t), "acme.com")
	for name, change := range map[string]func(m map[string]string){
		"nothing at all":     func(m map[string]string) { clear(m) },
		"no type":            func(m map[string]string) { delete(m, broker.MetaType) },
		"an empty type":      func(m map[string]string) { m[broker.MetaType] = "" },
		"no version":         func(m map[string]string) { delete(m, broker.MetaVersion) },
		"version 0":          func(m map[string]string) { m[broker.MetaVersion] = "0" },
		"a negative version": func(m map[string]string) { m[broker.MetaVersion] = "-1" },
		"no number":          func(m map[string]string) { m[broker.MetaVersion] = "one" },
		"a huge number":      func(m map[string]string) { m[broker.MetaVersion] = strings.Repeat("9", 1000) },
	} {
		m := whole
		m.Metadata = maps.Clone(whole.Metadata)
		change(m.Metadata)
		eventType, version, err := broker.EventType(m)
		if !errors.Is(err, broker.ErrInvalid) || eventType != "" || version != 0 {
			t.Errorf("%s: %q, %d, %v", name, eventType, version, err)
		}
		if err != nil && (!strings.Contains(err.Error(), m.ID) || len(err.Error()) > 300) {
			t.Errorf("%s: the error is %q", name, err)
		}
	}
	if _, _, err := broker.EventType(broker.Message{ID: "bare"}); !errors.Is(err, broker.ErrInvalid) {
		t.Errorf("no metadata: %v", err)
	}
}

func FuzzEventType(f *testing.F) {
	f.Add("CrawlRequested", "1", true)
	f.Add("CrawlRequested", "+1", true)
	f.Add("", "1", true)
	f.Add("CrawlRequested", "99999999999999999999", true)
	f.Add("\x00", " 1", false)
	f.Fuzz(func(t *testing.T, eventType, version string, both bool) {
		m := broker.Message{ID: "id", Key: "k", Metadata: map[string]string{broker.MetaType: eventType}}
		if both {
			m.Metadata[broker.MetaVersion] = version
		}
		before := maps.Clone(m.Metadata)
		gotType, gotVersion, err := broker.EventType(m)
		if !maps.Equal(before, m.Metadata) {
			t.Fatal("EventType modified the message")
		}
		if err != nil {
			if !errors.Is(err, broker.ErrInvalid) {
				t.Fatalf("%v is not ErrInvalid", err)
			}
			return
		}
		if gotType != eventType || gotType == "" || gotVersion < 1 || !both {
			t.Fatalf("EventType = %q, %d for the metadata %q, %q", gotType, gotVersion, eventType, version)
		}
		// A second conversion changes nothing.
		again := broker.Event(eventlog.Recorded{Proposed: eventlog.Proposed{Type: gotType, SchemaVersion: gotVersion}}, "k")
		if sameType, sameVersion, err := broker.EventType(again); err != nil || sameType != gotType || sameVersion != gotVersion {
			t.Fatalf("after a second conversion EventType = %q, %d, %v", sameType, sameVersion, err)
		}
		if len(again.Metadata) > broker.MaxMetadata {
			t.Fatal("the message has more metadata than allowed")
		}
	})
}

// A topic of record carries the whole event.
func TestRecord_CarriesWholeEvent(t *testing.T) {
	r := recorded(t)
	r.Metadata.CausationID, r.Metadata.Hash = "caused", strings.Repeat("ab", 32)
	m := broker.Record(r)
	if err := m.Validate(); err != nil || m.Key != r.Stream || m.ID != r.ID.String() {
		t.Errorf("message %+v: %v", m, err)
	}
	got, err := broker.Recorded(m)
	if err != nil || !got.OccurredAt.Equal(r.OccurredAt) || string(got.Data) != string(r.Data) || got.Metadata != r.Metadata ||
		got.ID != r.ID || got.Type != r.Type || got.SchemaVersion != r.SchemaVersion || got.Stream != r.Stream || got.Revision != r.Revision || got.Position != r.Position {
		t.Errorf("got %+v, want %+v: %v", got, r, err)
	}
	for _, missing := range []string{broker.MetaType, broker.MetaVersion, broker.MetaStream, broker.MetaRevision, broker.MetaPosition, broker.MetaOccurredAt} {
		part := m
		part.Metadata = maps.Clone(m.Metadata)
		delete(part.Metadata, missing)
		if _, err := broker.Recorded(part); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
	m.ID = "no uuid"
	if _, err := broker.Recorded(m); !errors.Is(err, broker.ErrInvalid) {
		t.Errorf("without an id: %v", err)
	}
}

func FuzzRecorded(f *testing.F) {
	f.Add("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "account-a", "0", "1", "2026-11-21T15:04:05.000000Z")
	f.Add("", "", "-1", "99999999999999999999", "yesterday")
	f.Fuzz(func(t *testing.T, id, stream, revision, position, at string) {
		m := broker.Message{ID: id, Key: stream, Metadata: map[string]string{
			broker.MetaType: "X", broker.MetaVersion: "1", broker.MetaStream: stream, broker.MetaRevision: revision,
			broker.MetaPosition: position, broker.MetaOccurredAt: at,
		}}
		r, err := broker.Recorded(m)
		if err != nil {
			if !errors.Is(err, broker.ErrInvalid) {
				t.Fatalf("%v is not ErrInvalid", err)
			}
			return
		}
		again, err := broker.Recorded(broker.Record(r))
		if err != nil || again.ID != r.ID || again.Stream != r.Stream || again.Revision != r.Revision || again.Position != r.Position || !again.OccurredAt.Equal(r.OccurredAt) {
			t.Fatalf("%+v is converted back to %+v: %v", r, again, err)
		}
	})
}
