package esdb

import (
	"context"
	"errors"
	"time"

	"letterhead/internal/eventlog"
)

// answer is the result of a call.
type answer[T any] struct {
	value T
	err   error
}

// notSent marks errors of calls that never reached the client.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// read runs a read within CallTimeout, and retries once if its connection is lost or replaced.
func read[T any](ctx context.Context, l *Log, do func(context.Context, *member) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	defer context.AfterFunc(l.closing, cancel)()
	value, err := call(ctx, l, do)
	if errors.Is(err, errReplaced) || isLost(err) {
		value, err = call(ctx, l, do)
	}
	if err != nil && l.closing.Err() != nil {
		return value, eventlog.ErrClosed
	}
	return value, err
}

// call runs do in another goroutine, which its caller leaves as in callOn, and which keeps its slot until do returns.
// do must only use copies of the caller's data.
//
// Errors: notSent, errReplaced, ctx.Err(), the errors of do.
func call[T any](ctx context.Context, l *Log, do func(context.Context, *member) (T, error)) (T, error) {
	m, err := l.enter(ctx)
	if err != nil {
		var none T
		return none, notSent{err}
	}
	defer m.release()
	began := time.Now()
	value, err := callOn(ctx, l, m, func(ctx context.Context) (T, error) {
		defer func() { <-l.calls }()
		return do(ctx, m)
	})
	if err == nil {
		m.markAlive()
	}
	l.supervisor.judge(m, err, time.Since(began))
	return value, err
}

// enter acquires one of Config.Calls slots, and a client. If it returns an error, nothing was sent.
func (l *Log) enter(ctx context.Context) (*member, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.closing.Err() != nil {
		return nil, eventlog.ErrClosed
	}
	select {
	case l.calls <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closing.Done():
		return nil, eventlog.ErrClosed
	}
	m, err := l.supervisor.acquire(ctx)
	if err != nil {
		<-l.calls
	}
	return m, err
}

// callOn runs do on a member that the caller holds, in another goroutine, which the caller leaves when ctx ends, after
// CallTimeout, or when the member is replaced: the client itself waits for a connection without checking the context,
// and on a lost connection for an answer that never comes.
func callOn[T any](ctx context.Context, l *Log, m *member, do func(context.Context) (T, error)) (T, error) {
	var none T
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	m.users.Add(1)
	l.pumps.Add(1)
	done := make(chan answer[T], 1)
	go func() {
		defer l.pumps.Done()
		defer m.release()
		var a answer[T]
		func() {
			defer recovered(&a.err)
			a.value, a.err = do(ctx)
		}()
		done <- a
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-m.retired.Done():
		return none, errReplaced
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
