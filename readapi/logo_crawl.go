package readapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/ratelimit"
	"letterhead/projections/brands"
	"letterhead/readapi/logo"
)

// Counters of the live crawls that logo requests start or wait for, by account and by the caller's address.
const (
	scopeLogoCrawls         = "logo-crawls"
	scopeLogoCrawlAddresses = "logo-crawl-addresses"
	// maxLogoCrawlsPerMinute is that of each, from the specification.
	maxLogoCrawlsPerMinute = 30
)

// logoQuery asks for what a logo is drawn of.
type logoQuery struct {
	request commands.Request
	domain  string
	account string // whose key came; "" for a caller who may not have a domain crawled
	address string // the caller's, as limits count it
}

func (q logoQuery) limits() []crawlLimit {
	return []crawlLimit{
		{key: ratelimit.Key{Scope: scopeLogoCrawls, ID: q.account}, max: maxLogoCrawlsPerMinute},
		{key: ratelimit.Key{Scope: scopeLogoCrawlAddresses, ID: q.address}, max: maxLogoCrawlsPerMinute},
	}
}

// crawlNote says for the log what a logo request had of a crawl.
type crawlNote string

const (
	crawlNone    crawlNote = ""
	crawlEnded   crawlNote = "ended"
	crawlRuns    crawlNote = "runs"    // longer than the request waits
	crawlLimited crawlNote = "limited" // past a limit, or too many wait
	crawlFailed  crawlNote = "failed"  // to be started or to be followed
)

// likeness is what a logo is drawn of, as far as it could be found out.
type likeness struct {
	brand logo.Brand
	crawl crawlNote
	early bool // found before the index held all that a start brings
}

// passing says that the next request may be answered with more: nothing is to keep the answer.
func (n crawlNote) passing() bool { return n == crawlRuns || n == crawlLimited || n == crawlFailed }

// likeness finds what a domain's logo is drawn of: in the index, or for a caller with a key in a crawl that it
// waits for. quick is the time for what is no crawl, within that of ctx. Nothing costs a credit, and what cannot
// be crawled is drawn as an unknown brand, because an image must not break.
//
// Errors: those of the index and of the log where the brand is known; ratelimit.ErrUnavailable; ctx.Err().
func (l *Lookup) likeness(ctx, quick context.Context, q logoQuery) (likeness, error) {
	entry, _, err := l.find(quick, brand.Identifier{Kind: brand.Domain, Domain: q.domain})
	if err != nil {
		return likeness{}, err
	}
	switch {
	case entry != nil:
		looks, err := entry.Looks()
		if err != nil {
			return likeness{}, err
		}
		return likeness{brand: shown(q.domain, *looks)}, nil
	case q.account != "":
		return l.liveLikeness(ctx, q)
	case l.recent.has(q.domain) && !l.changes.Withdrawn(q.domain):
		// The index trails behind what was answered a moment ago; a monogram would be kept for longer than that.
		state, err := l.brands.State(quick, q.domain)
		if err != nil || !state.Known() {
			return likeness{brand: logo.Brand{Domain: q.domain}}, err
		}
		return likeness{brand: shown(q.domain, l.foundIn(state, Hit).looks)}, nil
	default:
		return likeness{brand: logo.Brand{Domain: q.domain}}, nil
	}
}

// shown is what a domain's logo is drawn of: of a restricted brand no more than of an unknown one.
func shown(domain string, looks brands.Looks) logo.Brand {
	if looks.Restricted {
		return logo.Brand{Domain: domain}
	}
	return logo.Brand{Domain: domain, Name: looks.Name, Logos: looks.Logos}
}

// liveLikeness is likeness for a domain that the index does not hold.
func (l *Lookup) liveLikeness(ctx context.Context, q logoQuery) (likeness, error) {
	unknown := likeness{brand: logo.Brand{Domain: q.domain}}
	leave, ok := l.logos.enter()
	if !ok {
		unknown.crawl = crawlLimited
		return unknown, nil
	}
	defer leave()
	waiting, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	known, err := l.crawlForLogo(waiting, q)
	var (
		limit      *LimitError
		failed     *CrawlError
		remembered *brand.RememberedError
	)
	switch {
	case err == nil:
		found := likeness{brand: shown(q.domain, known.looks)}
		if known.cache == Miss {
			found.crawl = crawlEnded
		}
		return found, nil
	case ctx.Err() != nil: // the caller left
		return unknown, ctx.Err()
	case errors.Is(err, ratelimit.ErrUnavailable):
		return unknown, err
	case errors.As(err, &limit):
		unknown.crawl = crawlLimited
	case errors.As(err, &failed):
		unknown.crawl = crawlEnded
	case errors.Is(err, brand.ErrWithdrawn), errors.As(err, &remembered):
		unknown.crawl = crawlNone
	case waiting.Err() != nil:
		unknown.crawl = crawlRuns
	default:
		l.log.WarnContext(ctx, "logo is served without the crawl that it needed", slog.String("request_id", q.request.ID),
			slog.String("domain", q.domain), slog.Any("error", err))
		unknown.crawl = crawlFailed
	}
	return unknown, nil
}

// crawlForLogo answers from the brand's stream, or from the crawl that runs or that it starts, which goes on
// when ctx ends. Errors: *LimitError; *CrawlError, *brand.RememberedError, brand.ErrWithdrawn;
// ratelimit.ErrUnavailable when units could not be taken; those of the log; ctx.Err().
func (l *Lookup) crawlForLogo(ctx context.Context, q logoQuery) (found, error) {
	// Registered before anything is asked for, so that no outcome can pass unseen.
	watch := l.changes.Watch(q.domain)
	defer watch.Close()
	leave, err := l.gates.enter(ctx, q.domain)
	if err != nil {
		return found{}, err
	}
	defer leave()
	next, err := l.decide(ctx, q.domain, brand.CauseLogo)
	if err != nil {
		return found{}, err
	}
	if next.known != nil {
		return *next.known, nil
	}
	if next.joins {
		leave() // nobody behind has to wait for what only this caller does from here on
	}
	units, err := l.takeUnits(ctx, q.limits(), next.joins)
	var limit *LimitError
	switch {
	case errors.As(err, &limit):
		return found{}, err
	case err != nil:
		return found{}, fmt.Errorf("take units of the logo crawls: %w: %w", ratelimit.ErrUnavailable, err)
	}
	if !next.joins {
		if next, err = l.request(ctx, q.request, q.domain, brand.CauseLogo, units); err != nil {
			return found{}, err
		}
		leave()
		if next.known != nil {
			return *next.known, nil
		}
	}
	return l.await(ctx, watch, q.domain, next.crawl)
}
