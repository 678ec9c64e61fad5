package lookup

import (
	"cmp"
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
)

const (
	// batchParallelism limits how many items of a batch are looked up, and how many credits are reserved for
	// it, at a time.
	batchParallelism = 5
	// MaxBatches limits the running batches in this process: their items take less than a third of
	// maxLookups, so that single look-ups continue.
	MaxBatches = 512
	// maxItemTries limits how often an item is restarted because another node spent its credit first.
	maxItemTries = 10
)

// BatchQuery is a set of look-ups that are requested together.
type BatchQuery struct {
	Request     commands.Request // its id and an item's domain make charge and hold of the item repeatable
	Caller      Caller
	Identifiers []string       // as sent
	StartWithin time.Duration  // items that have not started by then are not tried
	ItemWithin  time.Duration  // time for each item, from its start
	Once        *commands.Once // nil without an idempotency key
}

// item returns the look-up of one domain.
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

// BatchAnswer is the outcome of the items.
type BatchAnswer struct {
	Items     []BatchItem // in the order of the identifiers
	Remaining int64       // credits left after the batch, never below zero
	domains   []*batchDomain
}

// BatchItem is the outcome of one identifier. Err is an error of Service.Do,
// *brand.InvalidDomainError, ErrNotStarted, or *PanicError.
type BatchItem struct {
	Identifier string // as sent
	Domain     string // parsed; empty for an invalid domain or an unknown id
	Answer     Answer // shared by the items of one domain
	Err        error
	of         *batchDomain // nil without a domain
}

// batchDomain is a domain of a batch, with one or more identifiers.
type batchDomain struct {
	index  int // of its first identifier
	domain string
	tries  int
	answer Answer
	err    error
}

// become runs look in its own goroutine and stores the domain's outcome.
func (d *batchDomain) become(look func() (Answer, error)) {
	defer func() {
		if thrown := recover(); thrown != nil { // nothing above this goroutine recovers, and the process would end
			d.err = &PanicError{Value: thrown, Stack: debug.Stack()}
		}
	}()
	d.answer, d.err = look()
}

// Batch looks brands up together, in the order in which their domains first appear, a few at a time.
// Each is an ordinary look-up, with a credit that is reserved before it starts. If credits run short
// an item waits for one that another item of the batch may free, and is rejected only when none of them
// has one. A panic affects only its own item.
//
// The answer may be sent to the caller: its charges are durable. If it can no longer be sent, reverse
// them with ReverseBatch. Charges of a caller who leaves earlier are reversed here.
//
// Under an idempotency key, items that were charged before are answered again, and the others are looked up.
//
// Errors concern the whole batch, and are free of charge: *BatchSizeError if there are more domains than the plan
// allows; account.ErrIdempotencyMismatch; *account.InsufficientCreditsError if there is no credit at all;
// account.ErrSuspended, ErrClosed, ErrNotFound; commands.ErrBusy; eventlog.ErrUnavailable and those of the index, if
// they kept every domain from being looked up; ctx.Err().
func (s *Service) Batch(ctx context.Context, q BatchQuery) (BatchAnswer, error) {
	if !s.batches.TryAcquire(1) {
		return BatchAnswer{}, fmt.Errorf("%w: %d batches are running", commands.ErrBusy, MaxBatches)
	}
	defer s.batches.Release(1)
	starting, cancel := context.WithTimeout(ctx, q.StartWithin)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)() // a stopping server waits only for started items
	if q.Once != nil {
		// Sequentially within this process, so that the second batch answers from the charges of the
		// first. Between nodes each charge detects that.
		unlock, err := s.keys.lock(starting, q.Caller.AccountID+string(q.Once.Key[:]))
		if err != nil {
			return BatchAnswer{}, err
		}
		defer unlock()
	}
	quick, cancel := context.WithTimeout(ctx, s.config.Quick)
	defer cancel()
	answer, indexed, err := s.readBatch(quick, q.Identifiers)
	if err != nil {
		return BatchAnswer{}, err
	}
	if n := len(answer.domains); n > q.Caller.Plan.BatchSize {
		return BatchAnswer{}, &BatchSizeError{Domains: n, Limit: q.Caller.Plan.BatchSize}
	}
	waiting, err := s.recallBatch(quick, &q, answer.domains)
	if err != nil {
		return BatchAnswer{}, err
	}
	if len(waiting) > 0 || len(answer.domains) == 0 {
		first, err := s.firstCredit(quick, &q)
		switch {
		case err == nil:
			defer first.Drop() // no effect once an item has it
		case q.Once != nil && errors.Is(err, account.ErrInsufficientCredits):
			for _, d := range waiting {
				d.err = err
			}
			s.recallRejected(ctx, &q, waiting)
			if len(lackCredits(answer.domains)) == len(answer.domains) {
				return BatchAnswer{}, err
			}
			waiting = nil // paid items are answered all the same
		default:
			return BatchAnswer{}, err
		}
		if !indexed && len(waiting) > 0 {
			// An unreachable index is detected once, not by every item.
			if _, _, err := s.ask(quick, q.item(waiting[0].domain, nil).Identifier); err != nil {
				return BatchAnswer{}, err
			}
		}
		s.runBatch(ctx, starting, &q, waiting, first)
	}
	done := false
	defer func() {
		if !done { // even after a panic below
			s.ReverseBatch(ctx, q, answer)
		}
	}()
	s.recallRejected(ctx, &q, waiting)
	if err = ctx.Err(); err == nil {
		err = unreachable(answer.domains)
	}
	if err == nil {
		answer.Remaining, err = s.batchCredits(ctx, &q, answer.domains)
	}
	if err != nil {
		return BatchAnswer{}, err
	}
	for i := range answer.Items {
		if item := &answer.Items[i]; item.of != nil {
			item.Answer, item.Err = item.of.answer, item.of.err
		}
	}
	done = true
	return answer, nil
}

