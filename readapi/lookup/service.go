package lookup

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/ratelimit"
	"letterhead/projections/brands"
	"letterhead/projections/brandwatch"
)

// Limits of look-ups.
const (
	// OutcomeGrace is the time for a crawl's outcome from the crawler's own deadline to the log and back.
	OutcomeGrace = 500 * time.Millisecond
	// ReturnWithin limits the return of units of the live-crawl limits, also after a request's end. A
	// unit that is not returned by then stays taken until its minute is over.
	ReturnWithin = 200 * time.Millisecond
	// releaseWithin limits how long an answer waits for a hold to be released, within the request's
	// time; after that the release continues in the background.
	releaseWithin = 500 * time.Millisecond
	// caughtUpWithin limits the wait for the index before an id is reported as unknown.
	caughtUpWithin = 2 * time.Second
	// maxLookups limits the running look-ups, each of which uses some tens of KB; more mean that a part is stuck.
	maxLookups = 8192
	// maxLogoCrawls limits the logo requests that wait for a crawl. Beyond it, waiting would cost more
	// than a temporary monogram.
	maxLogoCrawls = 2048
)

// Config configures a Service. All fields are required.
type Config struct {
	CrawlTimeout    time.Duration // of a live crawl
	LogoTimeout     time.Duration // how long a logo waits for a live crawl
	Quick           time.Duration // limits everything but the crawl
	CrawlsPerMinute int           // limit of live crawls of the whole service
	Logger          *slog.Logger
	Now             func() time.Time
}

// Service sells look-ups: it reserves a credit, finds the brand or has it crawled, and charges for it.
type Service struct {
	parts  Parts
	shares ratelimit.Counters // of addresses in the day's crawls for callers without a key
	usedUp atomic.Int64       // the last day, since 1970, on which used-up crawls were logged

	domains  keyLocks         // domains whose crawl is being decided
	keys     keyLocks         // idempotency keys of running batches
	overlaps shared[*overlap] // of look-ups with an idempotency key
	recent   recent
	running  *semaphore.Weighted // look-ups
	batches  *semaphore.Weighted
	logos    *semaphore.Weighted // logo requests that wait for a crawl

	stopping context.Context // canceled when the server begins to stop
	stop     context.CancelFunc
	config   Config
}

// New returns a Service.
func New(cfg Config, parts Parts) *Service {
	s := &Service{
		parts: parts, config: cfg,
		running: semaphore.NewWeighted(maxLookups), batches: semaphore.NewWeighted(MaxBatches),
		logos: semaphore.NewWeighted(maxLogoCrawls),
	}
	// To these counters a day is a minute, so that their windows are days.
	s.shares = ratelimit.NewMemory(ratelimit.Config{Now: func() time.Time { return time.Unix(dayOf(cfg.Now())*60, 0) }})
	s.stopping, s.stop = context.WithCancel(context.Background()) // of the server, not of a request
	return s
}

// Stop announces that the server is about to stop: batches start no further items, so that the running
// ones end within the time of a single look-up.
func (s *Service) Stop() { s.stop() }

// Do looks up a brand. The answer may be sent to the caller: its charge is durable. If it can no
// longer be sent, reverse it with Reverse.
//
// Errors, all of them free of charge: *account.InsufficientCreditsError; account.ErrIdempotencyMismatch, ErrSuspended,
// ErrClosed, ErrNotFound; commands.ErrBusy; ErrNoSuchBrand; ErrNotIndexed; brand.ErrWithdrawn; *LimitError;
// *CrawlError; eventlog.ErrUnavailable and ratelimit.ErrUnavailable; ctx.Err().
func (s *Service) Do(ctx context.Context, q Query) (Answer, error) {
	defer q.Reservation.Drop() // no effect once a charge or a hold has used it
	if !s.running.TryAcquire(1) {
		return Answer{Domain: q.Identifier.Domain}, fmt.Errorf("%w: %d look-ups are running",
			commands.ErrBusy, maxLookups)
	}
	defer s.running.Release(1)
	switch {
	case q.Peek:
		return s.peek(ctx, q)
	case q.Has != nil && !q.Refresh:
		if answer, err := s.unchanged(ctx, q); err != nil || answer.Unchanged {
			return answer, err
		}
	}
	if q.Once != nil && q.Reservation == nil {
		return s.lookUpOnce(ctx, q)
	}
	return s.lookUp(ctx, q)
}

// Parts are the parts that look-ups use. All except CaughtUp are required.
type Parts struct {
	Credits  Credits
	Brands   Brands
	Index    Index
	Changes  Changes
	Counters ratelimit.Counters
	Keyless  Keyless
	// CaughtUp waits until the Index has every event that the log had at the time of the call. It is called before an
	// id is reported as unknown, because another node may just have answered it. Optional: nil if there are no other
	// nodes.
	CaughtUp func(ctx context.Context) error
}

// Interfaces of the other parts, reduced to the methods used here. Their own packages document each
// method and its errors.
type (
	// Credits decides about credits; *commands.AccountWriter.
	Credits interface {
		Reserve(ctx context.Context, accountID, keyID string) (*commands.Reservation, error)
		Confirm(ctx context.Context, r *commands.Reservation) error
		HoldCredits(ctx context.Context, in commands.HoldCredits) (commands.Hold, error)
		ChargeLookup(ctx context.Context, in commands.ChargeLookup) (commands.Receipt, error)
		Recall(ctx context.Context, in commands.Recall) ([]commands.Receipt, error)
		ReleaseHold(ctx context.Context, in commands.ReleaseHold) error
		ReleaseUndelivered(in commands.ReleaseHold) error
		ReverseUndelivered(in commands.UndeliveredCharge) error
		Standing(ctx context.Context, accountID string) (commands.Standing, error)
	}

	// Brands are the use cases of brands; *commands.Brands.
	Brands interface {
		State(ctx context.Context, domain string) (*brand.Brand, error)
		StateAt(ctx context.Context, domain string, revision uint64) (*brand.Brand, error)
		RequestCrawl(ctx context.Context, in commands.RequestCrawl) (commands.Crawl, error)
		ExpireCrawl(ctx context.Context, domain, crawlID string) error
	}

	// Index is the read model of brands; projections/brands.
	Index interface {
		Get(ctx context.Context, domain string) (*brands.Entry, error)
		ByID(ctx context.Context, id uuid.UUID) (*brands.Entry, error)
		Listed(ctx context.Context, symbol string) (domain string, whole bool, err error)
	}

	// Keyless counts crawls for callers without a key; *commands.QuotaWriter.
	Keyless interface {
		CountKeylessCrawl(ctx context.Context, at time.Time, limit int64) error
		ReturnKeylessCrawl(at time.Time)
	}

	// Changes reports live changes of brand streams; projections/brandwatch.
	Changes interface {
		Watch(domain string) *brandwatch.Watch
		Withdrawn(domain string) bool
	}
)
