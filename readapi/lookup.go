package readapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/ratelimit"
	"letterhead/projections/brands"
)

const (
	// maxCrawlTimeout limits the setting, so that a server's write timeout always covers it.
	maxCrawlTimeout = 60 * time.Second
	// outcomeGrace is the time for a crawl's outcome from the crawler's own deadline to the log and
	// back.
	outcomeGrace = 500 * time.Millisecond
	// clientsGiveUp is when clients stop waiting for an answer (readings, "Crawl outcomes"). Every
	// answer is sent before it, whatever hangs: the sum of a crawl and the work around it, giveWithin
	// and creditsWithin is less, and so is that of quickWithin, afterwardsWithin and creditsWithin.
	clientsGiveUp = 10 * time.Second
	// quickWithin limits the whole of a request without a crawl, and each part before and after a
	// crawl. A store that hangs for so long is unavailable.
	quickWithin = 5 * time.Second
	// afterwardsWithin limits work after a request's end that must not be left half done.
	afterwardsWithin = 4 * time.Second
	// giveWithin limits the return of units of the live-crawl limits, also after a request's end. A
	// unit that is not returned by then stays taken until its minute is over.
	giveWithin = 200 * time.Millisecond
	// releaseWithin limits how long an answer waits for a hold to be released, within the request's
	// time; after that the desk does it in the background.
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
}

// Answer is a brand that was found.
type Answer struct {
	Domain    string // parsed from the identifier, even with an error; empty for an unknown id
	Body      brands.Body
	Cache     Cache
	Charge    *commands.Receipt // nil if the answer is free
	Remaining int64             // credits left after the look-up, never below zero
}

// Lookup is the metered use case: reserve a credit, find the brand or have it crawled, charge for it.
type Lookup struct {
	desk     Desk
	brands   BrandCommands
	index    BrandIndex
	changes  Changes
	counters ratelimit.Counters
	caughtUp func(ctx context.Context) error // nil if there are no other nodes
	gates    gates
	flights  flights
	recent   recent
	underway bulkhead
	logos    bulkhead // logo requests that wait for a crawl
	batches  bulkhead
	accounts shares          // running batches, by account
	keyed    gates           // running batches, by idempotency key
	stopping context.Context // canceled when the server begins to stop
	stop     context.CancelFunc
	timeout  time.Duration // of a crawl
	patience time.Duration // of a logo request for a crawl
	quick    time.Duration // of everything but the crawl
	ceiling  int64
	log      *slog.Logger
	now      func() time.Time
}

// newLookup requires a Config with its defaults filled in.
func newLookup(cfg Config, deps Deps) *Lookup {
	l := &Lookup{
		desk: deps.Desk, brands: deps.Brands, index: deps.Index, changes: deps.Changes, counters: deps.Counters,
		caughtUp: deps.CaughtUp, underway: bulkhead{limit: maxLookups}, logos: bulkhead{limit: maxLogoCrawls}, batches: bulkhead{limit: maxBatches}, accounts: shares{limit: maxAccountBatches},
		timeout: cfg.CrawlTimeout, patience: cfg.LogoTimeout, quick: min(cfg.RequestTimeout, quickWithin), ceiling: int64(cfg.CrawlsPerMinute), log: cfg.Logger, now: cfg.Now,
	}
	l.stopping, l.stop = context.WithCancel(context.Background()) // of the server, not of a request
	return l
}

// Do looks up a brand. The answer may be sent to the caller: its charge is durable. If it can no
// longer be sent, reverse it with HandBack.
//
// Errors, all of them free of charge: *account.InsufficientCreditsError;
// account.ErrIdempotencyMismatch, ErrSuspended, ErrClosed, ErrNotFound; commands.ErrBusy;
// ErrNoSuchBrand; ErrNotHeld; brand.ErrWithdrawn; *LimitError; *CrawlError; eventlog.ErrUnavailable
// and ratelimit.ErrUnavailable; ctx.Err(). problemOf maps them all.
func (l *Lookup) Do(ctx context.Context, q Query) (Answer, error) {
	defer q.Reservation.Drop() // no effect once a charge or a hold has used it
	leave, ok := l.underway.enter()
	if !ok {
		return Answer{Domain: q.Identifier.Domain}, fmt.Errorf("%w: %w", commands.ErrBusy, errStuck)
	}
	defer leave()
	if q.Once != nil && q.Reservation == nil && !q.Peek {
		return l.doOnce(ctx, q)
	}
	quick, cancel := context.WithTimeout(ctx, l.quick)
	defer cancel()
	if q.Peek {
		return l.peek(quick, q)
	}
	return l.answer(ctx, quick, q)
}

