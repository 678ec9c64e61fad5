package brand_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
)

// at is an event and its time.
type at struct {
	event eventschemas.Event
	time  time.Time
}

func fold(events []at) *brand.Brand {
	b := brand.New(domain)
	for i, e := range events {
		b.Apply(e.event, uint64(i), e.time)
	}
	return b
}

func stateOf(t *rapid.T, b *brand.Brand) string {
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatalf("state: %v", err)
	}
	return string(data)
}

// history runs random commands on one brand and tracks what its events say.
type history struct {
	brand  *brand.Brand
	now    time.Time
	events []at
	crawls int

	running map[string]string // priorities of the crawls that no event has ended or superseded
	crawled bool              // a crawl has found or confirmed a record
}

func (h *history) anyCrawl(t *rapid.T) string {
	return fmt.Sprintf("c%d", rapid.IntRange(0, h.crawls).Draw(t, "crawl"))
}

func anyRecord(t *rapid.T) eventschemas.Record {
	r := record(rapid.SampledFrom([]string{"Acme", "Acme Corp"}).Draw(t, "name"))
	r.Complete = rapid.Bool().Draw(t, "complete")
	r.OGImage = rapid.SampledFrom([]*string{nil, ptr("https://acme.com/a.png?s=1"), ptr("https://acme.com/a.png?s=2")}).Draw(t, "share image")
	return r
}

func (h *history) anyCommand(t *rapid.T) command {
	failures := []string{brand.Timeout, brand.Blocked, brand.FetchFailed, brand.DNS, brand.NoData}
	// Withdrawals are rare, so that brands accumulate state first.
	switch kind := rapid.IntRange(0, 40).Draw(t, "command"); {
	case kind < 12:
		h.crawls++
		priority := rapid.SampledFrom([]string{brand.PriorityLive, brand.PriorityBulk}).Draw(t, "priority")
		cause := rapid.SampledFrom([]string{brand.CauseLookup, brand.CauseRefresh, brand.CauseSchedule, brand.CauseLogo}).Draw(t, "cause")
		return crawl(fmt.Sprintf("c%d", h.crawls), cause, priority, rapid.Bool().Draw(t, "force"))
	case kind < 18:
		return succeed(h.anyCrawl(t), anyRecord(t))
	case kind < 24:
		return fail(h.anyCrawl(t), rapid.SampledFrom(failures).Draw(t, "outcome"))
	case kind < 28:
		return expire(h.anyCrawl(t))
	case kind < 31:
		return importing(rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "source"), anyRecord(t))
	case kind < 35:
		return override("name", rapid.SampledFrom([]string{`"A & B"`, `null`, `"B"`}).Draw(t, "value"))
	case kind < 37:
		return removeOverride("name")
	case kind < 40:
		return claim
	default:
		return withdraw
	}
}

// step runs one command, folds its events and checks the invariants.
func (h *history) step(t *rapid.T) {
	h.now = h.now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Second, 2 * time.Hour}).Draw(t, "later"))
	c := h.anyCommand(t)
	before := stateOf(t, h.brand)
	events, err := c(h.brand, h.now)
	if stateOf(t, h.brand) != before {
		t.Fatalf("a decision changed the brand")
	}
	if err != nil && len(events) > 0 {
		t.Fatalf("a rejected command has events: %v, %v", events, err)
	}
	for _, ev := range events {
		ev = stored(t, ev)
		h.checkEvent(t, ev)
		known, view := h.brand.Known(), h.brand.View()
		h.brand.Apply(ev, uint64(len(h.events)), h.now)
		h.events = append(h.events, at{ev, h.now})
		// Response caches ignore CrawlRequested.
		_, request := ev.(eventschemas.CrawlRequested)
		if request && (h.brand.Known() != known || known && !reflect.DeepEqual(h.brand.View(), view)) {
			t.Fatalf("CrawlRequested changed the view from\n%+v to\n%+v", view, h.brand.View())
		}
	}
	if again, err := c(h.brand, h.now); len(again) > 0 {
		t.Fatalf("repeating the command decided %v (%v) after %v", again, err, events)
	}
	h.checkState(t)
}

