package brands

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "brands"
	// tablesVersion is increased when the tables or the bodies change; see version.
	tablesVersion = 3
	// version also changes with the fold of the domain, whose state is stored.
	version = tablesVersion*1000 + brand.FoldVersion

	// MaxPage limits the results of List, Due and Changed.
	MaxPage = 1000
	// maxInvalidated limits the brands that are invalidated one by one after another node folded
	// events; beyond it, as in an import, the whole cache is invalidated.
	maxInvalidated = 10_000
	// maxUnseen is how long answers of a shared database are taken from the cache after the last look
	// at the registry of the read models. A look shows which tables are live, and which folded events
	// this node's own reader of the log has not seen. A node that cannot look reads the row: rows are
	// only read from live tables, so this limits how far the cache lags behind the tables.
	maxUnseen = 10 * time.Second
)

// ErrNotFound: there is no readable brand of that domain or id.
var ErrNotFound = errors.New("brand not found")

// position belongs to the last event that changed the answer, 0 if there was none. readable is 1 if there is something
// to answer: a record, not withdrawn. Otherwise body is empty, name is NULL, and claimed, quality, imported, has_logo
// and due are 0. due is the time of the next scheduled crawl, in seconds since 1970, and 0 if there is none.
const (
	create = `
CREATE TABLE {brands} (
	domain    TEXT   NOT NULL PRIMARY KEY,
	id        TEXT   NOT NULL,
	readable  BIGINT NOT NULL,
	status    TEXT   NOT NULL,
	name      TEXT,
	claimed   BIGINT NOT NULL,
	quality   DOUBLE PRECISION NOT NULL,
	imported  BIGINT NOT NULL,
	has_logo  BIGINT NOT NULL,
	revision  BIGINT NOT NULL,
	position  BIGINT NOT NULL,
	due       BIGINT NOT NULL,
	body      BYTEA  NOT NULL,
	state     BYTEA  NOT NULL
)`
	indexID       = `CREATE INDEX IF NOT EXISTS {brands}_by_id ON {brands} (id)`
	indexPosition = `CREATE INDEX IF NOT EXISTS {brands}_by_position ON {brands} (position)`
	indexDue      = `CREATE INDEX IF NOT EXISTS {brands}_by_due ON {brands} (due, domain)`

	// Queries for one brand exist in two forms, and their first column shows whether the tables are live. On a shared
	// database there is always one row, with the tables' position: see projections.Handle. Without the brand its other
	// columns are null. A database of this process keeps the tables live while they are read, and including the check
	// would double the time there, from 38 to 74 microseconds.
	selectLive = `
SELECT {position}, b.id, b.domain, b.status, b.has_logo, b.revision, b.body
FROM (SELECT 1 AS one) AS always
LEFT JOIN {brands} AS b ON b.domain = $1 AND b.readable = 1`
	selectOwn = `
SELECT 1, id, domain, status, has_logo, revision, body FROM {brands} WHERE domain = $1 AND readable = 1`

	selectDomainLive = `
SELECT {position}, b.domain
FROM (SELECT 1 AS one) AS always
LEFT JOIN {brands} AS b ON b.id = $1 AND b.readable = 1`
	selectDomainOwn = `
SELECT 1, domain FROM {brands} WHERE id = $1 AND readable = 1`
)

// Entry is a brand as the API returns it.
type Entry struct {
	ID      string
	Domain  string
	Status  string // ready, partial or failed
	HasLogo bool   // an answer costs a credit
	// Revision belongs to the last event of the brand stream that the answer includes.
	Revision uint64
	Body     Body

	looks atomic.Pointer[Looks] // parsed from the body on first use
}

// Doc is the part of a brand that a search index stores.
type Doc struct {
	Domain       string
	BrandID      string
	Name         string // empty if unknown
	Claimed      bool
	QualityScore float64
	// Imported reports whether the brand came with a data set, whatever crawls have found since.
	Imported bool
	// Gone reports whether there is nothing to answer (any more): the domain must be removed.
	Gone bool
	// Position belongs to the last event that changed any of these fields.
	Position eventlog.Position
}

