package ratelimit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
)

const (
	// DefaultTakeTimeout bounds one question to the database, for callers without a deadline.
	DefaultTakeTimeout = 5 * time.Second
	// maxWaiting bounds the callers of one counter that wait in this process.
	maxWaiting = 10_000
	// giveTimeout bounds handing back the units of callers that went away.
	giveTimeout = 5 * time.Second
	// sweepEvery is the pause between two deletions of what is over, sweepRows what one statement deletes.
	sweepEvery = time.Minute
	sweepRows  = 1000
	// maxSweeps bounds the statements of one sweep: a million counters.
	maxSweeps = 1000
	// keptMinutes is how long a counter stays after its minute: longer than maxStepBack, so that a clock that
	// is set back finds it.
	keptMinutes = int64(maxStepBack/Window) + 5
)

// SharedConfig sets up a Shared. The zero SharedConfig is usable.
type SharedConfig struct {
	// TakeTimeout bounds one question to the database, beside the caller's context. 0 = DefaultTakeTimeout.
	TakeTimeout time.Duration
	Logger      *slog.Logger
	Registerer  prometheus.Registerer
}

// Validate reports everything that is wrong at once.
func (c SharedConfig) Validate() error {
	if c.TakeTimeout < 0 {
		return fmt.Errorf("rate-limit counters: TakeTimeout is %s; it cannot be negative", c.TakeTimeout)
	}
	return nil
}

// Shared is Counters of all processes that share a database (PostgreSQL). Its windows are those of the
// database's clock.
//
// Callers of one process that ask the same (key, units and limit) are asked for together: while a statement
// for some of them is under way the others wait, and the next statement is for all of these. So a busy counter
// costs one statement for many requests. Callers of one key with other units or another limit have statements
// of their own beside it, and so has each Give.
//
// Units are taken only for callers that waited when their statement began. Those of a caller that left while
// it was under way are handed back after it; until then, or until the window ends when that fails, they count,
// and another may be refused for them. When nobody leaves, exactly the limit is let through when as many ask.
//
// The table is UNLOGGED: a Take writes nothing to the disk, and a crash of the server empties it. That is
// noticed, and as nobody knows what was taken in that minute, Take answers ErrUnavailable until it is over.
// A clean restart keeps the counts.
//
// When the outcome of a Take is not known (the connection was lost), its units may stay counted until the
// window ends; more than the limit is never let through.
type Shared struct {
	store   *sqlstore.Store
	timeout time.Duration
	logger  *slog.Logger
	asked   prometheus.Counter
	taken   prometheus.Counter

	mu     sync.Mutex
	queues map[question]*queue
	ended  sync.WaitGroup
}

var _ Counters = (*Shared)(nil)

// question is what callers must have in common to be asked for together.
type question struct {
	key          Key
	units, limit int64
}

// queue holds the callers of one question, while one of their groups is under way.
type queue struct{ waiting []*caller }

type caller struct {
	answer chan answer // capacity 1
	gone   bool        // guarded by Shared.mu
	told   bool        // guarded by Shared.mu
}

type answer struct {
	decision Decision
	err      error
}

const createShared = `
CREATE UNLOGGED TABLE IF NOT EXISTS ratelimit_counters (
	scope   TEXT   NOT NULL,
	id      TEXT   NOT NULL,
	minute  BIGINT NOT NULL, -- since 1970, of the database's clock
	used    BIGINT NOT NULL,
	granted BIGINT NOT NULL, -- to the statement that wrote the row last
	PRIMARY KEY (scope, id)
) WITH (fillfactor = 50)` // updated in place: the new version of a row finds room beside the old

// ratelimit_epoch has one row while no crash has emptied the tables: counts are whole after that minute.
const createEpoch = `
CREATE UNLOGGED TABLE IF NOT EXISTS ratelimit_epoch (
	one        BIGINT NOT NULL PRIMARY KEY,
	incomplete BIGINT NOT NULL
)`

const thisMinute = `floor(extract(epoch FROM clock_timestamp()) / 60)::bigint`

// takeUnits grants as many of the wanted units ($3, a multiple of the units of one caller $5) as fit below
// the limit ($4). A row of an older minute starts anew; so does one more than maxStepBack ahead, whose
// clock was wrong. A row a little ahead stays in force: the clock stepped back, or this statement waited
// for the row while the minute ended.
const takeUnits = `
INSERT INTO ratelimit_counters AS c (scope, id, minute, used, granted)
SELECT $1::text, $2::text, e.minute, least($3::bigint, $4::bigint / $5::bigint * $5::bigint), least($3::bigint, $4::bigint / $5::bigint * $5::bigint)
FROM (SELECT ` + thisMinute + ` AS minute, incomplete FROM ratelimit_epoch) AS e
WHERE e.incomplete < e.minute
ON CONFLICT (scope, id) DO UPDATE SET
	minute = CASE WHEN c.minute BETWEEN excluded.minute AND excluded.minute + $6::bigint THEN c.minute ELSE excluded.minute END,
	used = CASE WHEN c.minute BETWEEN excluded.minute AND excluded.minute + $6::bigint
		THEN c.used + least($3::bigint, greatest($4::bigint - c.used, 0) / $5::bigint * $5::bigint) ELSE excluded.used END,
	granted = CASE WHEN c.minute BETWEEN excluded.minute AND excluded.minute + $6::bigint
		THEN least($3::bigint, greatest($4::bigint - c.used, 0) / $5::bigint * $5::bigint) ELSE excluded.granted END
RETURNING minute, used, granted`