// checkEvent tracks the running crawls, using only the events.
func (h *history) checkEvent(t *rapid.T, ev eventschemas.Event) {
	switch ev := ev.(type) {
	case eventschemas.CrawlRequested:
		for id, priority := range h.running {
			if priority == brand.PriorityLive || ev.Priority != brand.PriorityLive {
				t.Fatalf("%s was requested while %s ran with priority %s", ev.CrawlID, id, priority)
			}
			delete(h.running, id)
		}
		h.running[ev.CrawlID] = ev.Priority
	case eventschemas.CrawlSucceeded:
		delete(h.running, ev.CrawlID)
		h.crawled = true
	case eventschemas.CrawlConfirmed:
		delete(h.running, ev.CrawlID)
		h.crawled = true
	case eventschemas.CrawlFailed:
		if _, ok := h.running[ev.CrawlID]; !ok {
			t.Fatalf("%s failed although it was not running", ev.CrawlID)
		}
		delete(h.running, ev.CrawlID)
	case eventschemas.BrandImported:
		if h.crawled {
			t.Fatalf("an import after a crawl")
		}
	case eventschemas.BrandWithdrawn:
		clear(h.running)
	}
	if h.brand.Withdrawn() {
		t.Fatalf("%s after the withdrawal", ev.EventType())
	}
}

func (h *history) checkState(t *rapid.T) {
	id, _, _, ok := h.brand.Running()
	if _, runs := h.running[id]; len(h.running) > 1 || ok != (len(h.running) == 1) || ok != runs {
		t.Fatalf("the running crawl is %q, according to the events %v", id, h.running)
	}
	if h.brand.Withdrawn() && (h.brand.Known() || h.brand.View().Status != "") {
		t.Fatalf("a withdrawn brand shows %+v", h.brand.View())
	}
	v := h.brand.View()
	if h.brand.Known() {
		if v.Status == brand.StatusPending || v.Status == "" {
			t.Fatalf("a known brand is %q", v.Status)
		}
		if !h.crawled && v.Status != brand.StatusPartial {
			t.Fatalf("an unconfirmed import is %q", v.Status)
		}
		if then := fold(h.events[:v.Revision+1]).View(); !reflect.DeepEqual(then, v) {
			t.Fatalf("the view of revision %d is\n%+v, folded from the stream\n%+v", v.Revision, v, then)
		}
	}
	if _, until, ok := h.brand.Remembered(h.now); ok && !h.now.Before(until) {
		t.Fatalf("a failure is still remembered at %s, after its end %s", h.now, until)
	}
}

func TestBrand_RandomHistory_KeepsInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{brand: brand.New(domain), now: start, running: map[string]string{}}
		for range rapid.IntRange(1, 40).Draw(t, "commands") {
			h.step(t)
		}
		if got, want := stateOf(t, h.brand), stateOf(t, fold(h.events)); got != want {
			t.Fatalf("state\n%s, folded from the beginning\n%s", got, want)
		}
	})
}

func TestStoredState_ContinuesLikeFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{brand: brand.New(domain), now: start, running: map[string]string{}}
		for range rapid.IntRange(1, 40).Draw(t, "commands") {
			h.step(t)
			if rapid.Bool().Draw(t, "reload") {
				var back brand.Brand
				if err := json.Unmarshal([]byte(stateOf(t, h.brand)), &back); err != nil {
					t.Fatalf("decode the state: %v", err)
				}
				if !reflect.DeepEqual(back.View(), h.brand.View()) {
					t.Fatalf("the view of the stored state is\n%+v, want\n%+v", back.View(), h.brand.View())
				}
				h.brand = &back
			}
		}
		if got, want := stateOf(t, h.brand), stateOf(t, fold(h.events)); got != want {
			t.Fatalf("state\n%s, folded from the beginning\n%s", got, want)
		}
	})
}

func TestRequestCrawl_RememberedFailure_NeedsForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{brand: brand.New(domain), now: start, running: map[string]string{}}
		for range rapid.IntRange(1, 30).Draw(t, "commands") {
			h.step(t)
			outcome, until, remembered := h.brand.Remembered(h.now)
			_, _, _, running := h.brand.Running()
			if !remembered || running {
				continue
			}
			var r *brand.RememberedError
			_, err := schedule("probe")(h.brand, h.now)
			if !errors.As(err, &r) || r.Outcome != outcome || !r.Until.Equal(until) {
				t.Fatalf("%s is remembered until %s, but a request returned %v", outcome, until, err)
			}
		}
	})
}
