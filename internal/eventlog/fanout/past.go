package fanout

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"letterhead/internal/eventlog"
)

const (
	// keptPages bounds the pages that a Past keeps, whose data keptBytes bounds too.
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
	behind  map[*follower]struct{} // those that have not reached the end
	pages   []kept                 // in the order in which they were read; none when no subscription is behind
	bytes   int                    // of their data
	changed chan struct{}          // closed at the next change
}

// kept is a page of the events after a position.
type kept struct {
	after eventlog.Position
	eventlog.Page
	bytes int
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

// read reads a page and keeps it.
func (p *Past) read(ctx context.Context, after eventlog.Position) (eventlog.Page, error) {
	page, err := p.ReadAll(ctx, after, eventlog.Filter{}, pageEvents)
	if err != nil || page.Next == after {
		return page, err
	}
	eventlog.Share(page.Events)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.behind) == 0 { // closed meanwhile
		return page, nil
	}
	read := kept{after: after, Page: page}
	for i := range page.Events {
		read.bytes += len(page.Events[i].Data)
	}
	p.bytes += read.bytes
	for len(p.pages) > 0 && (len(p.pages) == keptPages || p.bytes > keptBytes) {
		p.bytes -= p.pages[0].bytes
		p.pages = slices.Delete(p.pages, 0, 1)
	}
	p.pages = append(p.pages, read)
	p.wake()
	return page, nil
}

// leave forgets a subscription that was behind, and all pages if it was the last one.
func (p *Past) leave(f *follower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.behind, f); len(p.behind) == 0 {
		p.pages, p.bytes = nil, 0
	}
	p.wake()
}

// wake ends the waits of all followers. The caller must hold the lock.
func (p *Past) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// follower is a subscription that reads pages until it has reached the end, and then from its own subscription.
type follower struct {
	past   *Past
	filter eventlog.Filter
	life   context.Context // canceled by Close
	end    context.CancelFunc

	// Used only by Next.
	ended bool                  // reads no more pages
	own   eventlog.Subscription // nil while it is behind

	// Written by Next; the mutex of the Past guards them.
	at    eventlog.Position
	moved time.Time
}

func (f *follower) Next(ctx context.Context) (eventlog.Batch, error) {
	if f.own != nil && f.life.Err() == nil {
		return f.own.Next(ctx)
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
	case err == nil && page.Next > f.at:
		first := sort.Search(len(page.Events), func(i int) bool { return page.Events[i].Position > f.at })
		f.past.mu.Lock()
		defer f.past.mu.Unlock()
		f.at, f.moved, f.ended = page.Next, time.Now(), page.End
		f.past.wake()
		events := page.Events[first:len(page.Events):len(page.Events)]
		return eventlog.Batch{Events: choose(f.filter, events), Position: f.at}, nil
	}
	own, err := f.past.Log.Subscribe(ctx, f.at, f.filter) // it retries, or explains the error
	if err != nil {
		return eventlog.Batch{}, err
	}
	f.own, f.ended = own, true
	context.AfterFunc(f.life, func() { _ = own.Close() }) // Close of a subscription always returns nil
	f.past.leave(f)
	return own.Next(ctx)
}

func (f *follower) Close() error {
	f.end()
	f.past.leave(f)
	return nil
}
