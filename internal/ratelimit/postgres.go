package ratelimit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/delay"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
)

const (
	// takeTimeout bounds one query of a group of callers.
	takeTimeout = 5 * time.Second
	// maxWaiting bounds the waiting callers of one counter in this process.
	maxWaiting = 10_000
	// giveTimeout bounds the return of units whose callers have left.
	giveTimeout = 5 * time.Second
	// sweepEvery is the pause between two deletions of old rows, sweepRows the maximum of one statement.
	sweepEvery = time.Minute
	sweepRows  = 1000
	// maxSweeps bounds the statements of one sweep: a million counters.
	maxSweeps = 1000
	// unrecorded is the number of units of a counter that are allowed in a minute before the first ceiling is recorded,
	// so that counters with little demand cause no disk writes. After a crash each counter starts with as many units
	// used.
	unrecorded = 4
	// ceilingPart is the divisor for raising a ceiling: it grows by one eighth of the remaining units. If
	// fewer than eight remain, each unit is recorded singly.
	ceilingPart = 8
	// crashMinutes is the number of minutes after the detection of a crash whose counts also count as lost,
	// because the clock of a standby that took over may be behind.
	crashMinutes = 1
	// keptMinutes is how long a counter is kept after its minute: longer than maxStepBack, so that it still
	// exists after a clock was set back.
	keptMinutes = int64(maxStepBack/Window) + 5
)

