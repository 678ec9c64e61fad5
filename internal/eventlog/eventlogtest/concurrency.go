package eventlogtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"letterhead/internal/eventlog"
)

// RunConcurrency tests the log with many writers, and against a model.
func RunConcurrency(t *testing.T, open Open) {
	for name, test := range map[string]func(*fixture){
		"one winner at each revision":                    raceForRevision,
		"separate streams":                               writeSideBySide,
		"contexts canceled during reads":                 cancelDuringReads,
		"readers see only whole appends":                 readWholeAppends,
		"close waits for appends and rejects later ones": closeDuringAppends,
	} {
		t.Run(name, func(t *testing.T) { test(start(t, open)) })
	}
	t.Run("random sequences agree with the model", func(t *testing.T) { agreeWithModel(t, start(t, open)) })
	RunRepeats(t, open)
}

// RunRepeats tests repeats of appends while the first may be in progress. It is a part of RunConcurrency.
func RunRepeats(t *testing.T, open Open) {
	for name, test := range map[string]func(*fixture){
		"the same append many times concurrently": repeatAtOnce,
		"contexts canceled during appends":        cancelDuringAppends,
	} {
		t.Run(name, func(t *testing.T) { test(start(t, open)) })
	}
}

func raceForRevision(f *fixture) {
	const writers, rounds = 8, 40
	for round := range uint64(rounds) {
		var won atomic.Int64
		var all sync.WaitGroup
		for w := range uint64(writers) {
			all.Go(func() {
				switch _, err := f.log.Append(f.ctx, "s", eventlog.After(round), events(round<<8|w+1)); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, eventlog.ErrWrongRevision):
					f.t.Errorf("round %d: %v", round, err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			f.t.Fatalf("round %d had %d winners", round, won.Load())
		}
	}
	if n := len(f.stream("s")); n != rounds {
		f.t.Errorf("the stream holds %d events, want %d", n, rounds)
	}
}

func writeSideBySide(f *fixture) {
	const writers, perWriter = 16, 60
	// Every append acknowledged before another one began must precede it.
	var acknowledged atomic.Uint64
	var all sync.WaitGroup
	for w := range uint64(writers) {
		all.Go(func() {
			stream := fmt.Sprintf("writer-%d", w)
			for n := range uint64(perWriter) {
				before := acknowledged.Load()
				got, err := f.log.Append(f.ctx, stream, eventlog.After(n), events(w<<32|n+1))
				if err != nil {
					f.t.Errorf("%s: %v", stream, err)
					return
				}
				if uint64(got.Position) <= before {
					f.t.Errorf("%s: position %d is not after %d, which was acknowledged before", stream, got.Position, before)
				}
				for {
					seen := acknowledged.Load()
					if uint64(got.Position) <= seen || acknowledged.CompareAndSwap(seen, uint64(got.Position)) {
						break
					}
				}
			}
		})
	}
	all.Wait()
	order := f.all(0, eventlog.Filter{}, 500)
	if len(order) != writers*perWriter {
		f.t.Errorf("the log holds %d events, want %d", len(order), writers*perWriter)
	}
	next := map[string]uint64{}
	for _, e := range order {
		if e.Revision != next[e.Stream] {
			f.t.Fatalf("in the global order revision %d of %s comes where revision %d is expected", e.Revision, e.Stream, next[e.Stream])
		}
		next[e.Stream]++
	}
	for w := range uint64(writers) {
		stream := fmt.Sprintf("writer-%d", w)
		var want []eventlog.Recorded
		for _, e := range order {
			if e.Stream == stream {
				want = append(want, e)
			}
		}
		same(f.t, stream, f.stream(stream), want)
	}
}

func repeatAtOnce(f *fixture) {
	const callers, rounds = 8, 25
	for round := range uint64(rounds) {
		batch := events(3*round+1, 3*round+2, 3*round+3)
		results := make([]eventlog.Appended, callers)
		var all sync.WaitGroup
		for c := range callers {
			all.Go(func() {
				var err error
				if results[c], err = f.log.Append(f.ctx, "s", eventlog.After(3*round), batch); err != nil {
					f.t.Errorf("round %d: %v", round, err)
				}
			})
		}
		all.Wait()
		for _, r := range results {
			if r.FirstRevision != 3*round || r.LastRevision != 3*round+2 {
				f.t.Fatalf("round %d: a repeat returned revisions %d to %d", round, r.FirstRevision, r.LastRevision)
			}
		}
	}
	if n := len(f.stream("s")); n != 3*rounds {
		f.t.Errorf("the stream holds %d events, want %d", n, 3*rounds)
	}
}

// cancelDuringAppends ends contexts at arbitrary moments. Whatever the result, repeating the append must
// resolve it without duplicates.
func cancelDuringAppends(f *fixture) {
	const writers, rounds = 8, 40
	var all sync.WaitGroup
	for w := range uint64(writers) {
		all.Go(func() {
			stream := fmt.Sprintf("writer-%d", w)
			for n := range uint64(rounds) {
				batch := events(w<<32 | n + 1)
				ctx, cancel := context.WithCancel(f.ctx)
				go cancel()
				_, err := f.log.Append(ctx, stream, eventlog.After(n), batch)
				cancel()
				read, readErr := f.log.ReadStream(f.ctx, stream, n, eventlog.Forward, 1)
				switch {
				case readErr != nil:
					f.t.Errorf("%s: %v", stream, readErr)
				case err == nil && len(read) != 1:
					f.t.Errorf("%s: append %d was acknowledged but is missing", stream, n)
				case err == nil || errors.Is(err, eventlog.ErrAmbiguous):
				case !errors.Is(err, context.Canceled):
					f.t.Errorf("%s: %v", stream, err)
				case len(read) != 0:
					f.t.Errorf("%s: append %d was not sent but was written", stream, n)
				}
				if _, err := f.log.Append(f.ctx, stream, eventlog.After(n), batch); err != nil {
					f.t.Errorf("%s: the repeat of append %d: %v", stream, n, err)
				}
			}
		})
	}
	all.Wait()
	for w := range uint64(writers) {
		var numbers []uint64
		for n := range uint64(rounds) {
			numbers = append(numbers, w<<32|n+1)
		}
		f.holds(fmt.Sprintf("writer-%d", w), numbers...)
	}
}

// cancelDuringReads ends contexts at arbitrary moments of reads: a read must return the whole result or an error.
func cancelDuringReads(f *fixture) {
	const count = 2000
	for n := uint64(0); n < count; n += 500 {
		batch := make([]eventlog.Proposed, 500)
		for i := range batch {
			batch[i] = event(n + uint64(i) + 1)
		}
		if _, err := f.log.Append(f.ctx, "s", eventlog.After(n), batch); err != nil {
			f.t.Fatal(err)
		}
	}
	read := map[string]func(context.Context) (int, error){
		"stream": func(ctx context.Context) (int, error) {
			got, err := f.log.ReadStream(ctx, "s", 0, eventlog.Forward, eventlog.MaxPage)
			return len(got), err
		},
		"all": func(ctx context.Context) (int, error) {
			page, err := f.log.ReadAll(ctx, 0, eventlog.Filter{}, eventlog.MaxPage)
			if err == nil && !page.End {
				return 0, fmt.Errorf("a page of %d events is not the end", len(page.Events))
			}
			return len(page.Events), err
		},
	}
	for what, do := range read {
		for range 40 {
			ctx, cancel := context.WithCancel(f.ctx)
			go cancel()
			if n, err := do(ctx); err == nil && n != count || err != nil && !errors.Is(err, context.Canceled) {
				f.t.Errorf("%s: %d events, %v", what, n, err)
			}
			cancel()
		}
	}
}

// readWholeAppends reads during appends of three events: no read may see a part of an append.
func readWholeAppends(f *fixture) {
	const rounds, size = 80, 3
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer close(done)
		for n := range uint64(rounds) {
			if _, err := f.log.Append(f.ctx, "s", eventlog.After(size*n), events(size*n+1, size*n+2, size*n+3)); err != nil {
				f.t.Errorf("append %d: %v", n, err)
				return
			}
		}
	})
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got, err := f.log.ReadStream(f.ctx, "s", 0, eventlog.Forward, eventlog.MaxPage)
				if err != nil || len(got)%size != 0 {
					f.t.Errorf("%d events, %v", len(got), err)
					return
				}
			}
		})
	}
	all.Wait()
}

func closeDuringAppends(f *fixture) {
	const writers, enough = 8, 5
	acknowledged := make([]uint64, writers)
	begun := make(chan struct{}, writers)
	var all sync.WaitGroup
	for w := range uint64(writers) {
		all.Go(func() {
			for n := uint64(0); ; n++ {
				if n == enough {
					begun <- struct{}{}
				}
				_, err := f.log.Append(f.ctx, fmt.Sprintf("writer-%d", w), eventlog.After(n), events(w<<32|n+1))
				if errors.Is(err, eventlog.ErrClosed) {
					return
				}
				if err != nil && !errors.Is(err, eventlog.ErrAmbiguous) {
					f.t.Errorf("writer %d: %v", w, err)
					return
				}
				acknowledged[w] = n + 1
			}
		})
	}
	for range writers {
		<-begun
	}
	if err := f.log.Close(); err != nil {
		f.t.Errorf("close: %v", err)
	}
	all.Wait()
	if slices.Min(acknowledged) < enough {
		f.t.Errorf("not all appends before the close were acknowledged: %v", acknowledged)
	}
}
