package esdb

import (
	"context"
	"errors"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/protobuf/proto"

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
	// appendGrace is how long an append may still wait for its answer after its member was replaced: on a working
	// connection the answer comes within milliseconds, and the append need not be repeated.
	appendGrace = time.Second
)

// request is an append that may be sent several times.
type request struct {
	stream   string
	expected eventlog.Expected
	events   []*streams.BatchAppendReq_ProposedMessage
}

// sendUntilKnown appends. The server drops a repeat of an append that it has written but not indexed, and answers
// after its own timeout. sendUntilKnown then resends the append until it has a result, or ctx or CallTimeout ends. If a
// server rejects an append because it is not the leader, sendUntilKnown sends it to the next one.
//
// Errors: as for send. After an attempt with an unknown outcome it returns only that error, or a wrong revision.
func (l *Log) sendUntilKnown(ctx context.Context, r *request) (eventlog.Appended, error) {
	over := time.Now().Add(l.cfg.CallTimeout)
	appended, dropped := l.send(ctx, r)
	for attempt := 1; isNotLeader(dropped) && outcomeOf(dropped) == notWritten && attempt < leaderAttempts; attempt++ {
		appended, dropped = l.send(ctx, r)
	}
	again := errors.Is(dropped, errTimedOut) || errors.Is(dropped, errMaybeNotLeader)
	if !again || outcomeOf(dropped) == notWritten {
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
// holds the events at the expected revisions, the append is complete, whatever its answer will be. Close does not
// end it.
//
// Errors: notSent, errReplaced, ctx.Err(), and those that outcomeOf distinguishes.
func (l *Log) send(ctx context.Context, r *request) (eventlog.Appended, error) {
	appended, err := l.exchange(ctx, r)
	if err != nil {
		return eventlog.Appended{}, err
	}
	return l.completed(ctx, r, appended)
}

// exchange is send without what may need another slot. It returns the last revision and the position, if it is known.
func (l *Log) exchange(ctx context.Context, r *request) (eventlog.Appended, error) {
	m, err := l.enter(ctx)
	if err != nil {
		return eventlog.Appended{}, notSent{err}
	}
	defer func() { <-l.calls }()
	defer m.release()
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	began := time.Now()
	done := make(chan answer[eventlog.Appended], 2)
	looking, stop := context.WithCancel(ctx)
	looked := make(chan struct{})
	// Most appends are answered before that, without an additional goroutine.
	first := time.AfterFunc(firstLookup, func() {
		defer close(looked)
		if appended, ok := l.look(looking, m, r); ok {
			done <- answer[eventlog.Appended]{value: appended}
		}
	})
	defer func() {
		stop()
		if !first.Stop() {
			<-looked // it uses the member
		}
	}()
	forget := m.appends.send(r, done)
	defer forget()
	a := await(ctx, m, done)
	select {
	case a = <-done: // it has just completed
	default:
	}
	if a.err == nil {
		m.markAlive()
	}
	l.supervisor.judge(m, a.err, time.Since(began))
	return a.value, a.err
}

// await waits for an answer until ctx ends, or appendGrace has passed since the member was replaced.
func await(ctx context.Context, m *member, done <-chan answer[eventlog.Appended]) answer[eventlog.Appended] {
	for retired, last := m.retired.Done(), (<-chan time.Time)(nil); ; {
		select {
		case a := <-done:
			return a
		case <-ctx.Done():
			return answer[eventlog.Appended]{err: ctx.Err()}
		case <-retired:
			timer := time.NewTimer(appendGrace)
			defer timer.Stop()
			retired, last = nil, timer.C
		case <-last:
			return answer[eventlog.Appended]{err: errReplaced}
		}
	}
}

// look repeatedly looks up a request's events at their revisions, until they exist or ctx ends. It ignores
// failed reads: the append may still be answered.
func (l *Log) look(ctx context.Context, m *member, r *request) (eventlog.Appended, bool) {
	for pause := 2 * firstLookup; ctx.Err() == nil; pause = min(2*pause, lastLookup) {
		appended, err := callOn(ctx, l, m, func(ctx context.Context) (eventlog.Appended, error) {
			return held(ctx, m, r)
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
func held(ctx context.Context, m *member, r *request) (eventlog.Appended, error) {
	next, count := r.expected.Next(), uint64(len(r.events))
	in, err := m.client.ReadStream(ctx, r.stream,
		esdb.ReadStreamOptions{From: esdb.Revision(next), Direction: esdb.Forwards}, count)
	if err != nil {
		return eventlog.Appended{}, err
	}
	appended := eventlog.Appended{FirstRevision: next, LastRevision: next + count - 1}
	same, last := uint64(0), eventlog.Position(0)
	err = receive(in, func(event *esdb.ResolvedEvent) (bool, error) {
		e := event.OriginalEvent()
		if e == nil || same == count || e.EventNumber != next+same ||
			!proto.Equal(structured(esdb.UUIDAsInt64(e.EventID)), r.events[same].GetId()) {
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
