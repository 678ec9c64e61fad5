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

// Limits of the retries of one Write on PostgreSQL.
const (
	// maxRuns limits how often one fn runs. With the pauses below, the last run starts about two seconds after the
	// first, about as long as a server takes to restart.
	maxRuns = 12
	// minPause and maxPause limit the pause before a retry; it doubles, and a random part of up to half is omitted.
	minPause = 4 * time.Millisecond
	maxPause = 500 * time.Millisecond
	// maxOutcomeChecks limits the queries for the outcome of a COMMIT whose response was lost.
	maxOutcomeChecks = 20
)

func (p *postgres) normal(ctx context.Context, fn func(*Tx) error) error {
	return p.transact(ctx, p.metrics.normal, sql.LevelRepeatableRead, fn)
}

func (p *postgres) full(ctx context.Context, fn func(*Tx) error) error {
	return p.transact(ctx, p.metrics.durable, sql.LevelRepeatableRead, fn)
}

// setup uses READ COMMITTED: after it waited for the lock, a transaction must see the changes of the previous holder.
func (p *postgres) setup(ctx context.Context, fn func(*Tx) error) error {
	return p.transact(ctx, p.metrics.durable, sql.LevelReadCommitted, func(tx *Tx) error {
		if err := p.lockSchema(ctx, tx); err != nil {
			return fmt.Errorf("wait for the lock on schema changes: %w", err)
		}
		return fn(tx)
	})
}

// lockSchema waits until no other node changes the schema. It has no lock timeout, because the creation of an index
// takes minutes; ctx and WriteTimeout limit it.
func (p *postgres) lockSchema(ctx context.Context, tx *Tx) error {
	if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = 0"); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", p.lockKey(setupLock)); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout TO DEFAULT")
	return err
}

func (p *postgres) transact(ctx context.Context, took prometheus.Observer, level sql.IsolationLevel,
	fn func(*Tx) error) error {
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

// final returns the error for the caller.
func (p *postgres) final(ctx, bound context.Context, err error) error {
	switch {
	case p.life.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(ctx.Err(), context.Canceled) && !errors.Is(err, ErrAmbiguous) && !errors.Is(err, context.Canceled):
		return fmt.Errorf("write: %w: %w", ctx.Err(), err)
	case errors.Is(err, ErrAmbiguous):
	case errors.Is(bound.Err(), context.DeadlineExceeded) &&
		(errors.Is(err, sql.ErrTxDone) || errors.Is(err, context.Canceled)):
		// The deadline expired between statements, or in one with a context derived from the transaction's. No caller
		// cancelled anything, so the cause is not passed on.
		return fmt.Errorf("write: %w: %w: %v", ErrUnavailable, bound.Err(), err)
	}
	return Classify(err)
}

// pause waits before the next run: long enough for the others to end, and randomly so that they do not collide again.
func pause(ctx context.Context, run int) error {
	return delay.For(ctx, delay.Jittered(min(minPause<<min(run-1, 16), maxPause)))
}

// repeatable returns the reason why a transaction that wrote nothing should be retried, or "".
func repeatable(err error) string {
	if errors.Is(err, ErrAmbiguous) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return ""
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case codeSerialization, codeDeadlock:
			return "conflict"
		case codeReadOnly:
			return "connection" // the server became a standby
		}
	}
	if lostConnection(err) {
		return "connection"
	}
	return ""
}

// run runs fn once in a transaction.
func (p *postgres) run(parent, bound context.Context, level sql.IsolationLevel, fn func(*Tx) error) error {
	conn, err := p.write.Conn(bound)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	var raw *pgConn
	if err := conn.Raw(func(c any) error { raw = c.(*pgConn); return nil }); err != nil { // from our own connector
		return fmt.Errorf("connect: %w", err)
	}
	stx, err := conn.BeginTx(bound, &sql.TxOptions{Isolation: level})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	done := false
	defer func() {
		if !done { // fn failed or panicked
			_ = stx.Rollback() // if it fails, the connection is discarded and the server rolls back
		}
	}()
	tx := &Tx{tx: stx, store: p.store, parent: parent, bound: bound, conn: conn}
	if err := fn(tx); err != nil {
		p.leaveStandby(err)
		return err
	}
	done = true
	if err := stx.Commit(); err != nil {
		lost := raw.last
		_ = conn.Close() // queries for outcomes need a connection, and all may be waiting
		return p.uncommitted(bound, lost, err)
	}
	return nil
}

// leaveStandby drops all connections after a server reported that it is read-only: another host of the URL may have
// taken over.
func (p *postgres) leaveStandby(err error) {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == codeReadOnly {
		p.writePool.Reset()
		p.readPool.Reset()
	}
}

// uncommitted finds the outcome of a transaction whose COMMIT failed, and returns nil if it is committed.
func (p *postgres) uncommitted(ctx context.Context, lost transaction, cause error) error {
	cause = fmt.Errorf("commit: %w", cause)
	var e *pgconn.PgError
	rejected := errors.As(cause, &e) && e.SeverityUnlocalized == "ERROR" // and the connection is alive
	if !lost.sent || rejected {
		return cause
	}
	for check := 1; check <= maxOutcomeChecks; check++ {
		var status sql.NullString
		var timeline string
		err := p.write.QueryRowContext(ctx, "SELECT pg_xact_status($1::text::xid8), "+p.timeline,
			lost.number).Scan(&status, &timeline)
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
		if pause(ctx, check+4) != nil { // in progress, or no server available yet
			break
		}
	}
	return fmt.Errorf("%w: %w", ErrAmbiguous, cause)
}

// abortedError: the connection was lost during COMMIT, and the server reports that nothing was written.
type abortedError struct{ cause error }

func (e *abortedError) Error() string { return "nothing was written: " + e.cause.Error() }
func (e *abortedError) Unwrap() error { return e.cause }
