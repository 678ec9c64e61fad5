package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/delay"
)

// Limits of the repeats of one Write on PostgreSQL.
const (
	// maxRuns of one fn. With the pauses below the last of them begins about two seconds after the first,
	// which is as long as a server takes to restart.
	maxRuns = 12
	// minPause and maxPause bound the pause before a repeat; it doubles, and a random half of it is waited.
	minPause = 4 * time.Millisecond
	maxPause = 500 * time.Millisecond
	// maxOutcomeChecks bounds the questions for the outcome of a COMMIT whose answer was lost.
	maxOutcomeChecks = 20
)

func (p *postgres) normal(ctx context.Context, fn func(*Tx) error) error {
	return p.transact(ctx, p.metrics.normal, sql.LevelRepeatableRead, fn)
}

func (p *postgres) full(ctx context.Context, fn func(*Tx) error) error {
	return p.transact(ctx, p.metrics.durable, sql.LevelRepeatableRead, fn)
}

// setup is READ COMMITTED: a transaction that waits for its turn must see what the one before it did.
func (p *postgres) setup(ctx context.Context, fn func(*Tx) error) error {
	return p.transact(ctx, p.metrics.durable, sql.LevelReadCommitted, func(tx *Tx) error {
		if err := p.takeTurn(ctx, tx); err != nil {
			return fmt.Errorf("wait for the turn to change the schema: %w", err)
		}
		return fn(tx)
	})
}

// takeTurn waits for the other nodes longer than a statement waits for a lock: an index takes minutes. ctx
// and WriteTimeout bound it.
func (p *postgres) takeTurn(ctx context.Context, tx *Tx) error {
	if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = 0"); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", p.lockKey(setupLock)); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout TO DEFAULT")
	return err
}

func (p *postgres) transact(ctx context.Context, took prometheus.Observer, level sql.IsolationLevel, fn func(*Tx) error) error {
	if p.life.Err() != nil || isClosed(p.store.closing) {
		return ErrClosed
	}
	start := time.Now()
	defer func() { took.Observe(time.Since(start).Seconds()) }()
	bound, cancel := context.WithTimeout(ctx, p.cfg.WriteTimeout)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	for run := 1; ; run++ {
		err := p.run(ctx, bound, level, fn)
		if err == nil {
			return nil
		}
		reason := repeatable(err)
		if reason == "" || run == maxRuns || bound.Err() != nil {
			return p.final(ctx, bound, err)
		}
		p.metrics.repeats.WithLabelValues(reason).Inc()
		if pause(bound, run) != nil {
			return p.final(ctx, bound, err)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// final is what the caller is told.
func (p *postgres) final(ctx, bound context.Context, err error) error {
	switch {
	case p.life.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(ctx.Err(), context.Canceled) && !errors.Is(err, ErrAmbiguous) && !errors.Is(err, context.Canceled):
		return fmt.Errorf("write: %w: %w", ctx.Err(), err)
	case errors.Is(err, ErrAmbiguous):
	case errors.Is(bound.Err(), context.DeadlineExceeded) && (errors.Is(err, sql.ErrTxDone) || errors.Is(err, context.Canceled)):
		// The time ran out while no statement ran, or one that had a context made of the transaction's. Nobody
		// cancelled anything, so that is not passed on.
		return fmt.Errorf("write: %w: %w: %v", ErrUnavailable, bound.Err(), err)
	}
	return Classify(err)
}

// pause waits before the next run: long enough for the others to end, at random so that they do not meet
// again.
func pause(ctx context.Context, run int) error {
	return delay.For(ctx, delay.Jittered(min(minPause<<min(run-1, 16), maxPause)))
}

// repeatable names the reason for which a transaction that left nothing behind is worth another run;
// empty: none.
func repeatable(err error) string {
	if errors.Is(err, ErrAmbiguous) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return ""
	}
	var e *pgconn.PgError
	if errors.As(err, &e) {
		switch e.Code {
		case codeSerialization, codeDeadlock:
			return "conflict"
		case codeReadOnly:
			return "connection" // a server that became a standby
		}
	}
	if lostConnection(err) {
		return "connection"
	}
	return ""
}

// run is one run of fn in a transaction.
func (p *postgres) run(parent, bound context.Context, level sql.IsolationLevel, fn func(*Tx) error) error {
	conn, err := p.write.Conn(bound)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	var raw *pgConn
	if err := conn.Raw(func(c any) error { raw = c.(*pgConn); return nil }); err != nil { // our own connector's
		return fmt.Errorf("connect: %w", err)
	}
	stx, err := conn.BeginTx(bound, &sql.TxOptions{Isolation: level})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	done := false
	defer func() {
		if !done { // fn failed or panicked
			_ = stx.Rollback() // a connection that cannot is thrown away, and the server rolls back
		}
	}()
	tx := &Tx{Tx: stx, store: p.store, parent: parent, bound: bound, conn: conn}
	if err := fn(tx); err != nil {
		p.leaveStandby(err)
		return err
	}
	done = true
	if err := stx.Commit(); err != nil {
		lost := raw.last
		_ = conn.Close() // whoever asks for an outcome needs one, and all may be asking
		return p.uncommitted(bound, lost, err)
	}
	return nil
}

// leaveStandby forgets all connections after a server said that it cannot be written to any more: another
// host of the URL may have taken over.
func (p *postgres) leaveStandby(err error) {
	var e *pgconn.PgError
	if errors.As(err, &e) && e.Code == codeReadOnly {
		p.writePool.Reset()
		p.readPool.Reset()
	}
}

// uncommitted finds out what became of a transaction whose COMMIT failed. Nil: it is committed.
func (p *postgres) uncommitted(ctx context.Context, lost transaction, cause error) error {
	cause = fmt.Errorf("commit: %w", cause)
	var e *pgconn.PgError
	refused := errors.As(cause, &e) && e.SeverityUnlocalized == "ERROR" // and the connection lives
	if !lost.sent || refused {
		return cause
	}
	for check := 1; check <= maxOutcomeChecks; check++ {
		var status sql.NullString
		var timeline string
		err := p.write.QueryRowContext(ctx, "SELECT pg_xact_status($1::text::xid8), "+p.timeline, lost.number).Scan(&status, &timeline)
		switch {
		case err == nil && timeline != lost.timeline:
			return fmt.Errorf("%w: another server has taken over: %w", ErrAmbiguous, cause)
		case err == nil && status.String == "committed":
			return nil
		case err == nil && status.String == "aborted":
			return &abortedError{cause}
		case err == nil && !status.Valid, err != nil && !lostConnection(err) && ctx.Err() == nil:
			return fmt.Errorf("%w: %w", ErrAmbiguous, errors.Join(cause, err))
		}
		if pause(ctx, check+4) != nil { // in progress, or nobody to ask yet
			break
		}
	}
	return fmt.Errorf("%w: %w", ErrAmbiguous, cause)
}

// abortedError: the connection was lost during COMMIT, and the server says that nothing was written.
type abortedError struct{ cause error }

func (e *abortedError) Error() string { return "nothing was written: " + e.cause.Error() }
func (e *abortedError) Unwrap() error { return e.cause }
