package fanout

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"letterhead/internal/eventlog"
)

const (
	// keptPages bounds the pages that a Past keeps. Their data is bounded by keptBytes and the last page.
	keptPages = 4
	// patience bounds how long a subscription waits, before it reads a page, for those behind it that are reading too:
	// they then need the same pages, and a slow one delays the others to at least page events in this time.
	patience = 50 * time.Millisecond
)

// Past is a log whose subscriptions share what they read while they are behind its end: a page that one of them has
// read is kept for the others that are near. It is for a log that keeps its end in memory, and whose subscriptions
// would each read and decode all events of a file; from there on each subscription is one of the wrapped log.
type Past struct {
	eventlog.Log
	eventlog.Prober

	turn chan struct{} // held while a page is read

	mu      sync.Mutex
	pages   []eventlog.Page // in the order in which they were read; the events after from[i] up to pages[i].Next
	from    []eventlog.Position
	behind  map[*follower]struct{}
	changed chan struct{} // closed when a subscription advances
}

// NewPast wraps a log.
func NewPast(log eventlog.Log) *Past {
	return &Past{Log: log, Prober: eventlog.Probe(log), turn: make(chan struct{}, 1),
		behind: map[*follower]struct{}{}, changed: make(chan struct{})}
}

// Subscribe implements eventlog.Log.
func (p *Past) Subscribe(ctx context.Context, after eventlog.Position,
	filter eventlog.Filter) (eventlog.Subscription, error) {
	own, err := p.Log.Subscribe(ctx, after, filter)
	if err != nil {
		return nil, err
	}
	f := &follower{past: p, filter: filter, own: own, at: after, closed: make(chan struct{})}
	if head, err := p.Log.Head(ctx); err == nil && after < head {
		f.fallBack()
	}
	return f, nil
}

// follower reads through pages until it has reached the end, and then from its own subscription.
type follower struct {
	past   *Past
	filter eventlog.Filter
	once   sync.Once
	closed chan struct{}

	mu  sync.Mutex
	own eventlog.Subscription // nil while it is behind

	// Next changes them; the mutex of the Past guards them.
	at    eventlog.Position
	moved time.Time
}

// Next implements eventlog.Subscription.
func (f *follower) Next(ctx context.Context) (eventlog.Batch, error) {
	f.mu.Lock()
	own := f.own
	f.mu.Unlock()
	if own == nil {
		page, err := f.page(ctx)
		if err == nil && page.Next > f.at && !f.isClosed() {
			f.advance(page.Next)
			return eventlog.Batch{Events: choose(f.filter, page.Events), Position: page.Next}, nil
		}
		if ctx.Err() != nil {
			return eventlog.Batch{}, ctx.Err()
		}
		// It is at the end, or its own subscription retries and explains the error.
		if own, err = f.join(ctx); err != nil {
			return eventlog.Batch{}, err
		}
	}
	batch, err := own.Next(ctx)
	if err == nil {
		f.at = batch.Position
		if !batch.Live {
			f.fallBack()
		}
	}
	return batch, err
}

// page returns the events after the follower's position.
func (f *follower) page(ctx context.Context) (eventlog.Page, error) {
	p := f.past
	if err := f.await(ctx); err != nil {
		return eventlog.Page{}, err
	}
	if page, ok := p.find(f.at); ok {
		return page, nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-f.closed:
		return eventlog.Page{}, eventlog.ErrClosed
	case <-ctx.Done():
		return eventlog.Page{}, ctx.Err()
	}
	if page, ok := p.find(f.at); ok {
		return page, nil
	}
	page, err := p.Log.ReadAll(ctx, f.at, eventlog.Filter{}, pageEvents)
	if err == nil && page.Next > f.at {
		eventlog.Share(page.Events)
		p.keep(f.at, page)
	}
	return page, err
}

