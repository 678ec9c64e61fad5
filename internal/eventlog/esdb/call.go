package esdb

import (
	"context"
	"errors"
	"sync/atomic"
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

// appendGrace is how long an append may still wait for its answer after its member was replaced: on a working
// connection the answer comes within milliseconds, and the append need not be repeated.
const appendGrace = time.Second

// read runs a read within CallTimeout, and retries once if its connection is lost or replaced.
func read[T any](ctx context.Context, l *Log, do func(context.Context, *member) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	defer context.AfterFunc(l.closing, cancel)()
	value, err := call(ctx, l, 0, do)
	if errors.Is(err, errReplaced) || isLost(err) {
		value, err = call(ctx, l, 0, do)
	}
	if err != nil && l.closing.Err() != nil {
		return value, eventlog.ErrClosed
	}
	return value, err
}

// write runs an append within CallTimeout. Close does not end it.
func write[T any](ctx context.Context, l *Log, do func(context.Context, *member) (T, error)) (T, error) {
	return call(ctx, l, appendGrace, do)
}

// call runs do in another goroutine. The caller leaves when ctx or CallTimeout ends, or when grace has passed since the
// member was replaced: the client itself waits for a connection without checking the context, and on a lost connection
// for an answer that never comes. do must only use copies of the caller's data.
//
// Errors: notSent, errReplaced, ctx.Err(), the errors of do.
func call[T any](ctx context.Context, l *Log, grace time.Duration,
	do func(context.Context, *member) (T, error)) (T, error) {
	var none T
	m, err := l.enter(ctx)
	if err != nil {
		return none, notSent{err}
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	began := time.Now()
	done := make(chan answer[T], 1)
	l.workers.run(func() {
		defer func() { <-l.calls }()
		defer m.release()
		defer cancel()
		var a answer[T]
		func() {
			defer recovered(&a.err)
			a.value, a.err = do(ctx, m)
		}()
		if a.err == nil {
			m.markAlive()
		}
		l.supervisor.judge(m, a.err, time.Since(began))
		done <- a
	})
	var why error
	for retired, last := m.retired.Done(), (<-chan time.Time)(nil); why == nil; {
		select {
		case a := <-done:
			return a.value, a.err
		case <-ctx.Done():
			why = ctx.Err()
		case <-retired:
			timer := time.NewTimer(grace)
			defer timer.Stop()
			retired, last = nil, timer.C
		case <-last:
			why = errReplaced
		}
	}
	select {
	case a := <-done: // it has just completed
		return a.value, a.err
	default:
	}
	cancel() // its caller has left
	l.supervisor.judge(m, why, time.Since(began))
	return none, why
}

// maxIdleWorkers bounds the idle goroutines that are kept for later calls.
const maxIdleWorkers = 64

// workers are goroutines that run calls and are reused: the client's calls are deep, and the stack of a new
// goroutine would have to grow for each call.
type workers struct {
	jobs chan func()
	idle atomic.Int64
	end  <-chan struct{} // closed when no idle ones may be kept
}

// run runs do in another goroutine.
func (w *workers) run(do func()) {
	select {
	case w.jobs <- do:
	default:
		go w.work(do)
	}
}

func (w *workers) work(do func()) {
	for {
		do()
		if w.idle.Add(1) > maxIdleWorkers {
			w.idle.Add(-1)
			return
		}
		select {
		case do = <-w.jobs:
			w.idle.Add(-1)
		case <-w.end:
			return
		}
	}
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

// callOn runs do on a member that the caller holds, in another goroutine, which the caller abandons when
// ctx ends, after CallTimeout, or when the member is replaced.
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
