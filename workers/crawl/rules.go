package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"letterhead/domain/brand"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/robots"
	"letterhead/workers/crawl/site"
	"letterhead/workers/crawl/table"
)

const (
	agent         = "LetterheadBot"        // the product token of this crawler in robots.txt; the User-Agent has it
	rulesTime     = 2 * time.Second        // limits the fetch of a robots.txt
	rulesGrace    = 500 * time.Millisecond // how long a live crawl that has its home page waits for the rules
	rulesFor      = 24 * time.Hour         // how long rules are cached (RFC 9309, section 2.4: at most a day)
	maxRulesBytes = 16 << 20               // limits the memory of the rules of all hosts
	rulesOverhead = 256                    // the memory of one host's entry, excluding the rules
	// pageGap is the time between two pages of one host, and maxCrawlDelay the longest Crawl-delay that is obeyed: for
	// a longer one only one page is fetched.
	pageGap       = 200 * time.Millisecond
	maxCrawlDelay = 10 * time.Second
)

// errRulesUnavailable: the server failed to serve its robots.txt. Scheduled
// crawls are not allowed then (RFC 9309, section 2.3.1.4).
var errRulesUnavailable = errors.New("robots.txt is unavailable")

const rulesUnavailable = "The site's robots.txt is unavailable." // the detail of the failure of such a crawl

// rulebook caches the rules of servers.
type rulebook struct {
	entries *otter.Cache[string, heldRules] // by originOf
	now     func() time.Time
}

type heldRules struct {
	rules *robots.Rules
	at    time.Time
}

