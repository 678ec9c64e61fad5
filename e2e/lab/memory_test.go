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

	"letterhead/internal/process"
)

// mostServiceMemory is the container that the README names, in bytes.
const mostServiceMemory = 512 << 20

// bombs are the sites that cost a careless crawler most.
var bombs = []string{"gzip-bomb", "png-bomb", "ico-bomb", "svg-bomb", "endless-body", "nested-513", "huge-header", "many-icons"}

// group is a cgroup of the test's own, removed when the test ends: after what the test registers from here on, so that
// the server in it is stopped by then.
func group(t *testing.T, bytes int64) (*process.Group, error) {
	g, err := process.NewGroup(fmt.Sprintf("letterhead-lab-%d-%d", os.Getpid(), bytes), bytes)
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

// TestService_EveryHostLookedUp_StaysWithinMemory looks up every host of the lab, 32 at a time and the hostile ones
// repeatedly, while the server draws the found logos in every size. The starter index is loaded, and all roles run in
// the one process. It runs in a cgroup of 512 MiB, past which the kernel would kill it; where there can be none, it is
// told the limit, and the most memory that it has had is compared.
func TestService_EveryHostLookedUp_StaysWithinMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the test needs hundreds of crawls")
	}
	var environment []string
	within, err := group(t, mostServiceMemory)
	if err != nil {
		t.Logf("not in a cgroup: %v", err)
		environment = []string{"GOMEMLIMIT=410MiB"} // eight tenths of 512, as from a cgroup
	}
	s, err := startIn(within, portMemory, environment...)
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
	s.forgetPeak(t)
	s.crowd(hosts, func(host string, err error) { t.Errorf("%s: %v", host, err) })
	peak := s.peak(t)
	t.Logf("%d look-ups, peak %d MiB", len(hosts), peak>>20)
	if peak > mostServiceMemory {
		t.Errorf("peak %d MiB, limit %d", peak>>20, mostServiceMemory>>20)
	}
	if within != nil {
		if kills := told(t, within.Kills); kills != 0 {
			t.Errorf("the kernel killed %d processes", kills)
		}
		t.Logf("with the files that the kernel caches for it, %d MiB", told(t, within.Peak)>>20)
	}
}

// crowd looks hosts up, 32 at a time, and their logos in three sizes.
func (s *server) crowd(hosts []string, failed func(host string, err error)) {
	queue := make(chan string)
	var crowd sync.WaitGroup
	for range 32 {
		crowd.Go(func() {
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
	crowd.Wait()
}

// TestCrawl_KilledTheProcess_IsNotRetriedAtOnce leaves the process so little memory that hostile sites get it
// killed, and starts it again with enough: it fetches nothing of them by itself, nor when somebody asks for them. After
// a second kill not even a refresh that is paid for does.
func TestCrawl_KilledTheProcess_IsNotRetriedAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the test needs hundreds of crawls")
	}
	within, err := group(t, mostServiceMemory+1<<20) // a name of its own
	if err != nil {
		t.Skipf("no cgroup, no kill: %v", err)
	}
	s, err := startIn(within, portKilled, "LETTERHEAD_STARTER=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	s.crawlOnce(t)
	lost := make([]string, 0, len(bombs))
	for _, name := range bombs {
		lost = append(lost, name+"-lab.com")
	}
	for i := range 2 {
		hosts := s.killed(t, within, lost)
		if kills := told(t, within.Kills); kills != int64(i+1) {
			t.Fatalf("the kernel killed %d processes", kills)
		}
		if err := within.Limit(mostServiceMemory); err != nil {
			t.Fatal(err)
		}
		restarted := time.Now()
		if err := s.run(); err != nil {
			t.Fatal(err)
		}
		s.crawlOnce(t) // what is delivered again lies before this one in its lane
		ask := func(host, query string) (timeout bool) {
			a := s.lookup(t, host, query)
			t.Logf("after kill %d: %s%s answered %s", i+1, host, query, a)
			return a.brand.Error.Code == "timeout"
		}
		lost = slices.DeleteFunc(hosts, func(host string) bool { return !ask(host, "") }) // some had just ended
		if len(lost) == 0 {
			t.Fatal("no crawl was under way when it was killed")
		}
		if i == 1 {
			for _, host := range lost {
				if !ask(host, "?refresh=true") {
					t.Errorf("%s did not answer that it is remembered", host)
				}
			}
		}
		if again := since(t, restarted, lost...); len(again) > 0 {
			t.Errorf("retried after kill %d: %s", i+1, shown(again))
		}
	}
}

// killed has hosts crawled with hardly any memory left until the process is killed. It returns those whose crawls had
// begun and of whose end the log says nothing.
func (s *server) killed(t *testing.T, within *process.Group, hosts []string) []string {
	t.Helper()
	const little = 8 << 20
	if err := within.Limit(s.resident(t) + little); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.crowd(hosts, func(string, error) {}) // most requests are cut off
	<-s.ended
	var exit *exec.ExitError
	if !errors.As(s.result, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("it ended with %v, not killed", s.result)
	}
	logged, err := os.ReadFile(s.logs)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		return bytes.Contains(logged, []byte("domain="+host+" lane=live outcome=")) || len(since(t, began, host)) == 0
	})
}
