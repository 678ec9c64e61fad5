package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/testmust"
	"letterhead/readapi"
)

func TestProbe_FrozenEventStoreAndElection_OnlyFrozenOneIsMissingWithin10s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none, electing := error(nil), errors.New("no leader")
		silent := fmt.Errorf("%w: deadline exceeded", errSilent)
		var fault atomic.Pointer[error]
		fault.Store(&none)
		metrics := prometheus.NewPedanticRegistry()
		p, err := newProbe(metrics, map[string]func(context.Context) error{
			"event store": func(ctx context.Context) error {
				err := *fault.Load()
				if err != nil {
					<-ctx.Done() // it hangs
				}
				return err
			},
			"database": func(context.Context) error { return nil },
		})
		testmust.Succeed(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.run(ctx) }()
		after := func(d time.Duration) string {
			time.Sleep(d) // of the bubble's clock
			synctest.Wait()
			return strings.Join(p.missing(), ", ")
		}
		reaches := func() string {
			said := ""
			families := testmust.Get(metrics.Gather())(t)
			for _, f := range families {
				for _, m := range f.GetMetric() {
					if f.GetName() == "letterhead_node_reaches" {
						said += fmt.Sprintf("%s %v ", m.GetLabel()[0].GetValue(), m.GetGauge().GetValue())
					}
				}
			}
			return said
		}
		if got := after(20 * time.Second); got != "" {
			t.Errorf("with everything there, %q is missing; want nothing", got)
		}
		fault.Store(&silent)
		if got := after(probeEvery + probeTimeout); got != "" {
			t.Errorf("after one miss, %q is missing already; want nothing", got)
		}
		if got, want := reaches(), "database 1 event store 0 "; got != want {
			t.Errorf("after one miss the metric says %q, want %q", got, want)
		}
		if got := after(10*time.Second - probeEvery - probeTimeout); got != "event store" {
			t.Errorf("10 s after the event store froze, %q is missing, want the event store", got)
		}
		fault.Store(&none)
		if got := after(probeEvery + probeTimeout); got != "" {
			t.Errorf("once it is back, %q is missing; want nothing", got)
		}
		if got, want := reaches(), "database 1 event store 1 "; got != want {
			t.Errorf("once it is back the metric says %q, want %q", got, want)
		}
		fault.Store(&electing)
		for range 95 {
			if got := after(100 * time.Millisecond); got != "" {
				t.Fatalf("while a leader is elected %q is missing, want nothing", got)
			}
		}
		if got := after(10 * time.Second); got != "event store" {
			t.Errorf("after 19.5 s without a leader %q is missing, want the event store", got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// One check that fails moves no accounts, however long it took: a process that was frozen finds all its deadlines over
// when it thaws, and the services are fine.
func TestProbe_ProcessWasFrozen_NothingIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testmust.Get(newProbe(prometheus.NewPedanticRegistry(), map[string]func(context.Context) error{
			"event store": func(context.Context) error {
				time.Sleep(time.Minute)
				return errSilent
			},
		}))(t)
		p.check(t.Context())
		if got := p.missing(); len(got) != 0 {
			t.Errorf("after one check, %q is missing; want nothing", got)
		}
		p.check(t.Context())
		if got := p.missing(); len(got) != 1 {
			t.Errorf("after two checks, %q is missing; want the event store", got)
		}
	})
}

func TestAtMostEvery_RepeatsSuccessOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, fault := 0, error(nil)
		check := atMostEvery(assetsEvery, func(context.Context) error {
			calls++
			return fault
		})
		round := func(wantCalls int) {
			t.Helper()
			if err := check(t.Context()); !errors.Is(err, fault) || calls != wantCalls {
				t.Errorf("%v after %d calls, want %v after %d", err, calls, fault, wantCalls)
			}
			time.Sleep(probeEvery)
		}
		round(1)
		round(1)
		fault = errSilent
		round(2)
		round(3)
		fault = nil
		round(4)
		round(4)
	})
}

func TestFront_NodeNotStarted_AnswersThatItIsStarting(t *testing.T) {
	front := newFront(nil, readapi.NewUnrouted(readapi.Config{BaseURL: "https://brands.example.com"}, slog.New(slog.DiscardHandler)), nil)
	ask := func(path string) int {
		w := httptest.NewRecorder()
		front.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/v1/me": 503, "/metrics": 503} {
		if got := ask(path); got != want {
			t.Errorf("%s before the start: %d, want %d", path, got, want)
		}
	}
	teapot := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	front.open(teapot, teapot, nil)
	if got := ask("/v1/me"); got != http.StatusTeapot {
		t.Errorf("after the start: %d, want %d", got, http.StatusTeapot)
	}
}

func TestStart_InvalidSetting_IsNotRetried(t *testing.T) {
	if !isUnavailable(errors.Join(errors.New("open"), errUnavailable)) || !isUnavailable(context.DeadlineExceeded) {
		t.Error("isUnavailable does not report an unavailable service")
	}
	if isUnavailable(errors.New("LETTERHEAD_BROKER: no such setting")) {
		t.Error("isUnavailable reports an invalid setting")
	}
}
