package keys

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/sqlstore"
)

// On a shared database a node may answer for a key from memory only while it can prove that its memory
// is current. The proof has two parts:
//
//   - The fence is a number in the database. A transaction that changes a row which may be in some
//     node's memory raises it, and so does one that makes other tables live, so rows and fence always
//     change together. A statement that reads a row reads the fence, too.
//   - A lease is a node's right to use what it read at a fence, for leaseLength. The renewal returns
//     the fence, and cannot overtake a transaction that raises it: each waits for the other's lock on
//     the fence. The node measures the time on its own clock, from before it sent the renewal.
//
// A renewal also reports which fence the node has applied; until a later renewal reports it, the node may still use
// what it read before. Directory.AwaitNodes, which every command on keys and accounts calls, returns when all leases
// have applied the fence, or after outlast, when every lease that has not is over. So a node that hangs delays a
// command by outlast, never longer, and reads rows when it resumes. Clocks of other machines do not matter.
//
// The tables are UNLOGGED: after a crash of the server, or a fail-over, they are empty, even if the
// standby was behind. Fences of the new epoch are not compared with fences of the previous one, and
// while leases of that one may last (the epoch is not settled) AwaitNodes waits for outlast.
const (
	// renewEvery is the interval between renewals.
	renewEvery = 300 * time.Millisecond
	// leaseLength is how long a renewal is valid: a few renewals may fail.
	leaseLength = 1500 * time.Millisecond
	// outlast is the time after which a lease is certainly over, even measured by another machine's
	// clock, which may run a third faster.
	outlast = 2 * time.Second
	// awaitFirst and awaitLast limit the pauses between looks at the leases; they double in between.
	awaitFirst, awaitLast = 20 * time.Millisecond, 160 * time.Millisecond
	// releaseTimeout limits releasing the lease at the end.
	releaseTimeout = time.Second
	// maxRemembered limits the keys in memory, of about 400 bytes each, or up to 5 KB with many long origins.
	maxRemembered = 65_536
)

// mark identifies a state of the rows. The zero mark is none.
type mark struct {
	epoch, fence int64
	generation   int64 // of the tables
}

// covers reports whether data read at m is current if held is the newest known mark.
func (m mark) covers(held mark) bool {
	return m.epoch == held.epoch && m.generation == held.generation && m.fence >= held.fence
}

// fences is the database of the leases. Each method is one statement, and may have taken effect even
// if it returns an error.
type fences interface {
	// renew reports that the holder has applied a mark, and returns the current one. Renewals of a
	// holder have distinct numbers.
	renew(ctx context.Context, holder string, done mark, number int64) (mark, error)
	// look returns the fence and all leases.
	look(ctx context.Context) (outlook, error)
	// settle records that no lease of an earlier epoch is valid.
	settle(ctx context.Context, epoch int64) error
	// forget deletes the leases of these holders whose last renewal has the number given; with number 0
	// unconditionally.
	forget(ctx context.Context, last map[string]int64) error
}

// outlook is the state that a command must know before it returns.
type outlook struct {
	epoch, fence int64
	settled      bool
	leases       map[string]applied // by holder
}

// applied is a lease as last renewed by its holder.
type applied struct{ epoch, fence, number int64 }

// lease is the right to use remembered keys.
type lease struct {
	at    mark
	began time.Time // before the renewal was sent
}

// lasts compares both clocks of the machine: on some machines the monotonic one stops while they are suspended.
func (l *lease) lasts(now time.Time) bool {
	return now.Sub(l.began) < leaseLength && now.Round(0).Sub(l.began.Round(0)) < leaseLength
}

// memory contains the keys that a node remembers, and its lease.
type memory struct {
	db     fences
	holder string // unique to this process
	now    func() time.Time

	held   atomic.Pointer[lease] // nil before the first lease and after the end
	number int64                 // of the last renewal

	mu   sync.RWMutex
	keys map[hash]remembered // at most maxRemembered
}

type remembered struct {
	key Key
	at  mark // state when it was read
}

func newMemory(db fences, holder string, now func() time.Time) *memory {
	return &memory{db: db, holder: holder, now: now, keys: make(map[hash]remembered)}
}

