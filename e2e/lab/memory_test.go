//go:build lab

package lab

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
)

// mostServiceMemory is the container that the README names, in bytes.
const mostServiceMemory = 512 << 20

// TestTheWholeServiceStaysWithinItsMemory has every host of the lab looked up, 32 at a time and the hostile ones again
// and again, while the logos that were found are drawn in every size. The starter index is loaded, and all roles run in
// the one process.
func TestTheWholeServiceStaysWithinItsMemory(t *testing.T) {
	s := own(t, portMemory, "GOMEMLIMIT=410MiB") // eight tenths of 512, as from a cgroup
	hosts := slices.Sorted(maps.Keys(builtIn))
	for range 8 {
		for _, name := range []string{"gzip-bomb", "png-bomb", "ico-bomb", "svg-bomb", "endless-body", "nested-513", "huge-header", "many-icons"} {
			hosts = append(hosts, name+"-lab.com")
		}
	}
	s.forgetPeak(t)
	queue := make(chan string)
	var crowd sync.WaitGroup
	for range 32 {
		crowd.Go(func() {
			for host := range queue {
				if _, err := s.ask(host, "?refresh=true"); err != nil {
					t.Errorf("%s: %v", host, err)
				}
				for _, size := range []int{16, 128, 1024} {
					resp, err := client.Get(fmt.Sprintf("%s/logo/%s?size=%d", s.base, host, size))
					if err != nil {
						t.Errorf("%s: %v", host, err)
						continue
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		})
	}
	for _, host := range hosts {
		queue <- host
	}
	close(queue)
	crowd.Wait()
	peak := s.peak(t)
	t.Logf("%d look-ups, peak %d MiB", len(hosts), peak>>20)
	if peak > mostServiceMemory {
		t.Errorf("peak %d MiB, limit %d", peak>>20, mostServiceMemory>>20)
	}
}
