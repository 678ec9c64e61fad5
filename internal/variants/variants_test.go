package variants_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"

	"letterhead/internal/testmust"
	"letterhead/internal/variants"
)

// opened is a store with its metrics.
type opened struct {
	*variants.Store
	t       testing.TB
	numbers *prometheus.Registry
}

func open(t testing.TB, cfg variants.Config) opened {
	t.Helper()
	numbers := prometheus.NewRegistry()
	cfg.Registerer = numbers
	s := testmust.Get(variants.New(cfg))(t)
	t.Cleanup(s.Close)
	return opened{s, t, numbers}
}

// number returns a metric of the store by the suffix of its name and the value of its only label.
func (s opened) number(name string, label ...string) float64 {
	s.t.Helper()
	families := testmust.Get(s.numbers.Gather())(s.t)
	for _, f := range families {
		if f.GetName() != "letterhead_logo_variants_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(label) == 0 || m.GetLabel()[0].GetValue() == label[0] {
				return valueOf(m)
			}
		}
		return 0
	}
	s.t.Fatalf("there is no metric %s", name)
	return 0
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Histogram != nil:
		return float64(m.GetHistogram().GetSampleCount())
	}
	return m.GetGauge().GetValue()
}

// wants gets an image, made or cached, and checks it.
func (s opened) wants(i, size int) (made bool) {
	s.t.Helper()
	p, err := s.Get(context.Background(), key(i), func(context.Context) ([]byte, error) {
		made = true
		return body(i, size), nil
	})
	if err != nil {
		s.t.Fatalf("image %d: %v", i, err)
	}
	checkImage(s.t, p, i, size)
	return made
}

func checkImage(t testing.TB, p variants.Image, i, size int) {
	t.Helper()
	if want := body(i, size); !bytes.Equal(p.Body, want) || p.Sum != sha256.Sum256(want) {
		t.Fatalf("image %d of %d bytes: got %d bytes with digest %x", i, size, len(p.Body), p.Sum)
	}
}

func key(i int) variants.Key { return sha256.Sum256(fmt.Appendf(nil, "key %d", i)) }

// body returns the content of image i with the given size.
func body(i, size int) []byte {
	b := bytes.Repeat(fmt.Appendf(nil, "picture %d. ", i), size/10+1)
	return b[:size]
}

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// stuck is a job that the test ends.
type stuck struct {
	store opened
	calls atomic.Int64
	ctx   chan context.Context
	give  chan error // nil = success
}

func (s opened) stuck() *stuck {
	return &stuck{store: s, ctx: make(chan context.Context, 1), give: make(chan error)}
}

// ask calls Get in the background, and returns when all goroutines are blocked.
func (m *stuck) ask(ctx context.Context, i int) <-chan error {
	answer := make(chan error, 1)
	go func() {
		p, err := m.store.Get(ctx, key(i), func(ctx context.Context) ([]byte, error) {
			m.calls.Add(1)
			m.ctx <- ctx
			select {
			case err := <-m.give:
				return body(i, 3000), err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		if err == nil {
			checkImage(m.store.t, p, i, 3000)
		}
		answer <- err
	}()
	synctest.Wait()
	return answer
}

func TestGet_ManyCallers_ShareOneJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{})
		m := s.stuck()
		type name struct{}
		first, leave := context.WithCancel(context.WithValue(t.Context(), name{}, "first"))
		left := m.ask(first, 1)
		var answers []<-chan error
		for range 99 {
			answers = append(answers, m.ask(t.Context(), 1))
		}
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("Get of the caller that left = %v, want context.Canceled", err)
		}
		synctest.Wait()
		ctx := <-m.ctx
		if ctx.Err() != nil || ctx.Value(name{}) != "first" {
			t.Errorf("context of the job after its first caller left: error %v, value %v", ctx.Err(), ctx.Value(name{}))
		}
		m.give <- nil
		for _, a := range answers {
			if err := <-a; err != nil {
				t.Error(err)
			}
		}
		if made := s.wants(1, 3000); made || m.calls.Load() != 1 {
			t.Errorf("made %d times, want 1; made again after caching: %t", m.calls.Load(), made)
		}
		if j, made, memory := s.number("asked_total", "joined"), s.number("asked_total", "made"), s.number("asked_total", "memory"); j != 99 || made != 1 || memory != 1 {
			t.Errorf("metrics: %v joined, %v made, %v from memory; want 99, 1 and 1", j, made, memory)
		}
	})
}

