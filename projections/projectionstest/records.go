package projectionstest

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// news is a log handler that counts records and wakes waiters.
type news struct {
	mu      sync.Mutex
	records int
	said    []string
	more    chan struct{} // closed with the next record; nil without waiters
}

// Enabled implements slog.Handler.
func (*news) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (n *news) Handle(_ context.Context, rec slog.Record) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.records++
	n.said = append(n.said, rec.Message)
	if n.more != nil {
		close(n.more)
		n.more = nil
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (n *news) WithAttrs([]slog.Attr) slog.Handler { return n }

// WithGroup implements slog.Handler.
func (n *news) WithGroup(string) slog.Handler { return n }

func (n *news) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.records
}

func (n *news) heard(part string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.said, func(s string) bool { return strings.Contains(s, part) })
}

func (n *news) after(ctx context.Context, records int) error {
	for {
		n.mu.Lock()
		if n.records > records {
			n.mu.Unlock()
			return nil
		}
		if n.more == nil {
			n.more = make(chan struct{})
		}
		more := n.more
		n.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
