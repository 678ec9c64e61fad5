package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"letterhead/domain/brand"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/robots"
	"letterhead/workers/crawl/site"
)

const (
	// agent is the product token that robots.txt groups name this crawler by; safehttp.UserAgent sends it.
	agent = "LetterheadBot"
	// rulesTime bounds the fetch of a robots.txt.
	rulesTime = 2 * time.Second
	// rulesPatience is how long a live crawl, whose home page has come, waits for the rules.
	rulesPatience = 500 * time.Millisecond
	// rulesFor is how long rules are believed (RFC 9309, section 2.4: at most a day).
	rulesFor = 24 * time.Hour
	// maxRulesBytes bounds the memory of the rules of all hosts.
	maxRulesBytes = 16 << 20
	// rulesOverhead is the memory of one host's rules beside the rules themselves.
	rulesOverhead = 256
	// pageGap is kept between two pages of one host, and maxCrawlDelay of what a robots.txt asks for: who
	// asks for more gets one page.
	pageGap       = 200 * time.Millisecond
	maxCrawlDelay = 10 * time.Second
)

// errRulesUnavailable: the server failed to answer for its robots.txt. Nobody may be crawled on a schedule
// then (RFC 9309, section 2.3.1.4).
var errRulesUnavailable = errors.New("robots.txt is unavailable")

// rulesUnavailable is the detail of the failure of such a crawl.
const rulesUnavailable = "The site's robots.txt is unavailable."

// rulebook remembers the rules of servers.
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
		Weigher:       func(origin string, h heldRules) uint32 { return uint32(len(origin) + h.rules.Size() + rulesOverhead) },
	})
	if err != nil {
		return nil, fmt.Errorf("make cache of robots.txt: %w", err)
	}
	return &rulebook{entries: entries, now: now}, nil
}

// originOf names the server that an address stands at: its rules hold for one scheme and host.
func originOf(u *url.URL) string { return strings.ToLower(u.Scheme + "://" + u.Host) }

// known returns the rules of a server that are remembered.
func (b *rulebook) known(u *url.URL) (*robots.Rules, bool) {
	held, ok := b.entries.GetIfPresent(originOf(u))
	return held.rules, ok && b.now().Sub(held.at) < rulesFor
}

// of returns the rules of the server that an address stands at. Errors: errRulesUnavailable, and those of
// safehttp when nobody answered.
func (b *rulebook) of(ctx context.Context, session *safehttp.Session, u *url.URL) (*robots.Rules, error) {
	if rules, ok := b.known(u); ok {
		return rules, nil
	}
	at := url.URL{Scheme: u.Scheme, Host: u.Host, Path: rulesPath}
	response, err := session.Get(ctx, at.String(), safehttp.Limits{Body: robots.MaxBytes, Time: rulesTime}, safehttp.Header{Name: "Accept", Value: "text/plain,*/*;q=0.5"})
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
		b.entries.Set(originOf(response.FinalURL), heldRules{rules, b.now()}) // acme.com sends on to www.acme.com for this as for all else
	}
	return rules, nil
}

const rulesPath = "/robots.txt"

// isRulesOf reports whether the address that a robots.txt was finally found at is that of another server's own,
// within the same domain. What a stranger sends on to is his, not that server's word.
func isRulesOf(asked, final *url.URL) bool {
	return final.Path == rulesPath && final.RawQuery == "" && !final.ForceQuery && site.Registrable(final.Hostname()) == site.Registrable(asked.Hostname())
}

// ruling is what is known of the rules of a server.
type ruling struct {
	origin string
	rules  *robots.Rules // nil when they are not known
	err    error
}

// asking are rules that were asked for.
type asking struct {
	origin string
	answer <-chan ruling // nil once it was taken
}

// askRules fetches the rules of a server. Those that are on their way already are waited for first: they
// may well be the same file, when both come from one redirect.
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

// permitted reports whether a page may be fetched or, when it came already, kept. It waits for the rules of its
// server as long as they are worth waiting for. A crawl on a schedule goes by the rules for everybody; one
// that somebody waits for only by those that name this crawler: it is a visit on a person's behalf.
func (r *run) permitted(ctx context.Context, u *url.URL) error {
	if origin := originOf(u); r.ruling.origin != origin {
		if r.asking.origin != origin || r.asking.answer == nil {
			r.askRules(ctx, u)
		}
		waiting, cancel := ctx, context.CancelFunc(func() {})
		if !r.target.Scheduled { // else bounded by rulesTime
			waiting, cancel = context.WithTimeout(ctx, rulesPatience)
		}
		defer cancel()
		if answer := await(waiting, r.asking.answer); answer.origin != "" {
			r.ruling, r.asking.answer = answer, nil
		}
	}
	return r.allowed(u)
}

// lastWord looks once more at rules that were not there in time, before what was found is kept.
func (r *run) lastWord(page *url.URL) error {
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

// allowed is nil unless the rules that are known forbid to crawl a page. Without rules, because the server
// did not answer for them, no page of it is crawled on a schedule (RFC 9309, section 2.3.1.4).
func (r *run) allowed(page *url.URL) error {
	known := r.ruling
	if known.origin != originOf(page) {
		known = ruling{}
	}
	if r.target.Scheduled && known.rules == nil {
		return &Failure{Outcome: brand.FetchFailed, Detail: rulesUnavailable, Err: cmp.Or(known.err, errRulesUnavailable)}
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

// mayFetchPage reports whether the rules allow a further page: those for everybody count here for a live crawl
// as well, and unknown rules allow none.
func (r *run) mayFetchPage(u *url.URL) bool {
	rules := r.ruling.rules
	return rules != nil && r.ruling.origin == originOf(u) && rules.Allows(u.RequestURI())
}

// gap is the time to keep between two pages of the site.
func (r *run) gap() time.Duration {
	if rules := r.ruling.rules; r.target.Scheduled && rules != nil {
		return max(pageGap, rules.Delay)
	}
	return pageGap
}
