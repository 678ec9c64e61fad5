package crawl

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"letterhead/domain/brand"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/classify"
	"letterhead/workers/crawl/page"
)

// home is the answer of a home page that is worth going on with.
type home struct {
	response *safehttp.Response
	page     *page.Page // of the body; when bare, an empty page at the same address
	// bare: the site did not show its page. Its declared icons and known paths are all there is to try.
	bare bool
	// otherwise is the outcome of a bare home when nothing is found.
	otherwise *Failure
	declared  *page.Page // of a bare home: the page as it was, for its declared icons
}

var htmlHeader = safehttp.Header{Name: "Accept", Value: "text/html,application/xhtml+xml;q=0.9,*/*;q=0.5"}

// fetch gets the home page and tells what kind of answer it is.
func (r *run) fetch(ctx context.Context) (*home, error) {
	response, err := r.firstAnswer(ctx)
	if err != nil {
		return nil, err
	}
	h, verdict := r.read(response)
	if verdict.Kind == classify.Limited {
		if response = r.comeBack(ctx, response); response != nil {
			h, verdict = r.read(response)
		}
		if verdict.Kind == classify.Limited {
			verdict.Kind = classify.Blocked
		}
	}
	if verdict.Kind == classify.Usable && classify.TrivialRefresh(h.page) && r.site.Own(h.page.Refresh.URL) {
		// Followed once: a page that does nothing but send its visitors on.
		if next, err := r.get(ctx, h.page.Refresh.URL.String()); next != nil && err == nil {
			h, verdict = r.read(next)
		}
	}
	return r.judged(h, verdict)
}

// judged turns a verdict into a home or a failure.
func (r *run) judged(h *home, v classify.Verdict) (*home, error) {
	switch v.Kind {
	case classify.Usable:
		return h, nil
	case classify.Failed:
		return nil, &Failure{Outcome: brand.FetchFailed, Detail: "The home page answered with " + status(h.response) + "."}
	case classify.Parked:
		return nil, noData("The domain is parked or for sale: %s.", v.Sign)
	case classify.Placeholder:
		return nil, noData("The home page is a placeholder: %s.", v.Sign)
	case classify.Missing:
		h.otherwise = noData("There is no home page: %s.", v.Sign)
	default:
		h.otherwise = &Failure{Outcome: brand.Blocked, Detail: "The site refused to be crawled: " + v.Sign + "."}
	}
	// A challenge's own words must not become the brand's.
	h.bare, h.declared = true, h.page
	h.page = page.Parse(nil, "", h.response.FinalURL, r.site)
	return h, nil
}

// starts are the addresses of the home page, in the order in which they are tried.
func (r *run) starts() []*url.URL {
	switch start := r.target.Start; {
	case start == nil:
	case start.Scheme != "":
		return []*url.URL{start}
	default:
		secure, plain := *start, *start
		secure.Scheme, plain.Scheme = "https", "http"
		return []*url.URL{&secure, &plain}
	}
	d := r.target.Domain
	return []*url.URL{
		{Scheme: "https", Host: d, Path: "/"},
		{Scheme: "https", Host: "www." + d, Path: "/"},
		{Scheme: "http", Host: d, Path: "/"},
		{Scheme: "http", Host: "www." + d, Path: "/"},
	}
}

// firstAnswer tries the addresses of the home page until a web server answers. The others than the first
// are for connections that fail and names that do not exist; a server that answers has spoken.
func (r *run) firstAnswer(ctx context.Context) (*safehttp.Response, error) {
	var worst *Failure
	gone := map[string]bool{}
	reached := map[string]bool{} // hosts with an address
	for _, u := range r.starts() {
		if gone[u.Host] || u.Scheme == "http" && strings.HasPrefix(u.Host, "www.") && reached[r.target.Domain] {
			continue
		}
		if deadline, ok := ctx.Deadline(); worst != nil && ok && time.Until(deadline) < minAttempt {
			break
		}
		response, err := r.get(ctx, u.String())
		if response != nil {
			return response, nil // also one that was cut off: its head is there
		}
		f := failed(u.Hostname(), err)
		if f.Outcome == brand.DNS {
			gone[u.Host] = true
			continue
		}
		reached[u.Host] = true
		// Out of time says more than what a later address did; otherwise the first failure counts.
		if worst == nil || f.Outcome == brand.Timeout {
			worst = f
		}
		if !elsewhere(err) {
			break
		}
	}
	if worst == nil {
		return nil, &Failure{Outcome: brand.DNS, Detail: "The domain has no address."}
	}
	return nil, worst
}

func (r *run) get(ctx context.Context, address string) (*safehttp.Response, error) {
	return r.session.Get(ctx, address, safehttp.Limits{Body: page.MaxBytes}, htmlHeader)
}

// read parses an answer and classifies it.
func (r *run) read(response *safehttp.Response) (*home, classify.Verdict) {
	r.site = r.site.Redirected(response.FinalURL)
	p := page.Parse(response.Body, response.Header.Get("Content-Type"), response.FinalURL, r.site)
	verdict := classify.Home(classify.Answer{
		Status: response.StatusCode, Header: response.Header, Page: p, Site: r.site, Bytes: len(response.Body),
	})
	return &home{response: response, page: p}, verdict
}

// comeBack asks a second time after the time that a 429 named, when that is short. It returns nil when the
// time does not allow it or nothing came.
func (r *run) comeBack(ctx context.Context, limited *safehttp.Response) *safehttp.Response {
	wait := maxRetryAfter
	if seconds, err := strconv.Atoi(limited.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		if wait = time.Duration(seconds) * time.Second; wait > maxRetryAfter {
			return nil // it will say the same until then
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil
	}
	response, _ := r.get(ctx, limited.FinalURL.String())
	return response
}

func status(r *safehttp.Response) string {
	return strconv.Itoa(r.StatusCode) + " " + http.StatusText(r.StatusCode)
}