// firstCredit reserves the first item's credit, and confirms that it exists.
func (s *Service) firstCredit(ctx context.Context, q *BatchQuery) (*commands.Reservation, error) {
	first, err := s.parts.Credits.Reserve(ctx, q.Caller.AccountID, q.Caller.KeyID)
	if err != nil {
		return nil, err
	}
	if err := s.parts.Credits.Confirm(ctx, first); err != nil {
		first.Drop()
		return nil, err
	}
	return first, nil
}

// recallBatch answers again the domains that were charged under the batch's key, and returns the others.
func (s *Service) recallBatch(ctx context.Context, q *BatchQuery,
	domains []*batchDomain) (waiting []*batchDomain, err error) {
	if q.Once == nil {
		return domains, nil
	}
	receipts, err := s.Recall(ctx, q.Request, q.Caller, *q.Once)
	if err != nil {
		return nil, err
	}
	charged := make(map[string]commands.Receipt, len(receipts))
	for _, r := range receipts {
		charged[r.Domain] = r
	}
	var repeats sync.WaitGroup
	defer repeats.Wait()
	slots := make(chan struct{}, batchParallelism)
	for _, d := range domains {
		receipt, ok := charged[d.domain]
		if !ok {
			waiting = append(waiting, d)
			continue
		}
		slots <- struct{}{}
		repeats.Go(func() {
			defer func() { <-slots }()
			d.become(func() (Answer, error) { return s.Repeat(ctx, receipt) })
		})
	}
	return waiting, nil
}

// recallRejected answers domains that were rejected for lack of credits but charged under the batch's
// key in the meantime, by another node.
func (s *Service) recallRejected(ctx context.Context, q *BatchQuery, domains []*batchDomain) {
	rejected := lackCredits(domains)
	if q.Once == nil || len(rejected) == 0 {
		return
	}
	quick, cancel := context.WithTimeout(ctx, s.config.Quick)
	defer cancel()
	if _, err := s.recallBatch(quick, q, rejected); err != nil {
		for _, d := range rejected {
			d.err = err // it is not known whether they were paid
		}
	}
}

func lackCredits(domains []*batchDomain) (rejected []*batchDomain) {
	for _, d := range domains {
		if errors.Is(d.err, account.ErrInsufficientCredits) {
			rejected = append(rejected, d)
		}
	}
	return rejected
}

// ReverseBatch reverses the charges of an answer that was never sent, as Reverse does.
func (s *Service) ReverseBatch(ctx context.Context, q BatchQuery, answer BatchAnswer) {
	for _, d := range answer.domains {
		s.Reverse(ctx, q.item(d.domain, nil), d.answer)
	}
}

