package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// MaxDays limits the days of a period, and MaxKeys its keys.
	MaxDays = 400
	MaxKeys = 100

	day = 24 * time.Hour
)

// ErrPeriod: the period has no day, or more than MaxDays.
var ErrPeriod = errors.New("invalid period of usage")

const (
	selectDays = `
SELECT day, SUM(hits), SUM(crawls), SUM(charged), SUM(returned), SUM(granted), SUM(net), SUM(searches), SUM(logos)
FROM {days} WHERE account = $1 AND day >= $2 AND day < $3 GROUP BY day ORDER BY day`
	selectKeys = `
SELECT key_id, SUM(hits), SUM(crawls), SUM(charged)
FROM {days} WHERE account = $1 AND day >= $2 AND day < $3 AND charged > 0 GROUP BY key_id ORDER BY 4 DESC, key_id LIMIT $4`
)

// A row is what happened in an account on a day (UTC), with a key or without one. So the cost of a period depends on
// its days and keys, and not on the number of look-ups.
//
// Rows are added to, not replaced: a fold need not read them.
var daysTable = projections.Keyed[dayKey, Day]{
	Name: "days",
	Key: []projections.Column[dayKey]{
		projections.Text("account", func(k *dayKey) *string { return &k.account }),
		projections.Number("day", func(k *dayKey) *int64 { return &k.day }),
		projections.Text("key_id", func(k *dayKey) *string { return &k.key }),
	},
	Columns: []projections.Column[Day]{
		projections.Number("hits", func(d *Day) *int64 { return &d.Hits }),
		projections.Number("crawls", func(d *Day) *int64 { return &d.Crawls }),
		projections.Number("charged", func(d *Day) *int64 { return &d.Charged }),
		projections.Number("returned", func(d *Day) *int64 { return &d.Returned }),
		projections.Number("granted", func(d *Day) *int64 { return &d.Granted }),
		projections.Number("net", func(d *Day) *int64 { return &d.Net }),
		projections.Number("searches", func(d *Day) *int64 { return &d.Searches }),
		projections.Number("logos", func(d *Day) *int64 { return &d.Logos }),
	},
	Compare: compareDays,
}

// Day is what happened in an account on a day.
type Day struct {
	Start        time.Time // UTC
	Hits, Crawls int64     // look-ups that were charged at once, and those for which credits were held before
	Charged      int64     // credits
	Returned     int64     // credits of charges of this or earlier days that were reversed
	Granted      int64     // credits
	Net          int64     // change of the balance
	Searches     int64
	Logos        int64
}

// Lookups returns the number of look-ups that were charged.
func (d Day) Lookups() int64 { return d.Hits + d.Crawls }

// Key is what was charged with a key.
type Key struct {
	ID           string // empty for charges without one, such as the dashboard's
	Hits, Crawls int64
	Charged      int64 // credits, including charges that were reversed
}

// Lookups returns the number of look-ups that were charged.
func (k Key) Lookups() int64 { return k.Hits + k.Crawls }

// Period is what happened in an account on some days.
type Period struct {
	Days []Day // those on which anything happened, in order
	Keys []Key // that were charged, the most credits first
	More bool  // more than MaxKeys keys were charged; the others are left out
}

// Period returns what happened in an account from the day (UTC) of one time on, and before the day of another. Errors:
// ErrPeriod, projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Period(ctx context.Context, accountID string, from, until time.Time) (p Period, err error) {
	first, end := dayOf(from), dayOf(until)
	if end <= first || end-first > MaxDays {
		return p, fmt.Errorf("%w: %d days, must be from 1 to %d", ErrPeriod, end-first, MaxDays)
	}
	err = m.Handle().Snapshot(ctx, func(q projections.Queryer, t *projections.Tables, _ eventlog.Position) error {
		p.Days, err = sqlstore.AllRows(ctx, q, t.SQL(selectDays), (*Day).scan, accountID, first, end)
		if err != nil {
			return err
		}
		// One more shows that there are more.
		p.Keys, err = sqlstore.AllRows(ctx, q, t.SQL(selectKeys), (*Key).scan, accountID, first, end, MaxKeys+1)
		return err
	})
	if p.More = len(p.Keys) > MaxKeys; p.More {
		p.Keys = p.Keys[:MaxKeys]
	}
	return p, sqlstore.Wrap(err, "usage of account %s from %s to %s", accountID,
		from.UTC().Format(time.DateOnly), until.UTC().Format(time.DateOnly))
}

func (d *Day) scan(row projections.Scanner) error {
	var n int64
	err := row.Scan(&n, &d.Hits, &d.Crawls, &d.Charged, &d.Returned, &d.Granted, &d.Net, &d.Searches, &d.Logos)
	d.Start = time.Unix(n*int64(day/time.Second), 0).UTC()
	return err
}

func (k *Key) scan(row projections.Scanner) error {
	return row.Scan(&k.ID, &k.Hits, &k.Crawls, &k.Charged)
}

// dayOf returns the day of a time, in days since 1970.
func dayOf(at time.Time) int64 {
	return at.UTC().Truncate(day).Unix() / int64(day/time.Second)
}

// dayKey is the primary key of a row of days.
type dayKey struct {
	account string
	day     int64
	key     string
}

func compareDays(a, b dayKey) int {
	return cmp.Or(strings.Compare(a.account, b.account), cmp.Compare(a.day, b.day), strings.Compare(a.key, b.key))
}

// days sums up what events add to rows of days.
type days map[dayKey]*Day

func (s days) row(k dayKey) *Day {
	d := s[k]
	if d == nil {
		d = &Day{}
		s[k] = d
	}
	return d
}

func (s days) add(e *projections.Event) error {
	if ticked, ok := e.Body.(eventschemas.UsageTicked); ok {
		return s.tick(e.OccurredAt, ticked)
	}
	net := account.Delta(e.Body)
	k := dayKey{account: e.Subject, day: dayOf(e.OccurredAt)}
	switch ev := e.Body.(type) {
	case eventschemas.CreditsCharged:
		k.key = ev.KeyID
		d := s.row(k)
		if d.Charged += ev.Credits; ev.HoldID != "" {
			d.Crawls++
		} else {
			d.Hits++
		}
	case eventschemas.ChargeReversed:
		s.row(k).Returned += ev.Credits
	case eventschemas.CreditsGranted:
		s.row(k).Granted += ev.Credits
	}
	if net != 0 {
		s.row(k).Net += net
	}
	return nil
}

// tick adds usage that was recorded at a time, at most a moment after it: if in the next month, on the last day of its
// own.
func (s days) tick(at time.Time, ticked eventschemas.UsageTicked) error {
	for i := range ticked.Entries {
		u := &ticked.Entries[i]
		if u.Searches == 0 && u.Logos == 0 {
			continue
		}
		month, err := time.Parse(monthLayout, u.Month)
		if err != nil {
			return fmt.Errorf("month of usage: %w", err)
		}
		n := min(max(dayOf(at), dayOf(month)), dayOf(month.AddDate(0, 1, -1)))
		d := s.row(dayKey{account: u.AccountID, day: n})
		d.Searches += u.Searches
		d.Logos += u.Logos
	}
	return nil
}

// write returns the function that adds the sums to the table.
func (s days) write(t *projections.Tables) func(ctx context.Context, tx *sqlstore.Tx) error {
	return daysTable.Add(t, len(s), func(yield func(dayKey, *Day) bool) {
		for _, k := range slices.SortedFunc(maps.Keys(s), compareDays) {
			if !yield(k, s[k]) {
				return
			}
		}
	})
}
