package kurrent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"letterhead/internal/eventlog"
)

const (
	// subscriptionPage bounds the events of one batch, and of one page while catching up.
	subscriptionPage = 1000
	// subscriptionBuffer is how many deliveries may wait for Next. While it is full nothing is received,
	// and a server that loses patience drops the subscription, which then catches up again.
	subscriptionBuffer = 256
	// A subscription that failed tries again after a time that doubles from the first to the last.
	firstRetry = 20 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// subscription catches up with pages, then listens. The client's subscriptions never reconnect: when one
// is dropped it goes back to pages, from where it was.
type subscription struct {
	log    *Log
	filter eventlog.Filter
	ch     chan delivery
	ctx    context.Context // ends with Close of the subscription or of the log
	cancel context.CancelFunc

	pending *delivery // taken from ch, not yet delivered; belongs to Next
	failed  error     // what Next says from now on
}

// delivery is a batch, or the end.
type delivery struct {
	eventlog.Batch
	err error
}

// Subscribe implements eventlog.Log.
func (l *Log) Subscribe(ctx context.Context, after eventlog.Position, filter eventlog.Filter) (eventlog.Subscription, error) {
	if err := l.usable(ctx, "subscribe"); err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(l.closing)
	s := &subscription{log: l, filter: filter, ch: make(chan delivery, subscriptionBuffer), ctx: life, cancel: cancel}
	l.pumps.Add(1)
	go func() {
		defer l.pumps.Done()
		s.pump(after)
	}()
	return s, nil
}

// Next implements eventlog.Subscription.
func (s *subscription) Next(ctx context.Context) (eventlog.Batch, error) {
	if err := s.usable(ctx); err != nil {
		return eventlog.Batch{}, err
	}
	batch, err := s.first(ctx)
	if err != nil {
		return eventlog.Batch{}, err
	}
	for len(batch.Events) < subscriptionPage {
		select {
		case d := <-s.ch:
			if d.err != nil {
				s.pending = &d
				return batch, nil
			}
			batch.Events = append(batch.Events, d.Events...)
			batch.Position, batch.Live = d.Position, d.Live
		default:
			return batch, nil
		}
	}
	return batch, nil
}

func (s *subscription) usable(ctx context.Context) error {
	switch {
	case s.ctx.Err() != nil:
		return fmt.Errorf("subscription: %w", eventlog.ErrClosed)
	case s.failed != nil:
		return s.failed
	}
	return ctx.Err()
}

// first waits for a delivery.
func (s *subscription) first(ctx context.Context) (eventlog.Batch, error) {
	var d delivery
	switch {
	case s.pending != nil:
		d, s.pending = *s.pending, nil
	default:
		select {
		case d = <-s.ch:
		case <-ctx.Done():
			return eventlog.Batch{}, ctx.Err()
		case <-s.ctx.Done():
			return eventlog.Batch{}, fmt.Errorf("subscription: %w", eventlog.ErrClosed)
		}
	}
	s.failed = d.err
	return d.Batch, d.err
}

// Close implements eventlog.Subscription.
func (s *subscription) Close() error {
	s.cancel()
	return nil
}

// pump fills the channel until the subscription ends or an event cannot be read.
func (s *subscription) pump(at eventlog.Position) {
	retry := firstRetry
	for s.ctx.Err() == nil {
		began := at
		var err error
		if at, err = s.catchUp(at); err == nil {
			at, err = s.listen(at)
		}
		if errors.Is(err, eventlog.ErrCorrupt) {
			s.deliver(delivery{err: err})
			return
		}
		if at > began {
			retry = firstRetry
		}
		if s.ctx.Err() == nil {
			s.log.cfg.Logger.Info("EventStoreDB subscription goes on", "position", at, "after", err)
		}
		s.pause(retry)
		retry = min(2*retry, lastRetry)
	}
}

func (s *subscription) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
	}
}

// deliver returns false when the subscription has ended.
func (s *subscription) deliver(d delivery) bool {
	select {
	case s.ch <- d:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// catchUp reads pages up to the end. It returns how far it came.
func (s *subscription) catchUp(at eventlog.Position) (eventlog.Position, error) {
	for {
		page, err := s.log.ReadAll(s.ctx, at, s.filter, subscriptionPage)
		if err != nil {
			return at, err
		}
		if !s.deliver(delivery{Batch: eventlog.Batch{Events: page.Events, Position: page.Next, Live: page.End}}) {
			return at, s.ctx.Err()
		}
		at = page.Next
		if page.End {
			return at, nil
		}
	}
}

// listen follows the end of the log until it is dropped. It returns how far it came.
//
// It subscribes without a filter: a filtered one says how far it has looked only every so many events,
// and then who waits for a position would wait for events that never come.
func (s *subscription) listen(at eventlog.Position) (_ eventlog.Position, err error) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	in, err := s.open(ctx, at)
	if err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	for {
		event, err := receiveOne(in)
		switch {
		case err != nil:
			return at, err
		case event.SubscriptionDropped != nil:
			return at, event.SubscriptionDropped.Error
		case event.EventAppeared != nil:
			p := position(event.EventAppeared)
			if p <= at {
				continue
			}
			d := delivery{Batch: eventlog.Batch{Position: p, Live: true}}
			e, ours, err := fromClient(event.EventAppeared)
			if err != nil {
				return at, readError(s.ctx, "follow the log", err)
			}
			if ours && s.filter.Match(e.Stream, e.Type) {
				d.Events = []eventlog.Recorded{e}
			}
			if !s.deliver(d) {
				return at, s.ctx.Err()
			}
			at = p
		}
	}
}

// receiveOne waits for the next message of a subscription.
func receiveOne(in *esdb.Subscription) (event *esdb.SubscriptionEvent, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the EventStoreDB client panicked: %v", p)
		}
	}()
	return in.Recv(), nil
}

// open subscribes beside the pump, because the client does not look at the context while it connects.
func (s *subscription) open(ctx context.Context, at eventlog.Position) (*esdb.Subscription, error) {
	type opened struct {
		in  *esdb.Subscription
		err error
	}
	done := make(chan opened, 1)
	s.log.pumps.Add(1)
	go func() {
		defer s.log.pumps.Done()
		var o opened
		defer func() { done <- o }()
		defer func() {
			if p := recover(); p != nil {
				o.err = fmt.Errorf("the EventStoreDB client panicked: %v", p)
			}
		}()
		o.in, o.err = s.log.client.SubscribeToAll(ctx, esdb.SubscribeToAllOptions{From: startAt(at)})
	}()
	select {
	case o := <-done:
		return o.in, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var _ eventlog.Subscription = (*subscription)(nil)
