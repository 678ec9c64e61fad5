package kurrent

import (
	"context"
	"fmt"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"letterhead/internal/eventlog"
)

// answer is what a call came back with.
type answer[T any] struct {
	value T
	err   error
}

// notSent marks errors of calls that never reached the client.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// call runs do beside the caller, who leaves when ctx ends: the client itself waits for a connection
// without looking at the context. do must not touch anything of the caller's but copies. closing ends
// waits for calls that need not be finished (reads), and is nil for those that must be.
func call[T any](ctx context.Context, l *Log, closing context.Context, do func(context.Context, *esdb.Client) (T, error)) (T, error) {
	var none T
	if err := l.enter(ctx); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	if closing != nil {
		stop := context.AfterFunc(closing, cancel)
		defer stop()
	}
	done := make(chan answer[T], 1)
	go func() {
		defer func() { <-l.calls }()
		defer cancel()
		var a answer[T]
		defer func() { done <- a }()
		defer func() {
			if p := recover(); p != nil {
				a = answer[T]{err: fmt.Errorf("the EventStoreDB client panicked: %v", p)}
			}
		}()
		a.value, a.err = do(ctx, l.client)
	}()
	select {
	case a := <-done:
		if a.err != nil && closing != nil && closing.Err() != nil {
			return none, eventlog.ErrClosed
		}
		return a.value, a.err
	case <-ctx.Done():
	}
	// It may be just through.
	select {
	case a := <-done:
		return a.value, a.err
	default:
	}
	if closing != nil && closing.Err() != nil {
		return none, eventlog.ErrClosed
	}
	return none, ctx.Err()
}

// enter takes a place among the calls under way. It fails only when nothing was sent.
func (l *Log) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return notSent{err}
	}
	if l.closing.Err() != nil {
		return notSent{eventlog.ErrClosed}
	}
	select {
	case l.calls <- struct{}{}:
	case <-ctx.Done():
		return notSent{ctx.Err()}
	case <-l.closing.Done():
		return notSent{eventlog.ErrClosed}
	}
	if l.closing.Err() != nil {
		<-l.calls
		return notSent{eventlog.ErrClosed}
	}
	return nil
}
