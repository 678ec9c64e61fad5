package elastic_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/internal/searchindex"
	"letterhead/internal/testmust"
)

// kept is a request that the test sends to the cluster later.
type kept struct {
	f      *faulty
	method string
	url    string
	body   []byte
}

func (f *faulty) keep(r *http.Request) kept {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return kept{f, r.Method, r.URL.String(), body}
}

// send lets the cluster process the request and returns the status.
func (k kept) send() int {
	r := httptest.NewRequest(k.method, k.url, bytes.NewReader(k.body))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	k.f.proxy.forward.ServeHTTP(rec, r)
	return rec.Code
}

// rebuilt returns a new generation with thirty documents, to replace a frozen one with twenty.
func (f *faulty) rebuilt() searchindex.Generation {
	f.t.Helper()
	f.continues(20, 20)
	g := testmust.Get(f.Rebuild(f.t.Context()))(f.t)
	testmust.Succeed(f.t, testmust.Err(g.Freeze(f.t.Context())))
	testmust.Succeed(f.t, g.Apply(f.t.Context(), sites(30), 30))
	return g
}

// generations checks the number of generations in the cluster.
func (f *faulty) generations(want int) {
	f.t.Helper()
	if all := indices(f.t, f.real, f.alias); len(all) != want {
		f.t.Errorf("the cluster has %v, want %d", all, want)
	}
}

// continues writes as the projection does: it retries after ErrReplaced.
func (f *faulty) continues(docs int, checkpoint uint64) {
	f.t.Helper()
	err := f.Apply(f.t.Context(), sites(docs), checkpoint)
	if errors.Is(err, searchindex.ErrReplaced) {
		err = f.Apply(f.t.Context(), sites(docs), checkpoint)
	}
	if err != nil {
		f.t.Errorf("apply: %v", err)
	}
	f.holds(docs, checkpoint)
}

func TestPublish_LostResponse_IsNotUndone(t *testing.T) {
	f := newFaulty(t)
	g := f.rebuilt()
	ctx, cancel := context.WithCancel(t.Context())
	f.proxy.set(on("/_aliases", 1, func(w http.ResponseWriter, r *http.Request) bool {
		if status := f.keep(r).send(); status != http.StatusOK {
			t.Errorf("the swap has status %d, want %d", status, http.StatusOK)
		}
		cancel() // the caller leaves before the response arrives
		return hangs(w, r)
	}))
	if err := g.Publish(ctx); err != nil {
		t.Errorf("publish: %v, want success", err)
	}
	if err := g.Discard(); err != nil {
		t.Error(err)
	}
	f.generations(1)
	f.holds(30, 30)
	f.continues(31, 31)
}

// TestPublish_ArrivesAfterCallerLeft cancels the caller of Publish before the cluster gets the request.
func TestPublish_ArrivesAfterCallerLeft(t *testing.T) {
	for name, c := range map[string]struct{ before, wins bool }{
		"before Discard": {before: true, wins: true},
		"after Discard":  {},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t)
			g := f.rebuilt()
			ctx, cancel := context.WithCancel(t.Context())
			var swap kept
			f.proxy.set(on("/_aliases", 1, func(w http.ResponseWriter, r *http.Request) bool {
				swap = f.keep(r)
				cancel()
				return hangs(w, r)
			}))
			if err := g.Publish(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("publish: %v, want Canceled", err)
			}
			f.holds(20, 20)
			if c.before && swap.send() != http.StatusOK {
				t.Error("the swap was rejected although no generation was discarded")
			}
			if err := g.Discard(); err != nil {
				t.Error(err)
			}
			if !c.before && swap.send() == http.StatusOK {
				t.Error("a discarded generation was published")
			}
			if c.wins {
				f.holds(30, 30)
				f.continues(31, 31)
			} else {
				f.holds(20, 20)
				f.generations(1)
				f.continues(21, 21)
			}
		})
	}
}

func TestClose_DuringPublish(t *testing.T) {
	for name, published := range map[string]bool{"before the swap": false, "after the swap": true} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t)
			g := f.rebuilt()
			f.proxy.set(on("/_aliases", 1, func(w http.ResponseWriter, r *http.Request) bool {
				swap := f.keep(r)
				if published {
					swap.send()
				}
				if err := f.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				return false // then the request arrives, or arrives again
			}))
			if err := g.Publish(t.Context()); published && err != nil || !published && !errors.Is(err, searchindex.ErrClosed) {
				t.Errorf("publish: %v", err)
			}
			f.Index = open(t, f.real, f.alias)
			f.generations(1)
			if published {
				f.holds(30, 30)
			} else {
				f.continues(21, 21)
			}
		})
	}
}

