package kurrent

import (
	"bytes"
	"log"
	"testing"
	"time"

	"letterhead/internal/eventlog"
)

// FuzzDecodeMetadata reads user metadata as any program may have written it: never a panic, and what is
// accepted survives another round.
func FuzzDecodeMetadata(f *testing.F) {
	good, err := encodeMetadata(&eventlog.Proposed{
		SchemaVersion: 2, OccurredAt: time.Date(2026, 11, 1, 2, 3, 4, 5000, time.UTC),
		Metadata: eventlog.Metadata{RequestID: "r", Actor: "operator:<é>", Hash: "00ff"},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	for _, s := range []string{
		``, `null`, `{}`, `[]`, `{"schema_version":1}`, `{"schema_version":-1,"occurred_at":"2026-11-01T02:03:04.000005Z"}`,
		`{"schema_version":1e99,"occurred_at":"2026-11-01T02:03:04.000005Z"}`, `{"occurred_at":"0000-00-00T00:00:00.000000Z"}`,
		`{"occurred_at":"2026-11-01T02:03:04.000005Z","actor":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var e eventlog.Proposed
		if err := decodeMetadata(b, &e); err != nil {
			return
		}
		again, err := encodeMetadata(&e)
		if err != nil {
			t.Fatal(err)
		}
		var e2 eventlog.Proposed
		if err := decodeMetadata(again, &e2); err != nil {
			t.Fatalf("%+v does not survive: %v", e, err)
		}
		if !e.OccurredAt.Equal(e2.OccurredAt) || e.SchemaVersion != e2.SchemaVersion || e.Metadata != e2.Metadata {
			t.Fatalf("%+v became %+v", e, e2)
		}
	})
}

// FuzzConnectionString checks that the client's parser never sees what it would complain about on the
// console.
func FuzzConnectionString(f *testing.F) {
	for _, s := range []string{
		"esdb://localhost:2113?tls=false", "esdb+discover://a,b:1,c?nodePreference=leader", "esdb://u:p@h/x?y=1",
		"esdb://?keepAliveInterval=-1", "esdb://h?keepAliveInterval=1&tls=maybe", "esdb://[::1]:2113", "esdb://%",
	} {
		f.Add(s)
	}
	var console bytes.Buffer
	before := log.Writer()
	log.SetOutput(&console)
	f.Cleanup(func() { log.SetOutput(before) })
	f.Fuzz(func(t *testing.T, s string) {
		cfg := Config{ConnectionString: s}.withDefaults()
		if cfg.Validate() != nil {
			return
		}
		if conf, err := cfg.clientConfig(); err == nil && conf.Logger == nil {
			t.Fatal("a client without our logger")
		}
		if console.Len() > 0 {
			t.Fatalf("on the console: %s", console.String())
		}
	})
}
