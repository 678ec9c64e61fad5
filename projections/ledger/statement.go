package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"letterhead/domain/books"
	"letterhead/domain/statement"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	selectPeriods = `SELECT position, type, month, at FROM {periods} ORDER BY position`

	// Parameters: the account's number, the first revision of the month and that of the next, and the month's
	// beginning. Events that are booked late belong to its first day.
	selectUsage = `
SELECT CASE WHEN at < $4 THEN 0 ELSE (at - $4) / 86400000000 END AS day, type, key_id, COUNT(*), SUM(amount)
FROM {entries} WHERE account_no = $1 AND revision >= $2 AND revision < $3 AND type IN ('CreditsCharged', 'ChargeReversed')
GROUP BY 1, 2, 3`
)

// AsOf returns the last entry of an account that occurred at or before the given time: its Balance is the account's
// balance then. Errors: ErrNotFound, projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) AsOf(ctx context.Context, accountID string, at time.Time) (e Entry, err error) {
	err = m.onStream(ctx, accountID, func(s *stream) error {
		next, err := s.search(ctx,
			func(occurred time.Time, _ uint64) bool { return occurred.UnixMicro() > at.UnixMicro() })
		if err != nil {
			return err
		}
		last, err := s.before(ctx, next)
		if err == nil && last == nil {
			err = ErrNotFound
		}
		if err == nil {
			e = *last
		}
		return err
	})
	return e, sqlstore.Wrap(err, "ledger of account %s as of %s", accountID,
		at.UTC().Format(time.RFC3339Nano))
}

// Statement returns the statement of an account for a month, given by its beginning. Errors: ErrNotFound,
// those of statement.Sheet, projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Statement(ctx context.Context, accountID string,
	month, now time.Time) (st *statement.Statement, err error) {
	return m.statement(ctx, accountID, month, now, time.Time{})
}

// StatementBefore returns the statement as it was just before a past moment. Errors: as Statement.
func (m *Model) StatementBefore(ctx context.Context, accountID string,
	month, end time.Time) (st *statement.Statement, err error) {
	return m.statement(ctx, accountID, month, end, end)
}

// statement leaves out what occurred from the moment until on, unless it is zero.
func (m *Model) statement(ctx context.Context, accountID string,
	month, now, until time.Time) (st *statement.Statement, err error) {
	err = m.Handle().Snapshot(ctx, func(q projections.Queryer, t *projections.Tables, _ eventlog.Position) error {
		if !until.IsZero() && !month.Before(until) {
			return statement.ErrNotBegun
		}
		periods, err := readPeriods(ctx, q, t, until)
		if err != nil {
			return err
		}
		s, err := find(ctx, q, t, accountID)
		if err != nil {
			return err
		}
		if !until.IsZero() {
			next, err := s.search(ctx, func(at time.Time, _ uint64) bool { return !at.Before(until) })
			if err != nil {
				return err
			}
			s.head = next - 1
		}
		sheet := statement.New(accountID, month)
		if err := s.fill(ctx, sheet, periods, month); err != nil {
			return err
		}
		ended := periods.Find(month)
		st, err = sheet.Statement(now, ended != nil && ended.Closed())
		return err
	})
	return st, sqlstore.Wrap(err, "statement of account %s for %s", accountID, month.Format(books.MonthLayout))
}

// Periods returns the months that have ended in the books. Errors: projections.ErrNotReady,
// sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Periods(ctx context.Context) (ended *books.Periods, err error) {
	err = m.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		ended, err = readPeriods(ctx, q, t, time.Time{})
		return err
	})
	return ended, sqlstore.Wrap(err, "months of the books")
}

// readPeriods returns the months that had ended before a moment, or until now if it is zero.
func readPeriods(ctx context.Context, q projections.Queryer, t *projections.Tables,
	before time.Time) (*books.Periods, error) {
	periods, past := &books.Periods{}, false
	err := sqlstore.EachRow(ctx, q, t.SQL(selectPeriods), func(row projections.Scanner) error {
		var position, at int64
		var kind, month string
		if err := row.Scan(&position, &kind, &month, &at); err != nil {
			return err
		}
		if past = past || !before.IsZero() && at >= before.UnixMicro(); past {
			return nil
		}
		var ev eventschemas.Event = eventschemas.PeriodEnded{Month: month}
		if kind == (eventschemas.PeriodClosed{}).EventType() {
			ev = eventschemas.PeriodClosed{Month: month}
		}
		err := periods.Apply(ev, uint64(position), time.UnixMicro(at).UTC())
		return sqlstore.Wrap(err, "event of the books at position %d", position)
	})
	return periods, err
}

