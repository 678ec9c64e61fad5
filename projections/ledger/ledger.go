// Package ledger is the read model of money: one row for each event of each account stream, with the balance after it.
// People read, export and audit it; only the stream decides what a request may spend.
package ledger

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "ledger"
	// version of the tables, and of those that the previous release reads.
	version, wideVersion = 8, 7
	// maxScanned limits the entries that Latest looks at, which takes some tens of milliseconds.
	maxScanned = 20_000
	// pageRows is the number of rows that an iteration has in memory.
	pageRows = 1000
)

// ErrNotFound: the account has no such entries.
var ErrNotFound = errors.New("no ledger entries")

// The table is optimized for the replay, which writes one row for nearly every event:
//
//   - rows are appended in the order of the log; ordered by account, a bulk load would cost four times
//     as much;
//   - a row refers to its account by the position of the account's first event, not by its id;
//   - actor is NULL for the account itself, the actor of nearly every event;
//   - detail is NULL for all events but grants, refunds, fees, reversals, breakage, notes and changes of the
//     account, whose kind, money, reason, refund and text it has as JSON.
//
// at is microseconds since 1970.
const (
	createEntries = `
CREATE TABLE {entries} (
	position     {bigkey} PRIMARY KEY,
	account_no   BIGINT NOT NULL,
	revision     BIGINT NOT NULL,
	type         SMALLINT NOT NULL,
	at           BIGINT NOT NULL,
	amount       BIGINT NOT NULL,
	held         BIGINT NOT NULL,
	balance      BIGINT NOT NULL,
	request_id   BYTEA  NOT NULL,
	actor        TEXT,
	domain       TEXT   NOT NULL,
	event_id     BYTEA  NOT NULL,
	charge_id    BYTEA,
	hold_id      BYTEA,
	payment_id   BYTEA,
	key_id       BYTEA,
	detail       TEXT,
	hash         BYTEA NOT NULL
)`
	indexAccount = `CREATE UNIQUE INDEX IF NOT EXISTS {entries}_by_account ON {entries} (account_no, revision)`
	indexRequest = `CREATE INDEX IF NOT EXISTS {entries}_by_request ON {entries} (request_hash)`

	// The state of each account: a fold finds the running balance here, without an index on the entries.
	createAccounts = `
CREATE TABLE {accounts} (
	no       {bigkey} PRIMARY KEY,
	account  TEXT   NOT NULL UNIQUE,
	balance  BIGINT NOT NULL,
	revision BIGINT NOT NULL,
	keys     BYTEA
)`

	// The ends and closings of months, in the order of the log.
	createPeriods = `
CREATE TABLE {periods} (
	position {bigkey} PRIMARY KEY,
	type     TEXT   NOT NULL,
	month    TEXT   NOT NULL,
	at       BIGINT NOT NULL
)`

	selectEntries = `
SELECT e.position, a.account, a.keys, e.revision, e.type, e.at, e.amount, e.held, e.balance, e.request_id, e.actor,
	e.domain, e.event_id, e.charge_id, e.hold_id, e.payment_id, e.key_id, e.detail, e.hash
FROM {entries} e JOIN {accounts} a ON a.no = e.account_no `
	// ofRequest precedes further conditions; its parameters are $1, the hash, and $2.
	ofRequest = `WHERE request_hash = $1 AND e.request_id = $2 `
)

// actorPrefix precedes an account's id in the actor of the account's own requests.
const actorPrefix = "account:"

// hash returns the 64-bit FNV-1a of a request's id,
// https://datatracker.ietf.org/doc/html/draft-eastlake-fnv, as the signed integer that databases use.
func hash(requestID string) int64 {
	h := fnv.New64a()
	h.Write([]byte(requestID))
	return int64(h.Sum64())
}

