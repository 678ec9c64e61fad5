package projectionstest

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// records is a slog.Handler that keeps the messages and wakes waiters.
type records struct {
	mu       sync.Mutex
	messages []string
	more     chan struct{} // closed with the next record; nil without waiters
}

// Enabled implements slog.Handler.
func (*records) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (r *records) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, rec.Message)
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (r *records) WithAttrs([]slog.Attr) slog.Handler { return r }

// WithGroup implements slog.Handler.
func (r *records) WithGroup(string) slog.Handler { return r }

func (r *records) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.messages)
}

func (r *records) contains(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.messages, func(s string) bool { return strings.Contains(s, text) })
}

func (r *records) wait(ctx context.Context, n int) error {
	for {
		r.mu.Lock()
		if len(r.messages) > n {
			r.mu.Unlock()
			return nil
		}
		if r.more == nil {
			r.more = make(chan struct{})
		}
		more := r.more
		r.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
