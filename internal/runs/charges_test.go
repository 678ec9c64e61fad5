package runs_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/internal/eventlog"
	"letterhead/internal/runs"
)

// Whatever the order of charges, answers, reversals and failures, no charge without an answer counts as answered, and
// once everything has ended, every charge does.
// Rule 2.
func TestCharges_AnyOrder_NoOpenChargeIsCovered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		charges := runs.NewCharges(time.Now)
		type charge struct {
			request  string
			at       eventlog.Position
			reported bool
			settled  bool // answered or reversed
		}
		var all []*charge
		head := eventlog.Position(rapid.IntRange(0, 5).Draw(t, "head"))
		begun := map[string]int{}     // appends that may happen
		reversing := map[string]int{} // reversals that have begun
		requests := rapid.SampledFrom(requestNames(rapid.SampledFrom([]int{1, 3, 20, 700}).Draw(t, "requests")))
		of := func(request string, so func(*charge) bool) (found []*charge) {
			for _, c := range all {
				if c.request == request && so(c) {
					found = append(found, c)
				}
			}
			return found
		}
		open := func(c *charge) bool { return !c.settled }
		reported := func(c *charge) bool { return c.reported && !c.settled }
		check := func() {
			state := charges.State()
			for _, c := range all {
				if !c.settled && state.Covers(c.at, c.request) {
					t.Fatalf("the charge of %s at %d has no answer but is covered by %+v", c.request, c.at, state)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				r := requests.Draw(t, "request")
				charges.Begin(r)
				begun[r]++
			},
			"append": func(t *rapid.T) { // the process does not know yet
				if r := requests.Draw(t, "request"); begun[r] > len(of(r,
					func(c *charge) bool { return !c.reported && open(c) })) {
					head++
					all = append(all, &charge{request: r, at: head})
				}
			},
			"others append": func(*rapid.T) { head++ },
			"report": func(t *rapid.T) {
				r := requests.Draw(t, "request")
				for _, c := range of(r, func(c *charge) bool { return !c.reported && open(c) }) {
					charges.Charged(r, c.at)
					c.reported = true
					begun[r]--
					return
				}
			},
			"fail": func(t *rapid.T) {
				r := requests.Draw(t, "request")
				if begun[r] > len(of(r, func(c *charge) bool { return !c.reported && open(c) })) {
					charges.Ended(r)
					begun[r]--
				}
			},
			"reverse unreported": func(t *rapid.T) { // its caller has left
				r := requests.Draw(t, "request")
				for _, c := range of(r, func(c *charge) bool { return !c.reported && open(c) }) {
					c.settled = true
					charges.Ended(r)
					begun[r]--
					return
				}
			},
			"answer": func(t *rapid.T) {
				r := requests.Draw(t, "request")
				for _, c := range of(r, reported) {
					c.settled = true
				}
				charges.Answered(r)
			},
			"leave": func(t *rapid.T) { // the request ends, its charges are reversed later
				r := requests.Draw(t, "request")
				for range of(r, reported) {
					charges.Begin(r)
					reversing[r]++
				}
				for _, c := range of(r, reported) {
					c.reported = false
					begun[r]++ // its reversal is what ends it
				}
				charges.Answered(r)
			},
			"": func(*rapid.T) { check() },
		})
	})
}

func requestNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("r", i))
	}
	return names
}

func TestCharges_Answered_OnlyOpenRequestsAreExcepted(t *testing.T) {
	c := runs.NewCharges(time.Now)
	c.Begin("slow")
	c.Charged("slow", 10)
	for i := range 1000 {
		id := fmt.Sprint("quick", i)
		c.Begin(id)
		c.Charged(id, eventlog.Position(11+i))
		c.Answered(id)
	}
	c.Begin("unreported") // it may be at any later position
	state := c.State()
	for _, want := range []struct {
		at      eventlog.Position
		request string
		covered bool
	}{
		{10, "slow", false}, {11, "quick0", true}, {1010, "quick999", true}, {500, "unreported", false},
		{1011, "quick1000", false},
	} {
		if got := state.Covers(want.at, want.request); got != want.covered {
			t.Errorf("Covers(%d, %s) = %t, want %t", want.at, want.request, got, want.covered)
		}
	}
	c.Ended("unreported")
	c.Answered("slow")
	if state := c.State(); state.UpTo != 1010 || len(state.Except) != 0 {
		t.Errorf("when everything is answered: %+v, want only position 1010", state)
	}
}

func TestCharges_OutcomeNeverLearned_IsForgottenWithAge(t *testing.T) {
	now := time.Unix(1795000000, 0)
	c := runs.NewCharges(func() time.Time { return now })
	c.Begin("lost")
	now = now.Add(time.Minute)
	c.Begin("young")
	now = now.Add(time.Second)
	c.Forget(time.Minute)
	if state := c.State(); len(state.Except) != 1 || state.Except[0] != "young" {
		t.Errorf("open after a minute: %q, want only the younger request", state.Except)
	}
}

func BenchmarkCharges(b *testing.B) {
	c := runs.NewCharges(time.Now)
	b.RunParallel(func(pb *testing.PB) {
		id := fmt.Sprintf("%p", pb)
		for pb.Next() {
			c.Begin(id)
			c.Charged(id, 1)
			c.Answered(id)
		}
	})
}
