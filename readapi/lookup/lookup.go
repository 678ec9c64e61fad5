package lookup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/internal/ratelimit"
	"letterhead/projections/brands"
)

// Limits of look-ups.
const (
	// OutcomeGrace is the time for a crawl's outcome from the crawler's own deadline to the log and
	// back.
	OutcomeGrace = 500 * time.Millisecond
	// ReturnWithin limits the return of units of the live-crawl limits, also after a request's end. A
	// unit that is not returned by then stays taken until its minute is over.
	ReturnWithin = 200 * time.Millisecond
	// releaseWithin limits how long an answer waits for a hold to be released, within the request's
	// time; after that the release continues in the background.
	releaseWithin = 500 * time.Millisecond
	// caughtUpWithin limits the wait for the index before an id is reported as unknown.
	caughtUpWithin = 2 * time.Second
	// maxLookups limits the running look-ups, each of which uses some tens of KB; more mean that a
	// part is stuck.
	maxLookups = 8192
	// maxLogoCrawls limits the logo requests that wait for a crawl. Beyond it, waiting would cost more
	// than a temporary monogram.
	maxLogoCrawls = 2048
)

// Cache is the source of an answer.
type Cache string

// Values of Cache, as in X-Cache.
const (
	Hit  Cache = "HIT"  // from the index
	Miss Cache = "MISS" // from a live crawl
)

// Caller is the account that pays for a look-up.
type Caller struct {
	AccountID string
	KeyID     string
	Plan      plan.Plan
}

// Query is the request for one look-up.
type Query struct {
	Request    commands.Request // its id makes charge and hold repeatable
	Caller     Caller
	Identifier brand.Identifier
	Refresh    bool // crawl now; ignored on plans without refresh
	Peek       bool // only check: no charge, no crawl (HEAD)
	// Reservation is a credit of the caller's that is already reserved; Do consumes it whatever the
	// outcome. Optional: without one, Do reserves a credit itself.
	Reservation *commands.Reservation
	// Once is the idempotency key of the look-up, if any. Without a reservation, Do first repeats the
	// answer that was charged under it; a caller who reserves a credit has already called Recall.
	Once *commands.Once
	// Has reports whether the caller has a record already. If it is the present one, the answer is free, even
	// without credits, and uses no idempotency key. A refresh ignores it. Optional.
	Has func(brands.Body) bool
}

// Answer is a brand that was found.
type Answer struct {
	Domain    string // parsed from the identifier, even with an error; empty for an unknown id
	Body      brands.Body
	Cache     Cache
	Charge    *commands.Receipt // nil if the answer is free
	Unchanged bool              // the caller has the record: see Query.Has
	Remaining int64             // credits left after the look-up, never below zero
}

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
	credits  Credits
	brands   Brands
	index    Index
	changes  Changes
	counters ratelimit.Counters
	caughtUp func(ctx context.Context) error // nil if there are no other nodes

	domains  keyLocks // domains whose crawl is being decided
	keys     keyLocks // idempotency keys of running batches
	overlaps overlaps
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
		credits: parts.Credits, brands: parts.Brands, index: parts.Index, changes: parts.Changes,
		counters: parts.Counters, caughtUp: parts.CaughtUp,
		running: semaphore.NewWeighted(maxLookups), batches: semaphore.NewWeighted(MaxBatches), logos: semaphore.NewWeighted(maxLogoCrawls),
		config: cfg,
	}
	s.stopping, s.stop = context.WithCancel(context.Background()) // of the server, not of a request
	return s
}

// Stop announces that the server is about to stop: batches start no further items, so that the running
// ones end within the time of a single look-up.
func (s *Service) Stop() { s.stop() }

// Do looks up a brand. The answer may be sent to the caller: its charge is durable. If it can no
// longer be sent, reverse it with Reverse.
//
// Errors, all of them free of charge: *account.InsufficientCreditsError;
// account.ErrIdempotencyMismatch, ErrSuspended, ErrClosed, ErrNotFound; commands.ErrBusy;
// ErrNoSuchBrand; ErrNotIndexed; brand.ErrWithdrawn; *LimitError; *CrawlError; eventlog.ErrUnavailable
// and ratelimit.ErrUnavailable; ctx.Err().
func (s *Service) Do(ctx context.Context, q Query) (Answer, error) {
	defer q.Reservation.Drop() // no effect once a charge or a hold has used it
	if !s.running.TryAcquire(1) {
		return Answer{Domain: q.Identifier.Domain}, fmt.Errorf("%w: %d look-ups are running", commands.ErrBusy, maxLookups)
	}
	defer s.running.Release(1)
	if q.Has != nil && !q.Refresh && !q.Peek {
		if answer, err := s.unchanged(ctx, q); err != nil || answer.Unchanged {
			return answer, err
		}
	}
	if q.Once != nil && q.Reservation == nil && !q.Peek {
		return s.doOnce(ctx, q)
	}
	quick, cancel := context.WithTimeout(ctx, s.config.Quick)
	defer cancel()
	if q.Peek {
		return s.peek(quick, q)
	}
	return s.answer(ctx, quick, q)
}

