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

// headerIdempotencyKey makes a charged answer repeatable: sent again within account.IdempotencyWindow, the same
// request gets the same record and is not charged again (readings, "Retry").
const headerIdempotencyKey = "Idempotency-Key"

// maxIdempotencyKey bounds the header's value: a UUID is 36, and whoever makes keys of their own ids needs some more.
const maxIdempotencyKey = 255

// Kinds of requests that may come under a key.
const (
	kindLookup = "lookup"
	kindBatch  = "batch"
)

// idempotencyKey reads the header: the hash of its value, and whether there is one.
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

// once returns the idempotency key of a look-up, with what it asks; nil without a key.
func (x *exchange) once(q Query) (*commands.Once, *Problem) {
	key, present, problem := x.idempotencyKey()
	if problem != nil || !present {
		return nil, problem
	}
	return onceOf(key, q), nil
}

// onceOf returns an idempotency key, by its hash, with what a look-up under it asks.
func onceOf(key [sha256.Size]byte, q Query) *commands.Once {
	// As it was read and not as it was sent: acme.com and https://acme.com/ ask the same, on /v1 and on /v2. An
	// id asks something else than its domain, because only the index could tell.
	asked := q.Identifier.Domain
	if q.Identifier.Kind == brand.BrandID {
		asked = q.Identifier.BrandID.URN()
	}
	return &commands.Once{Key: key, Request: hashRequest(kindLookup, asked, strconv.FormatBool(q.Refresh))}
}

// hashRequest hashes what decides the answer to a request. Whose key asks is not part of it: the account has
// its own stream, and all its keys may repeat a request. Each part stands behind its length, so that no two
// lists of parts run together into the same bytes.
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

// doOnce looks up under an idempotency key. Want of credits does not stand in the way of a repeat: who finds
// none left waits for the look-ups that are under way here with the same key, one of which may have the last
// credit, and then asks again.
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
		if !f.answered { // so that each turn but the last is for an answer that somebody got
			return l.recallOr(ctx, q, func(context.Context) (Answer, error) { return answer, err })
		}
	}
}

// fly looks up as one of a flight.
func (l *Lookup) fly(ctx context.Context, q Query, key string, f *flight) (answer Answer, err error) {
	defer func() { l.flights.leave(key, f, !errors.Is(err, account.ErrInsufficientCredits)) }()
	return l.recallOr(ctx, q, func(quick context.Context) (Answer, error) { return l.answer(ctx, quick, q) })
}

// recallOr gives the answer again that was charged under the query's key, or else another.
func (l *Lookup) recallOr(ctx context.Context, q Query, other func(quick context.Context) (Answer, error)) (Answer, error) {
	quick, cancel := context.WithTimeout(ctx, l.quick)
	defer cancel()
	receipts, err := l.Recall(quick, q.Request, q.Caller, *q.Once)
	if err != nil {
		return Answer{Domain: q.Identifier.Domain}, err
	}
	if len(receipts) > 0 { // a request for one thing was charged once at most
		return l.Repeat(quick, receipts[0])
	}
	return other(quick)
}

// Recall returns what was charged under an idempotency key, none for a key that is new or whose answers cost
// nothing. What it returns is not handed back to anybody any more: answer it with Repeat. A batch recalls
// before it sets credits aside, and passes Query.Once for each domain that was not charged.
//
// Errors: account.ErrIdempotencyMismatch when the key came with another request, and those of Do.
func (l *Lookup) Recall(ctx context.Context, request commands.Request, caller Caller, once commands.Once) ([]commands.Receipt, error) {
	return l.desk.Recall(ctx, commands.Recall{Request: request, AccountID: caller.AccountID, Once: once})
}

// Repeat answers from a receipt of Recall: the record that was charged, as it was then. It charges nothing, and its
// Cache is Hit. An owner's take-down wins over it.
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

// flights are the look-ups under way in this process, by idempotency key.
type flights struct {
	mu   sync.Mutex
	open map[string]*flight
}

// flight is look-ups with one key that overlap.
type flight struct {
	inside   int
	answered bool          // one of them has ended, and not for want of credits
	over     chan struct{} // closed when the last one has left; answered does not change any more then
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
