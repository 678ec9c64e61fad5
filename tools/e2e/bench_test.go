package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
	"letterhead/internal/testprocess"
)

// events returns how many events a benchmark appends to the log (LETTERHEAD_BENCH_EVENTS, by default a million).
func events(b *testing.B) int {
	n := 1_000_000
	if v := os.Getenv("LETTERHEAD_BENCH_EVENTS"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			b.Fatal(err)
		}
	}
	return n
}

// writeCharges appends charges of 500 accounts, chained as the account writer chains them.
func writeCharges(b testing.TB, path string, total int) {
	ctx := context.Background()
	log, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	testmust.Succeed(b, err)
	defer log.Close()
	const accounts, group = 500, 250
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for a := range accounts {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012d", a)
		stream := "account-" + id
		var head eventschemas.Hash
		revision := uint64(0)
		batch := make([]eventlog.Proposed, 0, group)
		flush := func() {
			if len(batch) == 0 {
				return
			}
			if _, err := log.Append(ctx, stream, eventlog.After(revision-uint64(len(batch))), batch); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
		add := func(ev eventschemas.Event, request string) {
			enc, err := eventschemas.Encode(ev)
			testmust.Succeed(b, err)
			p := eventlog.Proposed{ID: eventschemas.EventID(stream, request, enc.Type, ""), Type: enc.Type, SchemaVersion: enc.SchemaVersion,
				OccurredAt: at.Add(time.Duration(revision) * time.Millisecond), Data: enc.Data, Metadata: eventlog.Metadata{RequestID: request, Actor: "account:" + id}}
			head = eventschemas.ChainLink{Stream: stream, Revision: revision, EventID: p.ID, Type: p.Type, SchemaVersion: p.SchemaVersion,
				OccurredAt: p.OccurredAt, Actor: p.Metadata.Actor, RequestID: request, Data: p.Data}.Next(head)
			p.Metadata.Hash = hex.EncodeToString(head[:])
			batch = append(batch, p)
			if revision++; len(batch) == group {
				flush()
			}
		}
		add(eventschemas.AccountOpened{AccountID: id, Holder: "holder-" + id, Plan: "growth"}, "open")
		add(eventschemas.CreditsGranted{GrantID: "g", Kind: "topup", Credits: int64(total), PaymentID: "p"}, "grant")
		for i := 2; i < total/accounts; i++ {
			request := fmt.Sprintf("%08x-0000-4000-8000-%012d", i, a)
			add(eventschemas.CreditsCharged{ChargeID: request, Credits: 1, RequestID: request, BrandID: "0f8b5c1e-9f5b-5a8e-9d53-5a4f1d1f0a11", Domain: "github.com"}, request)
		}
		flush()
	}
}

// timeToReady starts a server and returns the time from process start to the first 200 of /readyz.
func timeToReady(b *testing.B, data string, env ...string) (time.Duration, *node) {
	began := time.Now()
	n := launch(b, data, env...)
	n.listening()
	for {
		resp, err := http.Get(n.url + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return time.Since(began), n
			}
		}
		select {
		case <-n.done:
			b.Fatalf("the server ended: %s", n.out)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (n *node) terminate(b *testing.B) {
	testmust.Succeed(b, n.cmd.Process.Signal(syscall.SIGTERM))
	<-n.done
}

// resident returns the resident memory of the process in MiB.
func (n *node) resident(b *testing.B) float64 {
	bytes, err := testprocess.ID(n.cmd.Process.Pid).Resident()
	testmust.Succeed(b, err)
	return float64(bytes) / (1 << 20)
}

// BenchmarkStartWithEvents starts the binary on a data folder with many events and up-to-date read models.
func BenchmarkStartWithEvents(b *testing.B) {
	data := b.TempDir()
	n := events(b)
	_, first := timeToReady(b, data)
	first.terminate(b)
	writeCharges(b, filepath.Join(data, "events.db"), n)
	catchUp, second := timeToReady(b, data)
	second.terminate(b)
	b.ReportMetric(catchUp.Seconds(), "s/catch-up")
	b.ResetTimer()
	var total time.Duration
	for range b.N {
		took, node := timeToReady(b, data)
		total += took
		b.StopTimer()
		b.ReportMetric(node.resident(b), "MiB-at-rest")
		node.terminate(b)
		b.StartTimer()
	}
	b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "ms/start")
}

// BenchmarkFirstStart starts the binary on an empty folder, including the import of the starter index.
func BenchmarkFirstStart(b *testing.B) {
	var total time.Duration
	for range b.N {
		took, node := timeToReady(b, b.TempDir())
		total += took
		b.StopTimer()
		b.ReportMetric(node.resident(b), "MiB-at-rest")
		node.terminate(b)
		b.StartTimer()
	}
	b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "ms/first-start")
}
