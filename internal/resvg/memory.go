package resvg

import (
	"context"
	"time"
)

// keptMemory is how much of a memory is kept for the next picture, in bytes. Most logos need less; what a
// hostile one needed goes back.
const keptMemory = 16 << 20

// memory is the linear memory of one instance. It says no beyond its limit and remembers that it did, which
// tells a picture that is too large from one that is broken: in the module both end as the same trap.
//
// Memories are used again, emptied, since most of a small picture's time would otherwise go into asking for
// some MiB and collecting them.
type memory struct {
	bytes   []byte // all zero past its length
	limit   uint64
	refused bool

	// large has room for the one memory that may be larger than keptMemory.
	large   chan struct{}
	has     bool // this is the one
	crowded bool // the room was another's for too long
	turn    *turn
}

// turn is the time that one picture has. Waiting for another picture's memory does not use it up.
type turn struct {
	ctx     context.Context // ends with the time
	wait    time.Duration   // the longest wait for the large memory
	left    time.Duration   // when the timer was last started
	started time.Time
	timer   *time.Timer
	end     context.CancelCauseFunc
}

// newTurn starts the time of a picture. The caller must call stop.
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

// await waits for room in large, with the picture's time stopped, and reports whether it got it.
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

// Reallocate implements experimental.LinearMemory. nil is no.
func (m *memory) Reallocate(size uint64) []byte {
	if m.crowded { // what it asks for now depends on the load, not on the file
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

// Free implements experimental.LinearMemory. The memory is taken back by keepMemory, when nothing runs in it
// any more.
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

// keepMemory empties a memory for the next picture, which must see nothing of this one.
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