// Config of a Model. The zero value is complete.
type Config struct {
	// CacheBytes limits the cached answers. Default: DefaultCacheBytes.
	CacheBytes int64
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Validate reports an error in the configuration.
func (c Config) Validate() error {
	if c.CacheBytes < 0 || c.CacheBytes > maxCacheBytes {
		return fmt.Errorf("cache of brands has %d bytes; it is 0 (default) to %d", c.CacheBytes, int64(maxCacheBytes))
	}
	return nil
}

// Model is the read model. It is safe for concurrent use.
type Model struct {
	projections.Model
	cache   *cache
	shared  bool
	metrics *metrics
	listed  atomic.Pointer[listed]
	// followed is the range of log positions whose events the cache knows.
	followed followed
	now      func() time.Time
	// loaded is called between reading the tables and putting the entry into the cache; nil except in tests.
	loaded func()
}

// New returns the read model; it answers once a Runner has started it.
func New(cfg Config, store *sqlstore.Store) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.CacheBytes = cmp.Or(cfg.CacheBytes, DefaultCacheBytes)
	c, err := newCache(cfg.CacheBytes)
	if err != nil {
		return nil, err
	}
	m := &Model{cache: c, shared: store.Shared(), now: time.Now}
	m.Model = projections.NewModel(Name, store, m.version(version, 1))
	m.listed.Store(newListed())
	if m.metrics, err = newMetrics(cfg.Registerer, c); err != nil {
		return nil, err
	}
	return m, nil
}

// Close ends the cache's goroutines.
func (m *Model) Close() { m.cache.close() }

func (m *Model) version(number, format int) projections.Version {
	return projections.Version{
		Number:  number,
		Format:  format,
		Streams: []string{brand.StreamPrefix},
		Tables: []projections.Table{{
			Name: "brands", Create: create, Indexes: []string{indexID, indexPosition, indexDue},
			Key: []string{"domain"},
		}},
		NewFold: m.newFold,
	}
}

// Forget implements projections.Forgetter: answers of other tables may be rendered differently.
func (m *Model) Forget() {
	m.cache.invalidateAll()
	m.listed.Store(newListed())
}

// Invalidate implements projections.Invalidator: another node folded events. Brands whose events this node has itself
// read from the log have been removed from the cache; for others the rows show what changed. A reader that took an
// older row began before this call, so its ticket is no longer valid (see cache).
func (m *Model) Invalidate(ctx context.Context, q projections.Queryer, t *projections.Tables,
	after, upTo eventlog.Position) error {
	if m.followed.cover(after, upTo) {
		return nil
	}
	m.metrics.changes.Inc()
	domains, err := changedDomains(ctx, q, t, after)
	if err != nil {
		return fmt.Errorf("brands changed after position %d: %w", after, err)
	}
	if len(domains) > maxInvalidated {
		m.cache.invalidateAll()
		return nil
	}
	for _, domain := range domains {
		m.cache.invalidate(domain)
	}
	return nil
}

// changedDomains returns at most maxInvalidated+1 domains whose answer changed after a position.
func changedDomains(ctx context.Context, q projections.Queryer, t *projections.Tables,
	after eventlog.Position) ([]string, error) {
	const statement = `SELECT domain FROM {brands} WHERE position > $1 ORDER BY position LIMIT $2`
	scan := func(domain *string, row projections.Scanner) error { return row.Scan(domain) }
	return sqlstore.AllRows(ctx, q, t.SQL(statement), scan, int64(after), maxInvalidated+1)
}

// Get returns the brand of a registrable domain, from the cache if present. The Entry is shared and must not be
// changed. Errors: ErrNotFound, projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Get(ctx context.Context, domain string) (*Entry, error) {
	if e, ok := m.cache.get(domain); ok && m.current() {
		m.metrics.hits.Inc()
		return e, nil
	}
	m.metrics.misses.Inc()
	return m.load(ctx, domain)
}

// current reports whether the cache is up to date.
func (m *Model) current() bool { return !m.shared || m.now().Sub(m.Handle().Refreshed()) < maxUnseen }

func (m *Model) load(ctx context.Context, domain string) (*Entry, error) {
	begun := m.cache.begin(domain)
	m.metrics.rows.Inc()
	e, at, err := m.one(ctx, domain)
	if err != nil {
		return nil, err
	}
	if m.loaded != nil {
		m.loaded()
	}
	m.cache.put(begun, e, at)
	return e, nil
}

// ByID returns the brand with an id. Errors: as Get.
func (m *Model) ByID(ctx context.Context, id uuid.UUID) (*Entry, error) {
	if domain, ok := m.cache.ids.GetIfPresent(id); ok {
		return m.Get(ctx, domain)
	}
	var domain sql.NullString
	m.metrics.rows.Inc()
	if _, err := m.live(ctx, selectDomainLive, selectDomainOwn, id.String(), &domain); err != nil {
		return nil, err
	}
	if !domain.Valid {
		return nil, fmt.Errorf("%s: %w", id, ErrNotFound)
	}
	m.cache.ids.Set(id, domain.String)
	return m.Get(ctx, domain.String)
}

