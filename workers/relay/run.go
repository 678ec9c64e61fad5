package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"letterhead/internal/broker"
	"letterhead/internal/eventlog"
)

// Run copies all lanes until ctx ends, then returns nil. A lane that fails is taken up again where it was
// saved, after a growing wait. A closed log or broker ends Run with eventlog.ErrClosed or
// broker.ErrClosed.
func (r *Relay) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(r.cfg.Lanes))
	for i, lane := range r.cfg.Lanes {
		wg.Go(func() { errs[i] = r.keep(ctx, lane) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// keep copies one lane, again and again.
func (r *Relay) keep(ctx context.Context, lane Lane) error {
	wait := r.cfg.RetryAfter
	for {
		began := time.Now()
		err := r.copy(ctx, lane)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, eventlog.ErrClosed) || errors.Is(err, broker.ErrClosed) {
			return fmt.Errorf("relay %s: %w", lane.Topic, err)
		}
		r.failures.WithLabelValues(lane.Topic).Inc()
		if time.Since(began) > maxRetryAfter {
			wait = r.cfg.RetryAfter // it went well for a while
		}
		r.cfg.Logger.Error("relay starts again", "lane", lane.Topic, "wait", wait, "error", err)
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		wait = min(2*wait, maxRetryAfter)
	}
}

// copy reads the log from the saved position on and publishes, until something fails or ctx ends.
func (r *Relay) copy(ctx context.Context, lane Lane) (err error) {
	saved, _, err := r.checkpoints.Load(ctx, lane.Checkpoint())
	if err != nil {
		return fmt.Errorf("load checkpoint: %w", err)
	}
	subscription, err := r.log.Subscribe(ctx, saved, lane.Filter)
	if err != nil {
		return fmt.Errorf("subscribe after position %d: %w", saved, err)
	}
	defer subscription.Close()
	at := saved
	defer func() {
		if at > saved { // not lost to a clean end
			saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
			defer cancel()
			err = errors.Join(err, r.checkpoints.Save(saving, lane.Checkpoint(), at))
		}
	}()
	lastSave := time.Now()
	for {
		batch, err := subscription.Next(ctx)
		if err != nil {
			return fmt.Errorf("read after position %d: %w", at, err)
		}
		if err := r.publish(ctx, lane, batch.Events, &at); err != nil {
			return err
		}
		at = max(at, batch.Position)
		r.position.WithLabelValues(lane.Topic).Set(float64(at))
		if at > saved && time.Since(lastSave) >= r.cfg.SaveEvery {
			if err := r.checkpoints.Save(ctx, lane.Checkpoint(), at); err != nil {
				return fmt.Errorf("save checkpoint: %w", err)
			}
			saved, lastSave = at, time.Now()
		}
	}
}

// publish hands a batch's messages to the broker, some at a time, and moves at behind each part that is
// safe there.
func (r *Relay) publish(ctx context.Context, lane Lane, events []eventlog.Recorded, at *eventlog.Position) error {
	var part []broker.Message
	flush := func(upTo eventlog.Position) error {
		if len(part) > 0 {
			if err := r.to.Publish(ctx, lane.Topic, part...); err != nil {
				return fmt.Errorf("publish up to position %d: %w", upTo, err)
			}
			r.published.WithLabelValues(lane.Topic).Add(float64(len(part)))
			part = part[:0]
		}
		*at = upTo
		return nil
	}
	for i, ev := range events {
		m, ok, err := lane.Message(ev)
		if err != nil {
			return errors.Join(err, flushed(flush, events, i))
		}
		if ok {
			part = append(part, m)
		}
		if len(part) == maxBatch {
			if err := flush(ev.Position); err != nil {
				return err
			}
		}
	}
	return flushed(flush, events, len(events))
}

// flushed publishes what stands before the nth event.
func flushed(flush func(eventlog.Position) error, events []eventlog.Recorded, n int) error {
	if n == 0 {
		return nil
	}
	return flush(events[n-1].Position)
}
