package backup_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/assets"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/workers/backup"
)

// side is the storage of one shape, to be backed up or filled.
type side struct {
	log    eventlog.Log
	store  *sqlstore.Store
	names  backup.Names
	assets *assets.Store
}

func (s side) source() backup.Source {
	return backup.Source{Log: s.log, Names: s.names, Assets: s.assets}
}

func (s side) target() backup.Target {
	return backup.Target{Log: s.log, Names: s.names, Assets: s.assets}
}

// opened returns a function that opens an already open target.
func opened(to backup.Target) func(context.Context, *backup.Manifest) (backup.Target, error) {
	return func(context.Context, *backup.Manifest) (backup.Target, error) { return to, nil }
}

// tb is the common part of tests, benchmarks, fuzz targets and checks of rapid.
type tb interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
	Context() context.Context
}

// embedded opens a new folder.
func embedded(t testing.TB) side { return embeddedIn(t, t.TempDir()) }

func embeddedIn(t tb, folder string) side {
	t.Helper()
	log := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(folder, "events.db")}))(t)
	t.Cleanup(func() { log.Close() })
	s := withDatabase(t, log, sqlstore.Config{Path: filepath.Join(folder, "letterhead.db")})
	s.assets = openAssets(t, filepath.Join(folder, "assets"))
	return s
}

func openAssets(t tb, folder string) *assets.Store {
	t.Helper()
	u := "file://" + folder
	store := testmust.Get(assets.Open(t.Context(), u))(t)
	t.Cleanup(func() { store.Close() })
	return store
}

func withDatabase(t tb, log eventlog.Log, cfg sqlstore.Config) side {
	t.Helper()
	store := testmust.Get(sqlstore.Open(t.Context(), cfg))(t)
	t.Cleanup(func() { store.Close() })
	names := testmust.Get(accountnames.New(t.Context(), store))(t)
	return side{log: log, store: store, names: names}
}

// eventStore connects to a new stand-in.
func eventStore(t testing.TB) (*esdbtest.Server, eventlog.Log) {
	t.Helper()
	server := esdbtest.Start(t)
	return server, connect(t, server)
}

func connect(t testing.TB, server *esdbtest.Server) eventlog.Log {
	t.Helper()
	log := testmust.Get(esdb.Open(t.Context(), esdb.Config{ConnectionString: server.ConnectionString()}))(t)
	t.Cleanup(func() { log.Close() })
	return log
}

// writer appends events like the service: chains on account streams, assets in the store.
type writer struct {
	t     tb
	to    side
	next  map[string]uint64
	heads map[string]eventschemas.Hash
	n     int
}

func newWriter(t tb, to side) *writer {
	return &writer{t: t, to: to, next: map[string]uint64{}, heads: map[string]eventschemas.Hash{}}
}

var birth = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// event returns the next event, of any type and body.
func (w *writer) event(stream, typ string, version int, data []byte) eventlog.Proposed {
	w.n++
	e := eventlog.Proposed{
		ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s/%d", stream, w.n)), Type: typ, SchemaVersion: version,
		OccurredAt: birth.Add(time.Duration(w.n) * 1001 * time.Microsecond), Data: data,
		Metadata: eventlog.Metadata{RequestID: fmt.Sprint("r-", w.n), Actor: "account:" + stream, CorrelationID: "c", CausationID: "ü"},
	}
	if len(stream) > len(account.StreamPrefix) && stream[:len(account.StreamPrefix)] == account.StreamPrefix {
		head := eventschemas.ChainLink{
			Stream: stream, Revision: w.next[stream], EventID: e.ID, Type: e.Type, SchemaVersion: e.SchemaVersion,
			OccurredAt: e.OccurredAt, Actor: e.Metadata.Actor, RequestID: e.Metadata.RequestID, Data: e.Data,
		}.Next(w.heads[stream])
		w.heads[stream] = head
		e.Metadata.Hash = hex.EncodeToString(head[:])
	}
	w.next[stream]++
	return e
}

func (w *writer) append(stream string, events ...eventlog.Proposed) {
	w.t.Helper()
	testmust.Succeed(w.t, testmust.Err(w.to.log.Append(w.t.Context(), stream, eventlog.After(w.next[stream]-uint64(len(events))), events)))
}

// charge appends n events to an account's stream, in one append.
func (w *writer) charge(accountID string, n int) {
	w.t.Helper()
	stream := account.Stream(accountID)
	var events []eventlog.Proposed
	for range n {
		events = append(events, w.event(stream, "CreditsCharged", 1, fmt.Appendf(nil, `{"charge_id":"c-%d","credits":1,"domain":"example.com"}`, w.n)))
	}
	w.append(stream, events...)
}

// brand appends an import with a logo, whose image it stores unless missing.
func (w *writer) brand(domain string, content string) assets.Object {
	w.t.Helper()
	id := testmust.Get(w.to.assets.Put(w.t.Context(), []byte(content), "svg"))(w.t)
	enc, err := eventschemas.Encode(eventschemas.BrandImported{Source: "test", Record: eventschemas.Record{
		Logos: []eventschemas.Logo{{Type: "logo", Formats: []eventschemas.Asset{{ID: id, Format: "svg", Size: int64(len(content))}}}},
	}})
	testmust.Succeed(w.t, err)
	w.append("brand-"+domain, w.event("brand-"+domain, enc.Type, enc.SchemaVersion, enc.Data))
	return assets.Object{ID: id, Ext: "svg", Size: int64(len(content))}
}