// stream reads the entries of an account.
type stream struct {
	q      projections.Queryer
	tables *projections.Tables
	no     int64 // of the account
	keys   []byte
	head   int64 // last revision
}

// onStream calls do with the entries of an account in the live tables, as Handle.Read does. Errors: ErrNotFound.
func (m *Model) onStream(ctx context.Context, accountID string, do func(s *stream) error) error {
	return m.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		s, err := find(ctx, q, t, accountID)
		if err != nil {
			return err
		}
		return do(s)
	})
}

func find(ctx context.Context, q projections.Queryer, t *projections.Tables, accountID string) (*stream, error) {
	s := &stream{q: q, tables: t}
	err := q.QueryRowContext(ctx, sqlFor(t, `SELECT a.no, a.revision, a.keys FROM {accounts} a WHERE a.account = $1`),
		accountID).Scan(&s.no, &s.head, &s.keys)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return s, err
}

// search returns the first revision from which on after is true, given the time and the position of an event. It uses a
// binary search: in a stream both never decrease, so no index on them is needed.
func (s *stream) search(ctx context.Context,
	after func(at time.Time, position uint64) bool) (revision int64, err error) {
	const one = `SELECT at, position FROM {entries} WHERE account_no = $1 AND revision = $2`
	low, high := int64(0), s.head+1
	for low < high {
		middle := low + (high-low)/2
		var at, position int64
		if err := s.q.QueryRowContext(ctx, s.tables.SQL(one), s.no, middle).Scan(&at, &position); err != nil {
			return 0, fmt.Errorf("entry of revision %d: %w", middle, err)
		}
		if after(time.UnixMicro(at).UTC(), uint64(position)) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low, nil
}

// before returns the entry before a revision, nil if there is none.
func (s *stream) before(ctx context.Context, revision int64) (*Entry, error) {
	if revision == 0 {
		return nil, nil
	}
	page, err := query(ctx, s.q, s.tables, `WHERE e.account_no = $1 AND e.revision = $2`, s.no, revision-1)
	if err == nil && len(page) == 0 {
		err = fmt.Errorf("entry of revision %d: %w", revision-1, sql.ErrNoRows)
	}
	if err != nil {
		return nil, err
	}
	return &page[0], nil
}

// fill adds the lines of a month, with one for all charges of a day with one key.
func (s *stream) fill(ctx context.Context, sheet *statement.Sheet, periods *books.Periods, month time.Time) error {
	first := func(month time.Time) (int64, error) {
		return s.search(ctx,
			func(at time.Time, position uint64) bool { return !periods.Booked(at, position).Before(month) })
	}
	from, err := first(month)
	if err != nil {
		return err
	}
	until, err := first(month.AddDate(0, 1, 0))
	if err != nil {
		return err
	}
	opening, err := s.before(ctx, from)
	if err != nil {
		return err
	}
	if opening != nil {
		sheet.Opening = opening.Balance
	}
	last, err := s.before(ctx, until)
	if err != nil {
		return err
	}
	if last != nil {
		sheet.Head = &statement.Head{Chain: statement.Chain{Revision: last.Revision, Hash: last.Hash},
			Balance: last.Balance}
	}
	grants, err := s.rare(ctx, until, eventschemas.CreditsGranted{}.EventType(),
		eventschemas.PaymentRefunded{}.EventType(), eventschemas.RefundReversed{}.EventType(),
		eventschemas.BreakageRecognized{}.EventType())
	if err != nil {
		return err
	}
	for _, e := range grants {
		sheet.Add(statement.Line{Event: e.event(), Count: 1, Revision: e.Revision, At: e.At,
			Booked: periods.Booked(e.At, uint64(e.Position))})
	}
	return s.fillUsage(ctx, sheet, from, until, month)
}

func (s *stream) fillUsage(ctx context.Context, sheet *statement.Sheet, from, until int64, month time.Time) error {
	return sqlstore.EachRow(ctx, s.q, sqlFor(s.tables, selectUsage), func(row projections.Scanner) error {
		var day, amount int64
		var kind, key string
		l := statement.Line{}
		if err := row.Scan(&day, column{text: &kind}, column{&key, &s.keys}, &l.Count, &amount); err != nil {
			return err
		}
		l.Booked = month.AddDate(0, 0, int(day))
		l.Event = (eventschemas.CreditsCharged{Credits: -amount, KeyID: key})
		if kind == (eventschemas.ChargeReversed{}).EventType() {
			l.Event = eventschemas.ChargeReversed{Credits: amount}
		}
		sheet.Add(l)
		return nil
	}, s.no, from, until, month.UnixMicro())
}
