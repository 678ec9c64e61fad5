package engine

import (
	"context"

	"letterhead/internal/eventlog"
	"letterhead/projections"
)

// batch is decoded events in order, and the position up to which they are all there are.
type batch struct {
	events []*projections.Event
	upTo   eventlog.Position
	bytes  int // of the events' data
}

func (b *batch) append(more batch) {
	b.events = append(b.events, more.events...)
	b.upTo, b.bytes = more.upTo, b.bytes+more.bytes
}

// split keeps the first n events and returns the others.
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

// page is what was read and not yet decoded.
type page struct {
	events []eventlog.Recorded
	upTo   eventlog.Position
}

// feed reads and decodes ahead of the fold, each on a goroutine of its own: three stages keep two
// processors busy.
type feed struct {
	stop    context.CancelFunc
	decoded chan batch
	err     error // why decoded was closed; nil at the end of a bounded feed
	bounded bool  // there is an end, and nobody waits for single events: batches are filled
	rest    batch // of the last page, past the limit of the last batch
}

// start runs read, which hands pages to its argument until that returns false.
func start(ctx context.Context, bounded bool, read func(ctx context.Context, emit func(page) bool) error) *feed {
	ctx, stop := context.WithCancel(ctx)
	f := &feed{stop: stop, bounded: bounded, decoded: make(chan batch, pagesAhead)}
	pages := make(chan page, 1)
	var readErr error
	go func() {
		defer close(pages)
		readErr = read(ctx, func(p page) bool {
			select {
			case pages <- p:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	go func() {
		defer close(f.decoded)
		for p := range pages {
			select {
			case f.decoded <- decodePage(p):
			case <-ctx.Done():
			}
		}
		f.err = readErr
	}()
	return f
}

func decodePage(p page) batch {
	b := batch{events: make([]*projections.Event, len(p.events)), upTo: p.upTo}
	events := make([]projections.Event, len(p.events))
	for i := range p.events {
		b.events[i] = &events[i]
		decode(&p.events[i], &events[i])
		b.bytes += len(p.events[i].Data)
	}
	return b
}

// subscribe feeds all events after a position, for ever.
func (r *Runner) subscribe(ctx context.Context, after eventlog.Position) *feed {
	return start(ctx, false, func(ctx context.Context, emit func(page) bool) error {
		sub, err := r.log.Subscribe(ctx, after, eventlog.Filter{})
		if err != nil {
			return err
		}
		defer sub.Close() // nothing is lost with it
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

// between feeds the events after one position up to and with another.
func (r *Runner) between(ctx context.Context, after, upTo eventlog.Position) *feed {
	return start(ctx, true, func(ctx context.Context, emit func(page) bool) error {
		for after < upTo {
			p, err := r.readPage(ctx, after, upTo)
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

func (r *Runner) readPage(ctx context.Context, after, upTo eventlog.Position) (page, error) {
	got, err := r.log.ReadAll(ctx, after, eventlog.Filter{}, pageEvents)
	if err != nil {
		return page{}, err
	}
	p := page{events: got.Events, upTo: got.Next}
	for len(p.events) > 0 && p.events[len(p.events)-1].Position > upTo {
		p.events = p.events[:len(p.events)-1]
	}
	if p.upTo > upTo || got.End {
		// At the end of the log nothing stands between Next and upTo, which was the log's head before.
		p.upTo = upTo
	}
	return p, nil
}

// next returns at most limit events: of a bounded feed as many as there are up to the limit, else what has
// come, and it waits for the first. At the end of a bounded feed, and when the feed failed, more is false.
// It returns ctx.Err() when that ends first.
func (f *feed) next(ctx context.Context, limit int) (b batch, more bool, err error) {
	b, f.rest = f.rest, batch{}
	for len(b.events) < limit && b.bytes < maxBatchBytes {
		part, state := f.receive(ctx, b.upTo == 0 || f.bounded)
		switch state {
		case received:
			b.append(part)
			continue
		case interrupted:
			return batch{}, false, ctx.Err()
		case ended:
			if b.upTo == 0 {
				return batch{}, false, f.err
			} // the error, if any, comes with the next call
		}
		break
	}
	if len(b.events) > limit {
		f.rest = b.split(limit)
	}
	return b, true, nil
}

type receipt int

const (
	received receipt = iota
	nothingYet
	interrupted
	ended
)

func (f *feed) receive(ctx context.Context, wait bool) (batch, receipt) {
	if wait {
		select {
		case b, open := <-f.decoded:
			if !open {
				return batch{}, ended
			}
			return b, received
		case <-ctx.Done():
			return batch{}, interrupted
		}
	}
	select {
	case b, open := <-f.decoded:
		if !open {
			return batch{}, ended
		}
		return b, received
	default:
		return batch{}, nothingYet
	}
}
