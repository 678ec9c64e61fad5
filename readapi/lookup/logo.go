package lookup

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/internal/ratelimit"
	"letterhead/projections/brands"
)

// Counters of the live crawls that logo requests start or wait for, by account, where callers without a key count as one
// account, and by the caller's IP address.
const (
	scopeLogoCrawls         = "logo-crawls"
	scopeLogoCrawlAddresses = "logo-crawl-addresses"
	scopeKeylessShares      = "keyless-shares"
)

// LogoQuery is the request for the brand of a logo.
type LogoQuery struct {
	Request   commands.Request
	Domain    string // registrable; "" if the brand is named by Symbol, or by nothing that the index has
	Symbol    string // of the company's shares, bare or qualified by the exchange
	AccountID string // of the key; "" for a caller without one
	// KeylessCrawls limits the crawls in a day, UTC, that callers without a key may cause together; 0 with a key.
	KeylessCrawls int64
	KeylessShare  int64  // of these, for the caller's address at this node; 0 = all
	Aside         bool   // the answer does not wait for a crawl
	Address       string // the caller's, as limits count it
}

// LogoCrawl describes the crawl of a logo request, for the log.
type LogoCrawl string

// Values of LogoCrawl.
const (
	NoCrawl          LogoCrawl = ""
	CrawlEnded       LogoCrawl = "ended"
	CrawlRuns        LogoCrawl = "runs"          // longer than the request waits, if it waits at all
	CrawlLimited     LogoCrawl = "limited"       // limit exceeded, or too many waiting
	CrawlFailed      LogoCrawl = "failed"        // starting or following it failed
	CrawlUsedUp      LogoCrawl = "used-up"       // the day's crawls for callers without a key
	CrawlShareUsedUp LogoCrawl = "share-used-up" // of these crawls, the share of this caller's address
)

// Temporary reports whether the next request may get a better answer, so that this one must not be cached.
func (c LogoCrawl) Temporary() bool { return c == CrawlRuns || c == CrawlLimited || c == CrawlFailed }

// LogoAnswer is what is known of a brand to draw its logo.
type LogoAnswer struct {
	Domain  string       // "" if a symbol names no brand
	Looks   brands.Looks // zero for an unknown brand
	Crawl   LogoCrawl
	Partial bool // the symbols of the index have not all been read yet
}

// Logo finds the brand for a domain's logo: in the index, or for a caller who may cause a crawl by one that it
// waits for, unless q.Aside. quick limits everything but the crawl, within the time of ctx. It costs no credit, and a
// domain that cannot be crawled is answered as an unknown brand, because an image must not break.
//
// Errors: those of the index and, if the brand is known, of the log; ratelimit.ErrUnavailable; ctx.Err().
func (s *Service) Logo(ctx, quick context.Context, q LogoQuery) (LogoAnswer, error) {
	whole := true
	if q.Symbol != "" {
		var err error
		if q.Domain, whole, err = s.parts.Index.Listed(quick, q.Symbol); err != nil {
			return LogoAnswer{}, err
		}
	}
	if q.Domain == "" {
		return LogoAnswer{Partial: !whole}, nil
	}
	answer, err := s.logoOfDomain(ctx, quick, q)
	answer.Domain = q.Domain
	return answer, err
}

func (s *Service) logoOfDomain(ctx, quick context.Context, q LogoQuery) (LogoAnswer, error) {
	entry, _, err := s.find(quick, brand.Identifier{Kind: brand.Domain, Domain: q.Domain})
	if err != nil {
		return LogoAnswer{}, err
	}
	switch {
	case entry != nil:
		looks, err := entry.Looks()
		if err != nil {
			return LogoAnswer{}, err
		}
		return LogoAnswer{Looks: *looks}, nil
	case q.AccountID != "", q.KeylessCrawls > 0:
		return s.liveLogo(ctx, q)
	case s.recent.last(q.Domain).domain != "" && !s.parts.Changes.Withdrawn(q.Domain):
		// The index lags behind the latest answers, and a monogram would be cached for longer than that.
		state, err := s.parts.Brands.State(quick, q.Domain)
		if err != nil || !state.Known() {
			return LogoAnswer{}, err
		}
		return LogoAnswer{Looks: s.foundIn(state, Hit).looks}, nil
	default:
		return LogoAnswer{}, nil
	}
}

