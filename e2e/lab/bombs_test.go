//go:build lab

package lab

import (
	"fmt"
	"testing"
	"time"
)

// What one hostile site may cost the server.
const (
	maxBombCPU    = 2 * time.Second
	maxBombMemory = 100 << 20
	// maxPageMemory is for the largest page that is read, of nothing but elements: 3 MB of <p> took 76 to 93 MB.
	maxPageMemory = 150 << 20
)

// TestBombs looks up each site on a process that has crawled one good site and has nothing else to do. The
// memory is the peak while the look-up lasts over what was resident before.
func TestBombs(t *testing.T) {
	s := warm(t, portBombs, "LETTERHEAD_REFRESH=off", "LETTERHEAD_STARTER=off")
	for _, name := range bombs {
		t.Run(name, func(t *testing.T) {
			s.anew(t)
			s.forgetPeak(t)
			began, before := s.cpu(t), s.resident(t)
			a := s.lookup(t, name+"-lab.com", "?refresh=true")
			cpu, memory := s.cpu(t)-began, s.peak(t)-before
			t.Logf("%s: %s of processor time, %.1f MB more at the peak than %d MB", a, cpu, float64(memory)/(1<<20), before>>20)
			if cpu > maxBombCPU {
				t.Errorf("it took %s of processor time", cpu)
			}
			most := int64(maxBombMemory)
			if name == "endless-body" {
				most = maxPageMemory
			}
			if int64(memory) > most {
				t.Errorf("it took %d MB", memory>>20)
			}
			if r := builtIn[name+"-lab.com"]; a.status != r.status[0] || a.brand.Error.Code != r.code {
				t.Errorf("answered %s, not %d %s", a, r.status[0], r.code)
			}
		})
	}
}

// redirectsToPrivate is how many ways to a private address redirect-private-lab.com knows: /private/0 and on.
const redirectsToPrivate = 22

// TestRedirects_ToPrivateAddresses_AreNotFollowed crawls each of them with the command, which has the server's guard.
// The last tests check that no private address was reached.
func TestRedirects_ToPrivateAddresses_AreNotFollowed(t *testing.T) {
	for i := range redirectsToPrivate {
		address := fmt.Sprintf("https://redirect-private-lab.com/private/%d", i)
		began := time.Now()
		out, err := node.letterhead("crawl", "--timeout", "5s", address)
		if err == nil {
			t.Errorf("%s gave a record: %s", address, out)
		}
		seen := since(t, began)
		if len(seen) == 0 || seen[0].Host != "redirect-private-lab.com" {
			t.Errorf("%s was not fetched", address)
		}
		for _, r := range seen {
			if r.Canary || r.Host != "redirect-private-lab.com" {
				t.Errorf("%s led to %+v", address, r)
			}
		}
	}
}