// answer produces an answer and charges for it. quick limits everything but the crawl.
func (l *Lookup) answer(ctx, quick context.Context, q Query) (Answer, error) {
	reservation := q.Reservation
	defer func() { reservation.Drop() }()
	var err error
	if reservation == nil {
		if reservation, err = l.desk.Reserve(quick, q.Caller.AccountID); err != nil {
			return Answer{Domain: q.Identifier.Domain}, err
		}
	}
	entry, domain, err := l.find(quick, q.Identifier)
	if err != nil {
		return Answer{Domain: domain}, l.refuse(quick, reservation, err)
	}
	refresh := q.Refresh && q.Caller.Plan.Refresh
	if entry != nil && !refresh {
		answer, err := l.settle(quick, q, foundAt(entry), reservation, nil)
		if !errors.Is(err, commands.ErrOlderRecord) {
			return answer, err
		}
		// Another node answered this account from the brand's stream, and the index lags.
		if reservation, err = l.desk.Reserve(quick, q.Caller.AccountID); err != nil {
			return Answer{Domain: domain}, err
		}
	}
	return l.live(ctx, quick, q, domain, refresh, reservation)
}

// refuse returns why a look-up is refused: lack of credits, which has precedence, or the given reason.
func (l *Lookup) refuse(ctx context.Context, reservation *commands.Reservation, reason error) error {
	if err := l.desk.Confirm(ctx, reservation); err != nil {
		return err
	}
	return reason
}

// HandBack reverses the charge of an answer that was never sent, because its caller left before the
// first byte. The desk continues after the request's end. A repeat charged nothing, so there is
// nothing to reverse.
func (l *Lookup) HandBack(ctx context.Context, q Query, answer Answer) {
	if answer.Charge == nil || answer.Charge.Repeated {
		return
	}
	err := l.desk.ReverseUndelivered(commands.UndeliveredCharge{Request: q.Request, AccountID: q.Caller.AccountID, Receipt: *answer.Charge})
	if err != nil {
		// Support finds the charge in the ledger by the request's id.
		l.log.ErrorContext(ctx, "charge of a caller who left is not reversed", "request_id", q.Request.ID,
			"account", q.Caller.AccountID, "charge", answer.Charge.ChargeID, "error", err)
	}
}

// find asks the index. It returns the entry if the index has one that is as new as the last answer and
// that was not withdrawn since, the domain in any case, and ErrNoSuchBrand for an unknown id. Without
// an entry the brand's own stream decides.
func (l *Lookup) find(ctx context.Context, id brand.Identifier) (*brands.Entry, string, error) {
	entry, domain, err := l.ask(ctx, id)
	if entry != nil && (entry.Revision < l.recent.revision(domain) || l.changes.Withdrawn(domain)) {
		return nil, domain, nil // the index lags: no caller may pay for a record older than the last answer
	}
	return entry, domain, err
}

func (l *Lookup) ask(ctx context.Context, id brand.Identifier) (*brands.Entry, string, error) {
	if id.Kind == brand.BrandID {
		entry, err := l.index.ByID(ctx, id.BrandID)
		if errors.Is(err, brands.ErrNotFound) {
			if domain, ok := l.recent.domain(id.BrandID.String()); ok {
				return nil, domain, nil
			}
			entry, err = l.askAgain(ctx, id.BrandID)
		}
		if errors.Is(err, brands.ErrNotFound) {
			return nil, "", ErrNoSuchBrand
		}
		if err != nil {
			return nil, "", fmt.Errorf("find brand %s: %w", id.BrandID, err)
		}
		return entry, entry.Domain, nil
	}
	entry, err := l.index.Get(ctx, id.Domain)
	if errors.Is(err, brands.ErrNotFound) {
		return nil, id.Domain, nil
	}
	if err != nil {
		return nil, id.Domain, fmt.Errorf("find %s: %w", id.Domain, err)
	}
	return entry, id.Domain, nil
}

