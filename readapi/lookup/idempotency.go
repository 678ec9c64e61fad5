package lookup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strconv"
	"sync"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/projections/brands"
)

// Kinds of requests that may have an idempotency key.
const (
	kindLookup = "lookup"
	kindBatch  = "batch"
)

// OnceFor returns an idempotency key, given its hash, with the hash of a look-up.
func OnceFor(key [sha256.Size]byte, q Query) *commands.Once {
	// As parsed, not as sent: acme.com and https://acme.com/ are the same request, on /v1 and on /v2. An id is another
	// request than its domain, because only the index could tell that they are the same.
	identifier := q.Identifier.Domain
	if q.Identifier.Kind == brand.BrandID {
		identifier = q.Identifier.BrandID.URN()
	}
	return &commands.Once{Key: key, Request: hashRequest(kindLookup, identifier, strconv.FormatBool(q.Refresh))}
}

// OnceForBatch returns an idempotency key, given its hash, with the hash of a batch: the identifiers as sent.
func OnceForBatch(key [sha256.Size]byte, identifiers []string) *commands.Once {
	return &commands.Once{Key: key, Request: hashRequest(kindBatch, identifiers...)}
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

// lookUpOnce looks up under an idempotency key. Lack of credits does not prevent a repeat: a look-up
// without credits waits for the running look-ups of this process with the same key, one of which may
// have the last credit, and then retries.
func (s *Service) lookUpOnce(ctx context.Context, q Query) (Answer, error) {
	key := q.Caller.AccountID + string(q.Once.Key[:])
	for {
		u := s.overlaps.join(key, newOverlap)
		o := u.value
		answer, err := s.lookUpOverlapping(ctx, q, key, u)
		if !errors.Is(err, account.ErrInsufficientCredits) {
			return answer, err
		}
		select {
		case <-o.over:
		case <-ctx.Done():
			return answer, ctx.Err()
		}
		if !o.answered { // so that every round but the last follows an answer that some caller got
			quick, cancel := context.WithTimeout(ctx, s.config.Quick)
			defer cancel()
			if repeat, repeated, failed := s.repeat(quick, q); repeated || failed != nil {
				return repeat, failed
			}
			return answer, err
		}
	}
}

// lookUpOverlapping looks up as part of an overlap.
func (s *Service) lookUpOverlapping(ctx context.Context, q Query, key string,
	u *use[*overlap]) (answer Answer, err error) {
	defer s.overlaps.leave(key, u, func(last bool) {
		u.value.answered = u.value.answered || !errors.Is(err, account.ErrInsufficientCredits)
		if last {
			close(u.value.over)
		}
	})
	return s.lookUp(ctx, q)
}

// repeat repeats the answer that was charged under the query's key, if there is one.
func (s *Service) repeat(ctx context.Context, q Query) (answer Answer, repeated bool, err error) {
	receipts, err := s.Recall(ctx, q.Request, q.Caller, *q.Once)
	if err != nil || len(receipts) == 0 {
		return Answer{Domain: q.Identifier.Domain}, false, err
	}
	answer, err = s.Repeat(ctx, receipts[0]) // a single request was charged at most once
	return answer, true, err
}

// Recall returns the charges under an idempotency key, none for a key that is new or whose answers
// cost nothing. The returned charges are no longer reversed: answer them with Repeat. A batch recalls
// before it reserves credits, and passes Query.Once for each domain that was not charged.
//
// Errors: account.ErrIdempotencyMismatch if the key came with another request, and those of Do.
func (s *Service) Recall(ctx context.Context, request commands.Request, caller Caller,
	once commands.Once) ([]commands.Receipt, error) {
	return s.parts.Credits.Recall(ctx, commands.Recall{Request: request, AccountID: caller.AccountID, Once: once})
}

// Repeat answers from a receipt of Recall: the charged record, as it was then. It charges nothing, and
// its Cache is Hit. A brand that its owner withdrew is not repeated.
//
// Errors: brand.ErrWithdrawn, eventlog.ErrUnavailable, ctx.Err().
func (s *Service) Repeat(ctx context.Context, receipt commands.Receipt) (Answer, error) {
	answer := Answer{Domain: receipt.Domain}
	state, err := s.parts.Brands.State(ctx, receipt.Domain)
	if err != nil {
		return answer, err
	}
	if state.Withdrawn() {
		return answer, brand.ErrWithdrawn
	}
	if state.View().Revision != receipt.RecordRevision {
		if state, err = s.parts.Brands.StateAt(ctx, receipt.Domain, receipt.RecordRevision); err != nil {
			return answer, err
		}
	}
	answer.Body, answer.Cache = brands.Render(state.View()), Hit
	answer.Charge, answer.Remaining = &receipt, max(0, receipt.Remaining)
	return answer, nil
}

// shared are values that running requests use together, by key. The last user removes the value.
type shared[T any] struct {
	mu   sync.Mutex
	used map[string]*use[T]
}

// use is a value in use. It may be changed only while leave ends a use.
type use[T any] struct {
	value T
	users int
}

// join returns the value of a key. The first user gets a new one.
func (s *shared[T]) join(key string, first func() T) *use[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil {
		s.used = map[string]*use[T]{}
	}
	u := s.used[key]
	if u == nil {
		u = &use[T]{value: first()}
		s.used[key] = u
	}
	u.users++
	return u
}

// leave ends a use of a value, and calls end with whether it was the last.
func (s *shared[T]) leave(key string, u *use[T], end func(last bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.users--; u.users == 0 {
		delete(s.used, key)
	}
	end(u.users == 0)
}

// overlap is a set of look-ups with one idempotency key that run at the same time in this process.
type overlap struct {
	answered bool          // one of them has ended, and not for lack of credits
	over     chan struct{} // closed when the last one has left; answered no longer changes then
}

func newOverlap() *overlap { return &overlap{over: make(chan struct{})} }

// keyLocks are locks by key, which waiters get in no particular order. Look-ups of one unknown domain hold its lock
// while they check whether a crawl is running, so that in this process only the first of them takes a unit of the
// service-wide limit and the others join its crawl. Between processes the log decides.
type keyLocks struct {
	shared[chan struct{}] // which is full while the lock is held
}

// lock waits for the lock of a key. It returns the function that unlocks it, which may be called more
// than once, or ctx.Err().
func (k *keyLocks) lock(ctx context.Context, key string) (unlock func(), err error) {
	l := k.join(key, func() chan struct{} { return make(chan struct{}, 1) })
	select {
	case l.value <- struct{}{}:
		return sync.OnceFunc(func() { k.leave(key, l, func(bool) { <-l.value }) }), nil
	case <-ctx.Done():
		k.leave(key, l, func(bool) {})
		return nil, ctx.Err()
	}
}