func newRulebook(now func() time.Time) (*rulebook, error) {
	entries, err := otter.New(&otter.Options[string, heldRules]{
		MaximumWeight: maxRulesBytes,
		Weigher: func(origin string, h heldRules) uint32 {
			return uint32(len(origin) + h.rules.Size() + rulesOverhead)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("create cache of robots.txt: %w", err)
	}
	return &rulebook{entries: entries, now: now}, nil
}

// originOf returns the origin of a URL: rules apply to one scheme and host.
func originOf(u *url.URL) string { return strings.ToLower(u.Scheme + "://" + u.Host) }

// known returns the cached rules of a server.
func (b *rulebook) known(u *url.URL) (*robots.Rules, bool) {
	held, ok := b.entries.GetIfPresent(originOf(u))
	return held.rules, ok && b.now().Sub(held.at) < rulesFor
}

// of returns the rules of a URL's server. Errors: errRulesUnavailable, and
// the errors of safehttp if no server responded.
func (b *rulebook) of(ctx context.Context, session *safehttp.Session, u *url.URL) (*robots.Rules, error) {
	if rules, ok := b.known(u); ok {
		return rules, nil
	}
	at := url.URL{Scheme: u.Scheme, Host: u.Host, Path: rulesPath}
	response, err := session.Get(ctx, at.String(), safehttp.Limits{Body: robots.MaxBytes, Time: rulesTime},
		safehttp.Header{Name: "Accept", Value: "text/plain,*/*;q=0.5"})
	rules := &robots.Rules{} // a server without a file allows everything
	switch {
	case errors.Is(err, safehttp.ErrTooManyRedirects): // the same as none (RFC 9309, section 2.3.1.2)
		response = nil
	case response == nil:
		return nil, err
	case response.StatusCode >= http.StatusInternalServerError, response.StatusCode == http.StatusTooManyRequests:
		return nil, fmt.Errorf("%w: %s", errRulesUnavailable, status(response))
	case response.StatusCode == http.StatusOK:
		rules = robots.Parse(response.Body, agent)
	}
	b.entries.Set(originOf(u), heldRules{rules, b.now()})
	if response != nil && isRulesOf(&at, response.FinalURL) {
		// acme.com redirects to www.acme.com for this file as for all others
		b.entries.Set(originOf(response.FinalURL), heldRules{rules, b.now()})
	}
	return rules, nil
}

const rulesPath = "/robots.txt"

// isRulesOf reports whether the final URL of a robots.txt is a server's own within the same domain. After a redirect to
// another domain, the rules are its owner's.
func isRulesOf(asked, final *url.URL) bool {
	return final.Path == rulesPath && final.RawQuery == "" && !final.ForceQuery &&
		site.Registrable(final.Hostname()) == site.Registrable(asked.Hostname())
}

// ruling holds the known rules of a server.
type ruling struct {
	origin string
	rules  *robots.Rules // nil if they are unknown
	err    error
}

// asking is a request for rules.
type asking struct {
	origin string
	answer <-chan ruling // nil after it was received
}

// askRules fetches the rules of a server. It first waits for a pending request,
// because both may be for the same file if one redirects to the other.
func (r *run) askRules(ctx context.Context, u *url.URL) {
	before, out := r.asking.answer, make(chan ruling, 1)
	r.asking = asking{origin: originOf(u), answer: out}
	go func() {
		if before != nil {
			await(ctx, before)
		}
		rules, err := r.crawler.rules.of(ctx, r.session, u)
		out <- ruling{origin: originOf(u), rules: rules, err: err}
	}()
}

// permitted reports whether a page may be fetched or, if already fetched, kept. It waits for the rules of its server
// for a limited time. A scheduled crawl obeys the rules for all agents; a live crawl only those that name this crawler,
// because it is a visit on behalf of a user.
func (r *run) permitted(ctx context.Context, u *url.URL) error {
	if origin := originOf(u); r.ruling.origin != origin {
		if r.asking.origin != origin || r.asking.answer == nil {
			r.askRules(ctx, u)
		}
		waiting, cancel := ctx, context.CancelFunc(func() {})
		if !r.target.Scheduled { // otherwise limited by rulesTime
			waiting, cancel = context.WithTimeout(ctx, rulesGrace)
		}
		defer cancel()
		if answer := await(waiting, r.asking.answer); answer.origin != "" {
			r.ruling, r.asking.answer = answer, nil
		}
	}
	return r.allowed(u)
}

// checkLateRules checks rules that arrived late before the result is kept.
func (r *run) checkLateRules(page *url.URL) error {
	if r.ruling.origin == originOf(page) {
		return nil
	}
	rules, ok := r.crawler.rules.known(page)
	if !ok {
		return nil
	}
	r.ruling = ruling{origin: originOf(page), rules: rules}
	return r.allowed(page)
}

// allowed returns nil unless the known rules forbid crawling a page. Without rules, because the server failed to serve
// them, no page of it is crawled on a schedule (RFC 9309, section 2.3.1.4).
func (r *run) allowed(page *url.URL) error {
	known := r.ruling
	if known.origin != originOf(page) {
		known = ruling{}
	}
	if r.target.Scheduled && known.rules == nil {
		return &Failure{Outcome: brand.FetchFailed, Detail: rulesUnavailable,
			Err: cmp.Or(known.err, errRulesUnavailable)}
	}
	if rules := known.rules; rules != nil && (rules.Named || r.target.Scheduled) && !rules.Allows(page.RequestURI()) {
		detail := "The site's robots.txt asks crawlers to stay away."
		if rules.Named {
			detail = "The site's robots.txt asks this crawler to stay away."
		}
		return &Failure{Outcome: brand.Blocked, Detail: detail}
	}
	return nil
}

// mayFetchFile reports whether the rules allow a file that the site declares.
func (r *run) mayFetchFile(u *url.URL) bool {
	rules := r.ruling.rules
	if rules == nil || r.ruling.origin != originOf(u) || !rules.Named && !r.target.Scheduled {
		return true
	}
	return rules.Allows(u.RequestURI())
}

// mayFetchPage reports whether the rules allow a further page. The rules for
// all agents also apply to a live crawl here, and unknown rules allow none.
func (r *run) mayFetchPage(u *url.URL) bool {
	rules := r.ruling.rules
	return rules != nil && r.ruling.origin == originOf(u) && rules.Allows(u.RequestURI())
}

// gap returns the time to keep between two pages of the site.
func (r *run) gap() time.Duration {
	if rules := r.ruling.rules; r.target.Scheduled && rules != nil {
		return max(pageGap, rules.Delay)
	}
	return pageGap
}

var tables = table.Of("crawl")

// platforms are hosts, other than the networks, where many brands have one page each, with the platform's name and
// icon: link lists, maps, reviews, markets, payments. Platforms with a separate host for each brand are not listed.
var platforms = tables.List("platforms")

// onPlatform reports whether a home page is the brand's page on a network or another platform: its declarations are the
// platform's. A platform's own start page is the target of its other domains.
func (r *run) onPlatform(u *url.URL) bool {
	return strings.Trim(u.Path, "/") != "" && !r.site.Own(u) && isPlatform(u.Hostname()) && !isPlatform(r.target.Domain)
}

// leftForPlatform reports whether a platform answered for a file of the site: a
// domain that redirects every path to facebook.com also redirects its icon.
func (r *run) leftForPlatform(asked, final *url.URL) bool {
	return isPlatform(final.Hostname()) && !isPlatform(asked.Hostname()) && !isPlatform(r.target.Domain)
}

func isPlatform(host string) bool {
	host = strings.TrimPrefix(strings.ToLower(strings.TrimSuffix(host, ".")), "www.")
	return slices.Contains(platforms, host) || slices.Contains(platforms, strings.TrimPrefix(host, "m.")) ||
		brand.NetworkOf(host) != ""
}
