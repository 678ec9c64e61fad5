package testwait_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/testwait"
)

// A wait that never fails its test would hide missing events; a wait that ends too early would make tests flaky.

// ending is a test that records its end instead of failing.
type ending struct {
	testing.TB
	failed bool
}

func (e *ending) Helper() {}

func (e *ending) Fatalf(string, ...any) {
	e.failed = true
	runtime.Goexit()
}

// ends reports whether a wait failed its test, and after which time.
func ends(t *testing.T, wait func(testing.TB)) (failed bool, after time.Duration) {
	began, of := time.Now(), &ending{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait(of)
	}()
	<-done
	return of.failed, time.Since(began)
}

func TestWaits_WithoutEvent_FailTest(t *testing.T) {
	for name, wait := range map[string]func(testing.TB){
		"a value": func(t testing.TB) { testwait.Receive(t, make(chan int), "nothing") },
		"lines": func(t testing.TB) {
			l := testwait.NewLines()
			l.Logger().Info("one")
			l.Wait(t, 2, "one")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if failed, after := ends(t, wait); !failed || after != testwait.Timeout {
					t.Errorf("failed = %t after %s, want true after %s", failed, after, testwait.Timeout)
				}
			})
		})
	}
}

func TestWaits_ReturnEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values, l := make(chan int), testwait.NewLines()
		go func() {
			time.Sleep(testwait.Timeout / 2)
			values <- 7
			close(values)
			for _, word := range []string{"one", "two", "one"} {
				l.Logger().Info(word)
			}
		}()
		if v := testwait.Receive(t, values, "a value"); v != 7 {
			t.Errorf("Receive = %d, want 7", v)
		}
		if v := testwait.Receive(t, values, "the close"); v != 0 {
			t.Errorf("Receive = %d from a closed channel, want 0", v)
		}
		l.Wait(t, 2, "one")
		if len(l) != 0 {
			t.Errorf("%d lines were not read, want 0", len(l))
		}
	})
}

func TestUntil_PollsWithinLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		so := func() bool { return time.Since(began) >= time.Second }
		if took, ok := testwait.Until(time.Minute, so); !ok || took != time.Second {
			t.Errorf("Until = %t after %s, want true after 1s", ok, took)
		}
		if took, ok := testwait.Until(time.Minute, func() bool { return false }); ok || took != time.Minute {
			t.Errorf("Until = %t after %s for a condition that is never true, want false after 1m", ok, took)
		}
		looks := 0
		late := func() bool { looks++; return looks > 1 }
		if _, ok := testwait.Until(time.Nanosecond, late); !ok {
			t.Error("the condition was not checked again at the end of the limit")
		}
	})
}
