package readapi

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/projections/brands"
)

const (
	// batchLanes is how many items of a batch are looked up, and how many credits are set aside for it, at any
	// moment (readings, "Batch deadline").
	batchLanes = 5
	// maxBatches bounds the batches under way in this process: their lanes take less than a third of maxLookups,
	// so that single look-ups go on beside them.
	maxBatches = 512
	// maxAccountBatches bounds what one account has of them, with those that wait for another under their key, and
	// the answers of up to 6 MiB that a slow client is still reading.
	maxAccountBatches = maxBatches / 8
	// maxItemTries bounds how often an item is begun anew because another node spent its credit first.
	maxItemTries = 10
)

// errNotStarted: the batch ran out of time before the item was tried.
var errNotStarted = errors.New("the batch ran out of time before the item was tried")

// BatchQuery is look-ups that somebody asks for together.
type BatchQuery struct {
	Request     commands.Request // its id and an item's domain make charge and hold of the item repeatable
	Caller      Caller
	Identifiers []string       // as sent
	StartWithin time.Duration  // items that are not started by then are not tried
	ItemWithin  time.Duration  // what each item has, from its start
	Once        *commands.Once // nil without an idempotency key
}

// item is the look-up of one domain.
func (q *BatchQuery) item(domain string, reservation *commands.Reservation) Query {
	item := Query{
		Request: q.Request, Caller: q.Caller, Reservation: reservation,
		Identifier: brand.Identifier{Kind: brand.Domain, Domain: domain},
	}
	if q.Once != nil {
		item.Once = &commands.Once{Key: q.Once.Key, Request: q.Once.Request, Item: domain}
	}
	return item
}

// BatchAnswer is what became of the items.
type BatchAnswer struct {
	Items     []BatchItem // in the order of the identifiers
	Remaining int64       // credits left after the batch, never below zero
	domains   []*batchDomain
}

// BatchItem is what became of one identifier. Err is one of those of Lookup.Do, a *brand.InvalidDomainError, or
// says that the item was not tried in time.
type BatchItem struct {
	Identifier string // as sent
	Domain     string // it was read as; empty for what is no domain, or the id of no brand
	Answer     Answer // shared by the items of one domain
	Err        error
}

// batchDomain is a domain of a batch, however many identifiers name it.
type batchDomain struct {
	place  int // of its first identifier
	domain string
	tries  int
	answer Answer
	err    error
}

// become notes what becomes of the domain, in a goroutine of its own.
func (d *batchDomain) become(look func() (Answer, error)) {
	defer func() {
		if thrown := recover(); thrown != nil { // nobody above this goroutine would, and the process would end
			d.err = &panicError{thrown: thrown, stack: debug.Stack()}
		}
	}()
	d.answer, d.err = look()
}