// SharedConfig configures a Shared. The zero SharedConfig is usable.
type SharedConfig struct {
	// Now is the clock for the duration of blocks; nil = time.Now. Windows follow the database's clock.
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Shared implements Counters for all processes that share a PostgreSQL database. Its windows follow the
// database's clock.
//
// Callers in one process with the same key, units and limit share statements: while a statement is running, further
// callers wait, and the next statement serves all of them. A busy counter thus needs one statement for many requests.
// Callers of the same key with different units or limits, and calls of Give, use separate statements.
//
// Far from the limit, and with many recent callers, a statement takes more units than its callers need, so that the
// next callers need no statement; see blockPart. Such a block never outlives the database's window: it ends after the
// time that was left of the window when the statement was answered, counted from when the statement was sent.
//
// Units of a caller that left during its statement, and of an unused block, are returned. Until they are
// returned, or until the window ends if that fails, they count, and other requests may be rejected because of
// them. Without such units exactly the limit is allowed if there are enough callers.
//
// Counts are in an UNLOGGED table, which a crash of the server empties. In addition, a logged table has a ceiling for
// each counter: no unit above it is allowed before a higher ceiling is durable. The statement that needs a higher
// ceiling raises it by one eighth of the remaining units, so a counter causes a few disk writes a minute. A counter
// with at most four units a minute causes none, and near its limit each unit is recorded singly.
//
// After a crash a counter continues at its ceiling, or at four if none was recorded. Requests are answered immediately,
// no unit is allowed twice, and a counter loses at most one eighth of the remaining units, or four. A limit of four
// units or fewer allows nothing until the minute after the next begins. A clean restart keeps the counts.
//
// Ceilings are as durable as the server's synchronous_commit makes them: a failover to an asynchronous standby
// loses the most recent ones.
//
// If the outcome of a Take is unknown (because the connection was lost), its units may count until the window
// ends; more than the limit is never allowed.
type Shared struct {
	store  *sqlstore.Store
	logger *slog.Logger
	now    func() time.Time
	asked  prometheus.Counter
	taken  prometheus.Counter

	mu     sync.Mutex
	queues map[question]*queue
	blocks map[question]*block // at most maxBlocks
	closed bool
	ended  sync.WaitGroup
}

var _ Counters = (*Shared)(nil)

// question identifies callers that can be combined.
type question struct {
	key          Key
	units, limit int64
}

// queue holds the callers of one question while one of their groups is running.
type queue struct{ waiting []*caller }

type caller struct {
	answer   chan answer // capacity 1
	gone     bool        // guarded by Shared.mu
	answered bool        // guarded by Shared.mu
}

type answer struct {
	decision Decision
	err      error
}

// reply sends the answer to a caller, which may have left. Shared.mu must be held.
func (c *caller) reply(a answer) {
	c.answered = true
	c.answer <- a
}

const createShared = `
CREATE UNLOGGED TABLE IF NOT EXISTS ratelimit_counters (
	scope   TEXT   NOT NULL,
	id      TEXT   NOT NULL,
	minute  BIGINT NOT NULL, -- since 1970, of the database's clock
	used    BIGINT NOT NULL,
	granted BIGINT NOT NULL, -- to the statement that wrote the row last
	ceiling        BIGINT  NOT NULL DEFAULT 0,
	ceiling_minute BIGINT  NOT NULL DEFAULT -1, -- for which the ceiling is valid
	raised         BOOLEAN NOT NULL DEFAULT false, -- the last statement that wrote the row
	PRIMARY KEY (scope, id)
) WITH (fillfactor = 50)` // leaves room to update a row within its page

// createCeilings creates a logged table. No counter has allowed more units in a minute than its row says.
const createCeilings = `
CREATE TABLE IF NOT EXISTS ratelimit_ceilings (
	scope  TEXT   NOT NULL,
	id     TEXT   NOT NULL,
	minute BIGINT NOT NULL,
	units  BIGINT NOT NULL,
	PRIMARY KEY (scope, id)
) WITH (fillfactor = 50)`

// createEpoch creates a table that has one row until a crash empties the unlogged tables. Up to crashMinutes
// after the minute in that row, the ceilings are used as counts.
const createEpoch = `
CREATE UNLOGGED TABLE IF NOT EXISTS ratelimit_epoch (
	one        BIGINT NOT NULL PRIMARY KEY,
	incomplete BIGINT NOT NULL
)`

const thisMinute = `floor(extract(epoch FROM clock_timestamp()) / 60)::bigint`

// takeUnits grants as many of the requested units ($3, a multiple of the units of one caller $5) as fit
// below the limit ($4). If all of them fit and many remain, it also grants some of the extra units ($6). It
// records a higher ceiling if they exceed the recorded one. A row of an older minute is reset to {begun};
// so is a row more than maxStepBack ahead, whose clock was wrong. A row slightly ahead stays in force: the
// clock stepped back, or this statement waited for the row while the minute ended.
//
// The counter's row is locked until the ceiling is durable, so no other statement sees a count above it.
func takeUnits(begun string) string {
	const (
		inForce = "c.minute BETWEEN excluded.minute AND excluded.minute + {step}"
		callers = "least($3::bigint, greatest($4::bigint - {used}, 0) / $5::bigint * $5::bigint)"
		ahead   = "CASE WHEN $4::bigint - {used} - $3::bigint >= {from} THEN least($6::bigint, ($4::bigint - {used} - $3::bigint) / {share}) / $5::bigint * $5::bigint ELSE 0 END"
		fits    = "(" + callers + " + " + ahead + ")"
		ceiling = "CASE WHEN c.ceiling_minute = c.minute THEN c.ceiling ELSE {unrecorded} END"
		raise   = "{used} + greatest($4::bigint - ({used}), 0) / {part}"
	)
	granted := strings.ReplaceAll(fits, "{used}", "c.used")
	used := "c.used + " + granted
	return strings.NewReplacer(
		"{step}", fmt.Sprint(int64(maxStepBack/Window)), "{unrecorded}", fmt.Sprint(unrecorded), "{part}",
		fmt.Sprint(ceilingPart), "{from}", fmt.Sprint(blockFrom), "{share}", fmt.Sprint(blockPart), "{after}",
		fmt.Sprint(crashMinutes),
	).Replace(`
WITH now AS (
	SELECT ` + thisMinute + ` AS minute, incomplete FROM ratelimit_epoch WHERE one = 1
), begun AS (` + begun + `
), first AS (
	SELECT minute, used + granted AS used, granted, greatest(used, {unrecorded}) AS ceiling
	FROM (SELECT minute, used, ` + strings.ReplaceAll(fits, "{used}", "used") + ` AS granted FROM begun) AS b
), taken AS (
	INSERT INTO ratelimit_counters AS c (scope, id, minute, used, granted, ceiling, ceiling_minute, raised)
	SELECT $1::text, $2::text, minute, used, granted,
		CASE WHEN used > ceiling THEN ` + strings.ReplaceAll(raise, "{used}", "used") +
		` ELSE ceiling END, minute, used > ceiling
	FROM first
	ON CONFLICT (scope, id) DO UPDATE SET
		minute = CASE WHEN ` + inForce + ` THEN c.minute ELSE excluded.minute END,
		used = CASE WHEN ` + inForce + ` THEN ` + used + ` ELSE excluded.used END,
		granted = CASE WHEN ` + inForce + ` THEN ` + granted + ` ELSE excluded.granted END,
		ceiling = CASE WHEN ` + inForce + ` THEN CASE WHEN ` + used + ` > ` + ceiling + ` THEN ` +
		strings.ReplaceAll(raise, "{used}", used) + ` ELSE ` + ceiling + ` END ELSE excluded.ceiling END,
		ceiling_minute = CASE WHEN ` + inForce + ` THEN c.minute ELSE excluded.minute END,
		raised = CASE WHEN ` + inForce + ` THEN ` + used + ` > ` + ceiling + ` ELSE excluded.raised END
	RETURNING minute, used, granted, ceiling, raised
), recorded AS (
	INSERT INTO ratelimit_ceilings (scope, id, minute, units)
	SELECT $1::text, $2::text, minute, ceiling FROM taken WHERE raised
	ON CONFLICT (scope, id) DO UPDATE SET minute = excluded.minute, units = excluded.units
)
SELECT minute, used, granted, (((minute + 1) * 60 - extract(epoch FROM clock_timestamp())) * 1000)::bigint FROM taken`)
}

var (
	// takeCounted returns no row in a minute whose counts were lost, takeRecorded none before an epoch has begun.
	takeCounted = takeUnits(`
	SELECT minute, 0 AS used FROM now WHERE incomplete + {after} < minute`)
	takeRecorded = takeUnits(`
	SELECT coalesce(l.minute, now.minute) AS minute, greatest(l.units, {unrecorded}) AS used
	FROM now LEFT JOIN ratelimit_ceilings AS l
		ON l.scope = $1::text AND l.id = $2::text AND l.minute BETWEEN now.minute AND now.minute + {step}`)
)

const giveUnits = `
UPDATE ratelimit_counters SET used = greatest(used - $4, 0)
WHERE scope = $1 AND id = $2 AND minute = $3
RETURNING used`

// beginEpoch records that the counts of this minute are incomplete after a crash. The first node that
// detects the crash executes it.
const beginEpoch = `
INSERT INTO ratelimit_epoch (one, incomplete) VALUES (1, ` + thisMinute + `)
ON CONFLICT (one) DO UPDATE SET incomplete = ratelimit_epoch.incomplete
RETURNING incomplete`

// sweepOf deletes old rows of one of the tables.
func sweepOf(table string) string {
	return `
WITH gone AS (
	DELETE FROM ` + table + ` WHERE (scope, id) IN (
		SELECT scope, id FROM ` + table + ` WHERE minute < ` + thisMinute + ` - $1::bigint
		LIMIT $2 FOR UPDATE SKIP LOCKED)
	RETURNING 1)
SELECT count(*) FROM gone`
}

var sweepCounters, sweepCeilings = sweepOf("ratelimit_counters"), sweepOf("ratelimit_ceilings")

// NewShared creates missing tables. The store must be Shared. Errors: ErrUnavailable, ctx.Err().
func NewShared(ctx context.Context, cfg SharedConfig, store *sqlstore.Store) (*Shared, error) {
	if !store.Shared() {
		return nil, errors.New("rate-limit counters: the database is not shared between processes; use Memory")
	}
	s := &Shared{
		store: store, now: cfg.Now, logger: cfg.Logger,
		queues: make(map[question]*queue), blocks: make(map[question]*block),
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.logger = cmp.Or(s.logger, slog.New(slog.DiscardHandler))
	s.asked = telemetry.Counter("letterhead_ratelimit_statements_total",
		"Statements that queried the shared rate-limit counters.")
	s.taken = telemetry.Counter("letterhead_ratelimit_takes_total",
		"Callers that queried the shared rate-limit counters.")
	if err := s.setup(ctx); err != nil {
		return nil, fmt.Errorf("create tables of the rate-limit counters: %w", unavailable(err))
	}
	// last, so that a retry can register them again
	if err := telemetry.Register(cfg.Registerer, s.asked, s.taken); err != nil {
		return nil, fmt.Errorf("register metrics of the rate-limit counters: %w", err)
	}
	return s, nil
}

func (s *Shared) setup(ctx context.Context) error {
	return s.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		known, err := sqlstore.TablesWithPrefix(ctx, tx, "ratelimit_epoch")
		if err == nil {
			err = tx.Create(ctx, createShared, createEpoch, createCeilings)
		}
		if err != nil || len(known) > 0 {
			return err
		}
		// Nothing was ever counted, so nothing is missing.
		_, err = tx.ExecContext(ctx,
			"INSERT INTO ratelimit_epoch (one, incomplete) VALUES (1, 0) ON CONFLICT DO NOTHING")
		return err
	})
}