// answer produces an answer and charges for it. quick limits everything but the crawl.
func (s *Service) answer(ctx, quick context.Context, q Query) (Answer, error) {
	reservation := q.Reservation
	defer func() { reservation.Drop() }()
	var err error
	if reservation == nil {
		if reservation, err = s.credits.Reserve(quick, q.Caller.AccountID); err != nil {
			return Answer{Domain: q.Identifier.Domain}, err
		}
	}
	entry, domain, err := s.find(quick, q.Identifier)
	if err != nil {
		return Answer{Domain: domain}, s.rejection(quick, reservation, err)
	}
	refresh := q.Refresh && q.Caller.Plan.Refresh
	if entry != nil && !refresh {
		answer, err := s.settle(quick, q, foundAt(entry), reservation, nil)
		if !errors.Is(err, commands.ErrOlderRecord) {
			return answer, err
		}
		// Another node answered this account from the brand's stream, and the index lags.
		if reservation, err = s.credits.Reserve(quick, q.Caller.AccountID); err != nil {
			return Answer{Domain: domain}, err
		}
	}
	return s.live(ctx, quick, q, domain, refresh, reservation)
}

// rejection returns why a look-up is rejected: lack of credits, which has precedence, or the given reason.
func (s *Service) rejection(ctx context.Context, reservation *commands.Reservation, reason error) error {
	if err := s.credits.Confirm(ctx, reservation); err != nil {
		return err
	}
	return reason
}

// Reverse reverses the charge of an answer that was never sent, because its caller left before the
// first byte. The reversal continues after the request's end. A repeat charged nothing, so there is
// nothing to reverse.
func (s *Service) Reverse(ctx context.Context, q Query, answer Answer) {
	if answer.Charge == nil || answer.Charge.Repeated {
		return
	}
	err := s.credits.ReverseUndelivered(commands.UndeliveredCharge{Request: q.Request, AccountID: q.Caller.AccountID, Receipt: *answer.Charge})
	if err != nil {
		// Support finds the charge in the ledger by the request's id.
		s.config.Logger.ErrorContext(ctx, "charge of a caller who left is not reversed", "request_id", q.Request.ID,
			"account", q.Caller.AccountID, "charge", answer.Charge.ChargeID, "error", err)
	}
}

// find asks the index. It returns the entry if the index has one that is as new as the last answer and
// that was not withdrawn since, the domain in any case, and ErrNoSuchBrand for an unknown id. Without
// an entry the brand's own stream decides.
func (s *Service) find(ctx context.Context, id brand.Identifier) (*brands.Entry, string, error) {
	entry, domain, err := s.ask(ctx, id)
	if entry != nil && (entry.Revision < s.recent.revision(domain) || s.changes.Withdrawn(domain)) {
		return nil, domain, nil // the index lags: no caller may pay for a record older than the last answer
	}
	return entry, domain, err
}

func (s *Service) ask(ctx context.Context, id brand.Identifier) (*brands.Entry, string, error) {
	if id.Kind == brand.BrandID {
		entry, err := s.index.ByID(ctx, id.BrandID)
		if errors.Is(err, brands.ErrNotFound) {
			if domain, ok := s.recent.domain(id.BrandID.String()); ok {
				return nil, domain, nil
			}
			entry, err = s.askAgain(ctx, id.BrandID)
		}
		if errors.Is(err, brands.ErrNotFound) {
			return nil, "", ErrNoSuchBrand
		}
		if err != nil {
			return nil, "", fmt.Errorf("find brand %s: %w", id.BrandID, err)
		}
		return entry, entry.Domain, nil
	}
	entry, err := s.index.Get(ctx, id.Domain)
	if errors.Is(err, brands.ErrNotFound) {
		return nil, id.Domain, nil
	}
	if err != nil {
		return nil, id.Domain, fmt.Errorf("find %s: %w", id.Domain, err)
	}
	return entry, id.Domain, nil
}

// askAgain asks for an id once the index has the brands that other nodes may have answered already.
func (s *Service) askAgain(ctx context.Context, id uuid.UUID) (*brands.Entry, error) {
	if s.caughtUp == nil {
		return nil, brands.ErrNotFound
	}
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	return s.index.ByID(ctx, id)
}

// catchUp waits until the index has the brands that other nodes may have answered already.
func (s *Service) catchUp(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, caughtUpWithin)
	defer cancel()
	if err := s.caughtUp(waiting); err != nil {
		return fmt.Errorf("the index has not caught up: %w", errors.Join(errBehind, err))
	}
	return nil
}

// peek reports whether the index has a brand, with its record.
func (s *Service) peek(ctx context.Context, q Query) (Answer, error) {
	body, domain, err := s.held(ctx, q.Identifier)
	if err != nil {
		return Answer{Domain: domain}, err
	}
	remaining, err := s.Credits(ctx, q.Caller.AccountID)
	if err != nil {
		return Answer{Domain: domain}, err
	}
	return Answer{Domain: domain, Body: body, Cache: Hit, Remaining: remaining}, nil
}