// Batch looks brands up together, in the order in which their domains come first, a few at a time. Each is an
// ordinary look-up, with a credit that is set aside before it starts. When credits run short an item waits for
// one that another item of the batch may hand back, and is refused only when none of them has one. A panic is
// the outcome of its item alone.
//
// The answer may be sent to the caller: whatever it costs is durable. If it cannot be sent any more, hand it
// back with HandBackBatch. What a caller who leaves meanwhile was charged is handed back here.
//
// Under an idempotency key, what was charged before is answered again, and the rest is worked out anew.
//
// Errors are of the whole, and free of charge: a *Problem when there are more domains than the plan allows;
// account.ErrIdempotencyMismatch;
// *account.InsufficientCreditsError when there is no credit at all; account.ErrSuspended, ErrClosed, ErrNotFound;
// commands.ErrBusy; eventlog.ErrUnavailable and those of the index, when not one domain could be looked up for
// it; ctx.Err().
func (l *Lookup) Batch(ctx context.Context, q BatchQuery) (BatchAnswer, error) {
	leave, ok := l.batches.enter()
	if !ok {
		return BatchAnswer{}, fmt.Errorf("%w: %w", commands.ErrBusy, errStuck)
	}
	defer leave()
	starting, cancel := context.WithTimeout(ctx, q.StartWithin)
	defer cancel()
	defer context.AfterFunc(l.stopping, cancel)() // a server that stops waits for what was started, and no longer
	if q.Once != nil {
		// One after the other here, so that the second answers what the first was charged. Between nodes each
		// charge finds that out for itself.
		leave, err := l.keyed.enter(starting, q.Caller.AccountID+string(q.Once.Key[:]))
		if err != nil {
			return BatchAnswer{}, err
		}
		defer leave()
	}
	quick, cancel := context.WithTimeout(ctx, l.quick)
	defer cancel()
	answer, indexed, err := l.readBatch(quick, q.Identifiers)
	if err != nil {
		return BatchAnswer{}, err
	}
	if n := len(answer.domains); n > q.Caller.Plan.BatchSize {
		return BatchAnswer{}, invalidRequest("The identifiers name %d different domains; the plan looks up at most %d in one batch. Send fewer.", n, q.Caller.Plan.BatchSize)
	}
	waiting, err := l.recallBatch(quick, &q, answer.domains)
	if err != nil {
		return BatchAnswer{}, err
	}
	if len(waiting) > 0 || len(answer.domains) == 0 {
		first, err := l.firstCredit(quick, &q)
		switch {
		case err == nil:
			defer first.Drop() // does nothing once an item has it
		case q.Once != nil && errors.Is(err, account.ErrInsufficientCredits):
			for _, d := range waiting {
				d.err = err
			}
			if l.recallRefused(ctx, &q, answer.domains); allRefused(answer.domains) {
				return BatchAnswer{}, err
			}
			waiting = nil // what was paid before is answered all the same
		default:
			return BatchAnswer{}, err
		}
		if !indexed && len(waiting) > 0 {
			// An index that cannot be reached is found out once, and not by every item.
			if _, _, err := l.ask(quick, q.item(waiting[0].domain, nil).Identifier); err != nil {
				return BatchAnswer{}, err
			}
		}
		l.runBatch(ctx, starting, &q, waiting, first)
	}
	done := false
	defer func() {
		if !done { // also when something below panics
			l.HandBackBatch(ctx, q, answer)
		}
	}()
	l.recallRefused(ctx, &q, waiting)
	if err = ctx.Err(); err == nil {
		err = unreachable(answer.domains)
	}
	if err == nil {
		answer.Remaining, err = l.batchCredits(ctx, &q, answer.domains)
	}
	if err != nil {
		return BatchAnswer{}, err
	}
	answer.fill()
	done = true
	return answer, nil
}

// firstCredit sets the first item's credit aside, and makes sure that it is there.
func (l *Lookup) firstCredit(ctx context.Context, q *BatchQuery) (*commands.Reservation, error) {
	first, err := l.desk.Reserve(ctx, q.Caller.AccountID)
	if err != nil {
		return nil, err
	}
	if err := l.desk.Confirm(ctx, first); err != nil {
		first.Drop()
		return nil, err
	}
	return first, nil
}

// recallBatch answers again what was charged under the batch's key, and returns the domains that were not.
func (l *Lookup) recallBatch(ctx context.Context, q *BatchQuery, domains []*batchDomain) (waiting []*batchDomain, err error) {
	if q.Once == nil {
		return domains, nil
	}
	receipts, err := l.Recall(ctx, q.Request, q.Caller, *q.Once)
	if err != nil {
		return nil, err
	}
	charged := make(map[string]commands.Receipt, len(receipts))
	for _, r := range receipts {
		charged[r.Domain] = r
	}
	var repeats sync.WaitGroup
	defer repeats.Wait()
	lanes := make(chan struct{}, batchLanes)
	for _, d := range domains {
		receipt, ok := charged[d.domain]
		if !ok {
			waiting = append(waiting, d)
			continue
		}
		lanes <- struct{}{}
		repeats.Go(func() {
			defer func() { <-lanes }()
			d.become(func() (Answer, error) { return l.Repeat(ctx, receipt) })
		})
	}
	return waiting, nil
}

