package resvg

import "context"

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

	// large has room for the one memory that may be larger than keptMemory; ctx bounds the wait for it.
	large chan struct{}
	ctx   context.Context
	has   bool // this is the one
}

// Reallocate implements experimental.LinearMemory. nil is no.
func (m *memory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.refused = true
		return nil
	}
	if size > keptMemory && !m.has {
		select {
		case m.large <- struct{}{}:
			m.has = true
		case <-m.ctx.Done():
			return nil // the picture's time is up
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

func (r *Renderer) takeMemory(ctx context.Context) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.spares); n > 0 {
		m := r.spares[n-1]
		r.spares = r.spares[:n-1]
		m.ctx = ctx
		return m
	}
	return &memory{limit: uint64(r.cfg.Memory), large: r.large, ctx: ctx}
}

// keepMemory empties a memory for the next picture, which must see nothing of this one.
func (r *Renderer) keepMemory(m *memory) {
	if m.has {
		<-m.large
		m.has = false
	}
	m.ctx = nil
	if cap(m.bytes) > keptMemory {
		return
	}
	clear(m.bytes)
	m.bytes, m.refused = m.bytes[:0], false
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spares = append(r.spares, m)
}
