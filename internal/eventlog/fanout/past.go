package fanout

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"

	"letterhead/internal/eventlog"
)

const (
	// keptPages bounds the pages that a Past keeps.
	keptPages = 4
	// patience bounds how long a subscription waits, before it reads a page, for those behind it that are reading too:
	// they then need the same pages, and a slow one delays the others to at least pageEvents in this time.
	patience = 50 * time.Millisecond
	// reach is the distance at which it is worth waiting for them.
	reach = 64 * pageEvents
)

// Past is a log whose subscriptions share what they read until they reach its end: a page that one of them has read is
// kept for the others that are near. It is for a log that keeps its end in memory, and whose subscriptions would each
// read and decode all events of a file. At the end each continues with a subscription of the wrapped log.
type Past struct {
	eventlog.Log
	eventlog.Prober

	turn chan struct{} // held while a page is read

	mu      sync.Mutex
	pages   []kept // in the order in which they were read
	behind  map[*follower]struct{}
	changed chan struct{} // closed at the next change
}

// kept is a page of the events after a position.
type kept struct {
	after eventlog.Position
	eventlog.Page
}

// NewPast wraps a log.
func NewPast(log eventlog.Log) *Past {
	return &Past{Log: log, Prober: eventlog.Probe(log), turn: make(chan struct{}, 1),
		behind: map[*follower]struct{}{}, changed: make(chan struct{})}
}

// Subscribe implements eventlog.Log.
func (p *Past) Subscribe(ctx context.Context, after eventlog.Position,
	filter eventlog.Filter) (eventlog.Subscription, error) {
	head, err := p.Log.Head(ctx)
	if err != nil || after >= head {
		return p.Log.Subscribe(ctx, after, filter)
	}
	f := &follower{past: p, filter: filter, at: after, moved: time.Now()}
	f.life, f.end = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behind[f] = struct{}{}
	return f, nil
}

// follower is a subscription that reads pages until it has reached the end, and then from its own subscription.
type follower struct {
	past   *Past
	filter eventlog.Filter
	life   context.Context // canceled by Close
	end    context.CancelFunc
	ended  bool // the last page reached the end; used only by Next

	// The mutex of the Past guards them.
	at    eventlog.Position
	moved time.Time
	own   eventlog.Subscription // nil while it is behind
}

// Next implements eventlog.Subscription.
func (f *follower) Next(ctx context.Context) (eventlog.Batch, error) {
	f.past.mu.Lock()
	own := f.own
	f.past.mu.Unlock()
	if own != nil {
		return own.Next(ctx)
	}
	var page eventlog.Page
	var err error
	if !f.ended {
		page, err = f.page(ctx)
	}
	switch {
	case f.life.Err() != nil:
		return eventlog.Batch{}, fmt.Errorf("subscription: %w", eventlog.ErrClosed)
	case ctx.Err() != nil:
		return eventlog.Batch{}, ctx.Err()
	case err != nil || f.ended || page.Next == f.at: // its own subscription retries, or explains the error
		if own, err = f.past.Log.Subscribe(ctx, f.at, f.filter); err != nil {
			return eventlog.Batch{}, err
		}
		f.past.leave(f, own)
		return own.Next(ctx)
	}
	first := sort.Search(len(page.Events), func(i int) bool { return page.Events[i].Position > f.at })
	f.ended = page.End
	events := choose(f.filter, page.Events[first:len(page.Events):len(page.Events)])
	f.past.mu.Lock()
	defer f.past.mu.Unlock()
	f.at, f.moved = page.Next, time.Now()
	f.past.wake()
	return eventlog.Batch{Events: events, Position: page.Next}, nil
}

// page returns a page with the events after the follower's position, which it reads unless another one has read it.
func (f *follower) page(ctx context.Context) (eventlog.Page, error) {
	p := f.past
	timeout, late := time.After(patience), false
	for {
		page, ahead, changed := p.find(f)
		if page != nil {
			return *page, nil
		}
		turn := p.turn
		if ahead && !late {
			turn = nil
		}
		select {
		case turn <- struct{}{}:
			defer func() { <-p.turn }()
			if page, _, _ := p.find(f); page != nil { // read meanwhile
				return *page, nil
			}
			return p.read(ctx, f.at)
		case <-timeout:
			late = true
		case <-changed:
		case <-f.life.Done():
			return eventlog.Page{}, f.life.Err()
		case <-ctx.Done():
			return eventlog.Page{}, ctx.Err()
		}
	}
}

// find returns the kept page with the events after a follower's position, or nil and whether others that are reading
// are further behind. changed is closed when that may change.
func (p *Past) find(f *follower) (page *eventlog.Page, ahead bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.pages {
		if k.after <= f.at && f.at < k.Next {
			return &k.Page, false, nil
		}
	}
	for other := range p.behind {
		ahead = ahead || other.at < f.at && f.at-other.at <= reach && time.Since(other.moved) < 4*patience
	}
	return nil, ahead, p.changed
}

// read reads a page and keeps it in place of the first one.
func (p *Past) read(ctx context.Context, after eventlog.Position) (eventlog.Page, error) {
	page, err := p.ReadAll(ctx, after, eventlog.Filter{}, pageEvents)
	if err != nil || page.Next == after {
		return page, err
	}
	eventlog.Share(page.Events)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages = append(p.pages[max(0, len(p.pages)+1-keptPages):len(p.pages):len(p.pages)], kept{after, page})
	p.wake()
	return page, nil
}

// leave forgets a follower, and all pages if it was the last one. own is its subscription from now on.
func (p *Past) leave(f *follower, own eventlog.Subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.behind, f); len(p.behind) == 0 {
		p.pages = nil
	}
	if f.own = own; own != nil && f.life.Err() != nil {
		_ = own.Close() // Close of a subscription always returns nil
	}
	p.wake()
}

// wake ends the waits of all followers. The caller must hold the lock.
func (p *Past) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Close implements eventlog.Subscription.
func (f *follower) Close() error {
	f.end()
	f.past.mu.Lock()
	own := f.own
	f.past.mu.Unlock()
	if own != nil {
		return own.Close()
	}
	f.past.leave(f, nil)
	return nil
}
