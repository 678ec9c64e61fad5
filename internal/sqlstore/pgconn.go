package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// openPool opens database/sql on a pool. With an expression for the timeline, transactions know their number and
// timeline, with which the outcome of a COMMIT can be queried if its response was lost.
func openPool(pool *pgxpool.Pool, timeline string) *sql.DB {
	db := sql.OpenDB(pgConnector{Connector: stdlib.GetPoolConnector(pool), timeline: timeline})
	db.SetMaxIdleConns(0) // the pool keeps idle connections, and knows which are alive
	return db
}

type pgConnector struct {
	driver.Connector
	timeline string
}

func (c pgConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := conn.(*stdlib.Conn)
	if !ok {
		return nil, fmt.Errorf("the driver of PostgreSQL returned a %T", conn)
	}
	return &pgConn{Conn: inner, timeline: c.timeline}, nil
}

// pgConn is a connection of the driver whose transactions know their number and whose texts PostgreSQL can store. It
// has one user at a time.
type pgConn struct {
	*stdlib.Conn
	timeline string      // expression; "" if transactions are not tracked
	last     transaction // the current one, or the last one
}

// transaction identifies a transaction for a query of its outcome.
type transaction struct {
	number   string // pg_current_xact_id, empty for one that only reads
	timeline string // of the server that gave the number; see knownTimeline
	sent     bool   // COMMIT may have reached the server
}

// CheckNamedValue is called for every parameter of every statement.
func (c *pgConn) CheckNamedValue(v *driver.NamedValue) error {
	if text, ok := v.Value.(string); ok {
		v.Value = Storable(text)
	}
	return nil
}

var isolations = map[sql.IsolationLevel]string{
	sql.LevelDefault: "", sql.LevelReadCommitted: " isolation level read committed",
	sql.LevelRepeatableRead: " isolation level repeatable read", sql.LevelSnapshot: " isolation level repeatable read",
	sql.LevelSerializable: " isolation level serializable",
}

// BeginTx begins a transaction and reads its number and timeline in one round trip.
func (c *pgConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	isolation, ok := isolations[sql.IsolationLevel(opts.Isolation)]
	if !ok {
		return nil, fmt.Errorf("isolation level %s is not supported", sql.IsolationLevel(opts.Isolation))
	}
	text := "begin" + isolation
	if opts.ReadOnly {
		text += " read only"
	}
	numbered := c.timeline != "" && !opts.ReadOnly
	if numbered {
		text += "; select pg_current_xact_id()::text, " + c.timeline
	}
	c.last = transaction{}
	raw := c.Conn.Conn().PgConn()
	results, err := raw.Exec(ctx, text).ReadAll()
	if err != nil {
		if pgconn.SafeToRetry(err) {
			return nil, driver.ErrBadConn // database/sql uses another connection
		}
		return nil, err
	}
	if numbered {
		if len(results) != 2 || len(results[1].Rows) != 1 {
			return nil, errors.New("the server did not return the number of the transaction")
		}
		row := results[1].Rows[0]
		c.last = transaction{number: string(row[0]), timeline: string(row[1])}
	}
	return &pgTx{ctx: ctx, conn: c}, nil
}

type pgTx struct {
	ctx  context.Context // of BeginTx: Commit has none
	conn *pgConn
}

// errUndone: the server answered COMMIT with ROLLBACK, because a statement had failed before.
var errUndone = errors.New("the transaction was rolled back because a statement had failed")

func (t *pgTx) Commit() error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	raw := t.conn.Conn.Conn().PgConn()
	if raw.IsClosed() {
		return pgconn.ErrConnClosed
	}
	// From here on no error proves that nothing was sent: the driver reports a connection that broke after COMMIT as
	// one that was closed before.
	t.conn.last.sent = true
	results, err := raw.Exec(t.ctx, "commit").ReadAll()
	if err != nil {
		return err
	}
	if len(results) > 0 && results[0].CommandTag.String() == "ROLLBACK" {
		t.conn.last.sent = false
		return errUndone
	}
	return nil
}

// Rollback does not contact the server after the deadline: the pool discards a connection that is still in a
// transaction, and the server then rolls back.
func (t *pgTx) Rollback() error {
	if t.ctx.Err() != nil {
		return nil
	}
	_, err := t.conn.Conn.Conn().PgConn().Exec(t.ctx, "rollback").ReadAll()
	return err
}

// patientDial limits how long a read waits for a connection that is silent. Every statement ends with the server's
// statement_timeout; a server that is silent longer hangs, or the network lost the connection, and a caller without a
// deadline would wait without end.
func patientDial(dial pgconn.DialFunc, silence time.Duration) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &patientConn{Conn: conn, silence: silence}, nil
	}
}

// patientConn sets a deadline for each Read, unless the driver set an earlier one.
type patientConn struct {
	net.Conn
	silence time.Duration
	mu      sync.Mutex
	set     time.Time // by the driver; zero if none
}

func (c *patientConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	until := time.Now().Add(c.silence)
	if !c.set.IsZero() && c.set.Before(until) {
		until = c.set
	}
	err := c.Conn.SetReadDeadline(until)
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *patientConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set = t
	return c.Conn.SetDeadline(t)
}

func (c *patientConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set = t
	return c.Conn.SetReadDeadline(t)
}
