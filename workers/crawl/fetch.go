package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"letterhead/domain/brand"
	"letterhead/internal/delay"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/classify"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// home is a usable response for a home page.
type home struct {
	response *safehttp.Response
	page     *page.Page // of the body; if bare, an empty page at the same URL
	// bare is set if the site did not show its page. Only its declared icons and known paths remain to be tried.
	bare      bool
	otherwise *Failure   // the outcome of a bare home if no logo is found
	declared  *page.Page // of a bare home: the original page, for its declarations
	partial   bool       // set if the page shown precedes the brand's page, such as a login or an empty app shell
	unchanged bool       // set if the page has not changed; there is no body
	indirect  bool       // set if the response does not come from the first URL, so its validators do not apply to that
	at        time.Time  // time of the response
}

var htmlHeader = safehttp.Header{Name: "Accept", Value: "text/html,application/xhtml+xml;q=0.9,*/*;q=0.5"}

// fetch gets the home page and classifies the response. The rules of robots.txt
// are requested concurrently; a scheduled crawl waits for them first.
func (r *run) fetch(ctx context.Context) (*home, error) {
	first := r.starts()[0]
	if first.Scheme == "" || first.Host == "" {
		return nil, &Failure{Outcome: brand.DNS, Detail: "The domain has no address."}
	}
	r.askRules(ctx, first)
	response, err := r.firstAnswer(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.permitted(ctx, response.FinalURL); err != nil {
		return nil, err
	}
	return r.classified(ctx, response)
}

// classified classifies the response for a home page, and retries if that may help.
func (r *run) classified(ctx context.Context, response *safehttp.Response) (*home, error) {
	if response.StatusCode == http.StatusNotModified && len(r.conditions()) > 0 {
		if r.ownAnswer(response) {
			return &home{response: response, unchanged: true}, nil
		}
		// Another site's page is unchanged, which has no bearing on the stored one.
		whole, err := r.get(ctx, response.FinalURL.String())
		if whole == nil {
			return nil, failed(response.FinalURL.Hostname(), err)
		}
		if err := r.permitted(ctx, whole.FinalURL); err != nil {
			return nil, err
		}
		response = whole
	}
	h, verdict := r.read(ctx, response, false)
	if verdict.Kind == classify.Limited {
		if response = r.comeBack(ctx, response); response != nil {
			h, verdict = r.read(ctx, response, false)
		}
		if verdict.Kind == classify.Limited {
			verdict.Kind = classify.Blocked
		}
	}
	h, verdict, err := r.onward(ctx, h, verdict)
	if err != nil {
		return nil, err
	}
	if www := r.withWWW(h, verdict); www != nil {
		here := r.ruling
		next, err := r.another(ctx, www)
		if refused := (*Failure)(nil); errors.As(err, &refused) && refused.Outcome == brand.Blocked {
			return nil, err
		}
		r.ruling, here = here, r.ruling
		if next != nil {
			other, second := r.read(ctx, next, false)
			if second.Kind == classify.Usable || second.Kind == classify.Shell {
				h, verdict, r.ruling = other, second, here
				h.indirect = true
			}
		}
	}
	// The title of an app's template may change once its scripts have run.
	if r.crawler.cfg.Browser != nil &&
		(verdict.Kind == classify.Shell || verdict.Kind == classify.Placeholder && classify.Unrendered(h.page)) {
		h, verdict = r.drawn(ctx, h, verdict)
	}
	return r.judged(h, verdict)
}

// maxOnward limits the pages in a row that send the visitor on.
const maxOnward = 5

// onward follows a page that only sends its visitors on: with a script, a meta refresh, or a frameset whose only frame
// is a page of another domain. Errors: *Failure.
func (r *run) onward(ctx context.Context, h *home, verdict classify.Verdict) (*home, classify.Verdict, error) {
	for range maxOnward {
		to := classify.SendsOn(h.page)
		if frames := h.page.Frames; to == nil && len(frames) == 1 && !r.site.Own(frames[0]) {
			to = frames[0]
		}
		here := h.response.FinalURL
		if to == nil || to.String() == here.String() || verdict.Kind != classify.Usable &&
			verdict.Kind != classify.Shell && verdict.Kind != classify.Placeholder {
			return h, verdict, nil
		}
		next, err := r.another(ctx, to)
		if refused := (*Failure)(nil); errors.As(err, &refused) {
			return nil, verdict, refused
		}
		if next == nil {
			return nil, verdict, failed(r.target.Domain, err)
		}
		if next.Truncated {
			return h, verdict, nil
		}
		h, verdict = r.read(ctx, next, false)
		h.indirect = true
	}
	return nil, verdict, &Failure{Outcome: brand.FetchFailed, Detail: "The home page redirects too many times."}
}

// another fetches the page of the site at another URL, if the rules there and at its final URL allow it. Errors:
// *Failure, of the rules; the errors of safehttp.
func (r *run) another(ctx context.Context, u *url.URL) (*safehttp.Response, error) {
	if err := r.permitted(ctx, u); err != nil {
		return nil, err
	}
	next, err := r.get(ctx, u.String())
	if next == nil {
		return nil, err
	}
	if err := r.permitted(ctx, next.FinalURL); err != nil {
		return nil, err
	}
	return next, nil
}

// ownAnswer reports whether all hops of a response belong to the crawled domain.
func (r *run) ownAnswer(response *safehttp.Response) bool {
	own := site.New(r.target.Domain)
	return own.Own(response.FinalURL) &&
		!slices.ContainsFunc(response.Redirects, func(u *url.URL) bool { return !own.Own(u) })
}

// withWWW returns another URL of the site's page if the bare domain responds without one: some servers know their site
// only under www, and show their default page, or an error, for any other name.
func (r *run) withWWW(h *home, v classify.Verdict) *url.URL {
	at := h.response.FinalURL
	if r.target.Start != nil || at.Hostname() != r.target.Domain ||
		v.Kind != classify.Missing && v.Kind != classify.Placeholder && v.Kind != classify.Failed {
		return nil
	}
	return &url.URL{Scheme: at.Scheme, Host: "www." + r.target.Domain, Path: "/"}
}

// drawn lets the browser run the scripts of an empty app shell. The result is
// ignored if it is no better than the shell.
func (r *run) drawn(ctx context.Context, shell *home, was classify.Verdict) (*home, classify.Verdict) {
	ctx, cancel := r.fetching(ctx)
	defer cancel()
	here := r.ruling
	body, at, err := r.crawler.cfg.Browser.Render(ctx, shell.response.FinalURL)
	if err == nil && r.site.Own(at) {
		err = r.permitted(ctx, at)
	}
	if err != nil || !r.site.Own(at) {
		r.crawler.cfg.Logger.Info("rendering an app shell failed", "domain", r.target.Domain, "error", err)
		r.ruling = here
		return shell, was
	}
	drawn := *shell.response
	drawn.Body, drawn.FinalURL = body[:min(len(body), page.MaxBytes)], at
	drawn.Header = shell.response.Header.Clone()
	drawn.Header.Set("Content-Type", "text/html; charset=utf-8")
	h, verdict := r.read(ctx, &drawn, true)
	if verdict.Kind != classify.Usable {
		r.ruling = here
		return shell, was
	}
	h.indirect = true
	return h, verdict
}

// judged turns a verdict into a home or a failure.
func (r *run) judged(h *home, v classify.Verdict) (*home, error) {
	switch v.Kind {
	case classify.Usable:
		return h, nil
	case classify.Shell, classify.Gate:
		h.partial = true
		return h, nil
	case classify.Failed:
		return nil, &Failure{Outcome: brand.FetchFailed,
			Detail: "The home page answered with " + status(h.response) + "."}
	case classify.Parked:
		return nil, noData("The domain is parked or for sale: %s.", v.Sign)
	case classify.Placeholder:
		return nil, noData("The home page is a placeholder: %s.", v.Sign)
	case classify.Missing:
		h.otherwise = noData("There is no home page: %s.", v.Sign)
	default:
		h.otherwise = &Failure{Outcome: brand.Blocked, Detail: "The site refused to be crawled: " + v.Sign + "."}
	}
	// A challenge's own words must not be attributed to the brand.
	at := h.response.FinalURL
	h.bare, h.declared = true, h.page
	if !r.site.Own(at) { // the page of a login service: its declarations are not the brand's
		at = &url.URL{Scheme: "https", Host: r.target.Domain, Path: "/"}
		h.declared = page.Parse(nil, "", at, r.site)
	}
	h.page = page.Parse(nil, "", at, r.site)
	return h, nil
}

// starts returns the URLs of the home page, in the order in which they are tried.
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

// firstAnswer tries the URLs of the home page until a web server responds. Further URLs are tried only if a connection
// fails or a name does not exist; any response of a server is final.
func (r *run) firstAnswer(ctx context.Context) (*safehttp.Response, error) {
	var worst *Failure
	gone := map[string]bool{}
	reached := map[string]bool{} // hosts with an IP address
	var tries []start
	for i, u := range r.starts() {
		tries = append(tries, start{u, i+1 < len(r.starts()) && u.Scheme == "https"})
	}
	for i := 0; i < len(tries); i++ {
		try := tries[i]
		u := try.at
		if gone[u.Host] || u.Scheme == "http" && strings.HasPrefix(u.Host, "www.") && reached[r.target.Domain] {
			continue
		}
		if deadline, ok := ctx.Deadline(); worst != nil && ok && time.Until(deadline) < minAttempt {
			break
		}
		response, err := r.attempt(ctx, try)
		if response != nil {
			return response, nil // also a truncated one, which has its head
		}
		var f *Failure
		if errors.As(err, &f) {
			return nil, f // the rules forbid it
		}
		if errors.Is(err, errSlowConnect) {
			tries = append(tries, start{u, false}) // after the others, with all remaining time
		}
		f = failed(u.Hostname(), err)
		if f.Outcome == brand.DNS {
			gone[u.Host] = true
			continue
		}
		reached[u.Host] = true
		// A timeout is more informative than the failure of a later URL; otherwise the first failure counts.
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

// start is one URL of the home page.
type start struct {
	at    *url.URL
	hasty bool // set if other URLs remain, so that connecting may take only hastyConnect
}

// hastyConnect is how long a connection, including DNS and TLS, may take as long as another URL of the home page
// remains: a firewall may drop packets silently.
const hastyConnect = 2 * time.Second

var errSlowConnect = errors.New("no connection in time") // there was no connection within hastyConnect

// attempt requests the home page from one URL. A scheduled crawl checks the rules there first; if the server is
// unreachable for them, it counts as unreachable. Errors: *Failure if the rules forbid it; the errors of safehttp;
// errSlowConnect.
func (r *run) attempt(ctx context.Context, s start) (*safehttp.Response, error) {
	if r.target.Scheduled {
		if err := r.permitted(ctx, s.at); err != nil {
			if known := r.ruling; known.origin == originOf(s.at) && known.err != nil && elsewhere(known.err) {
				if errors.Is(known.err, safehttp.ErrTimeout) && ctx.Err() == nil {
					return nil, fmt.Errorf("%w: %w", errRulesUnavailable, known.err)
				}
				return nil, known.err
			}
			return nil, err
		}
	}
	if !s.hasty {
		return r.get(ctx, s.at.String(), r.conditions()...)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	impatient := time.AfterFunc(hastyConnect, func() { cancel(errSlowConnect) })
	defer impatient.Stop()
	traced := httptrace.WithClientTrace(ctx,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { impatient.Stop() }})
	response, err := r.get(traced, s.at.String(), r.conditions()...)
	if response == nil && errors.Is(context.Cause(ctx), errSlowConnect) {
		err = errSlowConnect
	}
	return response, err
}

func (r *run) get(ctx context.Context, address string, more ...safehttp.Header) (*safehttp.Response, error) {
	return r.session.Get(ctx, address, safehttp.Limits{Body: page.MaxBytes}, append(more, htmlHeader)...)
}

// conditions returns the headers of a conditional request.
func (r *run) conditions() []safehttp.Header {
	var out []safehttp.Header
	if r.target.ETag != "" {
		out = append(out, safehttp.Header{Name: "If-None-Match", Value: r.target.ETag})
	}
	if r.target.LastModified != "" {
		out = append(out, safehttp.Header{Name: "If-Modified-Since", Value: r.target.LastModified})
	}
	return out
}

// read parses a response and classifies it. drawn is set if a browser has run the page's scripts.
func (r *run) read(ctx context.Context, response *safehttp.Response, drawn bool) (*home, classify.Verdict) {
	if r.onPlatform(response.FinalURL) {
		h := &home{response: response, page: page.Parse(nil, "", response.FinalURL, r.site), at: time.Now()}
		return h, classify.Verdict{Kind: classify.Missing, Sign: "its visitors are sent to another platform"}
	}
	if !classify.Foreign(response.FinalURL.Hostname(), r.site.OwnHost) {
		r.site = r.site.Redirected(response.FinalURL)
	}
	p := page.Parse(r.parsed(ctx, response.Body), response.Header.Get("Content-Type"), response.FinalURL, r.site)
	r.frames(ctx, p)
	verdict := classify.Home(classify.Answer{
		Status: response.StatusCode, Header: response.Header, Page: p, Site: r.site, Bytes: len(response.Body),
		Drawn: drawn,
	})
	return &home{response: response, page: p, at: time.Now()}, verdict
}

// comeBack retries once after the delay in a 429, if that is short. It returns
// nil if there is not enough time or no response.
func (r *run) comeBack(ctx context.Context, limited *safehttp.Response) *safehttp.Response {
	wait := maxRetryAfter
	if seconds, err := strconv.Atoi(limited.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		if wait = time.Duration(seconds) * time.Second; wait > maxRetryAfter {
			return nil // the response will not change until then
		}
	}
	if delay.For(ctx, wait) != nil {
		return nil
	}
	response, _ := r.get(ctx, limited.FinalURL.String())
	return response
}

func status(r *safehttp.Response) string {
	return strconv.Itoa(r.StatusCode) + " " + http.StatusText(r.StatusCode)
}