// recallRefused answers what was refused for want of credits but charged under the batch's key meanwhile, by
// another node.
func (l *Lookup) recallRefused(ctx context.Context, q *BatchQuery, domains []*batchDomain) {
	var refused []*batchDomain
	for _, d := range domains {
		if errors.Is(d.err, account.ErrInsufficientCredits) {
			refused = append(refused, d)
		}
	}
	if q.Once == nil || len(refused) == 0 {
		return
	}
	quick, cancel := context.WithTimeout(ctx, l.quick)
	defer cancel()
	if _, err := l.recallBatch(quick, q, refused); err != nil {
		for _, d := range refused {
			d.err = err // whether they were paid is not known
		}
	}
}

// allRefused says that want of credits is the outcome of every domain.
func allRefused(domains []*batchDomain) bool {
	return !slices.ContainsFunc(domains, func(d *batchDomain) bool { return !errors.Is(d.err, account.ErrInsufficientCredits) })
}

// HandBackBatch reverses the charges of an answer that was never sent, as HandBack does.
func (l *Lookup) HandBackBatch(ctx context.Context, q BatchQuery, answer BatchAnswer) {
	for _, d := range answer.domains {
		l.HandBack(ctx, q.item(d.domain, nil), d.answer)
	}
}

// fill gives every item of a domain what became of the domain.
func (a *BatchAnswer) fill() {
	became := make(map[string]*batchDomain, len(a.domains))
	for _, d := range a.domains {
		became[d.domain] = d
	}
	for i := range a.Items {
		if d := became[a.Items[i].Domain]; d != nil {
			a.Items[i].Answer, a.Items[i].Err = d.answer, d.err
		}
	}
}

// readBatch reads the identifiers, ids first, so that an id and its domain are one. indexed says that the index
// was asked for that, and answered.
func (l *Lookup) readBatch(ctx context.Context, identifiers []string) (answer BatchAnswer, indexed bool, err error) {
	answer.Items = make([]BatchItem, len(identifiers))
	parsed := make([]brand.Identifier, len(identifiers))
	var ids []uuid.UUID
	for i, text := range identifiers {
		item := &answer.Items[i]
		item.Identifier = text
		if parsed[i], item.Err = brand.ParseIdentifier(text); item.Err == nil && parsed[i].Kind == brand.BrandID {
			ids = append(ids, parsed[i].BrandID)
		}
	}
	named, err := l.domainsOf(ctx, ids)
	if err != nil {
		return BatchAnswer{}, false, err
	}
	seen := make(map[string]bool, len(identifiers))
	for i := range answer.Items {
		item := &answer.Items[i]
		if item.Err != nil {
			continue
		}
		item.Domain = parsed[i].Domain
		if parsed[i].Kind == brand.BrandID {
			if item.Domain = named[parsed[i].BrandID]; item.Domain == "" {
				item.Err = ErrNoSuchBrand
				continue
			}
		}
		if !seen[item.Domain] {
			seen[item.Domain] = true
			answer.domains = append(answer.domains, &batchDomain{place: i, domain: item.Domain})
		}
	}
	return answer, len(ids) > 0, nil
}

// domainsOf returns the domains of brands by their ids; what it leaves out is the id of no brand. Where other
// nodes may have answered an id a moment ago, it waits for the index once, for all of them.
func (l *Lookup) domainsOf(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	domains := make(map[uuid.UUID]string, len(ids))
	find := func() (missing int, err error) {
		for _, id := range ids {
			if domains[id] != "" {
				continue
			}
			entry, err := l.index.ByID(ctx, id)
			switch {
			case errors.Is(err, brands.ErrNotFound):
				if domain, ok := l.recent.domain(id.String()); ok {
					domains[id] = domain
				} else {
					missing++
				}
			case err != nil:
				return 0, fmt.Errorf("find brand %s: %w", id, err)
			default:
				domains[id] = entry.Domain
			}
		}
		return missing, nil
	}
	missing, err := find()
	if err != nil || missing == 0 || l.caughtUp == nil {
		return domains, err
	}
	if err := l.catchUp(ctx); err != nil {
		return nil, err
	}
	_, err = find()
	return domains, err
}

