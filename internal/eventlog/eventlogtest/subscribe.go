package eventlogtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"letterhead/internal/eventlog"
)

// RunSubscribe tests that a subscription delivers every event once and in order: first existing events, then new ones.
func RunSubscribe(t *testing.T, open Open) {
	for name, test := range map[string]func(*fixture){
		"an empty log is live immediately":           subscribeEmpty,
		"from every position":                        subscribeFromEverywhere,
		"filters, and advancing positions":           subscribeFiltered,
		"from every position with writers":           subscribeWithWriters,
		"continues after a canceled context":         subscribeContext,
		"closed":                                     subscribeClosed,
		"closed while waiting":                       subscribeClosedWaiting,
		"closing the log ends waiting subscriptions": subscribeLogClosed,
		"starts after the end and waits for more":    subscribeBeyond,
	} {
		t.Run(name, func(t *testing.T) { test(start(t, open)) })
	}
}

// follower collects the batches of a subscription and checks each of them.
type follower struct {
	*fixture
	what string
	sub  eventlog.Subscription
	at   eventlog.Position
	got  []eventlog.Recorded
	live bool
}

func (f *fixture) follow(what string, after eventlog.Position, filter eventlog.Filter) *follower {
	f.t.Helper()
	sub, err := f.log.Subscribe(f.ctx, after, filter)
	if err != nil {
		f.t.Fatalf("%s: subscribe after %d: %v", what, after, err)
	}
	return &follower{fixture: f, what: what, sub: sub, at: after}
}

func (f *follower) close() {
	f.t.Helper()
	if err := f.sub.Close(); err != nil {
		f.t.Errorf("%s: close: %v", f.what, err)
	}
}

// next takes one batch. It reports a failure and returns false instead of ending the test, because
// followers run in goroutines.
func (f *follower) next() bool {
	f.t.Helper()
	batch, err := f.sub.Next(f.ctx)
	if err != nil {
		f.t.Errorf("%s: next after %d: %v", f.what, f.at, err)
		return false
	}
	at := f.at
	for _, e := range batch.Events {
		if e.Position <= at {
			f.t.Errorf("%s: position %d after %d", f.what, e.Position, at)
			return false
		}
		at = e.Position
	}
	if batch.Position < at {
		f.t.Errorf("%s: a batch with events up to %d has position %d", f.what, at, batch.Position)
		return false
	}
	f.at, f.live = batch.Position, batch.Live
	f.got = append(f.got, batch.Events...)
	return true
}

// until takes batches until the subscription has reached a position.
func (f *follower) until(position eventlog.Position) bool {
	f.t.Helper()
	for f.at < position {
		if !f.next() {
			return false
		}
	}
	return true
}

// untilLive takes batches until the subscription reports that it has reached the end.
func (f *follower) untilLive() bool {
	f.t.Helper()
	for {
		if !f.next() {
			return false
		}
		if f.live {
			return true
		}
	}
}

// end takes batches until the subscription ends, and returns its error. Batches without events are normal
// until then: others may write to the server, which moves the position.
func (f *follower) end(ctx context.Context) error {
	for {
		batch, err := f.sub.Next(ctx)
		if err != nil {
			return err
		}
		if len(batch.Events) > 0 {
			return fmt.Errorf("%s: %d more events", f.what, len(batch.Events))
		}
		f.at = batch.Position
	}
}

func subscribeEmpty(f *fixture) {
	s := f.follow("empty log", 0, eventlog.Filter{})
	defer s.close()
	if !s.untilLive() || len(s.got) != 0 {
		f.t.Fatalf("%d events of an empty log", len(s.got))
	}
	for n := range uint64(20) {
		appended := f.append("s", eventlog.After(n), n+1)
		s.until(appended.Position)
		if len(s.got) != int(n)+1 || s.got[n].ID != id(n+1) {
			f.t.Fatalf("after %d appends %d events were delivered", n+1, len(s.got))
		}
	}
	same(f.t, "delivered", s.got, f.stream("s"))
}

func subscribeFromEverywhere(f *fixture) {
	f.mixed()
	whole := f.all(0, eventlog.Filter{}, eventlog.MaxPage)
	head := f.head()
	for i := range whole {
		s := f.follow(fmt.Sprintf("after event %d", i), whole[i].Position, eventlog.Filter{})
		s.untilLive()
		same(f.t, s.what, s.got, whole[i+1:])
		if s.at < head {
			f.t.Errorf("%s: live at %d, before the head at %d", s.what, s.at, head)
		}
		s.close()
	}
}

func subscribeFiltered(f *fixture) {
	f.mixed()
	var all []*follower
	for _, filter := range filters {
		s := f.follow(fmt.Sprintf("%+v", filter), 0, filter)
		defer s.close()
		s.untilLive()
		all = append(all, s)
	}
	f.append("brand-late.com", eventlog.NoStream(), 1001)
	appended := f.append("account-1", eventlog.After(uint64(len(f.stream("account-1")))), 1002)
	whole := f.all(0, eventlog.Filter{}, eventlog.MaxPage)
	for i, s := range all {
		// A subscription whose filter selects nothing also gets there.
		s.until(appended.Position)
		same(f.t, s.what, s.got, choose(filters[i], whole))
	}
}

