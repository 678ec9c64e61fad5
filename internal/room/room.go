// Package room limits the memory that different kinds of work use concurrently in one process: each
// declares before it starts how much it will use, and waits until there is room.
package room

import (
	"context"

	"golang.org/x/sync/semaphore"
)

const (
	// DefaultBytes is enough for one image of four million pixels, or a few of one million, together
	// with many small ones. The process takes up to twice as much, because garbage is collected when
	// it equals the memory in use.
	DefaultBytes = 96 << 20
	// smallBytes is the memory for making a small image, including its source file.
	smallBytes = 4 << 20
	// smallShare: 1/smallShare of the room is reserved for small images, which never wait for a large
	// one.
	smallShare = 3
)

// Room is a number of bytes that are granted in the order of the requests. A third of them is reserved
// for small parts, so that these never wait for large ones, and many of them never keep a large one
// waiting. It is safe for concurrent use.
type Room struct {
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

// New returns room for that many bytes, or DefaultBytes if bytes is below 1.
func New(bytes int64) *Room {
	if bytes < 1 {
		bytes = DefaultBytes
	}
	return &Room{small: newSection(bytes / smallShare), large: newSection(bytes - bytes/smallShare)}
}

// Part is the share of one piece of work. The zero Part is empty.
type Part struct {
	of    *section
	bytes int64 // requested bytes
}

// Part returns the part for work that uses that many bytes. It is not taken yet.
func (r *Room) Part(bytes int64) Part {
	if bytes <= smallBytes {
		return Part{r.small, bytes}
	}
	return Part{r.large, bytes}
}

// Bytes returns the requested bytes.
func (p Part) Bytes() int64 { return p.bytes }

// held returns the bytes to take: a part that is larger than its section takes all of it.
func (p Part) held() int64 { return min(p.bytes, p.of.size) }

// Wait waits until the part can be taken. Errors: ctx.Err().
func (p Part) Wait(ctx context.Context) error {
	if p.of == nil {
		return nil
	}
	return p.of.bytes.Acquire(ctx, p.held())
}

// Try takes the part if it is available, and reports whether it did.
func (p Part) Try() bool { return p.of == nil || p.of.bytes.TryAcquire(p.held()) }

// Give returns a part that was taken.
func (p Part) Give() {
	if p.of != nil {
		p.of.bytes.Release(p.held())
	}
}