// Entry is one event of an account stream.
type Entry struct {
	Position  eventlog.Position `json:"position"`
	AccountID string            `json:"account_id"`
	Revision  uint64            `json:"revision"`
	Type      string            `json:"type"`
	At        time.Time         `json:"at"`
	// Amount is added to the balance by the event: above zero for grants and reversals, below for
	// charges, refunds and breakage, 0 for all others.
	Amount int64 `json:"amount"`
	// Held is the amount that the event holds (above zero), or takes out of a hold (below zero): a release, or a charge
	// that captures. The sum over an account is its open holds. For charges only Entries sets it; elsewhere it is 0.
	Held int64 `json:"held"`
	// Balance is the sum of the amounts up to this one.
	Balance   int64     `json:"balance"`
	RequestID string    `json:"request_id"` // of a reversal: the request whose charge is reversed
	Actor     string    `json:"actor"`
	Domain    string    `json:"domain,omitempty"`
	EventID   uuid.UUID `json:"event_id"`
	ChargeID  string    `json:"charge_id,omitempty"`
	HoldID    string    `json:"hold_id,omitempty"`
	PaymentID string    `json:"payment_id,omitempty"`
	// KeyID is the API key that was charged, issued, limited or revoked; empty for charges of older releases.
	KeyID string `json:"key_id,omitempty"`
	// Hash is the event's hash in the account's hash chain, in hex.
	Hash string `json:"hash,omitempty"`
	Details
}

// EntryOf returns the entry of an event, whose body was decoded. Fields that depend on earlier events are 0:
// the balance, and the credits that a charge takes out of a hold.
func EntryOf(accountID string, e *eventlog.Recorded, body eventschemas.Event) Entry {
	d := describe(&projections.Event{Recorded: e, Body: body})
	return Entry{
		Position: e.Position, AccountID: accountID, Revision: e.Revision, Type: e.Type, At: e.OccurredAt.UTC(),
		Amount: d.amount, Held: d.held, RequestID: d.requestID, Actor: e.Metadata.Actor, Domain: d.domain,
		EventID: e.ID, ChargeID: d.chargeID, HoldID: d.holdID, PaymentID: d.paymentID, KeyID: d.keyID,
		Hash: e.Metadata.Hash, Details: d.Details,
	}
}

// Details are the fields that few entries have.
type Details struct {
	// Kind is the kind of a grant (free, subscription, topup, adjustment) or of an issued key, or the period of a limit.
	Kind string `json:"kind,omitempty"`
	// Money is in minor units of Currency: above zero if it was paid, below if it was returned or is a fee.
	Money    int64  `json:"money,omitempty"`    // absent in JSON if zero
	Currency string `json:"currency,omitempty"` // ISO 4217; empty if the event has no money
	Tax      int64  `json:"tax,omitempty"`      // the part of Money that is tax
	// Reason is the reason of a grant, a reversal, a suspension or the closing of the account, or the policy of
	// breakage.
	Reason   string `json:"reason,omitempty"`
	Plan     string `json:"plan,omitempty"` // with which an account is opened, or to which it is moved
	Note     string `json:"note,omitempty"` // text of a note, or of an operator's reversal; for operators only
	RefundID string `json:"refund_id,omitempty"`
	FeeID    string `json:"fee_id,omitempty"`
	KeyLimit int64  `json:"key_limit,omitempty"` // credits that a key may spend in a period; 0 if its limit is removed
}

// Filter selects entries of an account.
type Filter struct {
	// RequestID, Type, PaymentID, KeyID and Domain, if not empty, select only the entries that have them.
	RequestID, Type, PaymentID, KeyID, Domain string
	// DomainPart, if not empty, selects only the entries of domains that have it in them.
	DomainPart string
	// From and Until, if not zero, select the entries from a time on and before another.
	From, Until time.Time
	// ForCustomer leaves out what only operators see: fees of the payment processor, notes, and those of reversals.
	ForCustomer bool
	// Credits selects only the entries that change the balance. Their Held is 0.
	Credits bool
	// FromRevision is the first revision to return, and BeforeRevision, if not zero, the first one after the last.
	FromRevision, BeforeRevision uint64
	// Limit is the maximum number of entries; 0 means all.
	Limit int

	revisions *[2]int64 // in place of From and Until: the first one, and the first one after them
}

