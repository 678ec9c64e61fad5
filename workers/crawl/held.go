package crawl

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"letterhead/internal/membudget"
	"letterhead/workers/crawl/logofinder"
)

const (
	ownBytes    = 2 << 20  // the share of every crawl for files and pixels: enough for the files of most sites
	commonBytes = 48 << 20 // the limit for all crawls together beyond their shares
	// spareBytes is the part of that for decoded files that are kept only in case the same file is referenced again.
	spareBytes = 12 << 20
)

// Limits of the memory for home pages.
const (
	// pageBytes is the limit for all of them together: 20 of a hundred thousand
	// characters and some thousand elements, in addition to one of the largest.
	pageBytes = 64 << 20
	// perTag is the size in bytes of an element with the text after it, and perByte the memory of a byte of text.
	perTag, perByte = 160, 3
	pageWait        = 2 * time.Second // how long a page waits for memory
	begunPage       = 64 << 10        // how much of a page is parsed if no memory becomes free in time
)

// pageCost returns the largest size in bytes of a page when it is parsed.
func pageCost(html []byte) int64 {
	return perTag*int64(bytes.Count(html, []byte("<"))) + perByte*int64(len(html))
}

// parsed returns as much of a home page as the memory budget allows: all of it, or its beginning if other crawls use
// the memory for too long. The crawl holds its share until it ends, or reads another home page.
func (r *run) parsed(ctx context.Context, html []byte) []byte {
	r.page.Release()
	r.page = membudget.Share{}
	ctx, cancel := context.WithTimeout(ctx, pageWait)
	defer cancel()
	if share := r.crawler.pages.Share(pageCost(html)); share.Acquire(ctx) == nil {
		r.page = share
		return html
	}
	r.held.short.Store(true)
	return html[:min(len(html), begunPage)]
}

// errMemoryLimit: a file was dropped because all crawls together reached their limit.
var errMemoryLimit = errors.New("not kept: all crawls together reached their memory limit")

// held counts the bytes of files and pixels that one crawl holds.
type held struct {
	common *semaphore.Weighted // of all crawls; nil: no limit
	spares *semaphore.Weighted // of all crawls, within common; nil: no limit

	mu     sync.Mutex
	own    int64 // taken from ownBytes
	beyond int64 // taken from common
	spare  int64 // taken from common and spares

	short atomic.Bool // a request was denied
}

// take reports whether the crawl's own share or the common one has room for n more bytes, and takes them.
func (h *held) take(n int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := min(n, ownBytes-h.own)
	if beyond := n - own; beyond > 0 {
		if h.common != nil && !h.common.TryAcquire(beyond) {
			h.short.Store(true)
			return false
		}
		h.beyond += beyond
	}
	h.own += own
	return true
}

// takeSpare takes n bytes for dispensable data until the crawl ends, and reports whether there was room.
func (h *held) takeSpare(n int64) bool {
	if h.common == nil {
		return true
	}
	if !h.spares.TryAcquire(n) {
		return false
	}
	if !h.common.TryAcquire(n) {
		h.spares.Release(n)
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spare += n
	return true
}

// give releases bytes, the common ones first.
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

// end releases everything.
func (h *held) end() {
	h.give(h.own + h.beyond)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.spare > 0 {
		h.common.Release(h.spare)
		h.spares.Release(h.spare)
		h.spare = 0
	}
}

// weight returns the memory of an image in bytes.
func weight(p *logofinder.Image) int64 {
	n := int64(len(p.SVG))
	if p.Raster != nil {
		n += int64(len(p.Raster.Pix))
	}
	return n
}

// keep keeps an image until the crawl chooses. If there is no room, it first drops images that would not be chosen at
// this point; otherwise all of them wait for the choice, because a better image of one drawing may make another one
// eligible.
func (f *found) keep(h *held, i int, p *logofinder.Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read[i] = p
	if h.take(weight(p)) {
		return
	}
	lost := logofinder.Select(f.logoImages()).Dropped
	for j, q := range f.read {
		if why, ok := lost[q]; ok {
			if f.read[j], f.rejected[j] = nil, errors.New(why); j != i {
				h.give(weight(q))
			}
		}
	}
	if f.read[i] != nil && !h.take(weight(p)) {
		f.read[i], f.rejected[i] = nil, errMemoryLimit
	}
}