const giveUnits = `
UPDATE ratelimit_counters SET used = greatest(used - $4, 0)
WHERE scope = $1 AND id = $2 AND minute = $3
RETURNING used`

// beginEpoch says after a crash that the counts of this minute are not whole. Whoever is first says it.
const beginEpoch = `
INSERT INTO ratelimit_epoch (one, incomplete) VALUES (1, ` + thisMinute + `)
ON CONFLICT (one) DO UPDATE SET incomplete = ratelimit_epoch.incomplete
RETURNING incomplete`

const sweepCounters = `
WITH gone AS (
	DELETE FROM ratelimit_counters WHERE (scope, id) IN (
		SELECT scope, id FROM ratelimit_counters WHERE minute < ` + thisMinute + ` - $1::bigint
		LIMIT $2 FOR UPDATE SKIP LOCKED)
	RETURNING 1)
SELECT count(*) FROM gone`

// NewShared makes the tables when they are missing. Errors: ErrUnavailable, ctx.Err(), or what is wrong with
// the configuration; the store must be Shared.
func NewShared(ctx context.Context, cfg SharedConfig, store *sqlstore.Store) (*Shared, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !store.Shared() {
		return nil, errors.New("rate-limit counters: the database is of this process alone; use Memory")
	}
	s := &Shared{store: store, timeout: cfg.TakeTimeout, logger: cfg.Logger, queues: make(map[question]*queue)}
	if s.timeout == 0 {
		s.timeout = DefaultTakeTimeout
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.asked = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "letterhead_ratelimit_statements_total",
		Help: "Statements that asked the shared rate-limit counters.",
	})
	s.taken = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "letterhead_ratelimit_takes_total",
		Help: "Callers that asked the shared rate-limit counters.",
	})
	if err := s.setup(ctx); err != nil {
		return nil, fmt.Errorf("create tables of the rate-limit counters: %w", unavailable(err))
	}
	if err := telemetry.Register(cfg.Registerer, s.asked, s.taken); err != nil { // at last: whoever tries again finds them free
		return nil, fmt.Errorf("register metrics of the rate-limit counters: %w", err)
	}
	return s, nil
}

func (s *Shared) setup(ctx context.Context) error {
	return s.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		known, err := sqlstore.TablesWithPrefix(ctx, tx, "ratelimit_epoch")
		if err != nil {
			return err
		}
		for _, create := range []string{createShared, createEpoch} {
			if _, err := tx.ExecContext(ctx, s.store.DDL(create)); err != nil {
				return err
			}
		}
		if len(known) > 0 {
			return nil
		}
		// Nothing was ever counted, so nothing is missing.
		_, err = tx.ExecContext(ctx, "INSERT INTO ratelimit_epoch (one, incomplete) VALUES (1, 0) ON CONFLICT DO NOTHING")
		return err
	})
}

