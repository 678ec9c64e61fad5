package crawl

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"letterhead/internal/room"
	"letterhead/workers/crawl/logofinder"
)

const (
	// ownBytes of files and pixels every crawl may hold, however many there are: enough for the files of most sites.
	ownBytes = 2 << 20
	// commonBytes is what all crawls together may hold beyond that.
	commonBytes = 48 << 20
	// spareBytes of that may be decoded files which are kept only in case the same file is named once more.
	spareBytes = 12 << 20
)

// Limits of the memory that home pages take.
const (
	// pageBytes is what all of them together may take: 20 of a hundred thousand characters and some thousand elements,
	// beside one of the largest.
	pageBytes = 64 << 20
	// perTag is what an element and the text behind it take, in bytes, and perByte the text itself.
	perTag, perByte = 160, 3
	// pagePatience is how long a page waits for that.
	pagePatience = 2 * time.Second
	// begunPage is how much is read of a page that waited in vain.
	begunPage = 64 << 10
)

// pageCost is what a page takes at most when it is parsed, in bytes.
func pageCost(html []byte) int64 {
	return perTag*int64(bytes.Count(html, []byte("<"))) + perByte*int64(len(html))
}

// parsed is as much of a home page as there is room to parse: all of it, or its beginning when others hold too much for
// too long. The room is the crawl's until it ends, or reads another home page instead.
func (r *run) parsed(ctx context.Context, html []byte) []byte {
	r.page.Give()
	r.page = room.Part{}
	ctx, cancel := context.WithTimeout(ctx, pagePatience)
	defer cancel()
	part := r.crawler.pages.Part(pageCost(html))
	if part.Wait(ctx) == nil {
		r.page = part
		return html
	}
	r.held.fallShort()
	return html[:min(len(html), begunPage)]
}

// errCrowded: a file was let go because all crawls together hold too much.
var errCrowded = errors.New("not kept: too much is held by all crawls together")

// held counts the bytes of files and pixels that one crawl holds.
type held struct {
	common *semaphore.Weighted // of all crawls; nil: no bound
	spares *semaphore.Weighted // of all crawls, within common; nil: no bound

	mu     sync.Mutex
	own    int64 // held out of ownBytes
	beyond int64 // held out of common
	spare  int64 // held out of common and spares
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

// takeSpare takes n bytes for what the crawl can do without, until it ends, and reports whether there was room.
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

// fallShort notes that something was refused elsewhere.
func (h *held) fallShort() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.short = true
}

// wasShort reports whether something was refused.
func (h *held) wasShort() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.short
}

// end gives everything back.
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

// weight is the memory of an image that was read, in bytes.
func weight(p *logofinder.Picture) int64 {
	n := int64(len(p.SVG))
	if p.Raster != nil {
		n += int64(len(p.Raster.Pix))
	}
	return n
}

// keep keeps an image that was read until the crawl chooses. When there is no room for it, those that
// would not be chosen as things stand are let go first: otherwise all wait for the choice, since a better
// image of one drawing may bring back another.
func (f *found) keep(h *held, i int, p *logofinder.Picture) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read[i] = p
	if h.take(weight(p)) {
		return
	}
	lost := map[*logofinder.Picture]string{}
	for _, d := range logofinder.Select(f.pictures()).Dropped {
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
