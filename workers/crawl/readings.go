package crawl

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"weak"

	"letterhead/workers/crawl/picture"
)

// readings are the pictures that one crawl has read, so that a file that a page names many times is decoded once.
type readings struct {
	mu sync.Mutex
	of map[[sha256.Size]byte]*reading
}

// reading is one file that is read as one kind of candidate.
type reading struct {
	done chan struct{}
	// picture is there for as long as the crawl keeps it.
	picture weak.Pointer[picture.Picture]
	err     error
}

// once reads a candidate's file, unless one with the same bytes was read already as a candidate of the same kind: then
// it gives what that gave. Those who ask at the same time wait for one reading. Errors: those of read, errNotInTime.
func (r *readings) once(ctx context.Context, c picture.Candidate, data []byte, read func() (*picture.Picture, error)) (*picture.Picture, error) {
	key := keyOf(c, data)
	r.mu.Lock()
	one := r.of[key]
	if one == nil {
		if r.of == nil {
			r.of = map[[sha256.Size]byte]*reading{}
		}
		one = &reading{done: make(chan struct{}), err: errNotInTime} // also when read panics
		r.of[key] = one
		r.mu.Unlock()
		defer close(one.done)
		p, err := read()
		one.picture, one.err = weak.Make(p), err
		return p, err
	}
	r.mu.Unlock()
	select {
	case <-one.done:
	case <-ctx.Done():
		return nil, errNotInTime
	}
	if one.err != nil {
		return nil, one.err
	}
	if p := one.picture.Value(); p != nil {
		return p.As(c)
	}
	return read() // it was let go for want of memory
}

func keyOf(c picture.Candidate, data []byte) [sha256.Size]byte {
	key := fmt.Appendf(nil, "%x %v %t", sha256.Sum256(data), c.Kind, c.Home())
	if c.Part != nil {
		key = fmt.Appendf(key, " part %q", c.Part.ID)
	}
	if c.Crop != nil {
		key = fmt.Appendf(key, " crop %v", *c.Crop)
	}
	return sha256.Sum256(key)
}
