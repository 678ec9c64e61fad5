package fanout

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	"letterhead/internal/eventlog"
)

// keptPages bounds the pages that a Past keeps, whose data keptBytes bounds too.
const keptPages = 4

// Past is a log whose subscriptions share what they read until they reach its end: a page that one of them has read is
// kept for the others that are near. It is for a log that keeps its end in memory, and whose subscriptions would each
// read and decode all events of a file. At the end each continues with a subscription of the wrapped log.
type Past struct {
	eventlog.Log
	eventlog.Prober

	turn chan struct{} // held while a page is read

	mu     sync.Mutex
	behind int    // subscriptions that have not reached the end
	pages  []kept // in the order in which they were read; none when no subscription is behind
	bytes  int    // of their data
}

// kept is a page of the events after a position.
type kept struct {
	after eventlog.Position
	eventlog.Page
	bytes int
}

// NewPast wraps a log.
func NewPast(log eventlog.Log) *Past {
	return &Past{Log: log, Prober: eventlog.Probe(log), turn: make(chan struct{}, 1)}
}

// Subscribe implements eventlog.Log.
func (p *Past) Subscribe(ctx context.Context, after eventlog.Position,
	filter eventlog.Filter) (eventlog.Subscription, error) {
	head, err := p.Log.Head(ctx)
	if err != nil || after >= head {
		return p.Log.Subscribe(ctx, after, filter)
	}
	f := &follower{past: p, filter: filter, at: after}
	f.life, f.end = context.WithCancel(context.Background())
	f.leave = sync.OnceFunc(p.leave)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behind++
	return f, nil
}

// page returns a page with the events after a position, which it reads unless another subscription has read it.
func (p *Past) page(ctx context.Context, after eventlog.Position) (eventlog.Page, error) {
	if page, ok := p.find(after); ok {
		return page, nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return eventlog.Page{}, ctx.Err()
	}
	if page, ok := p.find(after); ok { // read meanwhile
		return page, nil
	}
	page, err := p.ReadAll(ctx, after, eventlog.Filter{}, pageEvents)
	if err != nil || page.Next == after {
		return page, err
	}
	eventlog.Share(page.Events)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.behind == 0 { // closed meanwhile
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
	return page, nil
}

// find returns the kept page with the events after a position.
func (p *Past) find(after eventlog.Position) (eventlog.Page, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.pages {
		if k.after <= after && after < k.Next {
			return k.Page, true
		}
	}
	return eventlog.Page{}, false
}

// leave forgets a subscription that was behind, and all pages if it was the last one.
func (p *Past) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.behind--; p.behind == 0 {
		p.pages, p.bytes = nil, 0
	}
}

// follower is a subscription that reads pages until it has reached the end, and then from its own subscription.
type follower struct {
	past   *Past
	filter eventlog.Filter
	life   context.Context // canceled by Close
	end    context.CancelFunc
	leave  func()

	// Used only by Next.
	at    eventlog.Position
	ended bool                  // reads no more pages
	own   eventlog.Subscription // nil while it is behind
}

// Next implements eventlog.Subscription.
func (f *follower) Next(ctx context.Context) (eventlog.Batch, error) {
	if f.own != nil && f.life.Err() == nil {
		return f.own.Next(ctx)
	}
	var page eventlog.Page
	var err error
	if !f.ended {
		page, err = f.past.page(ctx, f.at)
	}
	switch {
	case f.life.Err() != nil:
		return eventlog.Batch{}, fmt.Errorf("subscription: %w", eventlog.ErrClosed)
	case ctx.Err() != nil:
		return eventlog.Batch{}, ctx.Err()
	case err == nil && page.Next > f.at:
		first := sort.Search(len(page.Events), func(i int) bool { return page.Events[i].Position > f.at })
		f.at, f.ended = page.Next, page.End
		events := page.Events[first:len(page.Events):len(page.Events)]
		return eventlog.Batch{Events: choose(f.filter, events), Position: f.at}, nil
	}
	own, err := f.past.Log.Subscribe(ctx, f.at, f.filter) // it retries, or explains the error
	if err != nil {
		return eventlog.Batch{}, err
	}
	f.own, f.ended = own, true
	context.AfterFunc(f.life, func() { _ = own.Close() }) // Close of a subscription always returns nil
	f.leave()
	return own.Next(ctx)
}

// Close implements eventlog.Subscription.
func (f *follower) Close() error {
	f.end()
	f.leave()
	return nil
}