// bound replaces From and Until by revisions, which an index has; with always, also if both are zero. It sets none if
// there is no such account.
func (m *Model) bound(ctx context.Context, accountID string, f Filter, always bool) (Filter, error) {
	if f.From.IsZero() && f.Until.IsZero() && !always {
		return f, nil
	}
	err := m.onStream(ctx, accountID, func(s *stream) (err error) {
		f.revisions = &[2]int64{0, s.head + 1}
		for i, limit := range []time.Time{f.From, f.Until} {
			if limit.IsZero() {
				continue
			}
			f.revisions[i], err = s.search(ctx, func(at time.Time, _ uint64) bool { return !at.Before(limit) })
			if err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return f, nil // there is nothing to select
	}
	return f, err
}

// conditions returns the conditions of the filter, from WHERE on; the first parameter is the account's id.
func (f Filter) conditions(accountID string) (where string, args []any) {
	args = []any{accountID}
	add := func(condition string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		where += " AND " + condition
	}
	where = `WHERE e.account_no = (SELECT no FROM {accounts} WHERE account = $1)`
	if f.RequestID != "" {
		// The + keeps the planner from using the account's index: a request has a few entries, an account a million.
		where = `WHERE +e.account_no = (SELECT no FROM {accounts} WHERE account = $1)`
		add("request_hash = ? AND e.request_id = ?", arg{storedTail, f.RequestID}, arg{storedRequest, f.RequestID})
	}
	switch {
	case slices.Contains(rareTypes, f.Type):
		where += " AND e.type = '" + f.Type + "'" // as a literal, so that indexRare is used
	case f.Type != "":
		add("e.type = ?", arg{storedType, f.Type})
	}
	if f.PaymentID != "" {
		add("e.payment_id = ?", arg{storedID, f.PaymentID})
	}
	if f.KeyID != "" {
		add("e.key_id = ?", keyArg{accountID, f.KeyID})
	}
	if f.Domain != "" {
		add("e.domain = ?", f.Domain)
	}
	if f.DomainPart != "" {
		add(`e.domain LIKE ? ESCAPE '\'`, projections.Containing(f.DomainPart))
	}
	if f.BeforeRevision != 0 {
		add("e.revision < ?", int64(f.BeforeRevision))
	}
	if f.revisions != nil {
		add("e.revision >= ? AND e.revision < ?", f.revisions[0], f.revisions[1])
	}
	if f.ForCustomer {
		where += " AND e.type NOT IN ('" + strings.Join(forOperators, "', '") + "')"
	}
	if f.Credits {
		add("e.amount <> 0")
	}
	return where, args
}

// pageConditions returns what follows WHERE for one page of Entries.
func (f Filter) pageConditions(accountID string, from uint64, limit int) (where string, args []any) {
	where, args = f.conditions(accountID)
	where += fmt.Sprintf(" AND e.revision >= $%d ORDER BY e.revision LIMIT $%d", len(args)+1, len(args)+2)
	return where, append(args, int64(from), limit)
}

// Model is the read model.
type Model struct {
	projections.Model
	moved   int   // as the constant, unless a test sets it
	scanned int64 // as maxScanned, unless a test sets it
}

// Reads returns how many requests of a part may read ledgers at a time: at most a quarter of the database connections for
// reading, of which there are twice as many as processors and at least four.
func Reads() int64 { return int64(max(1, min(runtime.GOMAXPROCS(0)/2, 8))) }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	current, previous := tables(version, compact), tables(wideVersion, wide)
	current.Format = 4
	return &Model{moved: moved, scanned: maxScanned, Model: projections.NewModel(Name, store, current, previous)}
}

func tables(number int, sql *strings.Replacer) projections.Version {
	return projections.Version{
		Number:  number,
		Streams: []string{account.StreamPrefix, eventschemas.BooksStream},
		Tables: []projections.Table{
			{
				Name: "entries", Create: sql.Replace(createEntries), Key: []string{"position"},
				Indexes: []string{indexAccount, sql.Replace(indexRequest), sql.Replace(indexRare)},
			},
			{Name: "accounts", Create: sql.Replace(createAccounts), Key: []string{"no"}},
			{Name: "periods", Create: createPeriods, Key: []string{"position"}},
		},
		NewFold: newFold,
	}
}

// Entries returns the selected entries of an account in the order of its stream, reading a limited
// number at a time: neither memory nor a transaction grows with them. It stops after an error. Errors:
// projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Entries(ctx context.Context, accountID string, f Filter) iter.Seq2[Entry, error] {
	read := func(after *Entry, limit int) (page []Entry, err error) {
		from := f.FromRevision
		if after != nil {
			from = after.Revision + 1
		} else if f, err = m.bound(ctx, accountID, f, false); err != nil {
			return nil, err
		}
		return m.page(ctx, accountID, f, from, limit)
	}
	entries := pages(f.Limit, fmt.Sprintf("ledger of account %s", accountID), read)
	if f.Credits {
		return entries
	}
	alone := f.Type != "" || f.PaymentID != "" || f.KeyID != "" || f.Domain != "" || f.DomainPart != ""
	return m.captured(ctx, entries, alone)
}

