package sqlstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Limits of connections to PostgreSQL.
const (
	// connectTimeout bounds one attempt to reach one host, when the URL has no connect_timeout.
	connectTimeout = 5 * time.Second
	// pingTimeout bounds the question whether a pooled connection that rested still lives.
	pingTimeout = 3 * time.Second
	// answerGrace is how long after the server's own statement_timeout its silence means that it hangs.
	answerGrace = 10 * time.Second
	// idleInTransaction is when the server ends a transaction that only reads and whose owner went silent.
	idleInTransaction = time.Minute
	// idleInWrite is the same for one that writes. A leader that froze in the middle of it must not keep its
	// rows locked for longer than it keeps the lead. Nobody computes between the statements of a Write.
	idleInWrite = leaderSilence
	// connLifetime lets connections move to another server behind one name, and frees the caches of the
	// server's process.
	connLifetime = time.Hour
	connJitter   = 10 * time.Minute
	// closeTimeout bounds how long Close waits for connections in use.
	closeTimeout = 15 * time.Second
	// applicationName is what pg_stat_activity shows.
	applicationName = "letterhead"
	// minServerVersion is PostgreSQL 14: idle_session_timeout, which leadership relies on.
	minServerVersion = 140000
	// setupLock names the advisory lock of schema changes.
	setupLock = "schema"
)

// postgres is the engine of a server: one pool that may only read and one that writes, so that readers
// never wait for the connections of writers, nor the other way round.
type postgres struct {
	store       *Store
	cfg         Config
	metrics     *metrics
	single      *pgx.ConnConfig // for connections outside the pools
	where       string          // hosts and database, for messages
	readPool    *pgxpool.Pool
	writePool   *pgxpool.Pool
	read, write *sql.DB
	schema      string // the one that unqualified names are made in
	timeline    string // expression: knownTimeline or noTimeline
	life        context.Context
	end         context.CancelFunc
}

func openPostgres(ctx context.Context, store *Store) (*postgres, error) {
	p := &postgres{store: store, cfg: store.cfg, metrics: store.metrics}
	p.life, p.end = context.WithCancel(context.Background()) // ended by close
	if err := p.connect(ctx); err != nil {
		p.end()
		return nil, fmt.Errorf("open database %s: %w", p.where, Classify(err))
	}
	return p, nil
}

func (p *postgres) connect(ctx context.Context) error {
	base, err := parseURL(p.cfg.URL)
	if err != nil {
		return err
	}
	p.where = describe(base.ConnConfig)
	writes := p.configure(base.Copy(), p.cfg.Writers, p.cfg.WriteTimeout, idleInWrite)
	reads := p.configure(base.Copy(), p.cfg.Readers, p.cfg.ReadTimeout, idleInTransaction)
	reads.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	p.single = writes.ConnConfig.Copy()
	asked := parameter(p.cfg.URL, "target_session_attrs")
	if asked == "" { // a standby must never be taken for the database
		writes.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		p.single.ValidateConnect = writes.ConnConfig.ValidateConnect
	}
	if asked == "" || asked == "read-write" { // which our own read-only setting would look like
		reads.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	}
	if p.writePool, err = pgxpool.NewWithConfig(ctx, writes); err != nil {
		return err
	}
	if p.readPool, err = pgxpool.NewWithConfig(ctx, reads); err != nil {
		p.writePool.Close()
		return err
	}
	if err := p.inspect(ctx); err != nil {
		p.writePool.Close()
		p.readPool.Close()
		return err
	}
	p.write = openPool(p.writePool, p.timeline)
	p.read = openPool(p.readPool, "")
	return nil
}

// configure sets what the URL leaves open.
func (p *postgres) configure(c *pgxpool.Config, size int, statement, idle time.Duration) *pgxpool.Config {
	c.MaxConns = int32(size) // at most maxConnections
	c.MaxConnLifetime, c.MaxConnLifetimeJitter = connLifetime, connJitter
	c.PingTimeout = pingTimeout
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = connectTimeout
	}
	c.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) { return alive(conn.PgConn().Conn()), nil }
	params := c.ConnConfig.RuntimeParams
	for name, value := range map[string]string{
		"application_name":                    sessionName(p.cfg.Format, cmp.Or(params["search_path"], "public"), p.cfg.Node),
		"statement_timeout":                   milliseconds(statement),
		"lock_timeout":                        milliseconds(min(p.cfg.BusyTimeout, statement)),
		"idle_in_transaction_session_timeout": milliseconds(idle),
	} {
		if _, set := params[name]; !set {
			params[name] = value
		}
	}
	params["timezone"] = "UTC"
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = patientDial(dial, statement+answerGrace)
	return c
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// inspect asks the server what would otherwise surprise later.
func (p *postgres) inspect(ctx context.Context) error {
	var version int
	var encoding string
	var schema sql.NullString
	err := p.writePool.QueryRow(ctx, `
SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), current_schema()::text`).Scan(&version, &encoding, &schema)
	switch {
	case err != nil:
		return err
	case version < minServerVersion:
		return fmt.Errorf("the server is PostgreSQL %d; it must be %d or newer", version/10000, minServerVersion/10000)
	case encoding != "UTF8":
		return fmt.Errorf("the database is encoded in %s; it must be UTF8", encoding)
	case !schema.Valid:
		return errors.New("no schema of the search_path is there; make it first (CREATE SCHEMA)")
	}
	p.schema = schema.String
	return p.inspectTimeline(ctx)
}

