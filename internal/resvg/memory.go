package resvg

import (
	"context"
	"time"
)

// keptMemory is how many bytes of memory are kept for the next image. Most logos need less. The
// additional memory of a hostile file is released.
const keptMemory = 16 << 20

// memory is the linear memory of one instance. It refuses to grow beyond its limit and records the
// refusal, because in the module images that are too large and broken images end in the same trap.
//
// Memories are zeroed and reused, because otherwise allocating and collecting a few MiB would take most
// of the time for a small image.
type memory struct {
	bytes   []byte // all zero beyond its length
	limit   uint64
	refused bool

	// large is a semaphore: only one memory at a time may be larger than keptMemory.
	large   chan struct{}
	has     bool // this memory holds the semaphore
	crowded bool // another memory held the semaphore for too long
	turn    *turn
}

// turn is the time limit of one image. Waiting for another image's memory does not count.
type turn struct {
	ctx     context.Context // ends when the time is up
	wait    time.Duration   // the longest wait for the large memory
	left    time.Duration   // when the timer was last started
	started time.Time
	timer   *time.Timer
	end     context.CancelCauseFunc
}

// newTurn starts the timer of an image. The caller must call stop.
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

// await acquires the semaphore large, with the image's timer stopped, and reports whether it succeeded.
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

// Reallocate implements experimental.LinearMemory. It returns nil if it refuses to grow.
func (m *memory) Reallocate(size uint64) []byte {
	if m.crowded { // whether later requests succeed would depend on the load, not on the file
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

// Free implements experimental.LinearMemory. It does nothing, because keepMemory reuses the memory
// after the instance has ended.
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

// keepMemory zeroes a memory and keeps it for the next image.
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