// one reads a brand, and the position up to which its tables are folded.
func (m *Model) one(ctx context.Context, domain string) (*Entry, eventlog.Position, error) {
	var id, found, status sql.NullString
	var logo sql.NullBool
	var revision sql.NullInt64
	var body []byte
	at, err := m.live(ctx, selectLive, selectOwn, domain, &id, &found, &status, &logo, &revision, &body)
	if err != nil {
		return nil, 0, err
	}
	if !id.Valid {
		return nil, 0, fmt.Errorf("%s: %w", domain, ErrNotFound)
	}
	return &Entry{
		ID: id.String, Domain: found.String, Status: status.String, HasLogo: logo.Bool,
		Revision: uint64(revision.Int64), Body: Body{marked: body},
	}, at, nil
}

// live reads one row from the live tables, leaves it null if there is none, and returns the position of the tables on a
// shared database. There a node may still use tables that are no longer folded, which the query detects.
func (m *Model) live(ctx context.Context, shared, own, arg string, row ...any) (eventlog.Position, error) {
	statement := own
	if m.shared {
		statement = shared
	}
	var at sql.NullInt64
	err := m.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		err := q.QueryRowContext(ctx, t.SQL(statement), arg).Scan(append([]any{&at}, row...)...)
		switch {
		case errors.Is(err, sql.ErrNoRows) && !m.shared:
			return nil
		case err == nil && !at.Valid:
			return projections.ErrRetired
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("get brand %s: %w", arg, err)
	}
	return eventlog.Position(at.Int64), nil
}

// Due is a brand whose record is due for a scheduled crawl.
type Due struct {
	At     time.Time
	Domain string
}

// Due returns at most limit brands (no more than MaxPage) that are due at the given time, longest due
// first, starting after the given one; the zero Due starts at the beginning. Errors: as List.
func (m *Model) Due(ctx context.Context, now time.Time, after Due, limit int) ([]Due, error) {
	var all []Due
	err := m.Handle().Read(func(q projections.Queryer, t *projections.Tables) (err error) {
		since := int64(1) // 0 means never
		if !after.At.IsZero() {
			since = after.At.Unix()
		}
		all, err = sqlstore.AllRows(ctx, q, t.SQL(`
SELECT due, domain FROM {brands}
WHERE due <= $1 AND (due > $2 OR due = $2 AND domain > $3) ORDER BY due, domain LIMIT $4`),
			func(d *Due, row projections.Scanner) error {
				var at int64
				err := row.Scan(&at, &d.Domain)
				d.At = time.Unix(at, 0).UTC()
				return err
			}, now.Unix(), since, after.Domain, min(max(limit, 0), MaxPage))
		return err
	})
	return all, sqlstore.Wrap(err, "list brands that are due")
}

// Changed returns at most limit brands (no more than MaxPage) whose answer changed after a position, in the order of
// their last change. All changes up to upTo are among those returned by this and the previous calls: continue from
// there. When there are no more, upTo is the position of the read model. Errors: as List.
func (m *Model) Changed(ctx context.Context, after eventlog.Position,
	limit int) (docs []Doc, upTo eventlog.Position, err error) {
	limit = min(max(limit, 1), MaxPage)
	err = m.Handle().Snapshot(ctx, func(q projections.Queryer, t *projections.Tables, at eventlog.Position) error {
		upTo = max(at, after)
		docs, err = sqlstore.AllRows(ctx, q, t.SQL(`
SELECT domain, id, coalesce(name, ''), claimed, quality, imported, readable, position FROM {brands}
WHERE position > $1 ORDER BY position LIMIT $2`), func(d *Doc, row projections.Scanner) error {
			var readable bool
			err := row.Scan(&d.Domain, &d.BrandID, &d.Name, &d.Claimed, &d.QualityScore, &d.Imported,
				&readable, &d.Position)
			d.Gone = !readable
			return err
		}, int64(after), limit)
		return err
	})
	if len(docs) == limit {
		upTo = docs[len(docs)-1].Position
	}
	return docs, upTo, sqlstore.Wrap(err, "brands changed after position %d", after)
}