// Callers that arrive exactly when a job ends must not start another.
func TestGet_NeverMakesImageTwice(t *testing.T) {
	t.Parallel()
	s := open(t, variants.Config{})
	const images, callers = 20_000, 4
	var made [images]atomic.Int64
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for i := range images {
				p, err := s.Get(t.Context(), key(i), func(context.Context) ([]byte, error) {
					made[i].Add(1)
					return body(i, 100), nil
				})
				if err != nil || !bytes.Equal(p.Body, body(i, 100)) {
					t.Errorf("image %d: %v", i, err)
				}
			}
		})
	}
	wait.Wait()
	for i := range made {
		if n := made[i].Load(); n != 1 {
			t.Errorf("image %d was made %d times", i, n)
		}
	}
}

func TestGet_AllCallersLeft_BegunJobIsCached(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{})
		m := s.stuck()
		ctx, leave := context.WithCancel(t.Context())
		left := m.ask(ctx, 1)
		leave()
		<-left
		again := m.ask(t.Context(), 1) // joins the job that has begun
		m.give <- nil
		if err := <-again; err != nil || m.calls.Load() != 1 || s.wants(1, 3000) {
			t.Errorf("Get() = %v; the job was begun %d times; want nil, 1 and a cached image", err, m.calls.Load())
		}
	})
}

func TestGet_AllCallersLeft_WaitingJobIsAbandoned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 1})
		busy, m := s.stuck(), s.stuck()
		holding := busy.ask(t.Context(), 1)
		ctx, leave := context.WithCancel(t.Context())
		var waiting []<-chan error
		for range 20 {
			waiting = append(waiting, m.ask(ctx, 2))
		}
		leave()
		for _, a := range waiting {
			if err := <-a; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		synctest.Wait()
		fresh := s.stuck()
		answer := fresh.ask(t.Context(), 2)
		busy.give <- nil
		if err := <-holding; err != nil {
			t.Error(err)
		}
		fresh.give <- nil
		if err := <-answer; err != nil {
			t.Errorf("Get after all earlier callers left = %v", err)
		}
		if m.calls.Load() != 0 || s.number("abandoned_total") != 1 || s.number("refused_total") != 0 {
			t.Errorf("%d jobs began without a caller; %v counted as abandoned, want 1", m.calls.Load(), s.number("abandoned_total"))
		}
	})
}

func TestGet_CanceledContext_StartsNothing(t *testing.T) {
	t.Parallel()
	s := open(t, variants.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Get(ctx, key(1), func(context.Context) ([]byte, error) {
		t.Error("made an image for a canceled context")
		return body(1, 1), nil
	})
	if !errors.Is(err, context.Canceled) || s.number("abandoned_total") != 0 {
		t.Errorf("Get() = %v, %v abandoned", err, s.number("abandoned_total"))
	}
}

func TestGet_Error_ReachesAllCallersAndIsNotCached(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{})
		m := s.stuck()
		one, other := m.ask(t.Context(), 1), m.ask(t.Context(), 1)
		broken := errors.New("broken")
		m.give <- broken
		if a, b := <-one, <-other; !errors.Is(a, broken) || !errors.Is(b, broken) {
			t.Errorf("errors %v and %v, want both %v", a, b, broken)
		}
		if !s.wants(1, 3000) {
			t.Error("the result of a failed job was cached")
		}
		if n := s.number("failed_total"); n != 1 {
			t.Errorf("%v failures counted, want 1", n)
		}
	})
}

func TestGet_DyingJob_LeavesKeyUsable(t *testing.T) {
	deaths := map[string]func() ([]byte, error){
		"panic":                 func() ([]byte, error) { panic("out of ink") },
		"the goroutine's end":   func() ([]byte, error) { runtime.Goexit(); return nil, nil },
		"no image, no error":    func() ([]byte, error) { return nil, nil },
		"an empty image":        func() ([]byte, error) { return []byte{}, nil },
		"a panic with an error": func() ([]byte, error) { panic(errors.New("out of ink")) },
	}
	for name, die := range deaths {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := open(t, variants.Config{Concurrent: 1})
				_, err := s.Get(t.Context(), key(1), func(context.Context) ([]byte, error) { return die() })
				if err == nil || strings.HasPrefix(name, "panic") && !strings.Contains(err.Error(), "out of ink") {
					t.Errorf("Get() = %v, want an error", err)
				}
				if !s.wants(1, 10) || s.number("failed_total") != 1 {
					t.Errorf("the next Get did not make the image, or %v failures were counted, want 1", s.number("failed_total"))
				}
			})
		})
	}
}