// find returns a key that is remembered and certainly current.
func (m *memory) find(sum hash) (Key, bool) {
	held := m.held.Load()
	if held == nil || !held.lasts(m.now()) {
		return Key{}, false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	r, ok := m.keys[sum]
	if !ok || !r.at.covers(held.at) {
		return Key{}, false
	}
	return r.key, true
}

// keep stores a key that was read at a mark.
func (m *memory) keep(sum hash, k Key, at mark) {
	if m.held.Load() == nil || at.epoch == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	put(&m.keys, sum, remembered{k, at}, maxRemembered)
}

func (m *memory) empty() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.keys)
}

// hold keeps a lease until ctx ends.
func (m *memory) hold(ctx context.Context) {
	defer m.release()
	renew := func() {
		if m.renew(ctx) {
			m.renew(ctx) // a command waits for the confirmation
		}
	}
	renew()
	delay.Every(ctx, renewEvery, renew)
}

// renew reports whether the database has a new mark, which it does not yet know to be applied here. If
// it fails the current lease expires.
func (m *memory) renew(ctx context.Context) (news bool) {
	ctx, cancel := context.WithTimeout(ctx, leaseLength)
	defer cancel()
	before := m.held.Load()
	var done mark
	if before != nil {
		done = before.at
	}
	began := m.now()
	m.number++
	at, err := m.db.renew(ctx, m.holder, done, m.number)
	if err != nil {
		return false
	}
	news = at != done
	if news || !before.lasts(began) { // without a valid lease, changes may have been missed
		m.empty()
	}
	m.held.Store(&lease{at: at, began: began})
	return news
}

func (m *memory) release() {
	m.held.Store(nil)
	m.empty()
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout) // the context has ended
	defer cancel()
	_ = m.db.forget(ctx, map[string]int64{m.holder: 0}) // if the lease remains, a command waits a little longer
}

// await waits until a decision is folded, and then until no node uses what it read before. A fail-over in between
// begins another epoch, and the standby may lack the transaction that folded the decision; then it waits for both
// again, as it does while the server restarts.
// Errors: as fences and of folded, ctx.Err().
func await(ctx context.Context, db fences, logger *slog.Logger, folded func(context.Context) error) error {
	before, _ := db.look(ctx) // if it fails, the epoch is 0, which no epoch has; folded retries for longer
	for {
		if err := folded(ctx); err != nil {
			return err
		}
		now, err := awaitLeases(ctx, db, logger)
		switch {
		case errors.Is(err, sqlstore.ErrUnavailable):
			if delay.For(ctx, awaitLast) != nil {
				return err
			}
		case err != nil || now.epoch == before.epoch:
			return err
		default:
			before = now
		}
	}
}

// awaitLeases waits until no node uses what it read before this call, and returns the last look.
func awaitLeases(ctx context.Context, db fences, logger *slog.Logger) (now outlook, err error) {
	first, err := db.look(ctx)
	if err != nil {
		return first, err
	}
	looked := time.Now() // not before the look: what did not change since is over after outlast
	now = first
	for pause := awaitFirst; !now.applied(first); pause = min(2*pause, awaitLast) {
		if err := delay.For(ctx, pause); err != nil {
			return now, err
		}
		if now, err = db.look(ctx); err != nil {
			return now, err
		}
		if time.Since(looked) >= outlast {
			cleanUp(ctx, db, logger, first, now)
			return now, nil
		}
	}
	return now, nil
}

// applied reports whether every lease has applied the fence of the first look.
func (o outlook) applied(first outlook) bool {
	for _, l := range o.leases {
		if l.epoch != o.epoch || o.epoch == first.epoch && l.fence < first.fence {
			return false
		}
	}
	return o.settled
}

// cleanUp deletes the leases that were not renewed since the first look, outlast ago, and settles the epoch, so that
// later commands need not wait for them. If it fails, the next command waits as long.
func cleanUp(ctx context.Context, db fences, logger *slog.Logger, first, now outlook) {
	var errs []error
	if !now.settled && now.epoch == first.epoch {
		errs = append(errs, db.settle(ctx, now.epoch))
	}
	over := make(map[string]int64)
	for holder, l := range now.leases {
		if first.leases[holder] == l {
			over[holder] = l.number
		}
	}
	if len(over) > 0 {
		errs = append(errs, db.forget(ctx, over))
	}
	if err := errors.Join(errs...); err != nil {
		logger.WarnContext(ctx,
			"leases of keys that are over could not be deleted; the next command waits for them again",
			slog.Int("leases", len(over)), slog.Any("error", err))
	}
}