// askAgain asks for an id once the index has the brands that other nodes may have answered already.
func (l *Lookup) askAgain(ctx context.Context, id uuid.UUID) (*brands.Entry, error) {
	if l.caughtUp == nil {
		return nil, brands.ErrNotFound
	}
	if err := l.catchUp(ctx); err != nil {
		return nil, err
	}
	return l.index.ByID(ctx, id)
}

// catchUp waits until the index has the brands that other nodes may have answered already.
func (l *Lookup) catchUp(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, caughtUpWithin)
	defer cancel()
	if err := l.caughtUp(waiting); err != nil {
		return fmt.Errorf("the index has not caught up: %w", errors.Join(errBehind, err))
	}
	return nil
}

// peek reports whether the index has a brand, with its record.
func (l *Lookup) peek(ctx context.Context, q Query) (Answer, error) {
	entry, domain, err := l.find(ctx, q.Identifier)
	if err != nil {
		return Answer{Domain: domain}, err
	}
	answer := Answer{Domain: domain, Cache: Hit}
	if entry != nil {
		answer.Body = entry.Body
	} else {
		// The index may lag behind the log: a brand that was just answered is known.
		state, err := l.brands.State(ctx, domain)
		switch {
		case err != nil:
			return Answer{Domain: domain}, err
		case state.Withdrawn():
			return Answer{Domain: domain}, brand.ErrWithdrawn
		case !state.Known():
			return Answer{Domain: domain}, ErrNotHeld
		}
		answer.Body = brands.Render(state.View())
	}
	if answer.Remaining, err = l.Credits(ctx, q.Caller.AccountID); err != nil {
		return Answer{Domain: domain}, err
	}
	return answer, nil
}

// Credits returns the value of X-Credits-Remaining: the balance, never below zero.
func (l *Lookup) Credits(ctx context.Context, accountID string) (int64, error) {
	standing, err := l.desk.Standing(ctx, accountID)
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
func (l *Lookup) foundIn(state *brand.Brand, cache Cache) found {
	view := state.View()
	l.recent.note(view)
	return found{
		cache: cache, id: view.ID, domain: view.Domain, revision: view.Revision,
		logo: view.Record.HasLogo(), looks: brands.LooksOf(view), body: brands.Render(view), stream: true,
	}
}

// settle charges for the record, if it has a logo: from the reservation, or from the hold if there was
// a crawl. Without a logo the answer is free.
func (l *Lookup) settle(ctx context.Context, q Query, f found, reservation *commands.Reservation, hold *openHold) (Answer, error) {
	answer := Answer{Domain: f.domain, Body: f.body, Cache: f.cache}
	if !f.logo {
		err := l.refuse(ctx, reservation, nil)
		if err != nil {
			return Answer{Domain: f.domain}, err
		}
		reservation.Drop()
		hold.release(ctx)
		answer.Remaining, err = l.Credits(ctx, q.Caller.AccountID)
		return answer, err
	}
	charge := commands.ChargeLookup{
		Request: q.Request, AccountID: q.Caller.AccountID, Reservation: reservation,
		BrandID: f.id, Domain: f.domain, RecordRevision: f.revision, FromStream: f.stream, HoldID: hold.holdID(), KeyID: q.Caller.KeyID, Once: q.Once,
	}
	receipt, err := l.desk.ChargeLookup(ctx, charge)
	if err != nil {
		return Answer{Domain: f.domain}, err
	}
	if receipt.Repeated && q.Once != nil {
		// Another look-up with the key was faster, and its charged record is the answer of both. The
		// hold is still open, and live releases it.
		answer, err = l.Repeat(ctx, receipt)
		answer.Cache = f.cache
		return answer, err
	}
	hold.captured()
	answer.Charge, answer.Remaining = &receipt, max(0, receipt.Remaining)
	return answer, nil
}

// afterwards returns a context for work that must happen even if the request is over: it ignores the
// request's end and has its own deadline.
func afterwards(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), within)
}