// await waits until the page is there or others do not need what is read now, but not for longer than patience.
func (f *follower) await(ctx context.Context) error {
	var timeout <-chan time.Time
	for {
		wait, changed := f.past.crowded(f)
		if !wait {
			return nil
		}
		if timeout == nil {
			timer := time.NewTimer(patience)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-timeout:
			return nil
		case <-f.closed:
			return eventlog.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// crowded reports whether the next page of a follower is not kept, and should be read later: because others have not
// taken the kept pages yet, or because another that is further behind is reading. changed is closed when that may change.
func (p *Past) crowded(f *follower) (wait bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index(f.at) >= 0 {
		return false, nil
	}
	for other := range p.behind {
		if other.at < f.at && p.index(other.at) < 0 && time.Since(other.moved) < 4*patience {
			return true, p.changed
		}
	}
	return len(p.pages) >= keptPages && p.unneeded() < 0, p.changed
}

// find returns the part of a kept page after a position.
func (p *Past) find(at eventlog.Position) (eventlog.Page, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.index(at)
	if i < 0 {
		return eventlog.Page{}, false
	}
	page := p.pages[i]
	from, _ := slices.BinarySearchFunc(page.Events, at+1, func(e eventlog.Recorded, at eventlog.Position) int {
		return int(int64(e.Position) - int64(at))
	})
	page.Events = page.Events[from:len(page.Events):len(page.Events)]
	return page, true
}

// index returns the number of a page with events after a position, or -1.
func (p *Past) index(at eventlog.Position) int {
	for i, page := range p.pages {
		if p.from[i] <= at && at < page.Next {
			return i
		}
	}
	return -1
}

// keep adds a page, in place of those that nobody needs, or else of the first ones.
func (p *Past) keep(after eventlog.Position, page eventlog.Page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bytes := 0
	for _, kept := range append(p.pages, page) {
		for i := range kept.Events {
			bytes += len(kept.Events[i].Data)
		}
	}
	for len(p.pages) >= keptPages || len(p.pages) > 0 && bytes > keptBytes {
		i := max(0, p.unneeded())
		for j := range p.pages[i].Events {
			bytes -= len(p.pages[i].Events[j].Data)
		}
		p.pages, p.from = slices.Delete(p.pages, i, i+1), slices.Delete(p.from, i, i+1)
	}
	p.pages, p.from = append(p.pages, page), append(p.from, after)
	p.wake()
}

// unneeded returns the number of a page that no subscription will reach through the kept pages, or -1.
func (p *Past) unneeded() int {
	return slices.IndexFunc(p.from, func(start eventlog.Position) bool {
		end := p.pages[p.index(start)].Next
		for i := p.index(start - 1); start > 0 && i >= 0; i = p.index(start - 1) {
			start = p.from[i]
		}
		for f := range p.behind {
			if start <= f.at && f.at < end {
				return false
			}
		}
		return true
	})
}

// advance records the position of a follower that is behind.
func (f *follower) advance(to eventlog.Position) {
	f.past.mu.Lock()
	defer f.past.mu.Unlock()
	f.at, f.moved = to, time.Now()
	f.past.wake()
}

// fallBack closes the own subscription, because the follower is behind.
func (f *follower) fallBack() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isClosed() {
		return
	}
	_ = f.own.Close() // Close of a subscription always returns nil
	f.own = nil
	f.past.mu.Lock()
	defer f.past.mu.Unlock()
	f.past.behind[f] = struct{}{}
	f.moved = time.Now()
}

// join opens the own subscription at the current position.
func (f *follower) join(ctx context.Context) (eventlog.Subscription, error) {
	own, err := f.past.Log.Subscribe(ctx, f.at, f.filter)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isClosed() {
		_ = own.Close() // Close of a subscription always returns nil
		return nil, fmt.Errorf("subscription: %w", eventlog.ErrClosed)
	}
	f.own = own
	f.past.leave(f)
	return own, nil
}

// leave forgets a follower, and the pages after the last one.
func (p *Past) leave(f *follower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.behind, f)
	if len(p.behind) == 0 {
		p.pages, p.from = nil, nil
	}
	p.wake()
}

// wake ends the waits of all followers. The caller must hold the lock.
func (p *Past) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (f *follower) isClosed() bool {
	select {
	case <-f.closed:
		return true
	default:
		return false
	}
}

// Close implements eventlog.Subscription.
func (f *follower) Close() error {
	f.once.Do(func() { close(f.closed) })
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.own != nil {
		_ = f.own.Close() // Close of a subscription always returns nil
	}
	f.past.leave(f)
	return nil
}