// unavailable wraps an error of the database in ErrUnavailable.
func unavailable(err error) error {
	if errors.Is(err, sqlstore.ErrUnavailable) || errors.Is(err, sqlstore.ErrClosed) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// Take implements Counters. If the database cannot be reached or does not answer before the caller's
// deadline, it returns ErrUnavailable.
func (s *Shared) Take(ctx context.Context, key Key, units, limit int64) (Decision, error) {
	if units < 1 || limit < 0 {
		return Decision{}, fmt.Errorf("take %d units of %s below %d: %w", units, key.Scope, limit, ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	q := question{key: key, units: units, limit: limit}
	s.mu.Lock()
	s.taken.Inc()
	d, ok := s.fromBlock(q)
	s.mu.Unlock()
	if ok {
		return d, nil
	}
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
	answered := me.answered
	s.mu.Unlock()
	if answered {
		a := <-me.answer
		return a.decision, a.err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Decision{}, fmt.Errorf("take of %s: %w: %w", key.Scope, ErrUnavailable, ctx.Err())
	}
	return Decision{}, fmt.Errorf("take of %s: %w", key.Scope, ctx.Err())
}

// join queues a caller, and starts serve if it is not running.
func (s *Shared) join(q question, me *caller) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// serve runs one group after the other until no caller waits.
func (s *Shared) serve(q question, at *queue) {
	for {
		s.mu.Lock()
		group := at.waiting[:0:0]
		for _, c := range at.waiting {
			if c.gone {
				continue
			}
			if d, ok := s.fromBlock(q); ok { // filled by the last statement
				c.reply(answer{decision: d})
				continue
			}
			group = append(group, c)
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

// ask takes units for a group and hands them out in order of arrival.
func (s *Shared) ask(q question, group []*caller) {
	// The group outlives each of its callers, so it has its own timeout.
	ctx, cancel := context.WithTimeout(context.Background(), takeTimeout)
	defer cancel()
	asked := s.now() // before the statement, so that a block ends no later than its window
	t, err := s.take(ctx, q, int64(len(group)), s.ahead(q, asked))
	if err != nil {
		err = fmt.Errorf("take of %s: %w", q.key.Scope, err)
	}
	granted := t.granted
	before := t.used - granted // the used units before each caller in turn
	var unclaimed, let int64
	s.mu.Lock()
	if b := s.blocks[q]; b != nil && b.minute == t.minute {
		before -= b.left
	}
	for _, c := range group {
		a := answer{err: err}
		if err == nil {
			a.decision = Decision{Limit: q.limit, Reset: windowEnd(t.minute), Allowed: granted >= q.units}
			if a.decision.Allowed {
				granted -= q.units
				before += q.units
				let++
			}
			a.decision.Remaining = max(0, q.limit-before)
			if c.gone && a.decision.Allowed {
				unclaimed += q.units
			}
		}
		c.reply(a)
	}
	if err == nil {
		unclaimed += s.refill(q, asked, t, granted, let)
	}
	s.mu.Unlock()
	if unclaimed > 0 {
		s.giveUnused(q.key, unclaimed, t.minute)
	}
}

type taken struct {
	minute  int64
	used    int64 // of the counter, including the granted ones
	granted int64
	rest    time.Duration // until the window ends, by the database's clock
}

// take runs one statement, or two in minutes whose counts were lost in a crash of the server; the node that
// detects the crash needs four.
func (s *Shared) take(ctx context.Context, q question, callers, ahead int64) (t taken, err error) {
	wanted := q.limit / q.units // divide first, because a product of the caller's numbers could overflow
	wanted = min(wanted, callers) * q.units
	ask := func(statement string) error {
		s.asked.Inc()
		var millis int64
		err := s.store.One(ctx, statement, []any{q.key.Scope, q.key.ID, wanted, q.limit, q.units, ahead}, &t.minute,
			&t.used, &t.granted, &millis)
		t.rest = time.Duration(millis) * time.Millisecond
		return err
	}
	if err = ask(takeCounted); errors.Is(err, sql.ErrNoRows) {
		err = ask(takeRecorded)
	}
	if errors.Is(err, sql.ErrNoRows) {
		var incomplete int64
		if err = s.store.One(ctx, beginEpoch, nil, &incomplete); err == nil {
			s.logger.WarnContext(ctx,
				"the database crashed or failed over; minute counters continue at their recorded ceilings",
				slog.Time("until", windowEnd(incomplete+crashMinutes)))
			err = ask(takeRecorded)
		}
	}
	return t, unavailable(err)
}

func (s *Shared) giveUnused(key Key, units, minute int64) {
	ctx, cancel := context.WithTimeout(context.Background(), giveTimeout)
	defer cancel()
	if err := s.give(ctx, key, units, minute); err != nil {
		s.logger.Warn("unused units could not be returned; they count until the window ends",
			slog.String("scope", key.Scope), slog.Int64("units", units), slog.Any("error", err))
	}
}

func (s *Shared) Give(ctx context.Context, key Key, units int64, taken Decision) error {
	if units < 1 {
		return fmt.Errorf("return %d units of %s: %w", units, key.Scope, ErrInvalid)
	}
	if !taken.Allowed {
		return nil
	}
	return sqlstore.Wrap(s.give(ctx, key, units, windowOf(taken.Reset)-1), "return %d units of %s", units, key.Scope)
}

func (s *Shared) give(ctx context.Context, key Key, units, minute int64) error {
	var used int64
	err := s.store.One(ctx, giveUnits, []any{key.Scope, key.ID, minute, units}, &used)
	if errors.Is(err, sql.ErrNoRows) { // the window has ended
		return nil
	}
	return unavailable(err)
}

// Run regularly deletes old counters and ceilings, a bounded number at a time, until ctx ends; then it returns
// nil. It is enough to run it in one process, and safe to run it in several.
func (s *Shared) Run(ctx context.Context) error {
	delay.Every(ctx, sweepEvery, func() {
		if _, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "old rate-limit counters could not be deleted", slog.Any("error", err))
		}
	})
	return nil
}

// Sweep deletes old counters and ceilings and returns the number of deleted counters. Errors:
// ErrUnavailable, ctx.Err().
func (s *Shared) Sweep(ctx context.Context) (deleted int64, err error) {
	for _, statement := range []string{sweepCeilings, sweepCounters} {
		deleted = 0
		for range maxSweeps {
			var n int64
			if err := s.store.One(ctx, statement, []any{keptMinutes, sweepRows}, &n); err != nil {
				return deleted, fmt.Errorf("delete old rate-limit counters: %w", unavailable(err))
			}
			if deleted += n; n < sweepRows {
				break
			}
		}
	}
	return deleted, nil
}

// Close returns the units of blocks, within a time limit, and waits for running statements, at most takeTimeout
// each. No other call may be running.
func (s *Shared) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), giveTimeout)
	defer cancel()
	s.giveBlocks(ctx)
	s.ended.Wait()
}
