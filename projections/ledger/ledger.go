// Package ledger is the read model of money: one row for each event of each account stream, with the
// balance that it left. It is what people look at, export and audit; what a request may spend, only the
// stream decides.
package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "ledger"
	// Versions of the tables: since requests are found by a hash, and since charges name the API key.
	withoutKeys, withKeys = 2, 3
	// pageRows is how many rows an iteration holds in memory.
	pageRows = 1000
)

// ErrNotFound: the account has no entries up to that time.
var ErrNotFound = errors.New("no ledger entries")

// The table is made for the replay, which writes one row for nearly every event:
//   - rows are appended in the order of the log; by account, a bulk load would cost four times as much;
//   - a row names its account by the position of the account's first event, not by its id, and a request is
//     found by a hash of its id: integers in both indexes save a fourth of a row's cost;
//   - actor is NULL for the account itself, the actor of nearly every event.
//
// At is microseconds since 1970. {key_column} is a column of newer tables; see column.
const (
	createEntries = `
CREATE TABLE {entries} (
	position     {bigkey} PRIMARY KEY,
	account_no   BIGINT NOT NULL,
	revision     BIGINT NOT NULL,
	type         TEXT   NOT NULL,
	at           BIGINT NOT NULL,
	amount       BIGINT NOT NULL,
	held         BIGINT NOT NULL,
	balance      BIGINT NOT NULL,
	request_hash BIGINT NOT NULL,
	request_id   TEXT   NOT NULL,
	actor        TEXT,
	domain       TEXT   NOT NULL,
	event_id     BYTEA  NOT NULL,
	charge_id    TEXT,
	hold_id      TEXT,
	payment_id   TEXT{key_column}
)`
	indexAccount = `CREATE UNIQUE INDEX IF NOT EXISTS {entries}_by_account ON {entries} (account_no, revision)`
	indexRequest = `CREATE INDEX IF NOT EXISTS {entries}_by_request ON {entries} (request_hash)`

	// Where each account stands: a fold finds the running balance here, without an index on the entries.
	createAccounts = `
CREATE TABLE {accounts} (
	no       {bigkey} PRIMARY KEY,
	account  TEXT   NOT NULL UNIQUE,
	balance  BIGINT NOT NULL,
	revision BIGINT NOT NULL
)`

	selectEntries = `
SELECT e.position, a.account, e.revision, e.type, e.at, e.amount, e.held, e.balance, e.request_id, e.actor,
	e.domain, e.event_id, e.charge_id, e.hold_id, e.payment_id{key_column}
FROM {entries} e JOIN {accounts} a ON a.no = e.account_no `
	// ofAccount comes before further conditions; its parameter is $1.
	ofAccount = `WHERE e.account_no = (SELECT no FROM {accounts} WHERE account = $1) `
	// ofRequest comes before further conditions; its parameters are $1, the hash, and $2.
	ofRequest = `WHERE e.request_hash = $1 AND e.request_id = $2 `
)

// column puts a column in the place of {key_column}; nothing in tables that do not have it.
func column(version int, text, column string) string {
	if version < withKeys {
		column = ""
	}
	return strings.Replace(text, "{key_column}", column, 1)
}

// actorPrefix comes before an account's id in the actor of what the account itself asked for.
const actorPrefix = "account:"

// hash is the 64-bit FNV-1a of a request's id, https://datatracker.ietf.org/doc/html/draft-eastlake-fnv, as
// the signed integer that databases have.
func hash(requestID string) int64 {
	const offset, prime = 0xcbf29ce484222325, 0x100000001b3
	h := uint64(offset)
	for i := range len(requestID) {
		h = (h ^ uint64(requestID[i])) * prime
	}
	return int64(h)
}

