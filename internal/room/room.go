// Package room bounds the bytes that works of several kinds hold at once in one process: each says before it begins
// what it will hold, and waits until there is room for it.
package room

import (
	"context"

	"golang.org/x/sync/semaphore"
)

const (
	// DefaultBytes is for one picture of four million pixels, or a few of one million, beside a crowd of small ones.
	// The process takes up to twice of it, since garbage is collected when there is as much as what is in use.
	DefaultBytes = 96 << 20
	// smallBytes is what a small picture holds while it is made, with the file that it is made of.
	smallBytes = 4 << 20
	// smallShare of the room is for those alone: they never wait for a large one.
	smallShare = 3
)

// Room is bytes that are given in the order in which they are asked for. A third of them is for what is small, so
// that it never waits for what is large, and no crowd of it keeps anything large waiting. It is safe for concurrent
// use.
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

// New returns room for so many bytes; below 1 for DefaultBytes.
func New(bytes int64) *Room {
	if bytes < 1 {
		bytes = DefaultBytes
	}
	return &Room{small: newSection(bytes / smallShare), large: newSection(bytes - bytes/smallShare)}
}

// Part is what one work holds. The zero Part is nothing.
type Part struct {
	of    *section
	bytes int64 // that were asked for
}

// Part returns the part for a work that holds so many bytes. It is not taken yet.
func (r *Room) Part(bytes int64) Part {
	if bytes <= smallBytes {
		return Part{r.small, bytes}
	}
	return Part{r.large, bytes}
}

// Bytes is what was asked for.
func (p Part) Bytes() int64 { return p.bytes }

// held is what is taken: what is larger than the section has all of it.
func (p Part) held() int64 { return min(p.bytes, p.of.size) }

// Wait waits until the part is taken. Errors: ctx.Err().
func (p Part) Wait(ctx context.Context) error {
	if p.of == nil {
		return nil
	}
	return p.of.bytes.Acquire(ctx, p.held())
}

// Try takes the part if that needs no waiting, and reports whether it did.
func (p Part) Try() bool { return p.of == nil || p.of.bytes.TryAcquire(p.held()) }

// Give gives back a part that was taken.
func (p Part) Give() {
	if p.of != nil {
		p.of.bytes.Release(p.held())
	}
}
