package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"letterhead/internal/delay"
)

// Times of leadership on PostgreSQL. What keeps two from leading at once is their order: a leader that
// gets no answer stops after heartbeatEvery + heartbeatTimeout, and only leaderSilence after its last
// heartbeat does the server give the lock to another.
const (
	// heartbeatEvery is how often a leader asks the server whether its connection still lives.
	heartbeatEvery = 2 * time.Second
	// heartbeatTimeout is how long it waits for the answer before it leads no more.
	heartbeatTimeout = 3 * time.Second
	// leaderSilence is when the server ends the connection of a leader that was cut off: its
	// idle_session_timeout. It leaves do some seconds to notice that its context ended.
	leaderSilence = 10 * time.Second
	// standbyWait is how long a standby queues at the server for the lock before it asks again. The server
	// wakes it at once when the lock is free; asking again shows that the server is still there.
	standbyWait = 5 * time.Second
	// leadPause is the mean pause before another attempt after an error.
	leadPause = time.Second
	// holdWithin is how long Hold waits for a name: longer than a process that was cut off keeps it.
	holdWithin = leaderSilence + standbyWait
	// leaveTimeout bounds the goodbye of a leader; without it the lock is free when the server notices.
	leaveTimeout = time.Second
)

// Lead runs do while this process leads what has the name, and again whenever it leads again, until ctx
// ends (nil) or do returns before its context ended (what do returned). At most one process of those that
// share the database (and the schema) leads at a time, as far as the database can tell: a process that lost
// its connection, or was stopped, learns so a little later, so what do writes must be fenced by what it
// writes (an expected revision, a checkpoint compared before it is moved). The context that do gets ends
// when leadership is lost; do must then return soon, and nobody of this process leads before it has.
//
// On PostgreSQL leadership is an advisory lock of a connection of its own, so a pooler between that hands
// out connections by transaction cannot be used. Standbys queue at the server and take over at once when a
// leader leaves or dies; after a leader was cut off from the network, within leaderSilence (10 s). Faults of
// the database are logged and tried again for as long as ctx lasts.
//
// A database of this process alone (SQLite) is always led.
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

// Hold keeps a name for this process until ctx ends (nil), and calls held each time that it has the name. A name
// that another process (on the same database and schema) keeps for 15 s after this one began to wait for it is
// refused: ErrHeld. So is one that was lost, for example by a restart of the server, and that another process took
// meanwhile. While the database is away Hold waits for it.
//
// On PostgreSQL the name is an advisory lock of a connection of its own, as Lead's is. A database of this process
// alone (SQLite) has no other process.
func (s *Store) Hold(ctx context.Context, name string, held func()) error {
	return s.engine.hold(ctx, name, held)
}

func (s *sqliteFile) hold(ctx context.Context, _ string, held func()) error {
	held()
	<-ctx.Done()
	return nil
}

func (p *postgres) hold(ctx context.Context, name string, held func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	for {
		err := p.holdOnce(ctx, name, held)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, ErrHeld) {
			return err
		}
		p.cfg.Logger.WarnContext(ctx, "does not hold its name, and tries again", slog.String("name", name), slog.Any("error", err))
		if delay.For(ctx, leadPause/2+rand.N(leadPause)) != nil {
			return nil
		}
	}
}

func (p *postgres) holdOnce(ctx context.Context, name string, held func()) error {
	conn, err := p.leaderConnection(ctx)
	if err != nil {
		return err
	}
	defer p.leave(ctx, conn)
	for began := time.Now(); ; {
		err := p.queue(ctx, conn, "hold "+name)
		if err == nil {
			break
		}
		if !errors.Is(err, errStillTaken) {
			return err
		}
		if time.Since(began) >= holdWithin {
			return ErrHeld
		}
	}
	held()
	return heartbeats(ctx, conn)
}

// leave closes a connection that holds a lock.
func (p *postgres) leave(ctx context.Context, conn *pgx.Conn) {
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	_ = conn.Close(leave) // the server notices in any case
}

// errNotLeading: the lock was not had, or not any more.
var errNotLeading = errors.New("leadership is lost")

func (p *postgres) lead(ctx context.Context, name string, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	gauge := p.metrics.leading.WithLabelValues(name)
	gauge.Set(0)
	for {
		led, err := p.leadOnce(ctx, name, func(ctx context.Context) error {
			gauge.Set(1)
			defer gauge.Set(0)
			p.cfg.Logger.InfoContext(ctx, "leads", slog.String("name", name))
			return do(ctx)
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case led && !errors.Is(err, errNotLeading):
			return err
		}
		p.cfg.Logger.WarnContext(ctx, "does not lead, and tries again", slog.String("name", name), slog.Bool("led", led), slog.Any("error", err))
		if delay.For(ctx, leadPause/2+rand.N(leadPause)) != nil {
			return nil
		}
	}
}

// leadOnce queues for the lock on a new connection and runs do under it. Led says that do ran; the error is
// then do's own or errNotLeading.
func (p *postgres) leadOnce(ctx context.Context, name string, do func(ctx context.Context) error) (led bool, err error) {
	conn, err := p.leaderConnection(ctx)
	if err != nil {
		return false, err
	}
	defer p.leave(ctx, conn)
	for {
		err := p.queue(ctx, conn, "lead "+name)
		if err == nil {
			break
		}
		if !errors.Is(err, errStillTaken) {
			return false, err
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
	own := doing.Err() == nil // do came to its end by itself
	stop()
	if cause := <-lost; !own {
		return true, fmt.Errorf("%w: %w", errNotLeading, cause)
	}
	return true, err
}

func (p *postgres) leaderConnection(ctx context.Context) (*pgx.Conn, error) {
	config := p.single.Copy()
	for name, value := range map[string]string{
		"statement_timeout": milliseconds(standbyWait + heartbeatTimeout), "lock_timeout": milliseconds(standbyWait),
		"idle_session_timeout": milliseconds(leaderSilence),
	} {
		config.RuntimeParams[name] = value
	}
	return pgx.ConnectConfig(ctx, config)
}

// errStillTaken: another leads.
var errStillTaken = errors.New("another leads")

// queue waits for the lock for as long as the server lets it, and no longer than that for the server.
func (p *postgres) queue(ctx context.Context, conn *pgx.Conn, name string) error {
	ctx, cancel := context.WithTimeout(ctx, standbyWait+heartbeatTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", p.lockKey(name))
	var e *pgconn.PgError
	if errors.As(err, &e) && e.Code == codeLockTimeout {
		return errStillTaken
	}
	if err != nil {
		return fmt.Errorf("queue for the lock %q: %w", name, err)
	}
	return nil
}

// heartbeats asks the server until ctx ends (its error) or the connection is lost (why). Between two
// questions it listens, so that the end of the connection is noticed when it comes.
func heartbeats(ctx context.Context, conn *pgx.Conn) error {
	for {
		listen, cancel := context.WithTimeout(ctx, heartbeatEvery)
		err := conn.PgConn().WaitForNotification(listen) // nobody notifies
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