// Entry is one event of an account stream.
type Entry struct {
	Position  eventlog.Position `json:"position"`
	AccountID string            `json:"account_id"`
	Revision  uint64            `json:"revision"`
	Type      string            `json:"type"`
	At        time.Time         `json:"at"`
	// Amount is what the event adds to the balance: grants and reversals above zero, charges and refunds
	// below, 0 for all others.
	Amount int64 `json:"amount"`
	// Held is what the event sets aside (above zero), or takes out of a hold (below): a release, or a charge that
	// captures. All of an account add up to its open holds. Of charges, only Entries knows it; elsewhere it is 0.
	Held int64 `json:"held"`
	// Balance is the sum of the amounts up to this one.
	Balance   int64     `json:"balance"`
	RequestID string    `json:"request_id"` // of a reversal: the request whose charge is handed back
	Actor     string    `json:"actor"`
	Domain    string    `json:"domain,omitempty"`
	EventID   uuid.UUID `json:"event_id"`
	ChargeID  string    `json:"charge_id,omitempty"`
	HoldID    string    `json:"hold_id,omitempty"`
	PaymentID string    `json:"payment_id,omitempty"`
	// KeyID is the API key that a charge was made with; none for charges before there was a place for it, and while
	// the upgrade to the release that brought it is not finished.
	KeyID string `json:"key_id,omitempty"`
}

// Filter chooses entries of an account.
type Filter struct {
	// RequestID, when not empty, leaves only what belongs to that request.
	RequestID string
	// FromRevision is the first revision that is wanted.
	FromRevision uint64
	// Limit is the most entries returned; 0 means all.
	Limit int
}

// Model is the read model.
type Model struct {
	handle *projections.Handle
	moved  int // as the constant, unless a test sets it
}

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{handle: projections.NewHandle(Name, store), moved: moved}
}

// Name implements projections.Projection.
func (m *Model) Name() string { return Name }

// Handle implements projections.Projection.
func (m *Model) Handle() *projections.Handle { return m.handle }

// Versions implements projections.Projection.
func (m *Model) Versions() []projections.Version {
	return []projections.Version{versionOf(withKeys, 2), versionOf(withoutKeys, 1)}
}

// versionOf is a version that readers get from a data format on.
func versionOf(number, format int) projections.Version {
	return projections.Version{
		Number: number, Format: format,
		Families: projections.Accounts,
		Tables: []projections.Table{
			{Name: "entries", Create: column(number, createEntries, ",\n\tkey_id       TEXT"), Indexes: []string{indexAccount, indexRequest}, Key: []string{"position"}},
			{Name: "accounts", Create: createAccounts, Key: []string{"no"}},
		},
		NewFold: newFold,
	}
}

// Entries returns the chosen entries of an account in the order of its stream, read a bounded number at a
// time: neither memory nor a transaction grows with them. After an error there are no more. Errors:
// projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Entries(ctx context.Context, accountID string, f Filter) iter.Seq2[Entry, error] {
	read := func(after *Entry, limit int) ([]Entry, error) {
		from := f.FromRevision
		if after != nil {
			from = after.Revision + 1
		}
		where, args := page(accountID, f, from, limit)
		return m.read(ctx, where, args...)
	}
	return m.captured(ctx, pages(f.Limit, fmt.Sprintf("ledger of account %s", accountID), read))
}

// page is the condition of one page of Entries.
func page(accountID string, f Filter, from uint64, limit int) (where string, args []any) {
	if f.RequestID != "" {
		// The + keeps the planner from the account's index: a request has a few entries, an account a million.
		return ofRequest + `AND +e.account_no = (SELECT no FROM {accounts} WHERE account = $3) AND e.revision >= $4
			ORDER BY e.revision LIMIT $5`, []any{hash(f.RequestID), f.RequestID, accountID, int64(from), limit}
	}
	return ofAccount + `AND e.revision >= $2 ORDER BY e.revision LIMIT $3`, []any{accountID, int64(from), limit}
}

// ByRequest returns the entries of a request, whose account need not be known, in the order of the log.
// Errors: as Entries.
func (m *Model) ByRequest(ctx context.Context, requestID string) iter.Seq2[Entry, error] {
	read := func(after *Entry, limit int) ([]Entry, error) {
		return m.read(ctx, ofRequest+`AND e.position > $3 ORDER BY e.position LIMIT $4`,
			hash(requestID), requestID, int64(positionOf(after)), limit)
	}
	return pages(0, fmt.Sprintf("ledger of request %s", requestID), read)
}

