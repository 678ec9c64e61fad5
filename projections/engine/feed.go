package engine

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/projections"
)

// batch holds decoded events in order, and the position up to which it is complete.
type batch struct {
	events []*projections.Event
	upTo   eventlog.Position
	after  eventlog.Position // the end of the batch before; 0 for the first batch of a catch-up
	bytes  int               // of the events' data
}

func (b *batch) append(more batch) {
	b.events = append(b.events, more.events...)
	b.upTo, b.bytes = more.upTo, b.bytes+more.bytes
}

// split keeps the first n events and returns the rest.
func (b *batch) split(n int) batch {
	rest := batch{events: b.events[n:], upTo: b.upTo}
	b.events = b.events[:n:n]
	b.upTo = b.events[n-1].Position
	for _, e := range rest.events {
		rest.bytes += len(e.Data)
	}
	b.bytes -= rest.bytes
	return rest
}

// page holds events before they are decoded.
type page struct {
	events []eventlog.Recorded
	upTo   eventlog.Position
}

// feed reads and decodes ahead of the fold, each in its own goroutine, so that three stages keep two processors busy.
type feed struct {
	stop    context.CancelFunc
	decoded chan batch
	err     error // why decoded was closed; nil at the end of a bounded feed
	bounded bool  // the feed has an end, and batches are filled
	rest    batch // of the last page, beyond the limit of the last batch
}

// start runs read, which passes pages to emit until that returns false.
func (r *Runner) start(ctx context.Context, bounded bool,
	read func(ctx context.Context, emit func(page) bool) error) *feed {
	ctx, stop := context.WithCancel(ctx)
	f := &feed{stop: stop, bounded: bounded, decoded: make(chan batch, pagesAhead)}
	pages := make(chan page, 1)
	var readErr error
	go func() {
		defer close(pages)
		readErr = read(ctx, func(p page) bool { return delay.Send(ctx, pages, p) == nil })
	}()
	go func() {
		defer close(f.decoded)
		for p := range pages {
			_ = delay.Send(ctx, f.decoded, r.decodePage(p)) // read ends with ctx, too
		}
		f.err = readErr
	}()
	return f
}

func (r *Runner) decodePage(p page) batch {
	b := batch{events: make([]*projections.Event, len(p.events)), upTo: p.upTo}
	events := make([]projections.Event, len(p.events))
	for i := range delay.InTurns(len(p.events)) {
		b.events[i] = &events[i]
		r.decode(&p.events[i], &events[i])
		b.bytes += len(p.events[i].Data)
	}
	return b
}

// subscribe feeds all events after a position, without end.
func (r *Runner) subscribe(ctx context.Context, after eventlog.Position) *feed {
	return r.start(ctx, false, func(ctx context.Context, emit func(page) bool) error {
		sub, err := r.log.Subscribe(ctx, after, eventlog.Filter{})
		if err != nil {
			return err
		}
		defer sub.Close()
		for {
			b, err := sub.Next(ctx)
			if err != nil {
				return err
			}
			if b.Position > after {
				after = b.Position
				if !emit(page{events: b.Events, upTo: b.Position}) {
					return ctx.Err()
				}
			}
		}
	})
}

// between feeds the events after one position, up to and including another.
func (r *Runner) between(ctx context.Context, after, upTo eventlog.Position) *feed {
	return r.start(ctx, true, func(ctx context.Context, emit func(page) bool) error {
		for after < upTo {
			p, err := r.readPage(ctx, after, upTo, eventlog.Filter{}, pageEvents)
			if err != nil {
				return err
			}
			after = p.upTo
			if !emit(p) {
				return ctx.Err()
			}
		}
		return nil
	})
}

func (r *Runner) readPage(ctx context.Context, after, upTo eventlog.Position, filter eventlog.Filter,
	limit int) (page, error) {
	got, err := r.log.ReadAll(ctx, after, filter, limit)
	if err != nil {
		return page{}, err
	}
	p := page{events: got.Events, upTo: got.Next}
	for len(p.events) > 0 && p.events[len(p.events)-1].Position > upTo {
		p.events = p.events[:len(p.events)-1]
	}
	if p.upTo > upTo || got.End {
		// At the end of the log, no event lies between Next and upTo, which was the log's head earlier.
		p.upTo = upTo
	}
	return p, nil
}

// next returns at most limit events: from a bounded feed as many as there are, otherwise those that are available,
// waiting for the first. more is false at the end of a bounded feed and if the feed failed. If ctx ends first, next
// returns ctx.Err().
func (f *feed) next(ctx context.Context, limit int) (b batch, more bool, err error) {
	b, f.rest = f.rest, batch{}
	for len(b.events) < limit && b.bytes < maxBatchBytes {
		if wait := b.upTo == 0 || f.bounded; !wait && len(f.decoded) == 0 {
			break
		}
		var part batch
		var open bool
		select {
		case part, open = <-f.decoded:
		case <-ctx.Done():
			return batch{}, false, ctx.Err()
		}
		if !open && b.upTo == 0 {
			return batch{}, false, f.err
		}
		if !open {
			break // the next call returns the error, if any
		}
		b.append(part)
	}
	if len(b.events) > limit {
		f.rest = b.split(limit)
	}
	return b, true, nil
}

// maxPrefixes limits the prefixes of streams that read models fold, which are bits of projections.Event.Set.
const maxPrefixes = bits.UintSize

// number gives the prefixes of the streams of a read model their bits.
func (r *Runner) number(p projections.Projection) error {
	for _, v := range p.Versions() {
		for _, prefix := range v.Streams {
			for _, other := range r.prefixes {
				if prefix != other && (strings.HasPrefix(prefix, other) || strings.HasPrefix(other, prefix)) {
					return fmt.Errorf("projection %q: streams %q overlap with %q", p.Name(), prefix, other)
				}
			}
			if !slices.Contains(r.prefixes, prefix) {
				r.prefixes = append(r.prefixes, prefix)
			}
		}
	}
	if len(r.prefixes) > maxPrefixes {
		return fmt.Errorf("projection %q: more than %d kinds of streams", p.Name(), maxPrefixes)
	}
	return nil
}

// set returns the set of streams that a version folds.
func (r *Runner) set(v *projections.Version) (set uint64) {
	for _, prefix := range v.Streams {
		set |= 1 << slices.Index(r.prefixes, prefix)
	}
	return set
}

func (r *Runner) decode(rec *eventlog.Recorded, into *projections.Event) {
	into.Recorded = rec
	for i, prefix := range r.prefixes {
		if subject, ok := strings.CutPrefix(rec.Stream, prefix); ok {
			into.Prefix, into.Subject, into.Set = prefix, subject, 1<<i
			break
		}
	}
	if into.Set == 0 {
		return // no read model folds it
	}
	into.Body, into.Err = eventlog.Decode(rec, r.cfg.Decode)
	if into.Err == nil && into.Body == nil {
		into.Err = fmt.Errorf("decode %s: no event", rec.Type)
	}
}