// page returns one page of Entries.
func (m *Model) page(ctx context.Context, accountID string, f Filter, from uint64,
	limit int) (page []Entry, err error) {
	where, args := f.pageConditions(accountID, from, limit)
	page, err = m.read(ctx, where, args...)
	for i := range page {
		if f.ForCustomer {
			page[i].Note = ""
		}
	}
	return page, err
}

// Last returns the revision of the earliest of the last n selected entries of an account; f.FromRevision and f.Limit
// do not count. Errors: ErrNotFound if there is none, and as Entries.
func (m *Model) Last(ctx context.Context, accountID string, f Filter, n int) (revision uint64, err error) {
	if f, err = m.bound(ctx, accountID, f, false); err != nil {
		return 0, fmt.Errorf("ledger of account %s: %w", accountID, err)
	}
	err = m.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		where, args := f.conditions(accountID)
		selected := fmt.Sprintf("SELECT e.revision FROM {entries} e %s ORDER BY e.revision DESC LIMIT $%d",
			where, len(args)+1)
		var first sql.NullInt64
		if args, err = bind(ctx, q, t, append(args, n)); err != nil {
			return err
		}
		err := q.QueryRowContext(ctx, sqlFor(t, "SELECT MIN(revision) FROM ("+selected+") AS selected"),
			args...).Scan(&first)
		if err == nil && !first.Valid {
			err = ErrNotFound
		}
		revision = uint64(first.Int64)
		return err
	})
	return revision, sqlstore.Wrap(err, "ledger of account %s", accountID)
}

// Latest returns the last n selected entries of an account, the newest first; f.FromRevision and f.Limit do not count.
// If next is not zero there may be more: those of the same filter with next as BeforeRevision. No index has entries by
// API key, payment, domain, or by one of the frequent types. Of those, Latest looks at a limited number of entries, so
// it may return fewer than n although there are more. Errors: as Entries.
func (m *Model) Latest(ctx context.Context, accountID string, f Filter,
	n int) (latest []Entry, next uint64, err error) {
	f, floor, err := m.span(ctx, accountID, f)
	if err != nil || f.revisions == nil {
		return nil, 0, err
	}
	f.FromRevision, err = m.Last(ctx, accountID, f, n+1) // one more shows that there are more
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, 0, err
	}
	first, end := f.revisions[0], uint64(f.revisions[1])
	if err == nil {
		f.Limit = n + 1
		f.revisions, f.BeforeRevision = nil, 0 // with more limits, SQLite would not use the index of rare types
		for e, err := range m.Entries(ctx, accountID, f) {
			if err != nil {
				return nil, 0, err
			}
			if e.Revision >= end {
				break
			}
			latest = append(latest, e)
		}
	}
	slices.Reverse(latest)
	switch {
	case len(latest) > n:
		latest = latest[:n]
		next = latest[n-1].Revision
	case first > floor:
		next = uint64(first)
	}
	return latest, next, nil
}

