package sweep_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/workers/sweep"
)

// history is a random sequence of the actions of requests, crawlers and the sweeper's own restarts.
type history struct {
	*world
	r        *rand.Rand
	accounts []string
	domains  []string
	holds    map[string][]string // placed, by account
	crawls   map[string][]string // requested, by domain
	stop     func()              // nil while no sweeper runs
}

func (h *history) step() {
	id := h.accounts[h.r.IntN(len(h.accounts))]
	domain := h.domains[h.r.IntN(len(h.domains))]
	switch h.r.IntN(9) {
	case 0, 1:
		h.holds[id] = append(h.holds[id], h.held(id).ID)
	case 2:
		if n := len(h.holds[id]); n > 0 {
			h.capture(id, h.holds[id][h.r.IntN(n)])
		}
	case 3:
		if n := len(h.holds[id]); n > 0 {
			// An ended one is a repeat; a forgotten one is rejected. Both leave it unchanged.
			_ = h.accountWriter.ReleaseHold(h.Context(), commands.ReleaseHold{Request: h.request(), AccountID: id, HoldID: h.holds[id][h.r.IntN(n)]})
		}
	case 4, 5:
		priority := []string{brand.PriorityLive, brand.PriorityBulk}[h.r.IntN(2)]
		crawl, err := h.brands.RequestCrawl(h.Context(), commands.RequestCrawl{
			Request: h.request(), Domain: domain, Cause: brand.CauseRefresh, Priority: priority, Allowed: work, Force: true,
		})
		if errors.As(err, new(*brand.RememberedError)) { // the last one was lost, and is not retried immediately
			return
		}
		testmust.Succeed(h, err)
		h.crawls[domain] = append(h.crawls[domain], crawl.ID)
	case 6:
		if n := len(h.crawls[domain]); n > 0 {
			h.succeed(domain, h.crawls[domain][h.r.IntN(n)])
		}
	case 7:
		h.pass(time.Duration(h.r.Int64N(int64(40 * time.Second))))
	case 8:
		if h.stop == nil {
			h.stop = h.sweeper(sweep.Config{MaxOpen: 3 + h.r.IntN(40)}, parts{})
		} else {
			h.stop()
			h.stop = nil
		}
	}
}

// After any history overdue holds and crawls are ended, once, and others are unchanged.
func TestSweep_AnyHistory_EndsEverythingOverdue(t *testing.T) {
	for range 12 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := &history{world: newWorld(t), r: rand.New(rand.NewPCG(seed, 0)), holds: map[string][]string{}, crawls: map[string][]string{}}
			for i := range 3 {
				h.accounts = append(h.accounts, h.opened())
				h.domains = append(h.domains, fmt.Sprintf("d%d.com", i))
			}
			for range 80 {
				h.step()
			}
			// A small memory may be full of recent entries, and this clock does not advance
			// automatically: the rest of the history is left to a sweeper with room.
			if h.stop != nil {
				h.stop()
			}
			h.sweeper(sweep.Config{}, parts{})
			h.pass(time.Duration(h.r.Int64N(int64(3 * time.Minute))))
			h.sweptOver()
			for _, id := range h.accounts {
				h.checkHolds(id)
			}
			for _, domain := range h.domains {
				h.checkCrawl(domain)
			}
		})
	}
}

// checkHolds reads an account's stream: an expired hold was overdue, and no overdue hold is open.
func (h *history) checkHolds(id string) {
	h.Helper()
	events, err := h.log.ReadStream(h.Context(), account.Stream(id), 0, eventlog.Forward, 4096)
	testmust.Succeed(h, err)
	deadlines, open := map[string]time.Time{}, map[string]bool{}
	for _, r := range events {
		switch ev := h.decode(r).(type) {
		case eventschemas.CreditsHeld:
			deadlines[ev.HoldID], open[ev.HoldID] = ev.Deadline, true
		case eventschemas.CreditsCharged:
			delete(open, ev.HoldID)
		case eventschemas.HoldReleased:
			if !open[ev.HoldID] {
				h.Errorf("hold %s was released after it had ended", ev.HoldID)
			}
			if ev.Cause == "expired" && !r.OccurredAt.After(deadlines[ev.HoldID]) {
				h.Errorf("hold %s expired at %s, its deadline is %s", ev.HoldID, r.OccurredAt, deadlines[ev.HoldID])
			}
			delete(open, ev.HoldID)
		}
	}
	for hold := range open {
		if h.clock().After(deadlines[hold]) {
			h.Errorf("hold %s is open, its deadline was %s, now is %s", hold, deadlines[hold], h.clock())
		}
	}
}

func (h *history) checkCrawl(domain string) {
	h.Helper()
	id, at, allowed, running := h.state(domain).Running()
	if deadline := at.Add(allowed + slack); running && h.clock().After(deadline) {
		h.Errorf("crawl %s of %s is running, it was due at %s, now is %s", id, domain, deadline, h.clock())
	}
}
