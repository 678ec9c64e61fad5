package esdb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"letterhead/internal/eventlog"
)

// mode is how a subscription is served.
type mode int

const (
	// catchingUp: the server filters, with a wide search window.
	catchingUp mode = iota
	// live: the server filters, and reports every event that it skips.
	live
	// unfiltered: for servers with unreliable filters.
	unfiltered
)

const (
	// searchWindow is the number of events that the server reads at a time while it filters the past. A
	// larger window delays its answers, a smaller one costs more reads.
	searchWindow = 4096
	// Live, a window of 1 with a checkpoint for each gives a position for every skipped event. Otherwise
	// callers could wait for a position that never comes: with a window of 32 an idle subscription is up to
	// 31 events behind as long as nothing is selected.
	liveWindow = 1
	// checkpointEvery is the checkpoint interval in windows; the size of the window is chosen above.
	checkpointEvery = 1
	// exactEvery is how often a checkpoint that is not an event's position is looked up, to report the
	// progress of a long search.
	exactEvery = time.Second
	// received bounds the messages that were received but not yet taken.
	received = 512
	// excludeSystem selects events whose type does not begin with $.
	excludeSystem = `^[^\$].*`
)

// errFellBehind ends a subscription that was too slow while live: the server has switched it back to catching up, or,
// before 24.2, has dropped it with an error that contains textTooSlow.
var errFellBehind = errors.New("the subscription fell behind")

const textTooSlow = "Consumer too slow"

// errReplaced ends calls and subscriptions of a client that was replaced.
var errReplaced = errors.New("the connection was replaced")

// follower is one of the client's subscriptions. It receives in a separate goroutine, so that messages are
// decoded on two cores.
type follower struct {
	log      *Log
	member   *member
	filter   eventlog.Filter
	mode     mode
	messages chan *esdb.SubscriptionEvent
	held     *esdb.SubscriptionEvent // received but not yet taken

	at     eventlog.Position // all selected events up to here were taken
	head   eventlog.Position // the end of the log before the subscription began
	caught bool
	exact  time.Time // of the last look-up
}

// options returns the client's options. The server filters by only one criterion: by stream if there are
// prefixes, otherwise by type. take checks both again.
func (f *follower) options() esdb.SubscribeToAllOptions {
	o := esdb.SubscribeToAllOptions{From: startAt(f.at), MaxSearchWindow: searchWindow,
		CheckpointInterval: checkpointEvery}
	if f.mode == live {
		o.MaxSearchWindow = liveWindow
	}
	switch {
	case f.mode == unfiltered:
	case len(f.filter.StreamPrefixes) > 0:
		o.Filter = &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Prefixes: f.filter.StreamPrefixes}
	case len(f.filter.EventTypes) > 0:
		o.Filter = &esdb.SubscriptionFilter{Type: esdb.EventFilterType, Prefixes: f.filter.EventTypes}
	case f.mode == catchingUp:
		o.Filter = &esdb.SubscriptionFilter{Type: esdb.EventFilterType, Regex: excludeSystem}
	}
	return o
}

