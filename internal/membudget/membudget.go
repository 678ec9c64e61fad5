// Package membudget limits the memory that different kinds of work use concurrently in one process. Before
// work starts it requests a share of the budget, and waits until that is free.
package membudget

import (
	"context"

	"golang.org/x/sync/semaphore"
)

const (
	// DefaultBytes is enough for one image of four million pixels, or a few of one million, together with many small
	// ones. The process takes up to twice as much, because the garbage collector runs when garbage equals the memory in
	// use.
	DefaultBytes = 96 << 20
	// smallBytes is the memory for making a small image, including its source file.
	smallBytes = 4 << 20
	// smallFraction: 1/smallFraction of the budget is reserved for small images, which never wait for a large one.
	smallFraction = 3
)

// Budget is a number of bytes that are granted in the order of the requests. A third of them is reserved
// for small shares, so that these never wait for large ones, and many of them never keep a large one
// waiting. It is safe for concurrent use.
type Budget struct {
	small, large *section
}

type section struct {
	bytes *semaphore.Weighted
	size  int64
}

func newSection(size int64) *section {
	size = max(size, 1)
	return &section{semaphore.NewWeighted(size), size}
}

// New returns a budget of that many bytes, or of DefaultBytes if bytes is below 1.
func New(bytes int64) *Budget {
	if bytes < 1 {
		bytes = DefaultBytes
	}
	return &Budget{small: newSection(bytes / smallFraction), large: newSection(bytes - bytes/smallFraction)}
}

// Share is the memory of one piece of work. The zero Share is empty.
type Share struct {
	of    *section
	bytes int64 // requested bytes
}

// Share returns the share for work that uses that many bytes, without acquiring it.
func (b *Budget) Share(bytes int64) Share {
	if bytes <= smallBytes {
		return Share{b.small, bytes}
	}
	return Share{b.large, bytes}
}

// Bytes returns the requested bytes.
func (s Share) Bytes() int64 { return s.bytes }

// held returns the bytes to acquire: a share that is larger than its section takes all of it.
func (s Share) held() int64 { return min(s.bytes, s.of.size) }

// Acquire waits until the share is free and takes it. Errors: ctx.Err().
func (s Share) Acquire(ctx context.Context) error {
	if s.of == nil {
		return nil
	}
	return s.of.bytes.Acquire(ctx, s.held())
}

// TryAcquire takes the share if it is free, and reports whether it did.
func (s Share) TryAcquire() bool { return s.of == nil || s.of.bytes.TryAcquire(s.held()) }

// Release returns an acquired share to the budget.
func (s Share) Release() {
	if s.of != nil {
		s.of.bytes.Release(s.held())
	}
}