func TestGet_FullQueue_IsBusyImmediately(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 2, Waiting: 3})
		m := s.stuck()
		var accepted []<-chan error
		for i := range 5 {
			accepted = append(accepted, m.ask(t.Context(), i))
		}
		begin := time.Now()
		if err := <-m.ask(t.Context(), 5); !errors.Is(err, variants.ErrBusy) || time.Since(begin) != 0 {
			t.Errorf("sixth Get = %v after %s, want ErrBusy immediately", err, time.Since(begin))
		}
		accepted = append(accepted, m.ask(t.Context(), 4)) // joins the waiting job
		for range 5 {
			<-m.ctx
			m.give <- nil
		}
		for _, a := range accepted {
			if err := <-a; err != nil {
				t.Error(err)
			}
		}
		if !s.wants(5, 10) || s.number("refused_total") != 1 {
			t.Errorf("%v counted as refused, want 1", s.number("refused_total"))
		}
	})
}

// Cached images are served even if nothing can be made.
func TestGet_BusyStore_ServesCachedImages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 1, Waiting: 1})
		s.wants(7, 100)
		m := s.stuck()
		one, two := m.ask(t.Context(), 1), m.ask(t.Context(), 2)
		if s.wants(7, 100) {
			t.Error("a cached image was made again")
		}
		for range 2 {
			<-m.ctx
			m.give <- nil
		}
		<-one
		<-two
	})
}

func TestTurns_GrantedInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 1})
		m := s.stuck()
		holding := m.ask(t.Context(), 0)
		var mu sync.Mutex
		var order []int
		var wait sync.WaitGroup
		for i := 1; i <= 9; i++ {
			wait.Go(func() {
				_, err := s.Get(t.Context(), key(i), func(context.Context) ([]byte, error) {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, i)
					return body(i, 10), nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		m.give <- nil
		<-holding
		wait.Wait()
		if fmt.Sprint(order) != "[1 2 3 4 5 6 7 8 9]" {
			t.Errorf("order of turns = %v, want 1 to 9", order)
		}
	})
}

func TestGet_JobEndsAtItsDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 1, MakeTimeout: 3 * time.Second})
		begin := time.Now()
		m := s.stuck()
		slow := m.ask(t.Context(), 1)
		time.Sleep(time.Second)
		behind := s.stuck()
		waits := behind.ask(t.Context(), 2)
		if err := <-slow; !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, variants.ErrBusy) || time.Since(begin) != 3*time.Second {
			t.Errorf("Get() = %v after %s, want DeadlineExceeded after 3s", err, time.Since(begin))
		}
		synctest.Wait()
		behind.give <- nil
		if err := <-waits; err != nil {
			t.Errorf("Get that waited for the turn = %v", err)
		}
	})
}

// A function that ignores its context keeps its turn, but its callers return.
func TestGet_DeadlineEndsWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 1, MakeTimeout: 3 * time.Second})
		begin := time.Now()
		deaf := func(context.Context) ([]byte, error) { time.Sleep(time.Minute); return body(1, 10), nil }
		waits := s.stuck().ask
		var mine error
		var wait sync.WaitGroup
		wait.Go(func() { _, mine = s.Get(t.Context(), key(1), deaf) })
		synctest.Wait()
		turnless := waits(t.Context(), 2)
		wait.Wait()
		if took := time.Since(begin); !errors.Is(mine, context.DeadlineExceeded) || took != 3*time.Second {
			t.Errorf("Get() = %v after %s, want DeadlineExceeded after 3s", mine, took)
		}
		err := <-turnless
		synctest.Wait() // the job counts the refusal, and its caller does not wait for that
		if !errors.Is(err, variants.ErrBusy) || time.Since(begin) != 3*time.Second || s.number("refused_total") != 1 {
			t.Errorf("Get without a turn = %v after %s, %v refused; want ErrBusy after 3s", err, time.Since(begin), s.number("refused_total"))
		}
		if _, err := s.Get(t.Context(), key(1), deaf); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 3*time.Second {
			t.Errorf("Get that joins an overdue job = %v after %s, want DeadlineExceeded after 3s", err, time.Since(begin))
		}
		time.Sleep(time.Minute)
		if s.wants(1, 10) {
			t.Error("the late result was not cached")
		}
	})
}

