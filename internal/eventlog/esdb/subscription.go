package esdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

const (
	// subscriptionPage bounds the events of one batch.
	subscriptionPage = 4096
	// deliveryEvents and deliveryBytes bound one delivery of the pump, except one of poll (pollPage, maxPageBytes).
	deliveryEvents = 512
	deliveryBytes  = 4 << 20
	// subscriptionBuffer is the number of deliveries that may wait for Next. While it is full nothing is
	// received, and the server waits or lets the subscription fall behind.
	subscriptionBuffer = 4
	// A failed subscription is retried after a delay that doubles from the first to the last.
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
	// failedRetry is the delay at which a failing subscription is logged: once for each outage of the store.
	failedRetry = 32 * firstRetry
	// gapGrace is how long a subscription that has just become live, and is behind the log's end, may
	// receive nothing before it is reopened.
	gapGrace = 250 * time.Millisecond
	// A subscription that was too slow while live reads pages at this interval until calmPages in a row have fewer
	// than calmEvents, which a live subscription can wait for in the server.
	pollEvery  = 25 * time.Millisecond
	pollPage   = 2048
	calmEvents = 32
	calmPages  = 8
)

// subscription follows the log permanently: the client's subscriptions never reconnect, so when one ends another is
// opened at the same position. Each reads the past with a wide search window and then follows with a narrow one.
type subscription struct {
	log    *Log
	filter eventlog.Filter
	ch     chan delivery
	ctx    context.Context // canceled by Close of the subscription or of the log
	cancel context.CancelFunc

	// The content of the last delivery; used only by the pump.
	at   eventlog.Position
	live bool

	pending *delivery // received from ch but not yet returned; used only by Next
	failed  error     // what Next returns from now on
}

// delivery is a batch, or the final error.
type delivery struct {
	eventlog.Batch
	err error
}

func (l *Log) Subscribe(ctx context.Context, after eventlog.Position,
	filter eventlog.Filter) (eventlog.Subscription, error) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if err := l.usable(ctx, "subscribe"); err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(l.closing)
	s := &subscription{log: l, filter: filter, ch: make(chan delivery, subscriptionBuffer), ctx: life,
		cancel: cancel, at: after}
	l.pumps.Go(func() {
		s.pump()
	})
	return s, nil
}

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

func (s *subscription) Close() error {
	s.cancel()
	return nil
}

// pump fills the channel until the subscription ends or an event cannot be read.
func (s *subscription) pump() {
	retry := firstRetry
	for s.ctx.Err() == nil {
		began, opened := s.at, time.Now()
		err := s.run()
		switch {
		case s.ctx.Err() != nil:
			return
		case errors.Is(err, errNotOurs):
			s.deliver(delivery{err: readError(s.ctx, "follow the log", err)})
			return
		case errors.Is(err, errMissedEvents):
			continue
		}
		s.log.metrics.resumes.Inc()
		s.log.cfg.Logger.Debug("EventStoreDB subscription continues", "position", s.at, "after", err)
		if errors.Is(err, errFellBehind) {
			continue
		}
		if s.at > began || time.Since(opened) > lastRetry {
			retry = firstRetry
		}
		if retry == failedRetry {
			s.log.cfg.Logger.Warn("EventStoreDB subscription is interrupted; it is retried until it continues",
				"position", s.at, "error", err)
		}
		_ = delay.For(s.ctx, retry)
		retry = min(2*retry, lastRetry)
	}
}

// deliver returns false if the subscription has ended.
func (s *subscription) deliver(d delivery) bool { return delay.Send(s.ctx, s.ch, d) == nil }

// errMissedEvents ends a live subscription that may wait for events that were skipped while it was opened.
var errMissedEvents = errors.New("the subscription is behind the end of the log and receives nothing")

// run follows the log on one member until an error occurs.
func (s *subscription) run() error {
	m, err := s.log.supervisor.acquire(s.ctx)
	if err != nil {
		return err
	}
	defer m.release()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	began := time.Now()
	if !m.filters {
		err = s.follow(ctx, m, unfiltered)
	} else if err = s.follow(ctx, m, catchingUp); err == nil {
		err = s.follow(ctx, m, live)
	}
	if errors.Is(err, errFellBehind) && (s.filter.All() || !m.filters) { // reads have no filter
		if polled := s.poll(ctx, m); polled != nil {
			err = polled
		}
	}
	s.log.supervisor.judge(m, err, time.Since(began))
	return err
}

