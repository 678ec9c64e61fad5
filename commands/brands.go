package commands

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// brandPage is the number of events of a brand stream per read.
const brandPage = 256

// BrandsConfig configures the brand commands.
type BrandsConfig struct {
	// Events is as in AccountWriterConfig.
	Events eventschemas.Encoder
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Begun returns when a crawler began a crawl; zero if none did. When nil, every crawl was begun.
	Begun func(ctx context.Context, crawlID string) (time.Time, error)
}

// Brands implements the use cases of brands. It is safe for concurrent use.
type Brands struct {
	coldStreams
	cfg BrandsConfig
}

// NewBrands returns the brand commands for a log.
func NewBrands(cfg BrandsConfig, log eventlog.Log) (*Brands, error) {
	if log == nil {
		return nil, errors.New("brand commands need an event log")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Begun == nil {
		cfg.Begun = func(context.Context, string) (time.Time, error) { return time.Unix(0, 0), nil }
	}
	return &Brands{coldStreams{log: log, events: cfg.Events, now: cfg.Now}, cfg}, nil
}

// State folds the stream of the brand at a registrable domain. It is never nil without an error: a
// brand that was never requested has no events.
//
// Errors: eventlog.ErrUnavailable, eventlog.ErrCorrupt, eventlog.ErrClosed, ctx.Err().
func (b *Brands) State(ctx context.Context, domain string) (*brand.Brand, error) {
	state, _, err := b.fold(ctx, domain, math.MaxUint64)
	return state, err
}

// StateAt folds a brand's stream up to and including a revision: the brand as an answer of that revision had it.
//
// Errors: ErrUnknownRevision, and the errors of State.
func (b *Brands) StateAt(ctx context.Context, domain string, revision uint64) (*brand.Brand, error) {
	state, _, err := b.fold(ctx, domain, revision)
	if err == nil && state.Events() <= revision {
		err = fmt.Errorf("revision %d of %s, which has %d: %w", revision, brand.Stream(domain), state.Events(),
			ErrUnknownRevision)
	}
	if err != nil {
		return nil, err
	}
	return state, nil
}

// fold reads up to and including the revision, or to the end of the stream.
func (b *Brands) fold(ctx context.Context, domain string, until uint64) (*brand.Brand, streamEnd, error) {
	state := brand.New(domain)
	stream := brand.Stream(domain)
	var end streamEnd
	for {
		events, err := b.log.ReadStream(ctx, stream, state.Events(), eventlog.Forward, brandPage)
		if err != nil {
			return nil, end, fmt.Errorf("read %s from revision %d: %w", stream, state.Events(), err)
		}
		for i := range events {
			r := &events[i]
			if r.Revision > until {
				return state, end, nil
			}
			ev, err := eventschemas.Decode(r.Type, r.SchemaVersion, r.Data)
			if err != nil {
				return nil, end, fmt.Errorf("read %s at revision %d: %w", stream, r.Revision, err)
			}
			state.Apply(ev, r.Revision, r.OccurredAt)
			end = endOf(r)
		}
		if len(events) < brandPage || state.Events() > until {
			return state, end, nil
		}
	}
}

// update decides about the brand at a registrable domain, and appends the events of the decision under its key. decide
// examines the folded brand; it may be called several times. Errors: as coldStreams.do.
func (b *Brands) update(ctx context.Context, domain string, request Request, key string,
	decide func(*brand.Brand, time.Time) ([]eventschemas.Event, error)) (Done, error) {
	var state *brand.Brand
	return b.do(ctx, &coldCommand{
		stream: brand.Stream(domain), request: request, key: key,
		read: func(ctx context.Context) (end streamEnd, err error) {
			state, end, err = b.fold(ctx, domain, math.MaxUint64)
			return end, err
		},
		decide: func(now time.Time) ([]eventschemas.Event, error) { return decide(state, now) },
	})
}
