//go:build lab

package lab

import (
	"fmt"
	"testing"
	"time"
)

// Limits on what one hostile site may cost the server.
const (
	maxBombCPU    = 2 * time.Second
	maxBombMemory = 100 << 20
	// maxPageMemory is the limit for a page of the largest size that consists of elements only: 3 MB of <p> took 76
	// to 93 MB.
	maxPageMemory = 150 << 20
)

// TestBombs_LookedUp_StayWithinLimits looks up each site on an otherwise idle process that has crawled one good site.
// The measured memory is the peak during the look-up minus the resident memory before it.
func TestBombs_LookedUp_StayWithinLimits(t *testing.T) {
	s := startWarm(t, portBombs, "LETTERHEAD_REFRESH=off", "LETTERHEAD_STARTER=off")
	for _, name := range bombs {
		t.Run(name, func(t *testing.T) {
			s.restart(t)
			s.resetPeak(t)
			began, before := s.cpu(t), s.resident(t)
			a := s.lookup(t, name+"-lab.com", "?refresh=true")
			cpu, memory := s.cpu(t)-began, s.peak(t)-before
			t.Logf("%s: %s of CPU time, peak %.1f MB above the %d MB before", a, cpu, float64(memory)/(1<<20), before>>20)
			if cpu > maxBombCPU {
				t.Errorf("the look-up took %s of CPU time", cpu)
			}
			most := int64(maxBombMemory)
			if name == "endless-body" {
				most = maxPageMemory
			}
			if int64(memory) > most {
				t.Errorf("the look-up took %d MB", memory>>20)
			}
			if r := builtIn[name+"-lab.com"]; a.status != r.status[0] || a.brand.Error.Code != r.code {
				t.Errorf("the look-up answered %s, want %d %s", a, r.status[0], r.code)
			}
		})
	}
}

// redirectsToPrivate is how many redirects to private addresses redirect-private-lab.com has, from /private/0 on.
const redirectsToPrivate = 22

// TestRedirects_ToPrivateAddresses_AreNotFollowed crawls each redirect with the crawl command, which uses the same
// guard as the server. TestZGuard_AllRequests_ReachedNoPrivateAddress later checks that no private address was reached.
func TestRedirects_ToPrivateAddresses_AreNotFollowed(t *testing.T) {
	for i := range redirectsToPrivate {
		url := fmt.Sprintf("https://redirect-private-lab.com/private/%d", i)
		began := time.Now()
		out, err := node.letterhead("crawl", "--timeout", "5s", url)
		if err == nil {
			t.Errorf("the crawl of %s succeeded: %s", url, out)
		}
		seen := requestsSince(t, began)
		if len(seen) == 0 || seen[0].Host != "redirect-private-lab.com" {
			t.Errorf("%s was not requested", url)
		}
		for _, r := range seen {
			if r.Canary || r.Host != "redirect-private-lab.com" {
				t.Errorf("the crawl of %s requested %+v", url, r)
			}
		}
	}
}