// poll delivers pages of the log until it grows slowly. While it grows fast the server would return a live
// subscription to catching up again and again, and each event would wake the reader.
func (s *subscription) poll(ctx context.Context, m *member) error {
	for calm := 0; calm < calmPages; {
		after := s.at
		page, err := callOn(ctx, s.log, m, func(ctx context.Context) (eventlog.Page, error) {
			return readPage(ctx, m, after, s.filter, pollPage)
		})
		if err != nil && !errors.Is(err, errNotOurs) {
			return err
		}
		m.markAlive()
		if !s.advance(delivery{Batch: eventlog.Batch{Events: page.Events, Position: page.Next, Live: page.End}}) {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		if calm++; len(page.Events) >= calmEvents {
			calm = 0
		}
		if page.End {
			if err := delay.For(ctx, pollEvery); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow delivers the events of one of the client's subscriptions: while catching up, until it has caught up.
func (s *subscription) follow(ctx context.Context, m *member, mode mode) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := s.log.follow(ctx, m, s.at, s.filter, mode)
	if err != nil {
		return err
	}
	gap := gapCheck{}
	for {
		if err := gap.wait(ctx, f); err != nil {
			return err
		}
		d, broken := s.gather(ctx, f)
		if broken != nil && !errors.Is(broken, errNotOurs) && !errors.Is(broken, errFellBehind) {
			return broken
		}
		if f.caught && mode == live && !gap.begun {
			if err := gap.begin(ctx, s.log, m); err != nil {
				return err
			}
		}
		d.Position, d.Live = f.at, f.caught
		if !s.advance(d) {
			return ctx.Err()
		}
		if broken != nil || f.caught && mode == catchingUp {
			return broken
		}
	}
}

// advance delivers, if there is anything new. It returns false if the subscription has ended.
func (s *subscription) advance(d delivery) bool {
	n := len(d.Events)
	if n == 0 && d.Position == s.at && d.Live == s.live {
		return true
	}
	var last eventlog.Mark // read before the events belong to the receiver
	if n > 0 {
		last = eventlog.MarkOf(&d.Events[n-1])
	}
	if !s.deliver(d) {
		return false
	}
	s.at, s.live = d.Position, d.Live
	if n > 0 {
		s.log.noteSeen(last)
	}
	return true
}

// gather takes the available messages, at least one, and stops after the one that reports that it has
// caught up. Messages before a connection error are not delivered, because they come again. Those before
// errNotOurs and errFellBehind are.
func (s *subscription) gather(ctx context.Context, f *follower) (delivery, error) {
	var d delivery
	bytes := 0
	for wait := true; ; wait = false {
		event, err := f.peek(ctx, wait)
		if err != nil || event == nil {
			return d, err
		}
		e, chosen, err := f.take(ctx, event)
		if err != nil {
			return d, err
		}
		if chosen {
			d.Events = append(d.Events, e)
			bytes += len(e.Data)
		}
		if len(d.Events) >= deliveryEvents || bytes >= deliveryBytes || event.CaughtUp != nil {
			return d, nil
		}
	}
}

// gapCheck handles events that were appended between the last read of the log's end and the start of a live
// subscription: the server silently skips those that are not selected. If the following messages do not
// reach the end, the subscription is reopened.
type gapCheck struct {
	begun bool
	until eventlog.Position
}

// begin records the end of the log after the subscription became active.
func (s *gapCheck) begin(ctx context.Context, l *Log, m *member) error {
	s.begun = true
	var err error
	s.until, err = l.lastPosition(ctx, m)
	return err
}

// wait waits for a message, for a limited time while the subscription has not reached the end.
func (s *gapCheck) wait(ctx context.Context, f *follower) error {
	if !s.begun || f.at >= s.until {
		s.until = 0
		return nil
	}
	timer := time.NewTimer(gapGrace)
	defer timer.Stop()
	select {
	case event := <-f.messages:
		f.held = event
		return nil
	case <-timer.C:
		return errMissedEvents
	case <-f.member.retired.Done():
		return errReplaced
	case <-ctx.Done():
		return ctx.Err()
	}
}

var _ eventlog.Subscription = (*subscription)(nil)
