package commands

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// Limits of the brand commands.
const (
	// maxBrandAttempts limits the attempts of a brand command that loses races for its stream. At most
	// a request, a crawler and the sweeper race for one brand.
	maxBrandAttempts = 16
	// maxBrandRepeats limits the repeats of an append of unknown outcome.
	maxBrandRepeats = 5
	// brandBackoff is the pause after the first lost race; it doubles, with jitter, up to maxBrandBackoff.
	brandBackoff    = 2 * time.Millisecond
	maxBrandBackoff = 200 * time.Millisecond
	// brandPage is the number of events of a brand stream per read.
	brandPage = 256
)

// BrandsConfig configures the brand commands.
type BrandsConfig struct {
	// Events is as in AccountWriterConfig.
	Events eventschemas.Encoder
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Brands implements the use cases of brands. Brand streams are cold: each command folds the stream,
// decides, and appends at the revision that it folded.
type Brands struct {
	log    eventlog.Log
	events eventschemas.Encoder
	now    func() time.Time
}

// NewBrands returns the brand commands for a log.
func NewBrands(cfg BrandsConfig, log eventlog.Log) (*Brands, error) {
	if log == nil {
		return nil, errors.New("brand commands need an event log")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Brands{log: log, events: cfg.Events, now: cfg.Now}, nil
}

// State folds the stream of the brand at a registrable domain. It is never nil without an error: a
// brand that was never requested has no events.
//
// Errors: eventlog.ErrUnavailable, eventlog.ErrCorrupt, eventlog.ErrClosed, ctx.Err().
func (b *Brands) State(ctx context.Context, domain string) (*brand.Brand, error) {
	state, _, err := b.load(ctx, domain)
	return state, err
}

// StateAt folds a brand's stream up to and including a revision: the brand as an answer of that
// revision had it.
//
// Errors: ErrUnknownRevision, and those of State.
func (b *Brands) StateAt(ctx context.Context, domain string, revision uint64) (*brand.Brand, error) {
	state, _, err := b.fold(ctx, domain, revision)
	if err == nil && state.Events() <= revision {
		err = fmt.Errorf("revision %d of %s, which has %d: %w", revision, brand.Stream(domain), state.Events(), ErrUnknownRevision)
	}
	if err != nil {
		return nil, err
	}
	return state, nil
}

// load also returns the time of the last event.
func (b *Brands) load(ctx context.Context, domain string) (*brand.Brand, time.Time, error) {
	return b.fold(ctx, domain, math.MaxUint64)
}

// fold reads up to and including the revision, or to the end of the stream.
func (b *Brands) fold(ctx context.Context, domain string, until uint64) (*brand.Brand, time.Time, error) {
	state := brand.New(domain)
	stream := brand.Stream(domain)
	var last time.Time
	for {
		events, err := b.log.ReadStream(ctx, stream, state.Events(), eventlog.Forward, brandPage)
		if err != nil {
			return nil, last, fmt.Errorf("read %s from revision %d: %w", stream, state.Events(), err)
		}
		for _, r := range events {
			if r.Revision > until {
				return state, last, nil
			}
			ev, err := eventschemas.Decode(r.Type, r.SchemaVersion, r.Data)
			if err != nil {
				return nil, last, fmt.Errorf("read %s at revision %d: %w", stream, r.Revision, err)
			}
			state.Apply(ev, r.Revision, r.OccurredAt)
			last = r.OccurredAt
		}
		if len(events) < brandPage || state.Events() > until {
			return state, last, nil
		}
	}
}

// decideBrand examines the folded brand and returns the events to append. It may be called several
// times.
type decideBrand func(state *brand.Brand, now time.Time) ([]eventschemas.Event, error)

// update loads, decides and appends, and retries after a lost race. The decision key identifies the
// decision, so that a repeated append has the same events. It returns the state that was decided on
// and the position of the events, or a zero Appended and false if nothing was appended.
//
// Errors: the decision's rejections; ErrBusy after too many lost races; eventlog.ErrUnavailable,
// eventlog.ErrAmbiguous, eventlog.ErrCorrupt, eventlog.ErrClosed, ctx.Err().
func (b *Brands) update(ctx context.Context, domain string, request Request, key string, decide decideBrand) (*brand.Brand, eventlog.Appended, bool, error) {
	pause := brandBackoff
	for range maxBrandAttempts {
		state, last, err := b.load(ctx, domain)
		if err != nil {
			return nil, eventlog.Appended{}, false, err
		}
		now := monotonic(b.now(), last)
		events, err := decide(state, now)
		if err != nil || len(events) == 0 {
			return state, eventlog.Appended{}, false, err
		}
		proposed, err := propose(b.events, onBrandStream, brand.Stream(domain), events, request, key, now)
		if err != nil {
			return state, eventlog.Appended{}, false, err
		}
		appended, err := appendKnown(ctx, b.log, brand.Stream(domain), eventlog.After(state.Events()), proposed)
		if err == nil {
			return state, appended, true, nil
		}
		if !errors.Is(err, eventlog.ErrWrongRevision) {
			return state, eventlog.Appended{}, false, err
		}
		if err := delay.For(ctx, delay.Jittered(pause)); err != nil {
			return state, eventlog.Appended{}, false, err
		}
		pause = min(2*pause, maxBrandBackoff)
	}
	return nil, eventlog.Appended{}, false, fmt.Errorf("decide about %s: %d races lost: %w", domain, maxBrandAttempts, ErrBusy)
}

// appendKnown repeats the same append while its outcome is unknown.
func appendKnown(ctx context.Context, log eventlog.Log, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	pause := brandBackoff
	for repeat := 0; ; repeat++ {
		appended, err := log.Append(ctx, stream, expected, events)
		if !errors.Is(err, eventlog.ErrAmbiguous) || repeat == maxBrandRepeats || ctx.Err() != nil {
			return appended, err
		}
		if delay.For(ctx, pause) != nil {
			return appended, err
		}
		pause = min(2*pause, maxBrandBackoff)
	}
}

// propose encodes the events of one decision, which holds accepts on their stream.
func propose(encoder eventschemas.Encoder, holds func(eventschemas.Event) error, stream string, events []eventschemas.Event, request Request, key string, at time.Time) ([]eventlog.Proposed, error) {
	correlation := request.CorrelationID
	if correlation == "" {
		correlation = request.ID
	}
	proposed := make([]eventlog.Proposed, len(events))
	for i, ev := range events {
		if err := holds(ev); err != nil {
			return nil, fmt.Errorf("identify %s for %s: %w", ev.EventType(), stream, err)
		}
		enc, err := encoder.Encode(ev)
		if err != nil {
			return nil, fmt.Errorf("encode %s for %s: %w", ev.EventType(), stream, err)
		}
		proposed[i] = eventlog.Proposed{
			ID: eventschemas.EventID(stream, key, enc.Type, ""), Type: enc.Type, SchemaVersion: enc.SchemaVersion,
			OccurredAt: at, Data: enc.Data,
			Metadata: eventlog.Metadata{RequestID: request.ID, Actor: request.Actor, CorrelationID: correlation, CausationID: request.CausationID},
		}
	}
	return proposed, nil
}

// monotonic returns the time of an event: whole microseconds, never before the preceding event.
func monotonic(now, last time.Time) time.Time {
	now = now.UTC().Truncate(time.Microsecond)
	if now.Before(last) {
		return last
	}
	return now
}
