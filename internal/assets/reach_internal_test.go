package assets

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/testmust"
)

// hanging returns a store in a folder whose file system does not respond until answer is called.
func hanging(t *testing.T) (s *Store, asked *atomic.Int64, answer func()) {
	t.Helper()
	s = testmust.Get(Open(t.Context(), "file://"+t.TempDir()))(t)
	asked = &atomic.Int64{}
	answered := make(chan struct{})
	s.stat = func(folder string) (fs.FileInfo, error) {
		asked.Add(1)
		<-answered
		return os.Stat(folder)
	}
	return s, asked, sync.OnceFunc(func() { close(answered) })
}

func TestReachable_HungFolder_IsCheckedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, asked, answer := hanging(t)
		defer answer()
		pulse := time.NewTicker(5 * time.Second)
		defer pulse.Stop()
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			if err := s.Reachable(ctx); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
			<-pulse.C
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := s.Reachable(ctx); err == nil || !strings.Contains(err.Error(), "a check started 8m22s ago") {
			t.Errorf("Reachable = %v, want an error with the time of the running check", err)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the folder was checked %d times, want once", n)
		}
		answer()
		synctest.Wait()
		if err := s.Reachable(t.Context()); err != nil || asked.Load() != 2 {
			t.Errorf("after the folder responded: %v, %d checks, want 2", err, asked.Load())
		}
	})
}

func TestReachable_FirstCallerLeaves_OthersGetResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, asked, answer := hanging(t)
		ctx, leave := context.WithCancel(t.Context())
		left, stayed := make(chan error, 1), make(chan error, 1)
		go func() { left <- s.Reachable(ctx) }()
		synctest.Wait()
		go func() { stayed <- s.Reachable(t.Context()) }()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		answer()
		if err := <-stayed; err != nil || asked.Load() != 1 {
			t.Errorf("Reachable = %v after %d checks", err, asked.Load())
		}
	})
}
