package crawl

import (
	"context"

	"letterhead/workers/crawl/page"
)

const (
	maxFrames     = 6         // limits the frames that are read, including nested ones
	maxFrameBytes = 512 << 10 // limits the HTML of a frame
)

// frames adds the site's own frames to the page of their frameset.
func (r *run) frames(ctx context.Context, p *page.Page) {
	list := p.Frames
	if r.session == nil { // a saved page
		return
	}
	for i := 0; i < min(len(list), maxFrames); i++ {
		if !r.site.Own(list[i]) {
			continue
		}
		response, err := r.fetchUpTo(ctx, list[i], maxFrameBytes)
		if err != nil || !r.site.Own(response.FinalURL) {
			continue
		}
		share := r.crawler.pages.Share(pageCost(response.Body))
		if !share.TryAcquire() {
			r.held.short.Store(true)
			return
		}
		r.framed = append(r.framed, share)
		frame := page.Parse(response.Body, response.Header.Get("Content-Type"), response.FinalURL, r.site)
		list = append(list, frame.Frames...)
		p.Include(frame)
	}
}
