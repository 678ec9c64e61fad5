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

	"letterhead/internal/delay"
)

// Limits of connections to PostgreSQL.
const (
	// connectTimeout limits one attempt to reach one host, if the URL has no connect_timeout.
	connectTimeout = 5 * time.Second
	// pingTimeout limits the check whether an idle pooled connection is alive.
	pingTimeout = 3 * time.Second
	// answerGrace is how long after the server's own statement_timeout its silence means that it hangs.
	answerGrace = 10 * time.Second
	// idleInTransaction is when the server ends an idle read-only transaction.
	idleInTransaction = time.Minute
	// idleInWrite is the same for a transaction that writes. A leader that froze in one must not lock rows for longer
	// than it leads. The functions of Write do no slow work between statements.
	idleInWrite = leaderSilence
	// connLifetime lets connections move to another server behind the same name, and frees caches of the server's
	// process.
	connLifetime = time.Hour
	connJitter   = 10 * time.Minute
	// closeTimeout limits how long Close waits for connections in use.
	closeTimeout = 15 * time.Second
	// applicationName appears in pg_stat_activity.
	applicationName = "letterhead"
	// minServerVersion is PostgreSQL 14, which has the idle_session_timeout that leadership needs.
	minServerVersion = 140000
	// setupLock names the advisory lock of schema changes.
	setupLock = "schema"
)