// Expressions for a server's timeline, a text: numbers of transactions mean something on their own timeline
// only, and a standby that takes over begins a new one. pg_control_checkpoint tells the old one until the
// first checkpoint; the name of the current WAL file begins with the one in force.
const (
	knownTimeline = "CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END"
	noTimeline    = "'unknown'"
)

// inspectTimeline finds out whether the server tells its timeline: one whose administrator took the right
// away, or that keeps no WAL of its own, does not.
func (p *postgres) inspectTimeline(ctx context.Context) error {
	var timeline string
	err := p.writePool.QueryRow(ctx, "SELECT "+knownTimeline).Scan(&timeline)
	var refused *pgconn.PgError
	switch {
	case err == nil:
		p.timeline = knownTimeline
	case errors.As(err, &refused) && !lostConnection(err):
		p.timeline = noTimeline
		p.cfg.Logger.WarnContext(ctx, "the server does not tell its timeline, so a COMMIT whose answer is lost in a fail-over may be misjudged", slog.Any("error", err))
	default:
		return err
	}
	return nil
}

// parseURL reads the URL. Its error never repeats the URL, which may hold a password.
func parseURL(text string) (*pgxpool.Config, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL of the database is not well formed (an @, : or / in the password is written %40, %3A, %2F)")
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("the URL of the database does not begin with postgres://")
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, errors.New("the URL of the database cannot be used: " + withoutSecrets(err, text, u))
	}
	return config, nil
}

// withoutSecrets returns the reason of an error without the URL and what it may hide.
func withoutSecrets(err error, text string, u *url.URL) string {
	for {
		cause := errors.Unwrap(err)
		if cause == nil {
			break
		}
		err = cause
	}
	reason := strings.ReplaceAll(err.Error(), text, "(the URL)")
	secrets := []string{u.Query().Get("password"), u.Query().Get("sslpassword")}
	if password, ok := u.User.Password(); ok {
		secrets = append(secrets, password, url.QueryEscape(password), url.PathEscape(password))
	}
	for _, secret := range secrets {
		if secret != "" {
			reason = strings.ReplaceAll(reason, secret, "xxxxx")
		}
	}
	return reason
}

func parameter(text, name string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Query().Get(name)
}

// describe names the hosts and the database.
func describe(c *pgx.ConnConfig) string {
	hosts := []string{fmt.Sprintf("%s:%d", c.Host, c.Port)}
	for _, f := range c.Fallbacks {
		if host := fmt.Sprintf("%s:%d", f.Host, f.Port); !slices.Contains(hosts, host) { // with and without TLS
			hosts = append(hosts, host)
		}
	}
	return strings.Join(hosts, ",") + "/" + c.Database
}

// lockKey is the number of an advisory lock: the server keeps those of each database apart, but not those of
// its schemas.
func (p *postgres) lockKey(name string) int64 {
	sum := sha256.Sum256([]byte("letterhead\x00" + p.schema + "\x00" + name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

func (p *postgres) reader() *sql.DB { return p.read }

func (p *postgres) snapshot(ctx context.Context) (*sql.Tx, error) {
	return p.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
}

func (p *postgres) one(ctx context.Context, query string, args, dest []any) error {
	if p.life.Err() != nil {
		return ErrClosed
	}
	return p.write.QueryRowContext(ctx, query, args...).Scan(dest...)
}

// textColumn is the type TEXT of a column, not of a CAST.
var textColumn = regexp.MustCompile(`(?i)(\bAS\s+)?\bTEXT\b`)

// ddl: text compares byte by byte, as in SQLite and in Go; the server's own collations follow languages,
// and change with its operating system.
func (p *postgres) ddl(text string) string {
	text = strings.ReplaceAll(text, bigKeyMark, "BIGINT")
	return textColumn.ReplaceAllStringFunc(text, func(found string) string {
		if !strings.EqualFold(found, "TEXT") || found != strings.ToUpper(found) {
			return found
		}
		return found + ` COLLATE "C"`
	})
}

func (p *postgres) tables(ctx context.Context, tx *Tx, prefix string) ([]string, error) {
	return names(tx.QueryContext(ctx, `
SELECT tablename::text FROM pg_catalog.pg_tables
WHERE schemaname = current_schema() AND starts_with(tablename::text, $1)
ORDER BY tablename::text COLLATE "C"`, prefix))
}

// truncate: see Store.Truncate.
func (p *postgres) truncate(context.Context) error { return nil }

func (p *postgres) close() error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = p.read.Close() // has no connections of its own
		_ = p.write.Close()
		p.writePool.Close()
		p.readPool.Close()
	}()
	patience := time.NewTimer(closeTimeout)
	defer patience.Stop()
	select {
	case <-closed:
		p.end()
		return nil
	case <-patience.C:
		p.end() // ends the writes that are still under way
		return fmt.Errorf("close database %s: connections are still in use after %s", p.where, closeTimeout)
	}
}