// follow subscribes on a member that the caller holds. ctx ends the subscription; the caller must end it
// after an error, too.
func (l *Log) follow(ctx context.Context, m *member, after eventlog.Position, filter eventlog.Filter,
	mode mode) (*follower, error) {
	f := &follower{log: l, member: m, filter: filter, mode: mode, at: after,
		messages: make(chan *esdb.SubscriptionEvent, received), exact: time.Now()}
	if mode != unfiltered {
		// When the subscription reports that it has caught up, it has passed this position: on the same
		// server, so the member must not have been replaced by then.
		var err error
		if f.head, err = l.lastPosition(ctx, m); err != nil {
			return nil, err
		}
	}
	opened := make(chan error, 1)
	m.users.Add(1)
	l.pumps.Go(func() {
		defer m.release()
		f.receive(ctx, opened)
	})
	timer := time.NewTimer(l.cfg.CallTimeout)
	defer timer.Stop()
	select {
	case err := <-opened:
		return f, err
	case <-timer.C:
		return nil, context.DeadlineExceeded
	case <-m.retired.Done():
		return nil, errReplaced
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// receive subscribes and receives until the subscription has ended.
func (f *follower) receive(ctx context.Context, opened chan<- error) {
	in, err := f.subscribe(ctx)
	opened <- err
	if err != nil {
		return
	}
	for {
		event, err := receiveOne(in)
		if err != nil {
			event = &esdb.SubscriptionEvent{SubscriptionDropped: &esdb.SubscriptionDropped{Error: err}}
		} else {
			f.member.markAlive()
		}
		select {
		case f.messages <- event:
		case <-ctx.Done():
			_ = in.Close() // which says nothing
			return
		}
		if event.SubscriptionDropped != nil {
			return
		}
	}
}

func (f *follower) subscribe(ctx context.Context) (in *esdb.Subscription, err error) {
	defer recovered(&err)
	return f.member.client.SubscribeToAll(ctx, f.options())
}

// receiveOne waits for the next message of a subscription.
func receiveOne(in *esdb.Subscription) (event *esdb.SubscriptionEvent, err error) {
	defer recovered(&err)
	return in.Recv(), nil
}

// next waits for a message.
func (f *follower) next(ctx context.Context) (*esdb.SubscriptionEvent, error) {
	if event := f.held; event != nil {
		f.held = nil
		return event, nil
	}
	select {
	case event := <-f.messages:
		return event, nil
	case <-f.member.retired.Done():
		return nil, errReplaced
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// peek returns an available message, or nil; with wait it waits for one.
func (f *follower) peek(ctx context.Context, wait bool) (*esdb.SubscriptionEvent, error) {
	if wait || f.held != nil {
		return f.next(ctx)
	}
	select {
	case event := <-f.messages:
		return event, nil
	default:
		return nil, nil
	}
}

// take processes a message and advances. It returns the event if it is selected.
func (f *follower) take(ctx context.Context,
	event *esdb.SubscriptionEvent) (e eventlog.Recorded, chosen bool, err error) {
	switch {
	case event.FellBehind != nil,
		event.SubscriptionDropped != nil && strings.Contains(event.SubscriptionDropped.Error.Error(), textTooSlow):
		return e, false, errFellBehind
	case event.SubscriptionDropped != nil:
		return e, false, fmt.Errorf("the subscription was dropped: %w", event.SubscriptionDropped.Error)
	case event.CheckPointReached != nil:
		return e, false, f.checkpoint(ctx, event.CheckPointReached)
	case event.CaughtUp != nil:
		if f.member.retired.Err() != nil {
			return e, false, errReplaced
		}
		f.caught = true
		f.at = max(f.at, f.head)
	case event.EventAppeared != nil:
		at := position(event.EventAppeared)
		if at <= f.at {
			return e, false, nil
		}
		e, ours, err := fromClient(event.EventAppeared)
		if err != nil {
			return e, false, err
		}
		f.at = at
		return e, ours && f.filter.Match(e.Stream, e.Type), nil
	}
	return e, false, nil
}

// checkpoint records how far the server has read. Only the position of an event proves it: its commit and
// prepare positions are equal. Other checkpoints are before an event that was possibly not read (the server
// sends one if a page was full at the end of the log), and a subscription that begins after them would lose
// it. There is also one past all events, which some servers send after an empty search.
func (f *follower) checkpoint(ctx context.Context, p *esdb.Position) error {
	at := eventlog.Position(p.Commit)
	switch {
	case at <= f.at || p.Commit >= 1<<63:
	case p.Prepare == p.Commit:
		f.at = at
	case time.Since(f.exact) >= exactEvery:
		// The event before that position has been read.
		exact, err := f.log.positionBefore(ctx, f.member, startAt(at))
		if err != nil {
			return err
		}
		f.at, f.exact = max(f.at, exact), time.Now()
	}
	return nil
}
