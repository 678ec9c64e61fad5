package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"time"

	"letterhead/commands"
	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

var (
	// ErrNoEvents: there is nothing to close.
	ErrNoEvents = errors.New("the books have no events")
	// ErrBalance: the balances before a month differ from the balances of the month that was closed before.
	ErrBalance = errors.New("the balances at its start are not those that were closed")
)

// Closer closes months.
type Closer struct {
	Log      eventlog.Log
	Encoder  eventschemas.Encoder
	Metadata eventlog.Metadata // of the events
	Now      func() time.Time
}

// Check returns the month if it is closed, and otherwise nil if it can be closed now. Errors: those of
// books.Periods.MayEnd and of the log, ErrNoEvents, and eventschemas.ErrNotYet before an upgrade is finished.
func (c *Closer) Check(ctx context.Context, month time.Time) (*books.Period, error) {
	r, err := newReader(ctx, c.Log, "", nil)
	if err != nil {
		return nil, err
	}
	period := r.periods.Find(month)
	if period != nil && period.Closed() {
		return period, nil
	}
	if _, err := c.Encoder.Encode(eventschemas.PeriodEnded{}); err != nil {
		return nil, err
	}
	if period != nil {
		return nil, nil
	}
	first, err := r.first(ctx)
	if err == nil && first.IsZero() {
		err = ErrNoEvents
	}
	if err != nil {
		return nil, err
	}
	return nil, r.periods.MayEnd(month, first, c.Now())
}

// Close ends a month and records its books. It may be repeated, also by several callers at once, and leaves a month
// that is closed as it is; then repeated is true. Errors: as Check and of the log; ErrBalance, before the month ends.
func (c *Closer) Close(ctx context.Context, month time.Time) (period *books.Period, repeated bool, err error) {
	if period, err := c.Check(ctx, month); period != nil || err != nil {
		return period, period != nil, err
	}
	closing, err := c.end(ctx, month)
	if err != nil {
		return nil, false, err
	}
	if err := c.append(ctx, month, closing); err != nil {
		return nil, false, err
	}
	periods, err := ReadPeriods(ctx, c.Log, anyPosition)
	if err != nil {
		return nil, false, err
	}
	return periods.Find(month), false, nil
}

// end ends a month and derives its books, from the events before PeriodEnded; so all callers derive the same. It folds
// the events before the month once: the balances that they leave are checked before the month ends.
func (c *Closer) end(ctx context.Context, month time.Time) (eventschemas.PeriodClosed, error) {
	r, err := newReader(ctx, c.Log, "", nil)
	if err != nil {
		return eventschemas.PeriodClosed{}, err
	}
	d := newDerivation(r, month)
	begin, err := d.open(ctx, d.add)
	if err != nil {
		return eventschemas.PeriodClosed{}, err
	}
	before := r.periods.Find(month.AddDate(0, -1, 0))
	if before != nil && !sameBalances(before.Closing.Totals, d.journal.Balances()) {
		return eventschemas.PeriodClosed{}, ErrBalance
	}
	if err := c.append(ctx, month, eventschemas.PeriodEnded{Month: month.Format(books.MonthLayout)}); err != nil {
		return eventschemas.PeriodClosed{}, err
	}
	opened := r.head
	if r.periods, err = ReadPeriods(ctx, c.Log, anyPosition); err != nil {
		return eventschemas.PeriodClosed{}, err
	}
	// Events after the end are booked later, so the reader stops there.
	r.head = eventlog.Position(r.periods.Find(month).Position)
	switch err := d.rest(ctx, begin, opened, d.add); {
	case errors.Is(err, errBeforeOpening): // no month had ended before, and the clock of a node is behind
		d = newDerivation(r, month)
		if err := d.run(ctx, d.add); err != nil {
			return eventschemas.PeriodClosed{}, err
		}
	case err != nil:
		return eventschemas.PeriodClosed{}, err
	}
	return d.closing(), nil
}

// append appends an event of a month, unless the stream has it. Months have two events each, and no gaps.
func (c *Closer) append(ctx context.Context, month time.Time, event eventschemas.Event) error {
	periods, err := ReadPeriods(ctx, c.Log, anyPosition)
	if err != nil {
		return err
	}
	revisions := uint64(0)
	for _, p := range periods.All() {
		if revisions++; p.Closed() {
			revisions++
		}
	}
	if period := periods.Find(month); period != nil {
		if _, ends := event.(eventschemas.PeriodEnded); ends || period.Closed() {
			return nil
		}
	}
	stream, key := eventschemas.BooksStream, month.Format(books.MonthLayout)
	proposed, err := commands.Proposal(c.Encoder, stream, key, event, c.Now(), c.Metadata)
	if err != nil {
		return err
	}
	_, err = c.Log.Append(ctx, stream, eventlog.After(revisions), []eventlog.Proposed{proposed})
	if err != nil {
		return fmt.Errorf("append %s: %w", event.EventType(), err)
	}
	return nil
}