// span sets the revisions that Latest looks at; the first one that the filter selects is floor. They are nil if there
// is no such account.
func (m *Model) span(ctx context.Context, accountID string, f Filter) (_ Filter, floor int64, err error) {
	if f, err = m.bound(ctx, accountID, f, true); err != nil || f.revisions == nil {
		return f, 0, sqlstore.Wrap(err, "ledger of account %s", accountID)
	}
	f.From, f.Until = time.Time{}, time.Time{} // which are revisions now
	floor = f.revisions[0]
	if f.BeforeRevision != 0 {
		f.revisions[1] = min(f.revisions[1], int64(f.BeforeRevision))
	}
	if f.scans() {
		f.revisions[0] = max(floor, f.revisions[1]-m.scanned)
	}
	return f, floor, nil
}

// scans reports whether the selected entries are found by looking at others as well.
func (f *Filter) scans() bool {
	if f.RequestID != "" || slices.Contains(rareTypes, f.Type) {
		return false
	}
	return f.Type != "" || f.PaymentID != "" || f.KeyID != "" || f.Domain != "" || f.DomainPart != "" || f.Credits
}

// ByRequest returns the entries of a request, of any account, in the order of the log. Errors: as Entries.
func (m *Model) ByRequest(ctx context.Context, requestID string) iter.Seq2[Entry, error] {
	read := func(after *Entry, limit int) ([]Entry, error) {
		return m.read(ctx, ofRequest+`AND e.position > $3 ORDER BY e.position LIMIT $4`,
			arg{storedTail, requestID}, arg{storedRequest, requestID}, int64(positionOf(after)), limit)
	}
	return pages(0, fmt.Sprintf("ledger of request %s", requestID), read)
}

// All returns the entries of all accounts after a position, in the order of the log. Errors: as Entries.
func (m *Model) All(ctx context.Context, after eventlog.Position) iter.Seq2[Entry, error] {
	read := func(last *Entry, limit int) ([]Entry, error) {
		return m.read(ctx, `WHERE e.position > $1 ORDER BY e.position LIMIT $2`,
			int64(max(after, positionOf(last))), limit)
	}
	return pages(0, "ledger", read)
}

func positionOf(e *Entry) eventlog.Position {
	if e == nil {
		return 0
	}
	return e.Position
}

// pages iterates over the results of read after the last entry, until there are no more.
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

func (m *Model) read(ctx context.Context, where string, args ...any) (page []Entry, err error) {
	err = m.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		page, err = query(ctx, q, t, where, args...)
		return err
	})
	return page, err
}

func query(ctx context.Context, q projections.Queryer, t *projections.Tables, where string,
	args ...any) ([]Entry, error) {
	args, err := bind(ctx, q, t, args)
	if err != nil {
		return nil, err
	}
	return sqlstore.AllRows(ctx, q, sqlFor(t, selectEntries+where), (*Entry).scan, args...)
}

func (e *Entry) scan(row projections.Scanner) error {
	var at int64
	var id, hash, keys []byte
	var charge any
	var actor, detail sql.NullString
	err := row.Scan(&e.Position, &e.AccountID, &keys, &e.Revision, column{text: &e.Type}, &at, &e.Amount, &e.Held,
		&e.Balance, column{text: &e.RequestID}, &actor, &e.Domain, &id, &charge, column{text: &e.HoldID},
		column{text: &e.PaymentID}, column{&e.KeyID, &keys}, &detail, &hash)
	if err != nil {
		return err
	}
	if b, ok := charge.([]byte); ok && len(b) == 0 {
		e.ChargeID = chargeID(e.AccountID, e.RequestID, e.Domain)
	} else if err := (column{text: &e.ChargeID}).Scan(charge); err != nil {
		return fmt.Errorf("charge id at position %d: %w", e.Position, err)
	}
	if e.EventID, err = uuid.FromBytes(id); err != nil {
		return fmt.Errorf("event id at position %d: %w", e.Position, err)
	}
	e.At = time.UnixMicro(at).UTC()
	if e.Actor = actor.String; !actor.Valid {
		e.Actor = actorPrefix + e.AccountID
	}
	e.Hash = hex.EncodeToString(hash)
	if detail.Valid {
		if err := json.Unmarshal([]byte(detail.String), &e.Details); err != nil {
			return fmt.Errorf("details at position %d: %w", e.Position, err)
		}
	}
	return nil
}