// override fixes the images of a brand by hand.
func (w *writer) override(domain, content string) string {
	w.t.Helper()
	id := testmust.Get(w.to.assets.Put(w.t.Context(), []byte(content), "jpeg"))(w.t)
	value := testmust.Get(json.Marshal([]eventschemas.Image{{Type: "banner", Formats: []eventschemas.Asset{{ID: id, Format: "jpeg"}}}}))(w.t)
	enc := testmust.Get(eventschemas.Encode(eventschemas.FieldOverridden{Field: "images", Value: value}))(w.t)
	w.append("brand-"+domain, w.event("brand-"+domain, enc.Type, enc.SchemaVersion, enc.Data))
	return id
}

// name adds a name.
func (w *writer) name(id, name string) {
	w.t.Helper()
	testmust.Succeed(w.t, w.to.names.PutAll(w.t.Context(), []backup.Name{{ID: id, Name: name}}))
}

// small fills a side with a bit of everything: 3 accounts, 5 brands with 2 images each, 3 names.
func small(t tb, to side) *writer { return fill(t, to, 60) }

func fill(t tb, to side, rounds int) *writer {
	w := newWriter(t, to)
	for i := range rounds {
		w.charge(fmt.Sprint("a", i%3), i%4+1)
		if i%12 == 0 {
			domain := fmt.Sprintf("brand%d.com", i)
			w.brand(domain, "<svg>"+domain+"</svg>")
			w.override(domain, "jpeg of "+domain)
		}
		w.append("usage-node-main", w.event("usage-node-main", "UsageTicked", 1, []byte{}))
	}
	w.name("holder-1", "Ada Lovelace")
	w.name("holder-2", "Grace Hopper")
	w.name("key-1", "build server <&>")
	return w
}

// all reads a log.
func all(t tb, log eventlog.Log) []eventlog.Recorded {
	t.Helper()
	var events []eventlog.Recorded
	for at := eventlog.Position(0); ; {
		page := testmust.Get(log.ReadAll(t.Context(), at, eventlog.Filter{}, 1000))(t)
		events = append(events, page.Events...)
		at = page.Next
		if page.End {
			return events
		}
	}
}

// equal compares two logs, apart from positions.
func equal(t tb, got, want []eventlog.Recorded) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d events, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		same := bytes.Equal(g.Data, w.Data)
		g.Data, w.Data, g.Position, w.Position = nil, nil, 0, 0
		if !same || fmt.Sprintf("%+v", g) != fmt.Sprintf("%+v", w) {
			t.Fatalf("event %d is\n%+v with %.1000q, want\n%+v with %.1000q", i, g, got[i].Data, w, want[i].Data)
		}
	}
}

// byStream groups the events by stream, in order, sorted by the streams' names.
func byStream(events []eventlog.Recorded) []eventlog.Recorded {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b eventlog.Recorded) int { return strings.Compare(a.Stream, b.Stream) })
	return events
}

func namesOf(t tb, s side) map[string]string {
	t.Helper()
	page := testmust.Get(s.names.Page(t.Context(), "", 1000))(t)
	names := map[string]string{}
	for _, n := range page {
		names[n.ID] = n.Name
	}
	return names
}

func storedAssets(t tb, s side) map[string]string {
	t.Helper()
	found := map[string]string{}
	for o, err := range s.assets.List(t.Context()) {
		testmust.Succeed(t, err)
		data := testmust.Get(s.assets.Read(t.Context(), o.ID, o.Ext))(t)
		found[o.ID+"."+o.Ext] = string(data)
	}
	return found
}

// same checks that both sides have the same data of a backup, and valid chains.
func same(t tb, got, want side) {
	t.Helper()
	equal(t, all(t, got.log), all(t, want.log))
	sameStreams(t, got, want)
}

// sameStreams is same, regardless of the order of events of different streams.
func sameStreams(t tb, got, want side) {
	t.Helper()
	equal(t, byStream(all(t, got.log)), byStream(all(t, want.log)))
	if g, w := namesOf(t, got), namesOf(t, want); fmt.Sprint(g) != fmt.Sprint(w) {
		t.Errorf("names %v, want %v", g, w)
	}
	if g, w := storedAssets(t, got), storedAssets(t, want); fmt.Sprint(g) != fmt.Sprint(w) {
		t.Errorf("%d images, want %d", len(g), len(w))
	}
	chains(t, got.log)
}

// chains checks that the chain of every account is valid.
func chains(t tb, log eventlog.Log) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range all(t, log) {
		if len(e.Stream) > 8 && e.Stream[:8] == account.StreamPrefix && !seen[e.Stream] {
			seen[e.Stream] = true
			if _, err := commands.Chain.Verify(t.Context(), log, e.Stream); err != nil {
				t.Error(err)
			}
		}
	}
}

// tiny returns a configuration with many segments of few events.
func tiny() backup.Config {
	return backup.Config{Version: "test", SegmentBytes: 2 << 10, RetryAfter: time.Millisecond}
}

func run(t tb, cfg backup.Config, from side, to string) backup.Summary {
	t.Helper()
	sum := testmust.Get(backup.Run(t.Context(), cfg, from.source(), to))(t)
	return sum
}

func restore(t tb, from string, to side) backup.Restored {
	t.Helper()
	out := testmust.Get(backup.Restore(t.Context(), backup.RestoreConfig{Config: tiny()}, from, opened(to.target())))(t)
	return out
}