// All returns the entries of all accounts after a position, in the order of the log. Errors: as Entries.
func (m *Model) All(ctx context.Context, after eventlog.Position) iter.Seq2[Entry, error] {
	read := func(last *Entry, limit int) ([]Entry, error) {
		return m.read(ctx, `WHERE e.position > $1 ORDER BY e.position LIMIT $2`, int64(max(after, positionOf(last))), limit)
	}
	return pages(0, "ledger", read)
}

func positionOf(e *Entry) eventlog.Position {
	if e == nil {
		return 0
	}
	return e.Position
}

// pages goes through what read returns after the last entry, until there is no more.
func pages(limit int, what string, read func(after *Entry, limit int) ([]Entry, error)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var last *Entry
		for left := limit; limit <= 0 || left > 0; {
			size := pageRows
			if limit > 0 {
				size = min(size, left)
			}
			page, err := read(last, size)
			if err != nil {
				yield(Entry{}, fmt.Errorf("%s: %w", what, err))
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
			left -= len(page)
			last = &page[len(page)-1]
		}
	}
}

func (m *Model) read(ctx context.Context, where string, args ...any) ([]Entry, error) {
	var page []Entry
	err := m.handle.Read(func(q projections.Queryer, t *projections.Tables) error {
		rows, err := q.QueryContext(ctx, t.SQL(column(t.Version, selectEntries, ", e.key_id")+where), args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		page = nil // of a run before this one
		for rows.Next() {
			var e Entry
			if err := scan(rows, t.Version, &e); err != nil {
				return err
			}
			page = append(page, e)
		}
		return rows.Err()
	})
	return page, err
}

func scan(row *sql.Rows, version int, e *Entry) error {
	var at int64
	var id []byte
	var actor, charge, hold, payment, key sql.NullString
	into := []any{&e.Position, &e.AccountID, &e.Revision, &e.Type, &at, &e.Amount, &e.Held, &e.Balance,
		&e.RequestID, &actor, &e.Domain, &id, &charge, &hold, &payment}
	if version >= withKeys {
		into = append(into, &key)
	}
	err := row.Scan(into...)
	if err != nil {
		return err
	}
	if e.EventID, err = uuid.FromBytes(id); err != nil {
		return fmt.Errorf("event id at position %d: %w", e.Position, err)
	}
	e.At = time.UnixMicro(at).UTC()
	if e.Actor = actor.String; !actor.Valid {
		e.Actor = actorPrefix + e.AccountID
	}
	e.ChargeID, e.HoldID, e.PaymentID, e.KeyID = charge.String, hold.String, payment.String, key.String
	return nil
}

// AsOf returns the last entry of an account that occurred at or before a moment: its Balance is what the
// account had then. Errors: ErrNotFound, projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) AsOf(ctx context.Context, accountID string, at time.Time) (Entry, error) {
	e, err := m.asOf(ctx, accountID, at.UnixMicro())
	if err != nil {
		return Entry{}, fmt.Errorf("ledger of account %s as of %s: %w", accountID, at.UTC().Format(time.RFC3339Nano), err)
	}
	return e, nil
}

// asOf searches by halves: times never go backwards within a stream, so no index on them is needed.
func (m *Model) asOf(ctx context.Context, accountID string, micros int64) (Entry, error) {
	const one = ofAccount + `AND e.revision >= $2 ORDER BY e.revision LIMIT 1`
	head, err := m.head(ctx, accountID)
	if err != nil {
		return Entry{}, err
	}
	var best *Entry
	for low, high := int64(0), head; low <= high; {
		middle := low + (high-low)/2
		page, err := m.read(ctx, one, accountID, middle)
		if err != nil {
			return Entry{}, err
		}
		if len(page) == 0 || page[0].At.UnixMicro() > micros {
			high = middle - 1
			continue
		}
		best = &page[0]
		low = int64(best.Revision) + 1
	}
	if best == nil {
		return Entry{}, ErrNotFound
	}
	return *best, nil
}

// head returns the last revision of an account.
func (m *Model) head(ctx context.Context, accountID string) (revision int64, err error) {
	err = m.handle.Read(func(q projections.Queryer, t *projections.Tables) error {
		return q.QueryRowContext(ctx, t.SQL(`SELECT revision FROM {accounts} WHERE account = $1`), accountID).Scan(&revision)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, ErrNotFound
	}
	return revision, err
}