func subscribeWithWriters(f *fixture) {
	const writers, perWriter, followers = 4, 120, 12
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() { f.writeMany(w, perWriter) })
	}
	// Followers begin at the start, in the middle, and at the end, while writers append; each must see
	// every later event, up to one that is appended after all writers have ended.
	followed := make([]*follower, followers)
	begins := make([]eventlog.Position, followers)
	var reading sync.WaitGroup
	for i := range followers {
		switch i % 3 {
		case 1:
			if there := f.all(0, eventlog.Filter{}, eventlog.MaxPage); len(there) > 0 {
				begins[i] = there[rand.IntN(len(there))].Position
			}
		case 2:
			begins[i] = f.head()
		}
		s := f.follow(fmt.Sprintf("follower %d after %d", i, begins[i]), begins[i], eventlog.Filter{})
		followed[i] = s
		reading.Go(func() {
			for !s.sawLast() && s.next() {
			}
		})
	}
	work.Wait()
	last := event(1 << 60)
	last.Type = lastType
	if _, err := f.log.Append(f.ctx, "end", eventlog.NoStream(), []eventlog.Proposed{last}); err != nil {
		f.t.Error(err)
	}
	reading.Wait()
	whole := f.all(0, eventlog.Filter{}, 1000)
	if len(whole) != writers*perWriter+1 {
		f.t.Errorf("the log holds %d events, want %d", len(whole), writers*perWriter+1)
	}
	for i, s := range followed {
		from := 0
		for from < len(whole) && whole[from].Position <= begins[i] {
			from++
		}
		same(f.t, s.what, s.got, whole[from:])
		s.close()
	}
}

const lastType = "Ended"

func (f *follower) sawLast() bool {
	return len(f.got) > 0 && f.got[len(f.got)-1].Type == lastType
}

// writeMany appends that many events to its own stream, in appends of one to three.
func (f *fixture) writeMany(w, count int) {
	stream := fmt.Sprintf("writer-%d", w)
	at := uint64(0)
	for at < uint64(count) {
		var batch []eventlog.Proposed
		for range min(1+rand.Uint64N(3), uint64(count)-at) {
			batch = append(batch, event(uint64(w)<<32|(at+uint64(len(batch)))+1))
		}
		if _, err := f.log.Append(f.ctx, stream, eventlog.After(at), batch); err != nil {
			f.t.Errorf("%s: %v", stream, err)
		}
		at += uint64(len(batch))
	}
}

func subscribeContext(f *fixture) {
	f.append("s", eventlog.NoStream(), 1)
	s := f.follow("ended context", 0, eventlog.Filter{})
	defer s.close()
	s.untilLive()

	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	if _, err := s.sub.Next(ended); !errors.Is(err, context.Canceled) {
		f.t.Errorf("next with a canceled context: %v", err)
	}
	waiting, stop := context.WithCancel(f.ctx)
	failed := make(chan error, 1)
	go func() { failed <- s.end(waiting) }()
	stop()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		f.t.Errorf("next whose context ended: %v", err)
	}
	appended := f.append("s", eventlog.Exact(0), 2, 3)
	s.until(appended.Position)
	same(f.t, "after ended contexts", s.got, f.stream("s"))
}

func subscribeClosed(f *fixture) {
	f.append("s", eventlog.NoStream(), 1)
	s := f.follow("closed", 0, eventlog.Filter{})
	s.close()
	if _, err := s.sub.Next(f.ctx); !errors.Is(err, eventlog.ErrClosed) {
		f.t.Errorf("next on a closed subscription: %v", err)
	}
	s.close()
	f.append("s", eventlog.Exact(0), 2) // the log continues
}

func subscribeClosedWaiting(f *fixture) {
	s := f.follow("closed while waiting", 0, eventlog.Filter{})
	s.untilLive()
	ended := make(chan error, 1)
	go func() { ended <- s.end(f.ctx) }()
	s.close()
	if err := <-ended; !errors.Is(err, eventlog.ErrClosed) {
		f.t.Errorf("next: %v, want %q", err, eventlog.ErrClosed)
	}
}

func subscribeLogClosed(f *fixture) {
	const followers = 5
	ended := make(chan error, followers)
	for i := range followers {
		s := f.follow(fmt.Sprintf("follower %d", i), 0, eventlog.Filter{})
		s.untilLive()
		go func() { ended <- s.end(f.ctx) }()
	}
	if err := f.log.Close(); err != nil {
		f.t.Fatal(err)
	}
	for range followers {
		if err := <-ended; !errors.Is(err, eventlog.ErrClosed) {
			f.t.Errorf("next: %v, want %q", err, eventlog.ErrClosed)
		}
	}
}

func subscribeBeyond(f *fixture) {
	f.append("s", eventlog.NoStream(), 1, 2)
	s := f.follow("after the end", f.head(), eventlog.Filter{})
	defer s.close()
	if !s.untilLive() || len(s.got) != 0 {
		f.t.Fatalf("%d events from before the subscription", len(s.got))
	}
	appended := f.append("t", eventlog.NoStream(), 3)
	s.until(appended.Position)
	same(f.t, s.what, s.got, f.stream("t"))
}