func TestClose_AbandonsJobs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 1})
		s.wants(9, 10)
		m := s.stuck()
		begun, waits := m.ask(t.Context(), 1), m.ask(t.Context(), 2)
		begin := time.Now()
		s.Close()
		if took := time.Since(begin); took != 0 {
			t.Errorf("Close took %s, want 0s", took)
		}
		for _, a := range []<-chan error{begun, waits} {
			if err := <-a; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if _, err := s.Get(t.Context(), key(3), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Get after Close = %v, want Canceled", err)
		}
		if s.wants(9, 10) {
			t.Error("an image was made after Close")
		}
		s.Close()
	})
}

// A function that ignores its context delays Close by its timeout, and its late result is dropped.
func TestClose_IgnoredContext_ReturnsAfterTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{})
		release, made := make(chan struct{}), make(chan struct{})
		answer := make(chan error, 1)
		go func() {
			_, err := s.Get(t.Context(), key(1), func(context.Context) ([]byte, error) {
				defer close(made)
				<-release
				return body(1, 10), nil
			})
			answer <- err
		}()
		synctest.Wait()
		begin := time.Now()
		s.Close()
		if took := time.Since(begin); took != variants.CloseTimeout {
			t.Errorf("Close took %s, want %s", took, variants.CloseTimeout)
		}
		if err := <-answer; !errors.Is(err, context.Canceled) {
			t.Errorf("Get() = %v, want Canceled", err)
		}
		close(release)
		<-made
	})
}

func TestConfig_Invalid(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{-1, 1 << 40} {
		_, err := variants.New(variants.Config{MemoryBytes: size})
		if err == nil || !strings.Contains(err.Error(), "MemoryBytes") {
			t.Errorf("the error does not name MemoryBytes: %v", err)
		}
	}
	numbers := prometheus.NewRegistry()
	s := testmust.Get(variants.New(variants.Config{Registerer: numbers}))(t)
	defer s.Close()
	if _, err := variants.New(variants.Config{Registerer: numbers}); err == nil {
		t.Error("New accepts a registerer that has the metrics of another store")
	}
}

func TestGet_Cached_AllocatesNothing(t *testing.T) {
	s := open(t, variants.Config{})
	s.wants(1, 3000)
	k := key(1)
	if n := testing.AllocsPerRun(1000, func() {
		if p, err := s.Get(t.Context(), k, nil); err != nil || len(p.Body) != 3000 {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("Get allocates %v times, want 0", n)
	}
}

// The unused capacity of a slice takes memory, too.
func TestMemory_CountsCapacity(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const bound = 1 << 20
		s := open(t, variants.Config{MemoryBytes: bound})
		for i := range 300 {
			p, err := s.Get(t.Context(), key(i), func(context.Context) ([]byte, error) {
				return append(make([]byte, 0, 64<<10), body(i, 1000)...), nil
			})
			if err != nil || cap(p.Body) > 2000 {
				t.Fatalf("image of %d bytes holds %d: %v", len(p.Body), cap(p.Body), err)
			}
		}
		synctest.Wait()
		if entries, held := s.number("entries", "memory"), s.number("bytes", "memory"); entries != 300 || held < 300_000 || held > bound {
			t.Errorf("%v images in %v bytes, want 300 in at most %d", entries, held, bound)
		}
	})
}

func TestGet_LargeImages_AreNotCached(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{})
		for range 2 {
			if !s.wants(1, 5<<20) {
				t.Error("an image larger than maxKept was cached")
			}
		}
		small := open(t, variants.Config{MemoryBytes: 20_000})
		small.wants(1, 10_000)
		small.wants(2, 10)
		small.wants(3, 20_000) // larger than the memory
		synctest.Wait()
		if a, b := s.number("entries", "memory"), small.number("entries", "memory"); a != 0 || b != 2 {
			t.Errorf("%v and %v images in memory, want 0 and 2", a, b)
		}
	})
}

// After any sequence of operations, answers are correct and the memory stays within its limit.
func TestStore_RandomOperations_StayWithinLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		const images = 40
		bytes := rapid.Int64Range(1, 60_000).Draw(r, "memory")
		s := open(t, variants.Config{MemoryBytes: bytes})
		defer s.Close()
		for range rapid.IntRange(1, 120).Draw(r, "operations") {
			i := rapid.IntRange(0, images-1).Draw(r, "image")
			s.wants(i, 1+i*i*5)
			if _, kept := s.Kept(key(i)); kept && int64(1+i*i*5) > bytes {
				r.Fatalf("image %d is cached, though it is larger than the memory", i)
			}
		}
		s.Close()
		if held := s.number("bytes", "memory"); int64(held) > bytes {
			r.Fatalf("%v bytes are cached, at most %d may be", held, bytes)
		}
	})
}
