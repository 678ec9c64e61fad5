package inprocess

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"letterhead/internal/broker"
	"letterhead/internal/delay"
)

// topic contains the groups of a topic, and the messages published before the first group subscribed.
type topic struct {
	transport *Transport
	name      string
	kept      bool          // a dead-letter topic: Publish does not wait, and the oldest messages are dropped
	slots     chan struct{} // one token per unacknowledged message

	mu      sync.Mutex
	groups  map[string]*group
	backlog []*entry // while there is no group
}

type entry struct {
	m         *message.Message
	partition int

	mu      sync.Mutex
	waiting int           // number of groups that have not acknowledged
	done    chan struct{} // closed when all groups have acknowledged
}

// add appends a message to every group's queue, waiting while the topic is full.
func (to *topic) add(m *message.Message) (*entry, error) {
	t := to.transport
	e := &entry{m: m.Copy(), partition: t.partition(broker.KeyOf(m)), done: make(chan struct{})}
	if !to.kept {
		select {
		case to.slots <- struct{}{}:
		case <-m.Context().Done():
			return nil, m.Context().Err()
		case <-t.closing.Done():
			return nil, broker.ErrClosed
		}
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	if len(to.groups) == 0 {
		to.backlog = append(to.backlog, e)
		if to.kept && len(to.backlog) > t.cfg.Keep {
			to.backlog = to.backlog[1:]
		}
		return e, nil
	}
	e.waiting = len(to.groups)
	for _, g := range to.groups {
		g.partitions[e.partition].push(e)
	}
	return e, nil
}

// acknowledged records that a group has acknowledged e. Each group calls it once.
func (to *topic) acknowledged(e *entry) {
	e.mu.Lock()
	e.waiting--
	last := e.waiting == 0
	e.mu.Unlock()
	if !last {
		return
	}
	close(e.done)
	if !to.kept {
		<-to.slots
	}
}

// join adds a member to a group and creates the group if needed. The first group gets the backlog.
func (to *topic) join(ctx context.Context, name string) (<-chan *message.Message, error) {
	to.mu.Lock()
	defer to.mu.Unlock()
	g, ok := to.groups[name]
	if !ok {
		if len(to.groups) >= maxGroups {
			return nil, fmt.Errorf("no more than %d groups of topic %s", maxGroups, to.name)
		}
		g = newGroup(to)
		for _, e := range to.backlog {
			e.waiting = 1
			g.partitions[e.partition].push(e)
		}
		to.backlog = nil
		to.groups[name] = g
		for _, p := range g.partitions {
			to.transport.workers.Go(p.run)
		}
	}
	m := &member{ctx: ctx, out: make(chan *message.Message), left: make(chan struct{})}
	g.enter(m)
	to.transport.workers.Go(func() {
		select {
		case <-ctx.Done():
		case <-to.transport.closing.Done():
		}
		g.leave(m)
	})
	return m.out, nil
}

// group is a set of members that share a topic's messages.
type group struct {
	topic      *topic
	partitions []*partition

	mu      sync.Mutex
	members []*member
	changed chan struct{} // closed and replaced when a member joins
}

type member struct {
	ctx     context.Context
	out     chan *message.Message
	left    chan struct{}  // closed when the subscription ends
	sending sync.WaitGroup // deliveries that may write to out
}

func newGroup(to *topic) *group {
	g := &group{topic: to, changed: make(chan struct{})}
	for range partitions {
		g.partitions = append(g.partitions, &partition{group: g, arrived: make(chan struct{}, 1)})
	}
	for i, p := range g.partitions {
		p.index = i
	}
	return g
}

func (g *group) enter(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = append(g.members, m)
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *group) leave(m *member) {
	g.mu.Lock()
	for i, other := range g.members {
		if other == m {
			g.members = append(g.members[:i:i], g.members[i+1:]...)
			break
		}
	}
	g.mu.Unlock()
	close(m.left)
	m.sending.Wait()
	close(m.out)
}

// assigned returns the member to which a partition is assigned, or, if the group has no member, a
// channel that is closed when the caller should try again.
func (g *group) assigned(partition int) (*member, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.members) == 0 {
		return nil, g.changed
	}
	m := g.members[partition%len(g.members)]
	m.sending.Add(1)
	return m, nil
}

// partition is an ordered part of a group's messages; one of them is processed at a time.
type partition struct {
	group   *group
	index   int
	arrived chan struct{} // holds a token while something may be queued

	mu    sync.Mutex
	queue []*entry // limited by the topic's slots
}

func (p *partition) push(e *entry) {
	p.mu.Lock()
	p.queue = append(p.queue, e)
	if to := p.group.topic; to.kept && len(p.queue) > to.transport.cfg.Keep {
		p.queue = p.queue[1:]
	}
	p.mu.Unlock()
	delay.Signal(p.arrived)
}

func (p *partition) pop() *entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return nil
	}
	e := p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:]
	return e
}

// run delivers the partition's messages, each until it is acknowledged, until the transport closes.
func (p *partition) run() {
	t := p.group.topic.transport
	for {
		select {
		case <-p.arrived:
		case <-t.closing.Done():
			return
		}
		for e := p.pop(); e != nil; e = p.pop() {
			if !p.deliver(e) {
				return
			}
			p.group.topic.acknowledged(e)
		}
	}
}

// deliver delivers a message until it is acknowledged. It returns false if the transport closes before that.
func (p *partition) deliver(e *entry) bool {
	t := p.group.topic.transport
	for t.closing.Err() == nil {
		m, changed := p.group.assigned(p.index)
		if m == nil {
			select {
			case <-changed:
			case <-t.closing.Done():
			}
			continue
		}
		if p.attempt(m, e) {
			return true
		}
		_ = delay.For(t.closing, t.cfg.RedeliverAfter)
	}
	return false
}

// attempt sends a copy of the message to a member, waits for an ack or nack, and reports whether it was
// an ack. The copy's context ends with the subscription or the ack or nack.
func (p *partition) attempt(m *member, e *entry) bool {
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	out := e.m.Copy()
	out.SetContext(ctx)
	select {
	case m.out <- out:
		m.sending.Done()
	case <-m.left:
		m.sending.Done()
		return false
	}
	select {
	case <-out.Acked():
		return true
	case <-out.Nacked():
		return false
	case <-m.left:
	}
	cancel()
	// The handler is still running. Wait for its ack or nack, but not forever.
	timer := time.NewTimer(p.group.topic.transport.cfg.CloseTimeout)
	defer timer.Stop()
	select {
	case <-out.Acked():
		return true
	case <-out.Nacked():
	case <-timer.C:
	}
	return false
}
