// Package ratelimit limits how often something may happen per minute: requests of an account, live crawls of
// an account, live crawls of the whole service.
//
// A window is one minute of UTC, from second 0 to second 60. It is the same for every key, so nodes agree on
// it without communication. A limit is an upper bound: however calls interleave, a call never raises the
// units of a window above its limit.
//
// Counters is the port. Memory keeps the counts in this process. Shared keeps them in a PostgreSQL database
// that all nodes use, and follows that database's clock.
package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"
)

// Window is the length of every window.
const Window = time.Minute

// Errors of Counters.
var (
	// ErrUnavailable means that the counts could not be checked, so the caller must not proceed. Memory has
	// taken nothing. A shared store that did not respond may count the units until the window ends.
	ErrUnavailable = errors.New("rate-limit counters are unavailable")
	// ErrInvalid means that units is below one or limit is negative. Nothing was taken.
	ErrInvalid = errors.New("invalid request to the rate-limit counters")
)

// Key identifies one counter.
type Key struct {
	Scope string // such as requests or crawls
	ID    string // such as an account id
}

// Decision is the result of a Take.
type Decision struct {
	Allowed   bool
	Limit     int64     // the limit of the call
	Remaining int64     // units left in the window after this Take, never negative
	Reset     time.Time // when the window ends, UTC, on a whole minute
}

// RetryAfter returns the time from now to the end of the window, rounded up to whole seconds and at least
// one second. A client that waits that long gets a new window.
func (d Decision) RetryAfter(now time.Time) time.Duration {
	wait := d.Reset.Sub(now)
	if wait <= time.Second {
		return time.Second
	}
	return (wait + time.Second - 1).Truncate(time.Second)
}

// Counters counts units of keys in minute windows.
type Counters interface {
	// Take takes units of the key's current window if all of them fit within limit, and none otherwise. Each
	// call passes the limit because plans change: a higher limit applies immediately, even within a window.
	//
	// Errors: ErrUnavailable, ErrInvalid, ctx.Err(). After an error the caller must not use any units.
	Take(ctx context.Context, key Key, units, limit int64) (Decision, error)

	// Give returns units of an allowed Take whose work was not done. It does nothing after the end of that
	// decision's window.
	//
	// Errors: ErrUnavailable, ErrInvalid, ctx.Err().
	Give(ctx context.Context, key Key, units int64, taken Decision) error
}

// Shares limits the callers inside per key, so that no key uses up the capacity of all. It is safe for concurrent use.
type Shares struct {
	limit  int
	mu     sync.Mutex
	inside map[string]int
}

// NewShares returns shares of limit callers for each key.
func NewShares(limit int) *Shares { return &Shares{limit: limit, inside: map[string]int{}} }

// Enter returns the function that leaves again, or nil and false if the key's share is used up.
func (s *Shares) Enter(key string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside[key] >= s.limit {
		return nil, false
	}
	s.inside[key]++
	return func() { s.leave(key) }, true
}

func (s *Shares) leave(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside[key]--; s.inside[key] == 0 {
		delete(s.inside, key)
	}
}

const (
	// shards limits lock contention between callers; a power of two.
	shards = 64
	// defaultMaxKeys limits the counters of a scope to about 30 MB within a minute in the worst case.
	defaultMaxKeys = 1 << 18
	// maxStepBack is the largest backward step of a clock that counts as an adjustment: the newer window
	// stays in force, and no unit is allowed twice. After a larger step the earlier time is assumed to have
	// been wrong, and its window is dropped because it could otherwise last for years.
	maxStepBack = 5 * time.Minute
	// keptCapacity is the maximum size of a shard's table that is cleared and reused for the next window.
	keptCapacity = 4096
)

// Config configures a Memory. The zero Config is usable.
type Config struct {
	Now func() time.Time // nil = time.Now
	// MaxKeys limits the keys of one scope that are counted within one minute; further keys of that scope
	// are rejected. Each scope has a separate limit, because anyone can use many IP addresses, and this must
	// not affect the counting of accounts. There are few scopes, all named in code. A multiple of
	// the shards; 0 = 262,144.
	MaxKeys int
}

// Memory implements Counters within one process. A restart begins new windows.
type Memory struct {
	now          func() time.Time
	keysPerShard int
	seed         maphash.Seed
	shards       [shards]shard
}

var _ Counters = (*Memory)(nil)

type shard struct {
	mu     sync.Mutex
	window int64 // minutes since 1970
	used   map[Key]int64
	keys   map[string]int // in used, by scope
	_      [64]byte       // one cache line each: other cores lock the neighbors
}

// NewMemory returns empty counters.
func NewMemory(cfg Config) *Memory {
	m := &Memory{now: cfg.Now, keysPerShard: cmp.Or(cfg.MaxKeys, defaultMaxKeys) / shards, seed: maphash.MakeSeed()}
	if m.now == nil {
		m.now = time.Now
	}
	for i := range m.shards {
		m.shards[i].used, m.shards[i].keys = map[Key]int64{}, map[string]int{}
	}
	return m
}

// Take implements Counters. It returns ErrUnavailable for a new key if MaxKeys different keys of the scope
// were used in this minute.
func (m *Memory) Take(ctx context.Context, key Key, units, limit int64) (Decision, error) {
	if units < 1 || limit < 0 {
		return Decision{}, fmt.Errorf("take %d units of %s below %d: %w", units, key.Scope, limit, ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	s := m.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	// The clock is read under the lock, so that windows advance in the order of the callers.
	s.advance(m.now())
	used, seen := s.used[key]
	decision := Decision{Limit: limit, Reset: windowEnd(s.window)}
	// Compare differences, because a sum of the caller's numbers could overflow.
	if units <= limit && used <= limit-units {
		if !seen {
			if s.keys[key.Scope] >= m.keysPerShard {
				return Decision{}, fmt.Errorf("take of %s: %d keys in one minute: %w", key.Scope,
					m.keysPerShard*shards, ErrUnavailable)
			}
			s.keys[key.Scope]++
		}
		used += units
		s.used[key] = used
		decision.Allowed = true
	}
	decision.Remaining = max(0, limit-used)
	return decision, nil
}

func (m *Memory) Give(ctx context.Context, key Key, units int64, taken Decision) error {
	if units < 1 {
		return fmt.Errorf("return %d units of %s: %w", units, key.Scope, ErrInvalid)
	}
	s := m.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(m.now())
	if !taken.Allowed || !windowEnd(s.window).Equal(taken.Reset) {
		return nil
	}
	used, seen := s.used[key]
	switch {
	case used > units:
		s.used[key] = used - units
	case seen:
		delete(s.used, key)
		s.keys[key.Scope]--
	}
	return nil
}

func (m *Memory) shardOf(key Key) *shard {
	return &m.shards[maphash.Comparable(m.seed, key)&(shards-1)]
}

// advance moves the shard to the current window and drops the counts of the previous one.
func (s *shard) advance(now time.Time) {
	window := windowOf(now)
	if window == s.window || (window < s.window && s.window-window <= int64(maxStepBack/Window)) {
		return
	}
	s.window = window
	clear(s.keys)
	if len(s.used) > keptCapacity {
		s.used = map[Key]int64{}
		return
	}
	clear(s.used)
}

func windowOf(t time.Time) int64 {
	seconds := t.Unix()
	if seconds < 0 { // before 1970 a division would round up
		return (seconds - 59) / 60
	}
	return seconds / 60
}

func windowEnd(window int64) time.Time { return time.Unix((window+1)*60, 0).UTC() }
