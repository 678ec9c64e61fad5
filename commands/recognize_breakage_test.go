package commands

import (
	"testing"
	"testing/synctest"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// The request that is repeated after an unknown outcome returns what it has removed.
func TestRecognizeBreakage_OutcomeUnknown_RepeatReturnsItsCredits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.writer(AccountWriterConfig{Config: streamwriter.Config{KnowWithin: time.Millisecond}})
		id := w.opened(d, 100)
		w.ok(d.Close(t.Context(), CloseAccount{Request: w.request(), AccountID: id, Reason: "bye"}))
		in := RecognizeBreakage{Request: w.request(), AccountID: id, Policy: "terms"}
		w.log.set(func(f *faults) { f.after = func(sentAppend, error) error { return ambiguous() } })
		w.fails(ErrUnknownOutcome)(d.RecognizeBreakage(t.Context(), in))
		w.log.set(func(f *faults) { f.after = nil })
		for range 2 {
			if done, err := d.RecognizeBreakage(t.Context(), in); err != nil || done.Credits != plan.FreeCredits+100 || !done.Repeated {
				t.Errorf("the same request: %+v, %v, want %d credits", done, err, plan.FreeCredits+100)
			}
		}
		in.Request = w.request()
		if done, err := d.RecognizeBreakage(t.Context(), in); err != nil || done.Credits != 0 || !done.Repeated {
			t.Errorf("another request: %+v, %v, want no credits", done, err)
		}
		_, events := w.events(id)
		if last, ok := events[len(events)-1].(eventschemas.BreakageRecognized); !ok || last.Credits != plan.FreeCredits+100 || w.ledger(id).balance != 0 {
			t.Errorf("events %+v", events)
		}
	})
}
