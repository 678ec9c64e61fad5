package variants

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// room is the bytes that some makings may hold at once. They get them in the order in which they asked.
type room struct {
	bytes *semaphore.Weighted
	size  int64
}

func newRoom(size int64) *room { return &room{semaphore.NewWeighted(size), size} }

// part is what a making holds of a room.
type part struct {
	of    *room
	bytes int64 // that were asked for
}

// held is what is taken of the room: what is larger than the room has all of it.
func (p part) held() int64 { return min(p.bytes, p.of.size) }

// wait waits for it. Errors: ctx.Err().
func (p part) wait(ctx context.Context) error {
	if p.of == nil {
		return nil
	}
	return p.of.bytes.Acquire(ctx, p.held())
}

func (p part) give() {
	if p.of != nil {
		p.of.bytes.Release(p.held())
	}
}

// partOf returns the part that a making of so many bytes is to have. Small ones have a room of their own, so none of
// them waits for a large one, and no crowd of them keeps a large one waiting.
func (s *Store) partOf(bytes int64) part {
	if bytes <= lightBytes {
		return part{s.light, bytes}
	}
	return part{s.heavy, bytes}
}

// noRoom is what a making returns that may not hold what it needs yet.
type noRoom struct{ part }

func (*noRoom) Error() string { return "too little room to make the picture in" }

// turnKey is what a making's context has the turn under that Need asks for; nil where it asks for nothing.
type turnKey struct{}

// Need asks for what a making is about to hold, in bytes: all of it, and what it asked for before is in that. ctx is
// the making's; with any other, Need has nothing to say.
//
// An error means that others hold too much. The making must return it: it is called again when there is room, and
// meanwhile its turn is another's.
func Need(ctx context.Context, bytes int64) error {
	t, _ := ctx.Value(turnKey{}).(*turn)
	if t == nil || bytes <= t.part.bytes {
		return nil
	}
	t.part.give() // who waits for a part has no other, so that nobody waits for him
	t.part = part{}
	want := t.store.partOf(bytes)
	if !want.of.bytes.TryAcquire(want.held()) {
		return &noRoom{want}
	}
	t.part = want
	return nil
}
