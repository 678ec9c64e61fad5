package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"letterhead/internal/delay"
)

// Times of leadership on PostgreSQL. Two processes never lead at once because a leader that gets no answer stops after
// heartbeatEvery + heartbeatTimeout, and the server gives the lock to another only leaderSilence after the last
// heartbeat.
const (
	// heartbeatEvery is how often a leader checks its connection.
	heartbeatEvery = 2 * time.Second
	// heartbeatTimeout is how long it waits for the answer before it stops leading.
	heartbeatTimeout = 3 * time.Second
	// leaderSilence is when the server ends the connection of a leader that was cut off (idle_session_timeout). It
	// gives do some seconds to notice that its context ended.
	leaderSilence = 10 * time.Second
	// standbyWait is how long a standby queues at the server for the lock before it asks again. The server wakes it at
	// once when the lock is free; asking again checks that the server is available.
	standbyWait = 5 * time.Second
	// leadPause is the mean pause before another attempt after an error.
	leadPause = time.Second
	// holdWithin is how long Hold waits for a name: longer than a process that was cut off keeps it.
	holdWithin = leaderSilence + standbyWait
	// leaveTimeout limits how long a leader takes to close its connection; otherwise the server frees the lock later.
	leaveTimeout = time.Second
)

// Lead runs do while this process is the leader for a name, and again each time it becomes the leader, until ctx ends
// (then it returns nil) or do returns before its context ended (then it returns do's error). At most one process of
// those that share the database and schema leads at a time, as far as the database knows: a process that lost its
// connection, or was stopped, notices a little later. So writes of do must be conditional, for example on an expected
// revision, or on a checkpoint that is compared before it is moved. The context of do ends when leadership is lost; do
// must then return soon, and no other do of this process runs before.
//
// On PostgreSQL leadership is an advisory lock of a dedicated connection, so a pooler in transaction mode cannot be
// used. Standbys queue at the server and take over immediately when a leader leaves or dies; after a leader was cut off
// from the network, within leaderSilence (10 s). Lead logs failures of the database and retries while ctx lasts.
//
// A database that is not shared (SQLite) is always led.
func (s *Store) Lead(ctx context.Context, name string, do func(ctx context.Context) error) error {
	return s.engine.lead(ctx, name, do)
}