// runBatch looks the domains up, and starts none once starting has ended or the account was found suspended or
// closed. It returns when nothing of it is under way any more.
//
// One goroutine sets credits aside and starts items, so that the credit of a look-up that fails goes to the next
// domain in order, and nobody else of the batch can come between a refusal and the look at who still has one.
func (l *Lookup) runBatch(ctx, starting context.Context, q *BatchQuery, domains []*batchDomain, first *commands.Reservation) {
	waiting := slices.Clone(domains)
	ended := make(chan *batchDomain, batchLanes)
	refuse := func(err error) bool { // reports whether the error refuses all that is waiting
		if !errors.Is(err, account.ErrSuspended) && !errors.Is(err, account.ErrClosed) {
			return false
		}
		for _, d := range waiting {
			d.err = err
		}
		waiting = nil
		return true
	}
	for underway := 0; ; {
		if len(waiting) > 0 && underway < batchLanes && starting.Err() == nil {
			next := waiting[0]
			reservation, err := first, error(nil)
			if first = nil; reservation == nil {
				reservation, err = l.reserveNext(starting, q.Caller.AccountID)
			}
			switch {
			case err == nil:
				waiting = waiting[1:]
				next.tries++
				underway++
				go func() {
					l.runItem(ctx, q, next, reservation)
					ended <- next
				}()
				continue
			case starting.Err() != nil, refuse(err):
				continue
			case underway == 0 || !errors.Is(err, account.ErrInsufficientCredits):
				next.err, waiting = err, waiting[1:]
				continue
			}
			// Those under way may hand a credit back.
		}
		if underway == 0 {
			break
		}
		done := <-ended
		underway--
		if !refuse(done.err) && errors.Is(done.err, account.ErrInsufficientCredits) && done.tries < maxItemTries {
			// Its credit was gone when it came to pay: another node spent it. It waits like all without a credit.
			at, _ := slices.BinarySearchFunc(waiting, done.place, func(d *batchDomain, place int) int { return d.place - place })
			waiting = slices.Insert(waiting, at, done)
		}
	}
	for _, d := range waiting {
		if d.err == nil {
			d.err = errNotStarted
		}
	}
}

func (l *Lookup) reserveNext(ctx context.Context, accountID string) (*commands.Reservation, error) {
	quick, cancel := context.WithTimeout(ctx, l.quick)
	defer cancel()
	return l.desk.Reserve(quick, accountID)
}

// runItem looks one domain up.
func (l *Lookup) runItem(ctx context.Context, q *BatchQuery, d *batchDomain, reservation *commands.Reservation) {
	ctx, cancel := context.WithTimeout(ctx, q.ItemWithin)
	defer cancel()
	d.become(func() (Answer, error) { return l.Do(ctx, q.item(d.domain, reservation)) })
}

// unreachable returns why not one domain could be looked up, when a part of the service is the reason for all
// that were tried.
func unreachable(domains []*batchDomain) (reason error) {
	for _, d := range domains {
		if errors.Is(d.err, errNotStarted) {
			continue
		}
		if d.err == nil || errors.As(d.err, new(*LimitError)) || problemOf(d.err, time.Time{}, "").Code != CodeUpstreamFailed {
			return nil
		}
		if reason == nil {
			reason = d.err
		}
	}
	return reason
}

// batchCredits returns what is left after the batch. When the desk cannot say any more, the last charge does.
func (l *Lookup) batchCredits(ctx context.Context, q *BatchQuery, domains []*batchDomain) (int64, error) {
	quick, cancel := context.WithTimeout(ctx, l.quick)
	defer cancel()
	remaining, err := l.Credits(quick, q.Caller.AccountID)
	if err == nil || ctx.Err() != nil {
		return remaining, err
	}
	var last *commands.Receipt
	for _, d := range domains {
		if c := d.answer.Charge; c != nil && (last == nil || c.Revision > last.Revision) {
			last = c
		}
	}
	if last == nil {
		return 0, err
	}
	return max(0, last.Remaining), nil
}