// unavailable puts ErrUnavailable in front of the database's.
func unavailable(err error) error {
	if errors.Is(err, sqlstore.ErrUnavailable) || errors.Is(err, sqlstore.ErrClosed) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// Take implements Counters. When the database cannot be reached or does not answer before the caller's
// deadline, it answers ErrUnavailable; so it does for the rest of the minute in which the server crashed.
func (s *Shared) Take(ctx context.Context, key Key, units, limit int64) (Decision, error) {
	if units < 1 || limit < 0 {
		return Decision{}, fmt.Errorf("take %d units of %s below %d: %w", units, key.Scope, limit, ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	q := question{key: key, units: units, limit: limit}
	me := &caller{answer: make(chan answer, 1)}
	if !s.join(q, me) {
		return Decision{}, fmt.Errorf("take of %s: %d callers wait: %w", key.Scope, maxWaiting, ErrUnavailable)
	}
	select {
	case a := <-me.answer:
		return a.decision, a.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	me.gone = true
	told := me.told
	s.mu.Unlock()
	if told {
		a := <-me.answer
		return a.decision, a.err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Decision{}, fmt.Errorf("take of %s: %w: %w", key.Scope, ErrUnavailable, ctx.Err())
	}
	return Decision{}, fmt.Errorf("take of %s: %w", key.Scope, ctx.Err())
}

// join queues a caller, and starts asking when nobody does.
func (s *Shared) join(q question, me *caller) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken.Inc()
	at := s.queues[q]
	if at == nil {
		at = &queue{}
		s.queues[q] = at
		s.ended.Go(func() { s.serve(q, at) })
	}
	if len(at.waiting) >= maxWaiting {
		return false
	}
	at.waiting = append(at.waiting, me)
	return true
}

// serve asks for one group after the other until nobody waits.
func (s *Shared) serve(q question, at *queue) {
	for {
		s.mu.Lock()
		group := at.waiting[:0:0]
		for _, c := range at.waiting {
			if !c.gone {
				group = append(group, c)
			}
		}
		at.waiting = nil
		if len(group) == 0 {
			delete(s.queues, q)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		s.ask(q, group)
	}
}

// ask takes units for a group and hands them out, first come, first served.
func (s *Shared) ask(q question, group []*caller) {
	// The group outlives each of its callers; its own bound ends it.
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	minute, used, granted, err := s.take(ctx, q, int64(len(group)))
	if err != nil {
		err = fmt.Errorf("take of %s: %w", q.key.Scope, err)
	}
	left := used - granted // what was used before each caller in turn
	var unclaimed int64
	s.mu.Lock()
	for _, c := range group {
		a := answer{err: err}
		if err == nil {
			a.decision = Decision{Limit: q.limit, Reset: windowEnd(minute), Allowed: granted >= q.units}
			if a.decision.Allowed {
				granted -= q.units
				left += q.units
			}
			a.decision.Remaining = max(0, q.limit-left)
			if c.gone && a.decision.Allowed {
				unclaimed += q.units
			}
		}
		c.told = true
		c.answer <- a
	}
	s.mu.Unlock()
	if unclaimed > 0 {
		s.giveUnclaimed(q.key, unclaimed, minute)
	}
}

// take is one statement; a second one only when a crash of the server has emptied the tables.
func (s *Shared) take(ctx context.Context, q question, callers int64) (minute, used, granted int64, err error) {
	s.asked.Inc()
	wanted := q.limit / q.units // no product of the caller's numbers that could overflow
	wanted = min(wanted, callers) * q.units
	err = s.store.One(ctx, takeUnits, []any{q.key.Scope, q.key.ID, wanted, q.limit, q.units, int64(maxStepBack / Window)}, &minute, &used, &granted)
	if errors.Is(err, sql.ErrNoRows) {
		var incomplete int64
		if err = s.store.One(ctx, beginEpoch, nil, &incomplete); err == nil {
			err = fmt.Errorf("%w: the server crashed in the minute that ends at %s, and its counts are lost", ErrUnavailable, windowEnd(incomplete).Format(time.TimeOnly))
		}
	}
	return minute, used, granted, unavailable(err)
}

func (s *Shared) giveUnclaimed(key Key, units, minute int64) {
	ctx, cancel := context.WithTimeout(context.Background(), giveTimeout)
	defer cancel()
	if err := s.give(ctx, key, units, minute); err != nil {
		s.logger.Warn("units that nobody waited for stay counted until the window ends",
			slog.String("scope", key.Scope), slog.Int64("units", units), slog.Any("error", err))
	}
}

// Give implements Counters.
func (s *Shared) Give(ctx context.Context, key Key, units int64, taken Decision) error {
	if units < 1 {
		return fmt.Errorf("give %d units of %s back: %w", units, key.Scope, ErrInvalid)
	}
	if !taken.Allowed {
		return nil
	}
	if err := s.give(ctx, key, units, windowOf(taken.Reset)-1); err != nil {
		return fmt.Errorf("give %d units of %s back: %w", units, key.Scope, err)
	}
	return nil
}

func (s *Shared) give(ctx context.Context, key Key, units, minute int64) error {
	var used int64
	err := s.store.One(ctx, giveUnits, []any{key.Scope, key.ID, minute, units}, &used)
	if errors.Is(err, sql.ErrNoRows) { // the window is over
		return nil
	}
	return unavailable(err)
}

// Run deletes counters whose minute is long over, a bounded number at a time, until ctx ends (nil). One
// process is enough; several do no harm.
func (s *Shared) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "old rate-limit counters could not be deleted", slog.Any("error", err))
		}
	}
}

// Sweep deletes counters whose minute is long over and returns how many. Errors: ErrUnavailable, ctx.Err().
func (s *Shared) Sweep(ctx context.Context) (deleted int64, err error) {
	for range maxSweeps {
		var n int64
		if err := s.store.One(ctx, sweepCounters, []any{keptMinutes, sweepRows}, &n); err != nil {
			return deleted, fmt.Errorf("delete old rate-limit counters: %w", unavailable(err))
		}
		if deleted += n; n < sweepRows {
			break
		}
	}
	return deleted, nil
}

// Close waits for the questions under way, each at most TakeTimeout long. Nobody may Take meanwhile.
func (s *Shared) Close() { s.ended.Wait() }
