package crawl

import (
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"

	"letterhead/workers/crawl/picture"
)

const (
	// ownBytes of files and pixels every crawl may hold, however many there are: enough for one picture of the largest
	// size that is kept.
	ownBytes = 4<<20 + 256<<10
	// commonBytes is what all crawls together may hold beyond that.
	commonBytes = 32 << 20
)

// errCrowded: a file was let go because all crawls together hold too much.
var errCrowded = errors.New("not kept: too much is held by all crawls together")

// held counts the bytes of files and pixels that one crawl holds.
type held struct {
	common *semaphore.Weighted // of all crawls; nil: no bound

	mu     sync.Mutex
	own    int64 // held out of ownBytes
	beyond int64 // held out of common
	short  bool  // something was refused
}

// take is false when neither the crawl's own share nor the common one has room for n more bytes.
func (h *held) take(n int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := min(n, ownBytes-h.own)
	if beyond := n - own; beyond > 0 {
		if h.common != nil && !h.common.TryAcquire(beyond) {
			h.short = true
			return false
		}
		h.beyond += beyond
	}
	h.own += own
	return true
}

// give gives bytes back, the common ones first.
func (h *held) give(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	beyond := min(n, h.beyond)
	if beyond > 0 && h.common != nil {
		h.common.Release(beyond)
	}
	h.beyond -= beyond
	h.own = max(0, h.own-(n-beyond))
}

// wasShort says whether something was refused.
func (h *held) wasShort() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.short
}

// end gives everything back.
func (h *held) end() { h.give(h.own + h.beyond) }

// weight is the memory of a picture that was read, in bytes.
func weight(p *picture.Picture) int64 {
	n := int64(len(p.SVG))
	if p.Raster != nil {
		n += int64(len(p.Raster.Pix))
	}
	return n
}

// keep keeps a picture that was read until the crawl chooses. When there is no room for it, those that
// would not be chosen as things stand are let go first: otherwise all wait for the choice, since a better
// picture of one drawing may bring back another.
func (f *found) keep(h *held, i int, p *picture.Picture) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read[i] = p
	if h.take(weight(p)) {
		return
	}
	lost := map[*picture.Picture]string{}
	for _, d := range picture.Select(f.pictures()).Dropped {
		lost[d.Picture] = d.Why
	}
	for j, q := range f.read {
		if why, ok := lost[q]; q != nil && ok {
			if f.read[j], f.refused[j] = nil, errors.New(why); j != i {
				h.give(weight(q))
			}
		}
	}
	if f.read[i] != nil && !h.take(weight(p)) {
		f.read[i], f.refused[i] = nil, errCrowded
	}
}