// ErrRestricted: the brand is restricted now, so its older records are not shown.
var ErrRestricted = errors.New("brand is restricted")

// pastPage is the number of events, of at most 64 KiB each, that AsOf reads at a time.
const pastPage = 64

// AsOf returns the brand of a registrable domain after all events that occurred at or before a time. The table has only
// the present, so it folds the brand's stream, which is short. Errors: ErrNotFound if there was no readable brand, or
// if it was withdrawn since; ErrRestricted if there was one and the brand is restricted now; the errors of the log.
func AsOf(ctx context.Context, log eventlog.Log, domain string, at time.Time) (Body, error) {
	now, then := brand.New(domain), brand.New(domain)
	err := eachPast(ctx, log, domain, now, func(ev *eventlog.Recorded, body eventschemas.Event) error {
		if !ev.OccurredAt.After(at) {
			then.Apply(body, ev.Revision, ev.OccurredAt)
		}
		return nil
	})
	switch {
	case err != nil:
		return Body{}, fmt.Errorf("get brand %s as of %s: %w", domain, at.UTC().Format(time.RFC3339), err)
	case now.Withdrawn() || !then.Known():
		return Body{}, fmt.Errorf("%s: %w", domain, ErrNotFound)
	case now.View().Record.Restriction != nil:
		return Body{}, fmt.Errorf("%s: %w", domain, ErrRestricted)
	}
	return Render(then.View()), nil
}

// eachPast calls f for each event of a brand after it has applied the event to now.
func eachPast(
	ctx context.Context, log eventlog.Log, domain string, now *brand.Brand,
	f func(*eventlog.Recorded, eventschemas.Event) error,
) error {
	return eventlog.ReadPages(ctx, log, brand.Stream(domain), pastPage, func(page []eventlog.Recorded) error {
		for i := range page {
			ev := &page[i]
			body, err := eventschemas.Decode(ev.Type, ev.SchemaVersion, ev.Data)
			if err != nil {
				return fmt.Errorf("event at position %d: %w", ev.Position, err)
			}
			now.Apply(body, ev.Revision, ev.OccurredAt)
			if err := f(ev, body); err != nil {
				return err
			}
		}
		return nil
	})
}

// followed is the range of the log whose brand events were reported to the cache. The zero value is empty.
type followed struct {
	mu          sync.Mutex
	after, upTo eventlog.Position
}

// extend adds a range. A range that does not continue the last one replaces it.
func (f *followed) extend(after, upTo eventlog.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if after != f.upTo {
		f.after = after
	}
	f.upTo = upTo
}

// cover reports whether the events after one position, up to and including another, are known.
func (f *followed) cover(after, upTo eventlog.Position) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.after < f.upTo && f.after <= after && upTo <= f.upTo
}

// Event removes the brand of a domain from the cache until the tables include the event at the position. On a shared
// database each node's own reader of the log calls it; in a single process the fold does this.
func (m *Model) Event(domain string, at eventlog.Position) {
	if m.shared {
		m.cache.event(domain, at)
	}
}

// Followed reports that Event was called for all events that change brands after one position, up to and including
// another. Changes that the reader has not seen, because it is behind or disconnected, are read by the Model from the
// database.
func (m *Model) Followed(after, upTo eventlog.Position) {
	if m.shared {
		m.followed.extend(after, upTo)
	}
}

type metrics struct {
	hits, misses  prometheus.Counter
	rows, changes prometheus.Counter // statements for the cache
}

func newMetrics(reg prometheus.Registerer, c *cache) (*metrics, error) {
	lookups := telemetry.Counters("letterhead_brand_cache_lookups_total",
		"Look-ups in the cache of brands, by result.", "result")
	bytes := telemetry.GaugeFunc("letterhead_brand_cache_bytes",
		"Memory that the cached answers take.", func() float64 { return float64(c.bytes()) })
	reads := telemetry.Counters("letterhead_brand_cache_reads_total",
		"Database statements of the cache of brands: for a miss, and for changes that this node has not read from the "+
			"log yet.", "for")
	m := &metrics{
		hits: lookups.WithLabelValues("hit"), misses: lookups.WithLabelValues("miss"),
		rows: reads.WithLabelValues("brand"), changes: reads.WithLabelValues("changes"),
	}
	if err := telemetry.Register(reg, lookups, bytes, reads); err != nil {
		return nil, fmt.Errorf("register metrics of the brands: %w", err)
	}
	return m, nil
}