// held returns the record that the index has, without a crawl. The index may lag behind the log: a brand that was just
// answered is read from its stream. The domain is returned even with an error, unless an id is unknown.
func (s *Service) held(ctx context.Context, id brand.Identifier) (body brands.Body, domain string, err error) {
	entry, domain, err := s.find(ctx, id)
	if err != nil {
		return body, domain, err
	}
	if entry != nil {
		return entry.Body, domain, nil
	}
	body, err = s.current(ctx, domain)
	return body, domain, err
}

// current returns the record in the brand's stream. Later look-ups do not answer with an older one.
func (s *Service) current(ctx context.Context, domain string) (body brands.Body, err error) {
	state, err := s.brands.State(ctx, domain)
	switch {
	case err != nil:
		return body, err
	case state.Withdrawn():
		return body, brand.ErrWithdrawn
	case !state.Known():
		return body, ErrNotIndexed
	}
	return s.foundIn(state, Hit).body, nil
}

// unchanged answers a caller who has the record that is held, or, if the index lags, the newer one in the brand's
// stream. Any other caller gets an answer that is not Unchanged, and no error because of the record: the look-up then
// finds it. Errors: those of Credits; ctx.Err(), also after the time of everything but the crawl.
func (s *Service) unchanged(ctx context.Context, q Query) (Answer, error) {
	quick, cancel := context.WithTimeout(ctx, s.config.Quick)
	defer cancel()
	entry, domain, err := s.find(quick, q.Identifier)
	var body brands.Body
	if entry != nil {
		body = entry.Body
	}
	if err == nil && (entry == nil || !q.Has(body)) {
		body, err = s.current(quick, domain)
	}
	switch {
	case quick.Err() != nil:
		return Answer{Domain: domain}, quick.Err()
	case err != nil || !q.Has(body):
		return Answer{Domain: domain}, nil
	}
	remaining, err := s.Credits(quick, q.Caller.AccountID)
	return Answer{Domain: domain, Body: body, Cache: Hit, Unchanged: true, Remaining: remaining}, err
}

// Credits returns the value of X-Credits-Remaining: the balance, never below zero.
func (s *Service) Credits(ctx context.Context, accountID string) (int64, error) {
	standing, err := s.credits.Standing(ctx, accountID)
	if err != nil {
		return 0, err
	}
	return max(0, standing.Remaining), nil
}

// found is a record that can be sent.
type found struct {
	cache    Cache
	id       string
	domain   string
	revision uint64 // of the brand stream
	logo     bool
	looks    brands.Looks // of a record from the brand's stream
	body     brands.Body
	stream   bool // it was read from the brand's stream
}

// foundAt takes the record from the index.
func foundAt(entry *brands.Entry) found {
	return found{
		cache: Hit, id: entry.ID, domain: entry.Domain, revision: entry.Revision, logo: entry.HasLogo, body: entry.Body,
	}
}

// foundIn takes the record from the brand's own stream, which the index may not have processed yet.
func (s *Service) foundIn(state *brand.Brand, cache Cache) found {
	view := state.View()
	s.recent.note(view)
	return found{
		cache: cache, id: view.ID, domain: view.Domain, revision: view.Revision,
		logo: view.Record.HasLogo(), looks: brands.LooksOf(view), body: brands.Render(view), stream: true,
	}
}

// settle charges for the record, if it has a logo: from the reservation, or from the hold if there was
// a crawl. Without a logo the answer is free.
func (s *Service) settle(ctx context.Context, q Query, f found, reservation *commands.Reservation, hold *openHold) (Answer, error) {
	answer := Answer{Domain: f.domain, Body: f.body, Cache: f.cache}
	if !f.logo {
		err := s.rejection(ctx, reservation, nil)
		if err != nil {
			return Answer{Domain: f.domain}, err
		}
		reservation.Drop()
		hold.release(ctx)
		answer.Remaining, err = s.Credits(ctx, q.Caller.AccountID)
		return answer, err
	}
	charge := commands.ChargeLookup{
		Request: q.Request, AccountID: q.Caller.AccountID, Reservation: reservation,
		BrandID: f.id, Domain: f.domain, RecordRevision: f.revision, FromStream: f.stream, HoldID: hold.holdID(), KeyID: q.Caller.KeyID, Once: q.Once,
	}
	receipt, err := s.credits.ChargeLookup(ctx, charge)
	if err != nil {
		return Answer{Domain: f.domain}, err
	}
	if receipt.Repeated && q.Once != nil {
		// Another look-up with the key was faster, and its charged record is the answer of both. The
		// hold is still open, and live releases it.
		answer, err = s.Repeat(ctx, receipt)
		answer.Cache = f.cache
		return answer, err
	}
	hold.captured()
	answer.Charge, answer.Remaining = &receipt, max(0, receipt.Remaining)
	return answer, nil
}