func (s *sqliteFile) lead(ctx context.Context, name string, do func(ctx context.Context) error) error {
	gauge := s.metrics.leading.WithLabelValues(name)
	gauge.Set(1)
	defer gauge.Set(0)
	if err := do(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// ErrHeld: another process holds the name.
var ErrHeld = errors.New("another process holds the name")

// Hold holds a name for this process until ctx ends (then it returns nil), and calls held each time it acquires the
// name. It returns ErrHeld if another process (on the same database and schema) keeps the name for 15 s, or took it
// after this process lost it, for example because the server restarted. Hold waits while the database is unavailable.
//
// On PostgreSQL the name is an advisory lock of a dedicated connection, as in Lead. On a database that is not shared
// (SQLite) the name is always free.
func (s *Store) Hold(ctx context.Context, name string, held func()) error {
	return s.engine.hold(ctx, name, held)
}

func (s *sqliteFile) hold(ctx context.Context, _ string, held func()) error {
	held()
	<-ctx.Done()
	return nil
}

func (p *postgres) hold(ctx context.Context, name string, held func()) error {
	return p.locked(ctx, "hold "+name, holdWithin, func(ctx context.Context) error {
		held()
		<-ctx.Done()
		return nil
	})
}

// leave closes a connection that holds a lock.
func (p *postgres) leave(ctx context.Context, conn *pgx.Conn) {
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	_ = conn.Close(leave) // the server notices the end in any case
}

// errNotLeading: the lock was not acquired, or was lost.
var errNotLeading = errors.New("leadership was lost")

func (p *postgres) lead(ctx context.Context, name string, do func(ctx context.Context) error) error {
	gauge := p.metrics.leading.WithLabelValues(name)
	gauge.Set(0)
	return p.locked(ctx, "lead "+name, math.MaxInt64, func(ctx context.Context) error {
		gauge.Set(1)
		defer gauge.Set(0)
		p.cfg.Logger.InfoContext(ctx, "leads", slog.String("name", name))
		return do(ctx)
	})
}

// locked runs do under a lock, and again after the lock was lost, as Lead does. It returns ErrHeld if another process
// keeps the lock for longer than within.
func (p *postgres) locked(ctx context.Context, lock string, within time.Duration,
	do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	for {
		led, err := p.lockOnce(ctx, lock, within, do)
		switch {
		case ctx.Err() != nil:
			return nil
		case led && !errors.Is(err, errNotLeading), errors.Is(err, ErrHeld):
			return err
		}
		p.cfg.Logger.WarnContext(ctx, "the lock of a name failed; will retry", slog.String("lock", lock), slog.Bool("led", led),
			slog.Any("error", err))
		if delay.For(ctx, leadPause/2+rand.N(leadPause)) != nil {
			return nil
		}
	}
}

// lockOnce queues for the lock on a new connection and runs do under it. led reports whether do ran; the error is then
// do's own or errNotLeading.
func (p *postgres) lockOnce(ctx context.Context, lock string, within time.Duration,
	do func(ctx context.Context) error) (led bool, err error) {
	conn, err := p.leaderConnection(ctx)
	if err != nil {
		return false, err
	}
	defer p.leave(ctx, conn)
	for began := time.Now(); ; {
		err := p.queue(ctx, conn, lock)
		if err == nil {
			break
		}
		if !errors.Is(err, errStillTaken) {
			return false, err
		}
		if time.Since(began) >= within {
			return false, ErrHeld
		}
	}
	doing, stop := context.WithCancel(ctx)
	defer stop()
	lost := make(chan error, 1)
	go func() {
		lost <- heartbeats(doing, conn)
		stop()
	}()
	err = do(doing)
	own := doing.Err() == nil // do returned by itself
	stop()
	if cause := <-lost; !own {
		return true, fmt.Errorf("%w: %w", errNotLeading, cause)
	}
	return true, err
}

func (p *postgres) leaderConnection(ctx context.Context) (*pgx.Conn, error) {
	config := p.single.Copy()
	maps.Copy(config.RuntimeParams, map[string]string{
		"statement_timeout": milliseconds(standbyWait + heartbeatTimeout), "lock_timeout": milliseconds(standbyWait),
		"idle_session_timeout": milliseconds(leaderSilence),
	})
	return pgx.ConnectConfig(ctx, config)
}

// errStillTaken: another process leads.
var errStillTaken = errors.New("another process leads")

// queue waits for the lock up to the server's limit, and no longer for the server.
func (p *postgres) queue(ctx context.Context, conn *pgx.Conn, name string) error {
	ctx, cancel := context.WithTimeout(ctx, standbyWait+heartbeatTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", p.lockKey(name))
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == codeLockTimeout {
		return errStillTaken
	}
	return Wrap(err, "queue for the lock %q", name)
}

// heartbeats queries the server until ctx ends (it returns ctx.Err()) or the connection is lost (it returns the
// reason). In between it listens, so that it notices the end of the connection immediately.
func heartbeats(ctx context.Context, conn *pgx.Conn) error {
	for {
		listen, cancel := context.WithTimeout(ctx, heartbeatEvery)
		err := conn.PgConn().WaitForNotification(listen) // no notifications are sent
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !pgconn.Timeout(err) {
			return fmt.Errorf("connection is lost: %w", err)
		}
		asked, cancel := context.WithTimeout(ctx, heartbeatTimeout)
		err = conn.Ping(asked)
		cancel()
		if err != nil {
			return fmt.Errorf("heartbeat: %w", err)
		}
	}
}
