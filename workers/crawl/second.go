package crawl

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/classify"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/company"
	"letterhead/workers/crawl/page"
)

const (
	// maxFurther limits the pages that are read in addition to the home page, and maxTried those that are requested.
	maxFurther      = 2
	maxTried        = 3
	furtherTime     = 1500 * time.Millisecond // the minimum remaining time for one of them, and its timeout
	maxPageTime     = 4 * time.Second
	maxFurtherDepth = 4 // limits the segments of the path: /en/company/about-us, not an article about something
)

// further returns the task that reads other pages of the site if the home
// page leaves fields open: one after the other, with a gap between them.
func (r *run) further(ctx context.Context, f *found, h *home) []task {
	wanted := missing(f.input)
	if len(wanted) == 0 || h.at.IsZero() {
		return nil
	}
	name, _ := extract.Name(f.input)
	links := r.furtherLinks(h.page, wanted, name.Value)
	if len(links) == 0 {
		return nil
	}
	return []task{{host: h.page.URL.Hostname(), run: func(func()) {
		last, read := h.at, map[company.Topic]bool{}
		for _, l := range links[:min(len(links), maxTried)] {
			if l.topic == company.Contact && read[company.Imprint] || l.topic == company.Press && len(read) > 0 ||
				!r.waitUntil(ctx, last.Add(r.gap())) {
				continue
			}
			last = time.Now()
			if p := r.otherPage(ctx, l.to); p != nil {
				read[l.topic] = true
				f.input.More = append(f.input.More, p)
			}
			if len(read) == maxFurther {
				return
			}
		}
	}}}
}

// missing lists the topics of further pages to read, the most useful first; none if the home page is sufficient.
func missing(in extract.Input) []company.Topic {
	_, described := extract.Description(in)
	name, _ := extract.Name(in)
	known, _ := company.Decide(in)
	var out []company.Topic
	if !described || name.Method == extract.FromDomain || name.Value == "" || known == nil ||
		known.FoundedYear == nil || known.Employees == nil {
		out = append(out, company.About)
	}
	if known == nil || known.Location == nil || known.Location.City == nil || known.Kind == nil ||
		len(extract.Links(in).Value) == 0 {
		out = append(out, company.Imprint)
	}
	return out
}

// furtherLink leads to a page of a topic.
type furtherLink struct {
	topic company.Topic
	to    *url.URL
}

// furtherLinks lists the first link to a page of each topic, the wanted ones
// first: an imprint may replace a missing about page.
func (r *run) furtherLinks(p *page.Page, wanted []company.Topic, name string) []furtherLink {
	best := map[company.Topic]*url.URL{}
	var ownPage *url.URL // "The mill", of Thornbeck Mill
	for _, a := range p.Anchors {
		if len(best) == company.Topics {
			break
		}
		if !r.isFurther(p, a) {
			continue
		}
		if t, ok := company.TopicOf(a.URL, a.Text); ok && best[t] == nil {
			best[t] = a.URL
		} else if !ok && best[company.About] == nil && ownPage == nil && company.IsAboutItself(a.Text, name) {
			ownPage = a.URL
		}
	}
	if best[company.About] == nil && ownPage != nil {
		best[company.About] = ownPage
	}
	var out []furtherLink
	listed := map[company.Topic]bool{}
	for _, t := range slices.Concat(wanted,
		[]company.Topic{company.About, company.Imprint, company.Contact, company.Press}) {
		if best[t] != nil && !listed[t] {
			out = append(out, furtherLink{t, best[t]})
		}
		listed[t] = true
	}
	return out
}

// isFurther reports whether a link leads to another page of the same host, whose rules are known.
func (r *run) isFurther(p *page.Page, a page.Anchor) bool {
	u := a.URL
	if u == nil || p.URL == nil || u.Host != p.URL.Host || u.RawQuery != "" || strings.Trim(u.Path, "/") == "" ||
		u.Path == p.URL.Path {
		return false
	}
	return strings.Count(strings.Trim(u.Path, "/"), "/") < maxFurtherDepth && r.mayFetchPage(u)
}

// waitUntil waits until a moment. It returns false if there is not enough time for a page after it.
func (r *run) waitUntil(ctx context.Context, at time.Time) bool {
	deadline, ok := ctx.Deadline()
	wait := time.Until(at)
	if wait > maxCrawlDelay || ok && deadline.Sub(at) < furtherTime || ok && time.Until(deadline) < furtherTime {
		return false
	}
	return delay.For(ctx, time.Until(at)) == nil
}

// otherPage fetches one page, or returns nil if it is not one of the site's own.
func (r *run) otherPage(ctx context.Context, u *url.URL) *page.Page {
	if r.files.Add(1) > maxFiles {
		return nil
	}
	response, _ := r.session.Get(ctx, u.String(), safehttp.Limits{Body: page.MaxBytes, Time: maxPageTime}, htmlHeader)
	if response == nil || response.StatusCode != http.StatusOK || !r.site.Own(response.FinalURL) ||
		strings.Trim(response.FinalURL.Path, "/") == "" || r.allowed(response.FinalURL) != nil {
		return nil // redirected to the home page, to another site, or to a forbidden path
	}
	share := r.crawler.pages.Share(pageCost(response.Body))
	if !share.TryAcquire() {
		return nil // waiting here would keep the home page in memory
	}
	defer share.Release() // little of it is used
	p := page.Parse(response.Body, response.Header.Get("Content-Type"), response.FinalURL, r.site)
	verdict := classify.Home(classify.Answer{Status: response.StatusCode, Header: response.Header, Page: p,
		Site: r.site, Bytes: len(response.Body)})
	switch verdict.Kind {
	case classify.Usable, classify.Shell, classify.Gate: // short pages look like these
		return p
	}
	return nil
}

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