// readBatch parses the identifiers, ids first, so that an id and its domain are one. indexed reports
// that the index was asked about ids and answered.
func (s *Service) readBatch(ctx context.Context, identifiers []string) (answer BatchAnswer, indexed bool, err error) {
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
	named, err := s.domainsOf(ctx, ids)
	if err != nil {
		return BatchAnswer{}, false, err
	}
	seen := make(map[string]*batchDomain, len(identifiers))
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
		if item.of = seen[item.Domain]; item.of == nil {
			item.of = &batchDomain{index: i, domain: item.Domain}
			seen[item.Domain] = item.of
			answer.domains = append(answer.domains, item.of)
		}
	}
	return answer, len(ids) > 0, nil
}

// runBatch looks the domains up, and starts none once starting has ended or the account was found
// suspended or closed. It returns when no item is running any more.
//
// One goroutine reserves credits and starts items, so that the credit of a failed look-up goes to the next domain in
// order, and no other item can intervene between a rejection and the check whether an item still has a credit.
func (s *Service) runBatch(ctx, starting context.Context, q *BatchQuery, domains []*batchDomain,
	first *commands.Reservation) {
	waiting := slices.Clone(domains)
	ended := make(chan *batchDomain, batchParallelism)
	rejectAll := func(err error) bool { // reports whether the error rejects all waiting items
		if !errors.Is(err, account.ErrSuspended) && !errors.Is(err, account.ErrClosed) {
			return false
		}
		for _, d := range waiting {
			d.err = err
		}
		waiting = nil
		return true
	}
	for running := 0; ; {
		// A stopping server ends starting a little later, in a goroutine of its own.
		if len(waiting) > 0 && running < batchParallelism && starting.Err() == nil && s.stopping.Err() == nil {
			next := waiting[0]
			reservation, err := first, error(nil)
			if first = nil; reservation == nil {
				reservation, err = s.reserveNext(starting, q.Caller)
			}
			switch {
			case err == nil:
				waiting = waiting[1:]
				next.tries++
				running++
				go func() {
					s.runItem(ctx, q, next, reservation)
					ended <- next
				}()
				continue
			case starting.Err() != nil, rejectAll(err):
				continue
			case running == 0 || !errors.Is(err, account.ErrInsufficientCredits):
				next.err, waiting = err, waiting[1:]
				continue
			}
			// Running items may free a credit.
		}
		if running == 0 {
			break
		}
		done := <-ended
		running--
		if !rejectAll(done.err) && errors.Is(done.err, account.ErrInsufficientCredits) && done.tries < maxItemTries {
			// Its credit was gone when it was to pay: another node spent it. It waits like all items without a credit.
			at, _ := slices.BinarySearchFunc(waiting, done.index,
				func(d *batchDomain, index int) int { return d.index - index })
			waiting = slices.Insert(waiting, at, done)
		}
	}
	for _, d := range waiting {
		d.err = cmp.Or(d.err, ErrNotStarted)
	}
}

func (s *Service) reserveNext(ctx context.Context, caller Caller) (*commands.Reservation, error) {
	quick, cancel := context.WithTimeout(ctx, s.config.Quick)
	defer cancel()
	return s.parts.Credits.Reserve(quick, caller.AccountID, caller.KeyID)
}

// runItem looks up one domain.
func (s *Service) runItem(ctx context.Context, q *BatchQuery, d *batchDomain, reservation *commands.Reservation) {
	ctx, cancel := context.WithTimeout(ctx, q.ItemWithin)
	defer cancel()
	d.become(func() (Answer, error) { return s.Do(ctx, q.item(d.domain, reservation)) })
}

// unreachable returns why not a single domain could be looked up, if an unavailable part of the
// service is the reason for all that were tried.
func unreachable(domains []*batchDomain) (reason error) {
	for _, d := range domains {
		if errors.Is(d.err, ErrNotStarted) {
			continue
		}
		if !Unavailable(d.err) {
			return nil
		}
		reason = cmp.Or(reason, d.err)
	}
	return reason
}

// batchCredits returns the credits left after the batch. If the account writer fails, it takes them from the
// last charge.
func (s *Service) batchCredits(ctx context.Context, q *BatchQuery, domains []*batchDomain) (int64, error) {
	quick, cancel := context.WithTimeout(ctx, s.config.Quick)
	defer cancel()
	remaining, err := s.Credits(quick, q.Caller.AccountID)
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
