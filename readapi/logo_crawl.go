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

// Counters of the live crawls that logo requests start or wait for, by account and by the caller's IP
// address.
const (
	scopeLogoCrawls         = "logo-crawls"
	scopeLogoCrawlAddresses = "logo-crawl-addresses"
	// maxLogoCrawlsPerMinute is the limit of each, from the specification.
	maxLogoCrawlsPerMinute = 30
)

// logoQuery is the request for the brand of a logo.
type logoQuery struct {
	request commands.Request
	domain  string
	account string // of the key; "" for a caller who may not cause a crawl
	address string // the caller's, as limits count it
}

func (q logoQuery) limits() []crawlLimit {
	return []crawlLimit{
		{key: ratelimit.Key{Scope: scopeLogoCrawls, ID: q.account}, max: maxLogoCrawlsPerMinute},
		{key: ratelimit.Key{Scope: scopeLogoCrawlAddresses, ID: q.address}, max: maxLogoCrawlsPerMinute},
	}
}

// crawlNote is the log's description of the crawl of a logo request.
type crawlNote string

const (
	crawlNone    crawlNote = ""
	crawlEnded   crawlNote = "ended"
	crawlRuns    crawlNote = "runs"    // longer than the request waits
	crawlLimited crawlNote = "limited" // limit exceeded, or too many waiting
	crawlFailed  crawlNote = "failed"  // starting or following it failed
)

// likeness is the brand that a logo is drawn for, as far as it is known.
type likeness struct {
	brand logo.Brand
	crawl crawlNote
	early bool // found before the index was filled at the start
}

// passing reports whether the next request may get a better answer, so that this one must not be
// cached.
func (n crawlNote) passing() bool { return n == crawlRuns || n == crawlLimited || n == crawlFailed }

// likeness finds the brand for a domain's logo: in the index, or for a caller with a key by a crawl
// that it waits for. quick limits everything but the crawl, within the time of ctx. It costs no
// credit, and a domain that cannot be crawled is drawn as an unknown brand, because an image must not
// break.
//
// Errors: those of the index and, if the brand is known, of the log; ratelimit.ErrUnavailable;
// ctx.Err().
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
		// The index lags behind the latest answers, and a monogram would be cached for longer than
		// that.
		state, err := l.brands.State(quick, q.domain)
		if err != nil || !state.Known() {
			return likeness{brand: logo.Brand{Domain: q.domain}}, err
		}
		return likeness{brand: shown(q.domain, l.foundIn(state, Hit).looks)}, nil
	default:
		return likeness{brand: logo.Brand{Domain: q.domain}}, nil
	}
}

// shown returns the brand to draw for a domain: a restricted brand is drawn like an unknown one.
func shown(domain string, looks brands.Looks) logo.Brand {
	if looks.Restricted {
		return logo.Brand{Domain: domain}
	}
	return logo.Brand{Domain: domain, Name: looks.Name, Logos: looks.Logos}
}

// liveLikeness is likeness for a domain that the index does not have.
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

// crawlForLogo answers from the brand's stream, or from a running or new crawl, which continues when
// ctx ends. Errors: *LimitError; *CrawlError, *brand.RememberedError, brand.ErrWithdrawn;
// ratelimit.ErrUnavailable if units could not be taken; those of the log; ctx.Err().
func (l *Lookup) crawlForLogo(ctx context.Context, q logoQuery) (found, error) {
	// Registered before anything else, so that no outcome can be missed.
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
		leave() // callers behind need not wait for the rest, which concerns only this caller
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
