package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"letterhead/eventschemas"
	"letterhead/internal/broker"
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

// reader copies one topic.
type reader struct {
	*Relay
	topic Topic
	begun bool              // at and saved are known
	at    eventlog.Position // everything up to it is safely in the broker
	saved eventlog.Position // position of the checkpoint
	past  bool              // the checkpoint is still past the log, and must be reset to saved
	due   time.Time         // of the next save
}

func (r *Relay) newReader(topic Topic) *reader {
	topic.MaxRetryAfter = cmp.Or(topic.MaxRetryAfter, maxRetryAfter)
	if topic.To == nil {
		topic.To = r.to
	}
	topic.Batch = cmp.Or(topic.Batch, maxBatch)
	return &reader{Relay: r, topic: topic}
}

// keep copies the topic, retrying after failures.
func (r *reader) keep(ctx context.Context) error {
	defer r.saveAtLast(ctx)
	first := min(r.cfg.RetryAfter, r.topic.MaxRetryAfter)
	wait, said := first, ""
	for {
		before := r.at
		err := r.copy(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if permanent(err) {
			return fmt.Errorf("relay %s: %w", r.topic.Name, err)
		}
		r.failures.WithLabelValues(r.topic.Name).Inc()
		if r.at > before {
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

// begin determines from where to read. Later failures do not load the checkpoint again, because it may
// be older than the published position.
func (r *reader) begin(ctx context.Context) error {
	saved, _, err := r.checkpoints.Load(ctx, r.topic.Checkpoint())
	if err != nil {
		return fmt.Errorf("load checkpoint: %w", err)
	}
	head, err := r.log.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the head of the log: %w", err)
	}
	if saved > head {
		// The log was replaced by an older one. Waiting until it is as long would lose the events until then.
		r.cfg.Logger.Warn("the checkpoint is past the log; the relay begins at the log's head", "topic", r.topic.Name,
			"checkpoint", saved, "head", head)
		saved, r.past = head, true
	}
	r.begun, r.at, r.saved, r.due = true, saved, saved, time.Now().Add(r.cfg.SaveEvery)
	return nil
}

// resetCheckpoint resets a checkpoint that is past the log before anything is read: otherwise the next leader
// would begin at a later head and skip the events until then.
func (r *reader) resetCheckpoint(ctx context.Context) error {
	if !r.past {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	if err := r.checkpoints.Reset(ctx, r.topic.Checkpoint(), r.saved); err != nil {
		return fmt.Errorf("reset checkpoint to position %d: %w", r.saved, err)
	}
	r.past = false
	return nil
}

// copy reads the log and publishes, until an error occurs or ctx ends.
func (r *reader) copy(ctx context.Context) error {
	if !r.begun {
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	if err := r.resetCheckpoint(ctx); err != nil {
		return err
	}
	subscription, err := r.log.Subscribe(ctx, r.at, r.topic.Filter)
	if err != nil {
		return fmt.Errorf("subscribe after position %d: %w", r.at, err)
	}
	defer subscription.Close()
	for {
		batch, err := subscription.Next(ctx)
		if err != nil {
			return fmt.Errorf("read after position %d: %w", r.at, err)
		}
		if err := r.publish(ctx, batch.Events); err != nil {
			return err
		}
		r.at = max(r.at, batch.Position)
		r.position.WithLabelValues(r.topic.Name).Set(float64(r.at))
		if !time.Now().Before(r.due) {
			r.save(ctx)
		}
		if batch.Live && len(batch.Events) > 0 {
			if err := delay.For(ctx, r.topic.Gather); err != nil {
				return err
			}
		}
	}
}

// save saves the position if it has changed. After a failure a later save makes up for it: until then
// a crash repeats more messages, and none is lost.
func (r *reader) save(ctx context.Context) {
	if r.at <= r.saved {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	if err := r.checkpoints.Save(ctx, r.topic.Checkpoint(), r.at); err != nil {
		r.due = time.Now().Add(max(r.cfg.SaveEvery, saveAgainAfter))
		r.cfg.Logger.Warn("the position of a relay could not be saved", "topic", r.topic.Name,
			"position", r.at, "error", err)
		return
	}
	r.saved, r.due = r.at, time.Now().Add(r.cfg.SaveEvery)
}

// saveAtLast saves at the end of Run, so that the next start repeats nothing.
func (r *reader) saveAtLast(ctx context.Context) { r.save(context.WithoutCancel(ctx)) }

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
		r.at = upTo
		return nil
	}
	looked := r.at
	for _, ev := range events {
		m, ok, err := r.topic.Message(ev)
		if err != nil {
			if err := flush(looked); err != nil { // earlier messages need not wait
				return err
			}
			if err := r.skip(ev, err); err != nil {
				return err
			}
			looked = r.at
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
	r.at = ev.Position
	return nil
}