// postgres is the engine of a server: a read-only pool and one that writes, so that readers and writers never wait for
// each other's connections.
type postgres struct {
	store       *Store
	cfg         Config
	metrics     *metrics
	single      *pgx.ConnConfig // for connections outside the pools
	where       string          // hosts and database, for messages
	readPool    *pgxpool.Pool
	writePool   *pgxpool.Pool
	read, write *sql.DB
	schema      string // in which unqualified names are created
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
	writers, readers := p.cfg.Writers, readers()
	if parameter(p.cfg.URL, "pool_max_conns") != "" { // limits the sum of both pools
		writers = min(writers, max(int(base.MaxConns)/2, 1))
		readers = min(readers, max(int(base.MaxConns)-writers, 1))
	}
	writes := p.configure(base.Copy(), writers, p.cfg.WriteTimeout, idleInWrite)
	reads := p.configure(base.Copy(), readers, p.cfg.ReadTimeout, idleInTransaction)
	reads.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	p.single = writes.ConnConfig.Copy()
	asked := parameter(p.cfg.URL, "target_session_attrs")
	if asked == "" { // a standby must not be used
		writes.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		p.single.ValidateConnect = writes.ConnConfig.ValidateConnect
	}
	if asked == "" || asked == "read-write" { // the driver would take our read-only setting for a standby
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

// configure sets what the URL does not set.
func (p *postgres) configure(c *pgxpool.Config, size int, statement, idle time.Duration) *pgxpool.Config {
	c.MaxConns = int32(size)
	c.MaxConnLifetime, c.MaxConnLifetimeJitter = connLifetime, connJitter
	c.PingTimeout = pingTimeout
	c.ConnConfig.ConnectTimeout = cmp.Or(c.ConnConfig.ConnectTimeout, connectTimeout)
	c.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) { return alive(conn.PgConn().Conn()), nil }
	params := c.ConnConfig.RuntimeParams
	for name, value := range map[string]string{
		"application_name": sessionName(p.cfg.Format,
			cmp.Or(params["search_path"], "public"), p.cfg.Node),
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

// inspect checks the properties of the server that this package depends on.
func (p *postgres) inspect(ctx context.Context) error {
	var version int
	var encoding string
	var schema sql.NullString
	err := p.writePool.QueryRow(ctx, `
SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), current_schema()::text`).Scan(
		&version, &encoding, &schema)
	switch {
	case err != nil:
		return err
	case version < minServerVersion:
		return fmt.Errorf("the server is PostgreSQL %d; it must be %d or newer", version/10000, minServerVersion/10000)
	case encoding != "UTF8":
		return fmt.Errorf("the database is encoded in %s; it must be UTF8", encoding)
	case !schema.Valid:
		return errors.New("no schema of the search_path exists; create it first (CREATE SCHEMA)")
	}
	p.schema = schema.String
	return p.inspectTimeline(ctx)
}

// Expressions for a server's timeline, as text: numbers of transactions are meaningful only on their own timeline, and
// a standby that takes over begins a new one. pg_control_checkpoint returns the old one until the first checkpoint; the
// name of the current WAL file begins with the current one.
const (
	knownTimeline = "CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END"
	noTimeline    = "'unknown'"
)

// inspectTimeline checks whether the server reports its timeline. It does not if its administrator revoked the right,
// or if it has no WAL of its own.
func (p *postgres) inspectTimeline(ctx context.Context) error {
	var timeline string
	err := p.writePool.QueryRow(ctx, "SELECT "+knownTimeline).Scan(&timeline)
	var serverErr *pgconn.PgError
	switch {
	case err == nil:
		p.timeline = knownTimeline
	case errors.As(err, &serverErr) && !lostConnection(err):
		p.timeline = noTimeline
		p.cfg.Logger.WarnContext(ctx, "the server does not report its timeline; the outcome of a COMMIT whose response is lost in a fail-over may be misjudged",
			slog.Any("error", err))
	default:
		return err
	}
	return nil
}

// parseURL parses the URL. Its error never contains the URL, which may contain a password.
func parseURL(text string) (*pgxpool.Config, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New(
			"the URL of the database is malformed (write @, : and / in the password as %40, %3A, %2F)")
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("the URL of the database must begin with postgres://")
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, errors.New("the URL of the database cannot be used: " + withoutSecrets(err, text, u))
	}
	return config, nil
}

// withoutSecrets returns the reason of an error without the URL and its secrets.
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

// describe returns the hosts and the database.
func describe(c *pgx.ConnConfig) string {
	hosts := []string{fmt.Sprintf("%s:%d", c.Host, c.Port)}
	for _, f := range c.Fallbacks {
		if host := fmt.Sprintf("%s:%d", f.Host, f.Port); !slices.Contains(hosts, host) { // with and without TLS
			hosts = append(hosts, host)
		}
	}
	return strings.Join(hosts, ",") + "/" + c.Database
}

// lockKey returns the number of an advisory lock: the server separates the locks of its databases, but not of its
// schemas.
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

// textColumn matches the type TEXT of a column, not of a CAST.
var textColumn = regexp.MustCompile(`(?i)(\bAS\s+)?\bTEXT\b`)

// ddl makes text compare bytes, as in SQLite and in Go; the server's own collations depend on languages, and change
// with its operating system.
func (p *postgres) ddl(text string) string {
	text = strings.NewReplacer(bigKeyMark, "BIGINT", ByKey, "").Replace(text)
	return textColumn.ReplaceAllStringFunc(text, func(found string) string {
		if !strings.EqualFold(found, "TEXT") || found != strings.ToUpper(found) {
			return found
		}
		return found + ` COLLATE "C"`
	})
}

func (p *postgres) tables(ctx context.Context, tx *Tx, prefix string) ([]string, error) {
	return names(ctx, tx, `
SELECT tablename::text FROM pg_catalog.pg_tables
WHERE schemaname = current_schema() AND starts_with(tablename::text, $1)
ORDER BY tablename::text COLLATE "C"`, prefix)
}

// truncate implements Store.Truncate, which does nothing here.
func (p *postgres) truncate(context.Context) error { return nil }

func (p *postgres) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	defer p.end() // ends pending writes
	if delay.Await(ctx, func() error {
		_ = p.read.Close() // has no connections of its own
		_ = p.write.Close()
		p.writePool.Close()
		p.readPool.Close()
		return nil
	}) != nil {
		return fmt.Errorf("close database %s: connections are still in use after %s", p.where, closeTimeout)
	}
	return nil
}
