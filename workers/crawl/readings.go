package crawl

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"weak"

	"letterhead/workers/crawl/inlinesvg"
	"letterhead/workers/crawl/logofinder"
)

// readings are the decoded image files of one crawl, by content: a file is
// decoded once, even if the page refers to it several times or in several roles.
type readings struct {
	sprites bool         // rasters may be cut into pieces
	decoded atomic.Int32 // so far

	mu sync.Mutex
	of map[[sha256.Size]byte]*reading
}

// reading is one file.
type reading struct {
	done chan struct{} // closed when the others are set
	err  error
	file weak.Pointer[logofinder.File] // remains while it is in use, and until the crawl ends if there is room
	kept *logofinder.File
}

// at returns the reading of a file, and whether the caller must decode it: then it calls set and closes done.
func (r *readings) at(data []byte, part *inlinesvg.Sprite) (one *reading, first bool) {
	key := sha256.Sum256(data)
	if part != nil {
		key = sha256.Sum256(fmt.Appendf(key[:], "%q", []string{part.ID, part.Color, part.Fill, part.ViewBox}))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.of[key]; one != nil {
		return one, false
	}
	if r.of == nil {
		r.of = map[[sha256.Size]byte]*reading{}
	}
	one = &reading{done: make(chan struct{}), err: errNotInTime} // also if decoding panics
	r.of[key] = one
	return one, true
}

// set records the result of decoding. Only the caller may access the reading until done is closed.
func (one *reading) set(file *logofinder.File, err error, keep bool) {
	if one.err = err; err != nil {
		return
	}
	one.file = weak.Make(file)
	if keep {
		one.kept = file
	}
}

// decode decodes a file, unless this crawl has already done so, and calls use, in a turn at the gate with room for
// both. Concurrent callers for one file share one decoding. cost is the memory, in bytes, for use, in addition to the
// file and its pixels. Errors: as logofinder.Open and of use, errNotInTime.
func (r *run) decode(ctx context.Context, rank int, data []byte, part *inlinesvg.Sprite, cost int64,
	use func(*logofinder.File) error) error {
	one, first := r.readings.at(data, part)
	if !first {
		select {
		case <-one.done:
		case <-ctx.Done():
			return errNotInTime
		}
		if one.err != nil {
			return one.err
		}
	}
	finish := sync.OnceFunc(func() {
		if first {
			close(one.done)
		}
	})
	defer finish()
	var file *logofinder.File
	if !first {
		file = one.file.Value() // nil if it was dropped for lack of memory
	}
	if r.readings.sprites {
		cost += logofinder.CutCost
	}
	if file == nil {
		cost += logofinder.Cost(data, r.readings.sprites)
	}
	leave, in := r.work(ctx, rank, cost)
	if !in {
		return errNotInTime
	}
	defer leave()
	if file == nil {
		r.readings.decoded.Add(1)
		var err error
		if file, err = logofinder.Open(ctx, r.crawler.cfg.Renderer, data, part, r.readings.sprites); first {
			one.set(file, err, err == nil && r.held.takeSpare(file.Bytes()))
			finish()
		}
		if err != nil {
			return err
		}
	}
	return use(file)
}
