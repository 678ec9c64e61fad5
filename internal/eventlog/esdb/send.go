package esdb

import (
	"context"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

const (
	// An append without an answer is looked up in its stream after a delay that doubles from the first to
	// the last. The first is several times the duration of an append (10 to 25 ms).
	firstLookup = 100 * time.Millisecond
	lastLookup  = 800 * time.Millisecond
	// An append that the server dropped is resent after a delay that doubles from the first to the last.
	firstRepeat = 20 * time.Millisecond
	lastRepeat  = 500 * time.Millisecond
)

// request is an append that may be sent several times.
type request struct {
	stream   string
	expected eventlog.Expected
	events   []esdb.EventData
}

// sendUntilKnown appends. The server drops a repeat of an append that it has written but not indexed, without
// an answer, and returns Aborted after its own timeout. sendUntilKnown then resends the append until it has a
// result, or ctx or CallTimeout ends. If a server rejects an append because it is not the leader,
// sendUntilKnown sends it to the next one.
//
// Errors: as for call. After an attempt with an unknown outcome it returns only that error, or a wrong revision.
func (l *Log) sendUntilKnown(ctx context.Context, r request) (eventlog.Appended, error) {
	over := time.Now().Add(l.cfg.CallTimeout)
	appended, dropped := l.send(ctx, r)
	// The client has followed the hint to the leader, whose store was not compared: the repeat uses the next member.
	for attempt := 1; isNotLeader(dropped) && attempt < leaderAttempts; attempt++ {
		appended, dropped = l.send(ctx, r)
	}
	if !isAborted(dropped) || r.expected.IsAny() {
		return appended, dropped
	}
	ctx, cancel := context.WithDeadline(ctx, over)
	defer cancel()
	for pause := firstRepeat; ; pause = min(2*pause, lastRepeat) {
		if delay.For(ctx, pause) != nil || l.closing.Err() != nil {
			return eventlog.Appended{}, dropped
		}
		appended, err := l.send(ctx, r)
		if err == nil || outcomeOf(err) == wrongRevision {
			return appended, err
		}
	}
}

// send sends an append once. Until the answer comes, it checks the stream from time to time: if the stream
// holds the events at the expected revisions, the append is complete, whatever its answer will be.
func (l *Log) send(ctx context.Context, r request) (eventlog.Appended, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make(chan eventlog.Appended, 1)
	options := esdb.AppendToStreamOptions{ExpectedRevision: toExpected(r.expected), Deadline: &l.cfg.CallTimeout}
	result, err := write(ctx, l, func(ctx context.Context, m *member) (*esdb.WriteResult, error) {
		if next, exact := r.expected.Next(); exact {
			looking, stop := context.WithCancel(ctx)
			looked := make(chan struct{})
			// Most appends are answered before that, without an additional goroutine.
			first := time.AfterFunc(firstLookup, func() {
				defer close(looked)
				if appended, ok := l.look(looking, m, r, next); ok {
					found <- appended
					cancel()
				}
			})
			defer func() {
				stop()
				if !first.Stop() {
					<-looked // it uses the member
				}
			}()
		}
		return m.client.AppendToStream(ctx, r.stream, options, r.events...)
	})
	select {
	case appended := <-found:
		return appended, nil
	default:
	}
	if err != nil {
		return eventlog.Appended{}, err
	}
	return l.appendResult(ctx, r.stream, result, len(r.events))
}

// look repeatedly looks up a request's events at their revisions, until they exist or ctx ends. It ignores
// failed reads: the append may still be answered.
func (l *Log) look(ctx context.Context, m *member, r request, next uint64) (eventlog.Appended, bool) {
	for pause := 2 * firstLookup; ctx.Err() == nil; pause = min(2*pause, lastLookup) {
		appended, err := callOn(ctx, l, m, func(ctx context.Context) (eventlog.Appended, error) {
			return held(ctx, m, r, next)
		})
		if err == nil && appended.Position != 0 {
			return appended, true
		}
		if delay.For(ctx, pause) != nil {
			break
		}
	}
	return eventlog.Appended{}, false
}

// held returns the revisions and the position of a request's events; the position is 0 unless all of them
// are at their revisions.
func held(ctx context.Context, m *member, r request, next uint64) (eventlog.Appended, error) {
	count := uint64(len(r.events))
	in, err := m.client.ReadStream(ctx, r.stream,
		esdb.ReadStreamOptions{From: esdb.Revision(next), Direction: esdb.Forwards}, count)
	if err != nil {
		return eventlog.Appended{}, err
	}
	appended := eventlog.Appended{FirstRevision: next, LastRevision: next + count - 1}
	same, last := uint64(0), eventlog.Position(0)
	err = receive(in, func(event *esdb.ResolvedEvent) (bool, error) {
		e := event.OriginalEvent()
		if e == nil || same == count || e.EventNumber != next+same || e.EventID != r.events[same].EventID {
			return false, nil
		}
		same, last = same+1, position(event)
		return true, nil
	})
	if same == count {
		appended.Position = last
	}
	return appended, err
}
