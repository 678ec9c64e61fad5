package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

const (
	// streamPage is the number of events per read of a stream.
	streamPage = 256
	// maxAttempts limits the attempts of a command that loses races for its stream. Few commands race for one: for a
	// brand, at most a request, a crawler and the sweeper.
	maxAttempts = 16
	// maxRepeats limits the repeats of an append of unknown outcome.
	maxRepeats = 5
	// backoff is the pause after the first lost race; it doubles, with jitter, up to maxBackoff.
	backoff    = 2 * time.Millisecond
	maxBackoff = 200 * time.Millisecond
)

// coldStreams appends to streams that are written rarely: each command reads its stream, decides, and appends at the
// revision that it read.
type coldStreams struct {
	log    eventlog.Log
	events eventschemas.Encoder
	now    func() time.Time
}

// streamEnd is the end of a stream as a command read it. It is zero for a stream without events.
type streamEnd struct {
	events   uint64
	at       time.Time // of the last event
	position eventlog.Position
}

func endOf(last *eventlog.Recorded) streamEnd {
	return streamEnd{last.Revision + 1, last.OccurredAt, last.Position}
}

// each calls apply for the events of a stream from one revision up to another, which is not before it.
func (s *coldStreams) each(ctx context.Context, stream string, from, upTo uint64,
	apply func(*eventlog.Recorded, eventschemas.Event)) error {
	for rec, err := range eventlog.Events(ctx, s.log, stream, from, eventlog.Forward, streamPage) {
		if err != nil {
			return fmt.Errorf("read %s: %w", stream, err)
		}
		ev, err := eventlog.Decode(rec, eventschemas.Decode)
		if err != nil {
			return fmt.Errorf("read %s at revision %d: %w", stream, rec.Revision, err)
		}
		if apply(rec, ev); rec.Revision == upTo {
			break
		}
	}
	return nil
}

// coldCommand is a command on one stream.
type coldCommand struct {
	stream  string
	request Request
	// key identifies the decision, so that a repeated append has the same events. If numbered is set, so does the
	// number of events before it.
	key      string
	numbered bool
	// settles is set if the command decides again after an append of unknown outcome: a decision that was appended is a
	// repeat then.
	settles bool
	read    func(ctx context.Context) (streamEnd, error)
	// decide returns the events to append, none for a repeat. It is called once after each read.
	decide func(now time.Time) ([]eventschemas.Event, error)
}

// do reads, decides and appends, and retries after a lost race.
//
// Errors: the decision's rejections; ErrBusy after too many lost races; eventschemas.ErrNotYet before an upgrade is
// finished; eventlog.ErrUnavailable, eventlog.ErrAmbiguous unless the command settles it, eventlog.ErrCorrupt,
// eventlog.ErrClosed, ctx.Err().
func (s *coldStreams) do(ctx context.Context, c *coldCommand) (Done, error) {
	pause := backoff
	for range maxAttempts {
		end, err := c.read(ctx)
		if err != nil {
			return Done{}, err
		}
		now := monotonic(s.now(), end.at)
		events, err := c.decide(now)
		if err != nil {
			return Done{}, err
		}
		if len(events) == 0 {
			return Done{Position: end.position, Repeated: true}, nil
		}
		appended, err := s.append(ctx, c, end.events, events, now)
		if err == nil {
			return Done{Position: appended.Position}, nil
		}
		if !errors.Is(err, eventlog.ErrWrongRevision) && (!c.settles || !errors.Is(err, eventlog.ErrAmbiguous)) {
			return Done{}, err
		}
		if err := delay.For(ctx, delay.Jittered(pause)); err != nil {
			return Done{}, err
		}
		pause = min(2*pause, maxBackoff)
	}
	return Done{}, fmt.Errorf("decide about %s: %d races lost: %w", c.stream, maxAttempts, ErrBusy)
}

// append appends events to a stream that has a number of them. It repeats the append while its outcome is unknown.
func (s *coldStreams) append(
	ctx context.Context, c *coldCommand, after uint64, events []eventschemas.Event, at time.Time,
) (eventlog.Appended, error) {
	key := c.key
	if c.numbered {
		key += "/" + strconv.FormatUint(after, 10)
	}
	proposed, err := propose(s.events, c.stream, events, c.request, key, at)
	if err != nil {
		return eventlog.Appended{}, err
	}
	pause := backoff
	for repeat := 0; ; repeat++ {
		appended, err := s.log.Append(ctx, c.stream, eventlog.After(after), proposed)
		if !errors.Is(err, eventlog.ErrAmbiguous) || repeat == maxRepeats || ctx.Err() != nil {
			return appended, err
		}
		if delay.For(ctx, pause) != nil {
			return appended, err
		}
		pause = min(2*pause, maxBackoff)
	}
}

// propose encodes the events of one decision.
func propose(
	encoder eventschemas.Encoder, stream string, events []eventschemas.Event, request Request, key string, at time.Time,
) ([]eventlog.Proposed, error) {
	metadata := eventlog.Metadata{
		RequestID: request.ID, Actor: request.Actor,
		CorrelationID: cmp.Or(request.CorrelationID, request.ID), CausationID: request.CausationID,
	}
	proposed := make([]eventlog.Proposed, len(events))
	for i, ev := range events {
		var err error
		if proposed[i], err = Proposal(encoder, stream, key, ev, at, metadata); err != nil {
			return nil, fmt.Errorf("encode %s for %s: %w", ev.EventType(), stream, err)
		}
	}
	return proposed, nil
}

// Proposal returns an event to append to a stream. The key identifies the decision behind the event, so that a repeated
// append has the same event. Errors: as eventschemas.Encoder.Encode.
func Proposal(
	encoder eventschemas.Encoder, stream, key string, ev eventschemas.Event, at time.Time, metadata eventlog.Metadata,
) (eventlog.Proposed, error) {
	enc, err := encoder.Encode(ev)
	return eventlog.Proposed{
		ID: eventschemas.EventID(stream, key, enc.Type, ""), Type: enc.Type, SchemaVersion: enc.SchemaVersion,
		OccurredAt: at.UTC().Truncate(time.Microsecond), Data: enc.Data, Metadata: metadata,
	}, err
}

// monotonic returns the time of an event: whole microseconds, never before the preceding event.
func monotonic(now, last time.Time) time.Time {
	now = now.UTC().Truncate(time.Microsecond)
	if now.Before(last) {
		return last
	}
	return now
}