// TestConcurrentRebuilds_KeepLiveGeneration lets one rebuild find the generation of another. It stops the first at
// each of the requests that delete this generation, while the other rebuild publishes it.
func TestConcurrentRebuilds_KeepLiveGeneration(t *testing.T) {
	for name, c := range map[string]struct {
		at   func(f *faulty, r *http.Request) bool
		wins bool // whether its generation is published
	}{
		"before it is taken": {func(_ *faulty, r *http.Request) bool { return r.URL.Path == "/_aliases" }, true},
		"before it is dropped": {func(f *faulty, r *http.Request) bool {
			return r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/"+f.alias+version+"_g000002")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t)
			other := open(t, f.real, f.alias)
			defer other.Close()
			testmust.Succeed(t, f.Apply(t.Context(), sites(20), 20))
			g := testmust.Get(other.Rebuild(t.Context()))(t)
			testmust.Succeed(t, g.Apply(t.Context(), sites(30), 30))
			var once sync.Once
			f.proxy.set(func(_ http.ResponseWriter, r *http.Request) bool {
				if c.at(f, r) {
					once.Do(func() {
						if _, err := g.Freeze(t.Context()); err != nil {
							t.Errorf("freeze: %v", err)
						}
						if err := g.Publish(t.Context()); c.wins && err != nil || !c.wins && !errors.Is(err, searchindex.ErrReplaced) {
							t.Errorf("publish: %v", err)
						}
					})
				}
				return false
			})
			mine := testmust.Get(f.Rebuild(t.Context()))(t)
			if err := g.Discard(); err != nil {
				t.Error(err)
			}
			docs := 20
			if c.wins {
				docs = 30
			}
			f.holds(docs, uint64(docs))
			f.continues(docs+1, uint64(docs+1))
			if err := errors.Join(mine.Apply(t.Context(), sites(40), 40), mine.Publish(t.Context())); err != nil {
				t.Errorf("the last rebuild: %v", err)
			}
			f.holds(40, 40)
			f.generations(1)
		})
	}
}

// TestConcurrentRebuilds_OneWins starts a rebuild after another one has listed the generations and before it creates
// its own.
func TestConcurrentRebuilds_OneWins(t *testing.T) {
	f := newFaulty(t)
	other := open(t, f.real, f.alias)
	defer other.Close()
	var between searchindex.Generation
	var once sync.Once
	f.proxy.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, "/"+f.alias+version+"_g000002") {
			once.Do(func() {
				var err error
				if between, err = other.Rebuild(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		return false
	})
	last := testmust.Get(f.Rebuild(t.Context()))(t)
	f.generations(2)
	if err := between.Publish(t.Context()); !errors.Is(err, searchindex.ErrReplaced) {
		t.Errorf("publish of the first: %v, want ErrReplaced", err)
	}
	if err := errors.Join(last.Apply(t.Context(), sites(3), 3), last.Publish(t.Context())); err != nil {
		t.Errorf("publish of the last: %v", err)
	}
	f.holds(3, 3)
	f.generations(1)
}

// TestLateDelete_AffectsNoOtherGeneration repeats the delete of a discarded generation after the next generation was
// published.
func TestLateDelete_AffectsNoOtherGeneration(t *testing.T) {
	f := newFaulty(t)
	var deletes []kept
	f.proxy.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			deletes = append(deletes, f.keep(r))
		}
		return false
	})
	testmust.Succeed(t, f.rebuilt().Discard())
	f.generations(1)
	testmust.Succeed(t, f.rebuilt().Publish(t.Context()))
	if len(deletes) != 2 {
		t.Fatalf("%d deletes, want those of the discarded and of the replaced one", len(deletes))
	}
	for _, d := range deletes {
		d.send()
	}
	f.holds(30, 30)
}

// The retry of Discard finds that the generation is no longer being built.
func TestDiscard_LostResponse_Succeeds(t *testing.T) {
	f := newFaulty(t)
	g := testmust.Get(f.Rebuild(t.Context()))(t)
	f.proxy.set(on("/_aliases", 1, f.proxy.cuts))
	if err := g.Discard(); err != nil {
		t.Error(err)
	}
	f.generations(1)
	f.holds(0, 0)
}

func TestPrepared_DeadlineEndsWaitForOtherCaller(t *testing.T) {
	f := newFaulty(t)
	f.proxy.set(answers(http.StatusServiceUnavailable))
	x := open(t, f.proxy.URL, newAlias(t, f.real))
	defer x.Close()
	asked := make(chan struct{}, 1)
	f.proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		select {
		case asked <- struct{}{}:
		default:
		}
		return hangs(w, r)
	})
	long, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _ = x.Checkpoint(long)
	}()
	<-asked
	_, _, err := x.Checkpoint(within(t, 50*time.Millisecond))
	if !errors.Is(err, searchindex.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Checkpoint = %v, want ErrUnavailable and context.DeadlineExceeded", err)
	}
	select {
	case <-ended:
		t.Error("Checkpoint waited for another caller, whose context had not expired")
	default:
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := x.Checkpoint(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("Checkpoint with a canceled context = %v, want context.Canceled", err)
	}
	stop()
	<-ended
}

func TestRebuild_LargeBatch_UsesConcurrentRequests(t *testing.T) {
	f := newFaulty(t)
	g := testmust.Get(f.Rebuild(t.Context()))(t)
	met := make(chan struct{})
	var mu sync.Mutex
	waiting := 0
	f.proxy.set(on("/_bulk", 2, func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		if waiting++; waiting == 2 {
			close(met)
		}
		mu.Unlock()
		select {
		case <-met:
		case <-r.Context().Done():
			t.Error("no second request was sent during the first")
		}
		return false
	}))
	testmust.Succeed(t, g.Apply(within(t, time.Minute), sites(999), 999))
	rejects := f.proxy.rejectsItems(http.StatusBadRequest, func(domain string) bool { return domain == "site1700.com" })
	f.proxy.set(on("/_bulk", always, rejects))
	if err := g.Apply(t.Context(), sites(1800), 1800); !errors.Is(err, searchindex.ErrUnavailable) || !strings.Contains(err.Error(), "site1700.com") {
		t.Errorf("apply: %v, want the error of one of the requests", err)
	}
	f.proxy.set(nil)
	testmust.Succeed(t, errors.Join(g.Apply(t.Context(), sites(1800), 1800), g.Publish(t.Context())))
	f.holds(1800, 1800)
}
