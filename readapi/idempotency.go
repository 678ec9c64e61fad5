package readapi

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"sync"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/projections/brands"
)

// headerIdempotencyKey makes a charged answer repeatable: if the same request is repeated within
// account.IdempotencyWindow, it gets the same record and is not charged again (readings, "Retry").
const headerIdempotencyKey = "Idempotency-Key"

// maxIdempotencyKey limits the header's value: a UUID has 36 characters, and keys composed of a
// client's own ids need some more.
const maxIdempotencyKey = 255

// Kinds of requests that may have a key.
const (
	kindLookup = "lookup"
	kindBatch  = "batch"
)

// idempotencyKey reads the header. It returns the hash of its value, and whether it is present.
func (x *exchange) idempotencyKey() (key [sha256.Size]byte, present bool, problem *Problem) {
	values := x.request.Header[headerIdempotencyKey]
	if len(values) == 0 {
		return key, false, nil
	}
	if len(values) > 1 {
		return key, true, invalidRequest("The header %s is given more than once. Send it once.", headerIdempotencyKey)
	}
	value := strings.Trim(values[0], " \t")
	hidden := func(r rune) bool { return r < '!' || r > '~' }
	if value == "" || len(value) > maxIdempotencyKey || strings.ContainsFunc(value, hidden) {
		return key, true, invalidRequest("The header %s takes 1 to %d visible ASCII characters without spaces. A new random UUID for each request is best.",
			headerIdempotencyKey, maxIdempotencyKey)
	}
	return sha256.Sum256([]byte(value)), true, nil
}

// once returns the idempotency key of a look-up and the hash of its request; nil without a key.
func (x *exchange) once(q Query) (*commands.Once, *Problem) {
	key, present, problem := x.idempotencyKey()
	if problem != nil || !present {
		return nil, problem
	}
	return onceOf(key, q), nil
}

// onceOf returns an idempotency key, given its hash, with the hash of a look-up.
func onceOf(key [sha256.Size]byte, q Query) *commands.Once {
	// As parsed, not as sent: acme.com and https://acme.com/ are the same request, on /v1 and on /v2.
	// An id is another request than its domain, because only the index could tell that they are the
	// same.
	asked := q.Identifier.Domain
	if q.Identifier.Kind == brand.BrandID {
		asked = q.Identifier.BrandID.URN()
	}
	return &commands.Once{Key: key, Request: hashRequest(kindLookup, asked, strconv.FormatBool(q.Refresh))}
}

// hashRequest hashes the inputs that determine the answer to a request. The API key is not one of
// them: the account has its own stream, and all its keys may repeat a request. Each part is preceded
// by its length, so that different lists of parts never give the same bytes.
func hashRequest(kind string, parts ...string) (sum [sha256.Size]byte) {
	h := sha256.New()
	write := func(part string) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	write(kind)
	for _, part := range parts {
		write(part)
	}
	h.Sum(sum[:0])
	return sum
}

// doOnce looks up under an idempotency key. Lack of credits does not prevent a repeat: a look-up
// without credits waits for the running look-ups of this process with the same key, one of which may
// have the last credit, and then retries.
func (l *Lookup) doOnce(ctx context.Context, q Query) (Answer, error) {
	key := q.Caller.AccountID + string(q.Once.Key[:])
	for {
		f := l.flights.enter(key)
		answer, err := l.fly(ctx, q, key, f)
		if !errors.Is(err, account.ErrInsufficientCredits) {
			return answer, err
		}
		select {
		case <-f.over:
		case <-ctx.Done():
			return answer, ctx.Err()
		}
		if !f.answered { // so that every round but the last follows an answer that some caller got
			return l.recallOr(ctx, q, func(context.Context) (Answer, error) { return answer, err })
		}
	}
}

// fly looks up as part of a flight.
func (l *Lookup) fly(ctx context.Context, q Query, key string, f *flight) (answer Answer, err error) {
	defer func() { l.flights.leave(key, f, !errors.Is(err, account.ErrInsufficientCredits)) }()
	return l.recallOr(ctx, q, func(quick context.Context) (Answer, error) { return l.answer(ctx, quick, q) })
}

// recallOr repeats the answer that was charged under the query's key, or else calls other.
func (l *Lookup) recallOr(ctx context.Context, q Query, other func(quick context.Context) (Answer, error)) (Answer, error) {
	quick, cancel := context.WithTimeout(ctx, l.quick)
	defer cancel()
	receipts, err := l.Recall(quick, q.Request, q.Caller, *q.Once)
	if err != nil {
		return Answer{Domain: q.Identifier.Domain}, err
	}
	if len(receipts) > 0 { // a single request was charged at most once
		return l.Repeat(quick, receipts[0])
	}
	return other(quick)
}

// Recall returns the charges under an idempotency key, none for a key that is new or whose answers
// cost nothing. The returned charges are no longer reversed: answer them with Repeat. A batch recalls
// before it reserves credits, and passes Query.Once for each domain that was not charged.
//
// Errors: account.ErrIdempotencyMismatch if the key came with another request, and those of Do.
func (l *Lookup) Recall(ctx context.Context, request commands.Request, caller Caller, once commands.Once) ([]commands.Receipt, error) {
	return l.desk.Recall(ctx, commands.Recall{Request: request, AccountID: caller.AccountID, Once: once})
}

// Repeat answers from a receipt of Recall: the charged record, as it was then. It charges nothing, and
// its Cache is Hit. A brand that its owner withdrew is not repeated.
//
// Errors: brand.ErrWithdrawn, eventlog.ErrUnavailable, ctx.Err().
func (l *Lookup) Repeat(ctx context.Context, receipt commands.Receipt) (Answer, error) {
	answer := Answer{Domain: receipt.Domain}
	state, err := l.brands.State(ctx, receipt.Domain)
	if err != nil {
		return answer, err
	}
	if state.Withdrawn() {
		return answer, brand.ErrWithdrawn
	}
	if state.View().Revision != receipt.RecordRevision {
		if state, err = l.brands.StateAt(ctx, receipt.Domain, receipt.RecordRevision); err != nil {
			return answer, err
		}
	}
	answer.Body, answer.Cache = brands.Render(state.View()), Hit
	answer.Charge, answer.Remaining = &receipt, max(0, receipt.Remaining)
	return answer, nil
}

// flights are the running look-ups of this process, by idempotency key.
type flights struct {
	mu   sync.Mutex
	open map[string]*flight
}

// flight is a set of overlapping look-ups with one key.
type flight struct {
	inside   int
	answered bool          // one of them has ended, and not for lack of credits
	over     chan struct{} // closed when the last one has left; answered no longer changes then
}

func (f *flights) enter(key string) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[string]*flight{}
	}
	in := f.open[key]
	if in == nil {
		in = &flight{over: make(chan struct{})}
		f.open[key] = in
	}
	in.inside++
	return in
}

func (f *flights) leave(key string, in *flight, answered bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	in.answered = in.answered || answered
	if in.inside--; in.inside == 0 {
		delete(f.open, key)
		close(in.over)
	}
}
