package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"letterhead/eventschemas"
	"letterhead/internal/broker"
	"letterhead/internal/checkpoint"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// Run copies all topics until ctx ends, then returns nil. A topic that fails continues where it was,
// after a growing wait. An error that waiting cannot cure ends all topics.
//
// Errors: eventlog.ErrClosed, broker.ErrClosed; eventschemas.ErrUnknownType and ErrUnknownVersion if
// the log was written by a newer release.
func (r *Relay) Run(ctx context.Context) error {
	// Half a relay would look healthy, so the first topic that ends stops the others.
	group, ctx := errgroup.WithContext(ctx)
	for _, topic := range r.cfg.Topics {
		group.Go(func() error {
			// A new reader each time: another leader may have moved the checkpoint.
			return r.cfg.Lead(ctx, topic.Checkpoint(),
				func(ctx context.Context) error { return r.newReader(topic).keep(ctx) })
		})
	}
	return group.Wait()
}

type reader struct {
	*Relay
	topic Topic
	done  checkpoint.Checkpoint // everything up to it is safely in the broker
}

func (r *Relay) newReader(topic Topic) *reader {
	topic.MaxRetryAfter = cmp.Or(topic.MaxRetryAfter, maxRetryAfter)
	if topic.To == nil {
		topic.To = r.to
	}
	topic.Batch = cmp.Or(topic.Batch, maxBatch)
	return &reader{r, topic, checkpoint.Checkpoint{Name: topic.Checkpoint(), Store: r.checkpoints,
		Every: r.cfg.SaveEvery, Logger: r.cfg.Logger}}
}

// keep copies the topic, retrying after failures.
func (r *reader) keep(ctx context.Context) error {
	defer r.done.SaveAtLast(ctx)
	first := min(r.cfg.RetryAfter, r.topic.MaxRetryAfter)
	wait, said := first, ""
	for {
		before := r.done.At
		err := r.copy(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if permanent(err) {
			return fmt.Errorf("relay %s: %w", r.topic.Name, err)
		}
		r.failures.WithLabelValues(r.topic.Name).Inc()
		if r.done.At > before {
			wait, said = first, "" // progress was made in the meantime
		}
		level := slog.LevelDebug
		if text := err.Error(); text != said && !errors.Is(err, broker.ErrUnavailable) { // repeats say nothing new
			level, said = slog.LevelError, text
		}
		r.cfg.Logger.Log(ctx, level, "relay starts again", "topic", r.topic.Name, "wait", wait, "error", err)
		if delay.For(ctx, delay.Jittered(wait)) != nil {
			return nil
		}
		wait = min(2*wait, r.topic.MaxRetryAfter)
	}
}

// permanent reports whether retrying cannot help.
func permanent(err error) bool {
	return errors.Is(err, eventlog.ErrClosed) || errors.Is(err, broker.ErrClosed) ||
		errors.Is(err, eventschemas.ErrUnknownType) || errors.Is(err, eventschemas.ErrUnknownVersion)
}

// copy reads the log and publishes, until an error occurs or ctx ends.
func (r *reader) copy(ctx context.Context) error {
	if err := r.done.Begin(ctx, r.log); err != nil {
		return err
	}
	subscription, err := r.log.Subscribe(ctx, r.done.At, r.topic.Filter)
	if err != nil {
		return fmt.Errorf("subscribe after position %d: %w", r.done.At, err)
	}
	defer subscription.Close()
	for {
		batch, err := subscription.Next(ctx)
		if err != nil {
			return fmt.Errorf("read after position %d: %w", r.done.At, err)
		}
		if err := r.publish(ctx, batch.Events); err != nil {
			return err
		}
		r.done.At = max(r.done.At, batch.Position)
		r.position.WithLabelValues(r.topic.Name).Set(float64(r.done.At))
		r.done.SaveInTime(ctx)
		if batch.Live && len(batch.Events) > 0 {
			if err := delay.For(ctx, r.topic.Gather); err != nil {
				return err
			}
		}
	}
}

// publish sends a batch's messages to the broker, some at a time, and advances the position after each
// part that is safe there.
func (r *reader) publish(ctx context.Context, events []eventlog.Recorded) error {
	var part []broker.Message
	bytes := 0
	flush := func(upTo eventlog.Position) error {
		if len(part) > 0 {
			if err := r.topic.To.Publish(ctx, r.topic.Name, part...); err != nil {
				return fmt.Errorf("publish up to position %d: %w", upTo, err)
			}
			r.published.WithLabelValues(r.topic.Name).Add(float64(len(part)))
			part, bytes = part[:0], 0
		}
		r.done.At = upTo
		return nil
	}
	looked := r.done.At
	for _, ev := range events {
		m, ok, err := r.topic.Message(ev)
		if err != nil {
			if err := flush(looked); err != nil { // earlier messages need not wait
				return err
			}
			if err := r.skip(ev, err); err != nil {
				return err
			}
			looked = r.done.At
			continue
		}
		looked = ev.Position
		if ok {
			part = append(part, m)
			bytes += len(m.Payload)
		}
		if len(part) == r.topic.Batch || bytes >= maxBytes {
			if err := flush(looked); err != nil {
				return err
			}
		}
	}
	return flush(looked)
}

// skip advances past an event that no release can read, and returns the error of any other.
func (r *reader) skip(ev eventlog.Recorded, err error) error {
	if !errors.Is(err, eventschemas.ErrDamaged) {
		return fmt.Errorf("%s at position %d: %w", ev.Type, ev.Position, err)
	}
	r.cfg.Logger.Error("a damaged event is skipped", "topic", r.topic.Name, "stream", ev.Stream,
		"revision", ev.Revision, "error", err)
	r.skipped.WithLabelValues(r.topic.Name).Inc()
	r.done.At = ev.Position
	return nil
}
