//go:build lab

package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"letterhead/internal/testprocess"
)

// maxServiceMemory is the memory in bytes of the container in the README.
const maxServiceMemory = 512 << 20

// bombs are the sites that cost an unprotected crawler most.
var bombs = []string{"gzip-bomb", "png-bomb", "ico-bomb", "svg-bomb", "endless-body", "nested-513", "huge-header", "many-icons"}

// newCgroup creates a cgroup for the test. Cleanup functions that are registered later run before the cgroup is
// removed, so the server in it has stopped by then.
func newCgroup(t *testing.T, bytes int64) (*testprocess.Group, error) {
	g, err := testprocess.NewGroup(fmt.Sprintf("letterhead-lab-%d-%d", os.Getpid(), bytes), bytes)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g, nil
}

// TestService_EveryHostLookedUp_StaysWithinMemory looks up every built-in host of the lab with 32 concurrent clients,
// the hostile ones repeatedly, and requests their logos in three sizes. The starter index is loaded, and all roles run
// in one process. The process runs in a cgroup of 512 MiB, and the kernel kills it if it needs more. If the machine
// permits no cgroup, GOMEMLIMIT replaces it. The test compares the peak memory with the limit in both cases.
func TestService_EveryHostLookedUp_StaysWithinMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the test needs hundreds of crawls")
	}
	var environment []string
	cgroup, err := newCgroup(t, maxServiceMemory)
	if err != nil {
		t.Logf("the server is not in a cgroup: %v", err)
		environment = []string{"GOMEMLIMIT=410MiB"} // 80 % of 512 MiB, which the server would derive from a cgroup
	}
	s, err := startIn(cgroup, portMemory, environment...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	hosts := slices.Sorted(maps.Keys(builtIn))
	for range 8 {
		for _, name := range bombs {
			hosts = append(hosts, name+"-lab.com")
		}
	}
	s.resetPeak(t)
	s.lookUpAll(hosts, func(host string, err error) { t.Errorf("%s: %v", host, err) })
	peak := s.peak(t)
	t.Logf("%d look-ups, peak %d MiB", len(hosts), peak>>20)
	if peak > maxServiceMemory {
		t.Errorf("peak %d MiB, want at most %d", peak>>20, maxServiceMemory>>20)
	}
	if cgroup != nil {
		if kills := mustRead(t, cgroup.Kills); kills != 0 {
			t.Errorf("the kernel killed %d processes, want 0", kills)
		}
		t.Logf("peak with the page cache: %d MiB", mustRead(t, cgroup.Peak)>>20)
	}
}

// lookUpAll looks up hosts with 32 concurrent clients and requests their logos in three sizes.
func (s *server) lookUpAll(hosts []string, failed func(host string, err error)) {
	queue := make(chan string)
	var clients sync.WaitGroup
	for range 32 {
		clients.Go(func() {
			for host := range queue {
				if _, err := s.ask(host, "?refresh=true"); err != nil {
					failed(host, err)
				}
				for _, size := range []int{16, 128, 1024} {
					resp, err := client.Get(fmt.Sprintf("%s/logo/%s?size=%d", s.base, host, size))
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
					if err != nil {
						failed(host, err)
					}
				}
			}
		})
	}
	for _, host := range hosts {
		queue <- host
	}
	close(queue)
	clients.Wait()
}

// TestCrawl_KilledProcess_IsNotRetriedImmediately gives the process so little memory that the kernel kills it during
// crawls of hostile sites, then restarts it with enough. The new process does not repeat these crawls, even if a client
// looks up the sites. After a second kill, a paid refresh does not repeat them either.
func TestCrawl_KilledProcess_IsNotRetriedImmediately(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the test needs hundreds of crawls")
	}
	cgroup, err := newCgroup(t, maxServiceMemory+1<<20) // the name contains the size and must be unique
	if err != nil {
		t.Skipf("cannot create a cgroup: %v", err)
	}
	s, err := startIn(cgroup, portKilled, "LETTERHEAD_STARTER=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	s.crawlOnce(t)
	interrupted := make([]string, 0, len(bombs))
	for _, name := range bombs {
		interrupted = append(interrupted, name+"-lab.com")
	}
	for i := range 2 {
		hosts := s.crawlUntilKilled(t, cgroup, interrupted)
		if kills := mustRead(t, cgroup.Kills); kills != int64(i+1) {
			t.Fatalf("the kernel has killed %d processes, which is not the number of rounds", kills)
		}
		if err := cgroup.Limit(maxServiceMemory); err != nil {
			t.Fatal(err)
		}
		restarted := time.Now()
		if err := s.run(); err != nil {
			t.Fatal(err)
		}
		s.crawlOnce(t) // redelivered messages precede this one in the topic
		ask := func(host, query string) (timeout bool) {
			a := s.lookup(t, host, query)
			t.Logf("after kill %d: %s%s answered %s", i+1, host, query, a)
			return a.brand.Error.Code == "timeout"
		}
		// Some crawls may have ended just before the kill.
		interrupted = slices.DeleteFunc(hosts, func(host string) bool { return !ask(host, "") })
		if len(interrupted) == 0 {
			t.Fatal("no crawl was in progress at the kill")
		}
		if i == 1 {
			for _, host := range interrupted {
				if !ask(host, "?refresh=true") {
					t.Errorf("a refresh of %s did not answer with the recorded timeout", host)
				}
			}
		}
		if again := requestsSince(t, restarted, interrupted...); len(again) > 0 {
			t.Errorf("crawls were repeated after kill %d: %s", i+1, summary(again))
		}
	}
}

// crawlUntilKilled leaves the process almost no memory and looks up hosts until the kernel kills it. It returns the
// hosts whose crawls began and did not end, according to the log.
func (s *server) crawlUntilKilled(t *testing.T, cgroup *testprocess.Group, hosts []string) []string {
	t.Helper()
	const headroom = 8 << 20
	if err := cgroup.Limit(s.resident(t) + headroom); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.lookUpAll(hosts, func(string, error) {}) // most requests fail at the kill
	<-s.exited
	var exit *exec.ExitError
	if !errors.As(s.exitErr, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %v, want SIGKILL", s.exitErr)
	}
	logged, err := os.ReadFile(s.logs)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		return bytes.Contains(logged, []byte("domain="+host+" lane=live outcome=")) || len(requestsSince(t, began, host)) == 0
	})
}