// anyPosition is at or after every event.
const anyPosition = ^eventlog.Position(0)

type derivation struct {
	*export
	digest       *digest
	changes      map[books.Posting]int64 // by ledger account and commodity
	transactions uint64
}

func newDerivation(r *reader, month time.Time) *derivation {
	return &derivation{digest: newDigest(), changes: map[books.Posting]int64{},
		export: &export{Options: Options{From: month, Until: month.AddDate(0, 1, 0)}, reader: r,
			journal: books.NewJournal(), balances: newBalances(time.Time{})}}
}

func (d *derivation) add(entry *entry) error {
	if !entry.isSum() {
		d.transactions++
		for _, p := range entry.postings {
			d.changes[books.Posting{Account: p.Account, Commodity: p.Commodity}] += p.Amount
		}
	}
	return d.digest.entry(entry)
}

// closing returns the books of the month, which has ended.
func (d *derivation) closing() eventschemas.PeriodClosed {
	closing := eventschemas.PeriodClosed{Month: d.From.Format(books.MonthLayout),
		Position: d.periods.Find(d.From).Position, Digest: d.digest.sum(),
		Transactions: d.transactions, Totals: []eventschemas.PeriodTotal{}}
	for _, b := range d.journal.Balances() {
		closing.Totals = append(closing.Totals,
			eventschemas.PeriodTotal{LedgerAccount: books.Chart[b.Account].Name, Commodity: b.Commodity,
				Change: d.changes[books.Posting{Account: b.Account, Commodity: b.Commodity}], Balance: b.Amount})
	}
	return closing
}

// sameBalances reports whether the balances of a closing equal the journal's. Both are sorted.
func sameBalances(closed []eventschemas.PeriodTotal, balances []books.Posting) bool {
	if len(closed) != len(balances) {
		return false
	}
	for i, b := range balances {
		c := closed[i]
		if c.LedgerAccount != books.Chart[b.Account].Name || c.Commodity != b.Commodity || c.Balance != b.Amount {
			return false
		}
	}
	return true
}

// MonthStatus is a month of the books.
type MonthStatus struct {
	Month   time.Time     // its beginning
	Closing *books.Period // nil if the month is not closed
}

// State returns closed, open or running.
func (m MonthStatus) State(now time.Time) string {
	switch {
	case m.Closing != nil:
		return "closed"
	case m.Month.Equal(books.MonthOf(now)):
		return "running"
	}
	return "open"
}

// Status returns the months from the month of the first event to the running one.
func Status(ctx context.Context, log eventlog.Log, now time.Time) ([]MonthStatus, error) {
	r, err := newReader(ctx, log, "", nil)
	if err != nil {
		return nil, err
	}
	first, err := r.first(ctx)
	if err != nil || first.IsZero() {
		return nil, err
	}
	var months []MonthStatus
	for month := first; !month.After(now); month = month.AddDate(0, 1, 0) {
		m := MonthStatus{Month: month}
		if p := r.periods.Find(month); p != nil && p.Closed() {
			m.Closing = p
		}
		months = append(months, m)
	}
	return months, nil
}

// digest computes the digest of a month's journal: the SHA-256 of a list with a line for each account, in the order of
// their ids, of the hex SHA-256 of the account's lines in JSONL, two spaces and the id. It does not depend on the order
// of different accounts in the log, which a copy to another store may change.
type digest struct {
	accounts map[string]hash.Hash
	chart    Chart
	line     []byte
}

func newDigest() *digest {
	return &digest{accounts: map[string]hash.Hash{}, chart: DefaultChart()}
}

func (d *digest) entry(e *entry) error {
	h, ok := d.accounts[e.account]
	if !ok {
		h = sha256.New()
		d.accounts[e.account] = h
	}
	d.line = d.chart.appendLine(d.line[:0], e)
	_, err := h.Write(d.line)
	return err
}

func (d *digest) sum() string {
	list := sha256.New()
	for _, id := range slices.Sorted(maps.Keys(d.accounts)) {
		fmt.Fprintf(list, "%x  %s\n", d.accounts[id].Sum(nil), id)
	}
	return hex.EncodeToString(list.Sum(nil))
}
