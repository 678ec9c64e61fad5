package resvg

import (
	"context"
	"time"
)

// keptMemory is how much of a memory is kept for the next image, in bytes. Most logos need less; the
// additional memory of a hostile one is released.
const keptMemory = 16 << 20

// memory is the linear memory of one instance. It refuses to grow beyond its limit and records that it
// did, which distinguishes an image that is too large from a broken one: in the module both end in the
// same trap.
//
// Memories are zeroed and reused, because most of a small image's time would otherwise go into
// allocating and collecting a few MiB.
type memory struct {
	bytes   []byte // all zero beyond its length
	limit   uint64
	refused bool

	// large has room for the one memory that may be larger than keptMemory.
	large   chan struct{}
	has     bool // this memory has it
	crowded bool // another memory had the room for too long
	turn    *turn
}

// turn is the time limit of one image. Waiting for another image's memory does not count.
type turn struct {
	ctx     context.Context // ends when the time is up
	wait    time.Duration   // the longest wait for the large memory
	left    time.Duration   // since the timer was last started
	started time.Time
	timer   *time.Timer
	end     context.CancelCauseFunc
}

// newTurn starts the time of an image. The caller must call stop.
func newTurn(ctx context.Context, cfg Config) *turn {
	t := &turn{wait: cfg.Wait, left: cfg.Timeout, started: time.Now()}
	t.ctx, t.end = context.WithCancelCause(ctx)
	t.timer = time.AfterFunc(t.left, func() { t.end(context.DeadlineExceeded) })
	return t
}

func (t *turn) stop() {
	t.timer.Stop()
	t.end(nil)
}

// await waits for room in large, with the image's time stopped, and reports whether it got it.
func (t *turn) await(large chan<- struct{}) bool {
	if !t.timer.Stop() {
		<-t.ctx.Done() // the time is up
		return false
	}
	t.left -= time.Since(t.started)
	enough := time.NewTimer(t.wait)
	defer enough.Stop()
	got := false
	select {
	case large <- struct{}{}:
		got = true
	case <-enough.C:
	case <-t.ctx.Done():
	}
	t.started = time.Now()
	t.timer.Reset(t.left)
	return got
}

// Reallocate implements experimental.LinearMemory. nil means refusal.
func (m *memory) Reallocate(size uint64) []byte {
	if m.crowded { // later requests depend on the load, not on the file
		return nil
	}
	if size > m.limit {
		m.refused = true
		return nil
	}
	if size > keptMemory && !m.has {
		if m.has = m.turn.await(m.large); !m.has {
			m.crowded = true
			return nil
		}
	}
	if size > uint64(cap(m.bytes)) {
		grown := make([]byte, size, min(max(size, 2*uint64(cap(m.bytes))), m.limit))
		copy(grown, m.bytes)
		m.bytes = grown
	}
	m.bytes = m.bytes[:size]
	return m.bytes
}

// Free implements experimental.LinearMemory. keepMemory reclaims the memory when the instance has
// ended.
func (m *memory) Free() {}

func (r *Renderer) takeMemory(t *turn) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.spares); n > 0 {
		m := r.spares[n-1]
		r.spares = r.spares[:n-1]
		m.turn = t
		return m
	}
	return &memory{limit: uint64(r.cfg.Memory), large: r.large, turn: t}
}

// keepMemory zeroes a memory for the next image, which must not see any of its content.
func (r *Renderer) keepMemory(m *memory) {
	if m.has {
		<-m.large
		m.has = false
	}
	m.turn = nil
	if cap(m.bytes) > keptMemory {
		return
	}
	clear(m.bytes)
	m.bytes, m.refused, m.crowded = m.bytes[:0], false, false
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spares = append(r.spares, m)
}