// liveLogo is Logo for a domain that the index does not have.
func (s *Service) liveLogo(ctx context.Context, q LogoQuery) (LogoAnswer, error) {
	if !s.logos.TryAcquire(1) {
		return LogoAnswer{Crawl: CrawlLimited}, nil
	}
	defer s.logos.Release(1)
	waiting, cancel := context.WithTimeout(ctx, s.config.LogoTimeout)
	defer cancel()
	outcome, leave := context.WithCancel(waiting)
	defer leave()
	if q.Aside {
		leave() // the crawl is requested, but its outcome is not awaited
	}
	var share []crawlLimit
	if q.KeylessShare > 0 {
		share = []crawlLimit{{key: ratelimit.Key{Scope: scopeKeylessShares, ID: q.Address}, max: q.KeylessShare}}
	}
	known, err := s.crawl(outcome, waiting, crawlQuery{
		request: q.Request, domain: q.Domain, cause: brand.CauseLogo, keyless: q.KeylessCrawls, share: share,
		limits: []crawlLimit{
			{key: ratelimit.Key{Scope: scopeLogoCrawls, ID: q.AccountID}, max: plan.LogoCrawlsPerMinute},
			{key: ratelimit.Key{Scope: scopeLogoCrawlAddresses, ID: q.Address}, max: plan.LogoCrawlsPerMinute},
		},
	}, nil)
	switch {
	case err == nil && known.cache == Miss:
		return LogoAnswer{Looks: known.looks, Crawl: CrawlEnded}, nil
	case err == nil:
		return LogoAnswer{Looks: known.looks}, nil
	case ctx.Err() != nil: // the caller left
		return LogoAnswer{}, ctx.Err()
	case errors.Is(err, commands.ErrQuotaExceeded):
		if day := dayOf(s.config.Now()); s.usedUp.Swap(day) != day {
			s.config.Logger.WarnContext(ctx, "the crawls of unknown domains for requests without a key are used up until midnight UTC",
				slog.Int64("limit", q.KeylessCrawls))
		}
		return LogoAnswer{Crawl: CrawlUsedUp}, nil
	case errors.Is(err, errShareUsedUp):
		return LogoAnswer{Crawl: CrawlShareUsedUp}, nil
	case errors.Is(err, ratelimit.ErrUnavailable):
		return LogoAnswer{}, err
	case errors.As(err, new(*LimitError)):
		return LogoAnswer{Crawl: CrawlLimited}, nil
	case errors.Is(err, ErrNotCrawled):
		return LogoAnswer{Crawl: CrawlFailed}, nil
	case errors.As(err, new(*CrawlError)):
		return LogoAnswer{Crawl: CrawlEnded}, nil
	case errors.Is(err, brand.ErrWithdrawn), errors.As(err, new(*brand.RememberedError)):
		return LogoAnswer{}, nil
	case waiting.Err() != nil, q.Aside && errors.Is(err, context.Canceled):
		return LogoAnswer{Crawl: CrawlRuns}, nil
	default:
		s.config.Logger.WarnContext(ctx, "logo is served without the crawl that it needed",
			slog.String("request_id", q.Request.ID),
			slog.String("domain", q.Domain), slog.Any("error", err))
		return LogoAnswer{Crawl: CrawlFailed}, nil
	}
}

// dayOf returns the day of a time, UTC, since 1970.
func dayOf(t time.Time) int64 { return t.Unix() / int64(24*time.Hour/time.Second) }
