package commands

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"letterhead/commands/streamwriter"
	"letterhead/internal/testmust"
)

// chargers runs b.N reserved charges from callers goroutines over the accounts, round robin.
func (w *world) chargers(b *testing.B, d *AccountWriter, accounts []string, callers int) {
	appends, reads, events := w.log.appends.Load(), w.log.reads.Load(), w.eventCount()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				id := accounts[int(n)%len(accounts)]
				r, err := d.Reserve(context.Background(), id, "")
				if err != nil {
					b.Error(err)
					return
				}
				in := w.lookup(id)
				in.Reservation = r
				if _, err := d.ChargeLookup(context.Background(), in); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	made := float64(w.log.appends.Load() - appends)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "charges/s")
	b.ReportMetric(float64(b.N)/made, "charges/append")
	b.ReportMetric(made/float64(b.N), "appends/charge")
	b.ReportMetric(float64(w.log.reads.Load()-reads)/float64(b.N), "reads/charge")
	if got := w.eventCount() - events; got != uint64(b.N) {
		b.Errorf("%d events for %d charges", got, b.N)
	}
}

func (w *world) eventCount() uint64 {
	w.Helper()
	head := testmust.Get(w.log.Head(context.Background()))(w)
	return uint64(head)
}

func (w *world) manyOpened(d *AccountWriter, n int, credits int64) []string {
	ids := make([]string, n)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() { ids[i] = w.opened(d, credits) })
	}
	wg.Wait()
	return ids
}

func BenchmarkAccountWriterOneAccount64(b *testing.B) {
	w := newWorld(b)
	d := w.writer(AccountWriterConfig{})
	w.chargers(b, d, w.manyOpened(d, 1, 1<<40), 64)
}

func BenchmarkAccountWriter1000Accounts(b *testing.B) {
	w := newWorld(b)
	d := w.writer(AccountWriterConfig{})
	w.chargers(b, d, w.manyOpened(d, 1000, 1<<40), 64)
}

// Three writers on one account represent three nodes. Compare it with BenchmarkAccountWriterOneAccount64.
func BenchmarkThreeWritersOneAccount64(b *testing.B) {
	w := newWorld(b)
	writers := []*AccountWriter{w.writer(AccountWriterConfig{}), w.writer(AccountWriterConfig{}), w.writer(AccountWriterConfig{})}
	id := w.opened(writers[0], 1<<40)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range 64 {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if _, err := writers[i%3].ChargeLookup(context.Background(), w.lookup(id)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "charges/s")
	b.ReportMetric(float64(w.log.appends.Load())/float64(b.N), "appends/charge")
}

func BenchmarkReserve(b *testing.B) {
	w := newWorld(b)
	d := w.writer(AccountWriterConfig{})
	id := w.opened(d, 1<<40)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, err := d.Reserve(context.Background(), id, "")
			if err != nil {
				b.Error(err)
				return
			}
			r.Drop()
		}
	})
}

// BenchmarkLoadWithSnapshot loads an account of 100,000 events into memory.
func BenchmarkLoadWithSnapshot(b *testing.B) {
	w := newWorld(b)
	kept := newMemorySnapshots()
	d := w.writer(AccountWriterConfig{}, kept)
	id := w.opened(d, 1<<40)
	var wg sync.WaitGroup
	for range 512 {
		wg.Go(func() {
			for range 196 {
				w.charge(d, id)
			}
		})
	}
	wg.Wait()
	w.drain(d)
	for name, snapshots := range map[string]streamwriter.Snapshots{"snapshot": kept, "whole": nil} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				fresh := testmust.Get(NewAccountWriter(AccountWriterConfig{}, w.log, snapshots))(b)
				if got := w.standing(fresh, id).Balance; got != 1<<40+50-512*196 {
					b.Fatal(got)
				}
				w.drain(fresh)
			}
		})
	}
}
