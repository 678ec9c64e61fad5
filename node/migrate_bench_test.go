package node

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
	"letterhead/starter"
	"letterhead/workers/backup"
)

// noFiles takes the starter's pictures and keeps none.
type noFiles struct{}

func (noFiles) Put(_ context.Context, data []byte, _ string) (string, error) {
	return fmt.Sprintf("%x", sha256.Sum256(data)), nil
}

// starterFolder makes a data folder whose log has the starter index and, behind it, single charges of 300 accounts.
func starterFolder(b *testing.B, charges int) *Node {
	b.Helper()
	n := openStores(b, filepath.Join(b.TempDir(), "data"))
	b.Cleanup(func() {
		if err := n.Close(); err != nil {
			b.Error(err)
		}
	})
	marker := starter.FileMarker{Path: filepath.Join(b.TempDir(), "starter")}
	writer := testmust.Get(commands.NewBrands(commands.BrandsConfig{}, n.Stores.Log))(b)
	brands := starterBrands{writer, commands.Request{ID: uuid.NewString(), Actor: "system:starter"}}
	testmust.Succeed(b, testmust.Err(starter.Import(b.Context(), starter.Config{}, starter.Deps{Assets: noFiles{}, Marker: marker, Brands: brands})))
	const accounts = 300
	var runs []eventlog.Run
	for i := range charges {
		charge := eventlog.Proposed{ID: uuid.New(), Type: "CreditsCharged", SchemaVersion: 1, OccurredAt: time.UnixMicro(int64(i)).UTC(),
			Data: fmt.Appendf(nil, `{"charge_id":"c-%016d","credits":1,"request_id":"r-%016d","brand_id":"7f0c4a52-6f0e-5c35-9a55-1d1c2d3e4f50","domain":"example.com","record_revision":3}`, i, i)}
		runs = append(runs, eventlog.Run{Stream: fmt.Sprintf("charges-%d", i%accounts), Expected: eventlog.After(uint64(i / accounts)), Events: []eventlog.Proposed{charge}})
	}
	for part := range slices.Chunk(runs, eventlog.MaxImportEvents) {
		testmust.Succeed(b, n.Stores.Log.(eventlog.Importer).Import(b.Context(), part))
	}
	return n
}

// BenchmarkMigrateStarter copies the starter index, which has one event a stream, alone and with charges behind it, to a
// store whose every flush takes 2 ms: a whole migration, and the appends alone one after the other, as releases before
// sent them.
func BenchmarkMigrateStarter(b *testing.B) {
	for _, charges := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("charges=%d", charges), func(b *testing.B) { benchmarkMigrate(b, starterFolder(b, charges)) })
	}
}

func benchmarkMigrate(b *testing.B, from *Node) {
	benchmark := func(name string, migrate func(b *testing.B, to eventlog.Log) (events uint64)) {
		b.Run(name, func(b *testing.B) {
			var events uint64
			var took time.Duration
			for range b.N {
				server := esdbtest.StartWith(b, esdbtest.Config{FlushTime: 2 * time.Millisecond})
				to := testmust.Get(esdb.Open(b.Context(), esdb.Config{ConnectionString: server.ConnectionString()}))(b)
				begun := time.Now()
				events += migrate(b, to)
				took += time.Since(begun)
				testmust.Succeed(b, to.Close())
			}
			b.ReportMetric(float64(events)/took.Seconds(), "events/s")
		})
	}
	benchmark("one append at a time", func(b *testing.B, to eventlog.Log) (events uint64) {
		page, err := from.Stores.Log.ReadAll(b.Context(), 0, eventlog.Filter{}, eventlog.MaxPage)
		if err != nil || !page.End {
			b.Fatalf("the log does not fit into a page: %v", err)
		}
		for _, e := range page.Events {
			testmust.Succeed(b, testmust.Err(to.Append(b.Context(), e.Stream, eventlog.After(e.Revision), []eventlog.Proposed{e.Proposed})))
		}
		return uint64(len(page.Events))
	})
	benchmark("windows", func(b *testing.B, to eventlog.Log) (events uint64) {
		out := testmust.Get(backup.Migrate(b.Context(), backup.Config{Version: release}, true, backup.Source{Log: from.Stores.Log}, backup.Target{Log: to}))(b)
		return out.Events
	})
}
