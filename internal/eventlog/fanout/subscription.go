package fanout

import (
	"context"
	"fmt"
	"sync"

	"letterhead/internal/eventlog"
)

// subscription reads through its own subscription until that is live, and then from the shared reader.
type subscription struct {
	log    *Log
	filter eventlog.Filter
	life   context.Context // canceled by Close of the subscription or of the log
	end    context.CancelFunc

	// Used only by Next.
	at   eventlog.Position
	live bool

	mu  sync.Mutex
	own eventlog.Subscription // nil after it has joined
}

func (s *subscription) Next(ctx context.Context) (eventlog.Batch, error) {
	for {
		if s.life.Err() != nil {
			return eventlog.Batch{}, fmt.Errorf("subscription: %w", eventlog.ErrClosed)
		}
		if err := ctx.Err(); err != nil {
			return eventlog.Batch{}, err
		}
		kept, changed, ok := s.log.recent.after(s.at)
		own := s.reader()
		switch {
		case own != nil && !(ok && s.live):
			batch, done, err := s.read(ctx, own, changed)
			if done {
				return batch, err
			}
		case own != nil:
			s.leave()
		case !ok:
			if err := s.fallBack(ctx); err != nil {
				return eventlog.Batch{}, err
			}
		case kept.Position > s.at || kept.Live != s.live:
			kept.Events = choose(s.filter, kept.Events)
			s.at, s.live = kept.Position, kept.Live
			return kept, nil
		default:
			select {
			case <-changed:
			case <-ctx.Done():
			case <-s.life.Done():
			}
		}
	}
}

// read takes a batch from the subscription's own reader. Once that is live, read also returns when the
// shared reader advances, because the two may have met; it then reports done as false.
func (s *subscription) read(ctx context.Context, own eventlog.Subscription,
	changed <-chan struct{}) (batch eventlog.Batch, done bool, err error) {
	waiting := ctx
	if s.live {
		var cancel context.CancelFunc
		waiting, cancel = context.WithCancel(ctx)
		defer cancel()
		read := make(chan struct{})
		defer close(read)
		go func() {
			select {
			case <-changed:
				cancel()
			case <-read:
			}
		}()
	}
	batch, err = own.Next(waiting)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return batch, false, nil
	}
	if err == nil {
		s.at, s.live = batch.Position, batch.Live
	}
	return batch, true, err
}

// choose returns the events that a filter selects.
func choose(filter eventlog.Filter, events []eventlog.Recorded) []eventlog.Recorded {
	if filter.All() {
		return events
	}
	var chosen []eventlog.Recorded
	for _, e := range events {
		if filter.Match(e.Stream, e.Type) {
			chosen = append(chosen, e)
		}
	}
	return chosen
}

func (s *subscription) reader() eventlog.Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own
}

// leave closes the own subscription.
func (s *subscription) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != nil {
		_ = s.own.Close() // Close of a subscription always returns nil
		s.own = nil
		s.log.open.Dec()
	}
}

// fallBack opens an own subscription at the current position, because the shared reader has dropped the next events.
func (s *subscription) fallBack(ctx context.Context) error {
	own, err := s.log.Log.Subscribe(ctx, s.at, s.filter)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil { // closed meanwhile
		_ = own.Close() // Close of a subscription always returns nil
		return fmt.Errorf("subscription: %w", eventlog.ErrClosed)
	}
	s.own, s.live = own, false
	s.log.open.Inc()
	return nil
}

func (s *subscription) Close() error {
	s.end()
	s.leave()
	return nil
}
