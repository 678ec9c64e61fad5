// Package usage is the read model of what accounts use in a calendar month and on a day (UTC): successful look-ups,
// searches, logos, and by day the credits that come and go. It is for reports; the streams decide about limits.
package usage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "usage"

	// MaxMonths limits the results of List.
	MaxMonths = 240
	// keptRows limits the rows that the fold keeps between batches.
	keptRows = 100_000
	// searchPage is the number of events per read in the search for a charge.
	searchPage = 512

	monthLayout = "2006-01"
)

var table = projections.Keyed[key, Counts]{
	Name: "months",
	Key: []projections.Column[key]{
		projections.Text("account", func(k *key) *string { return &k.account }),
		projections.Text("month", func(k *key) *string { return &k.month }),
	},
	Columns: []projections.Column[Counts]{
		projections.Number("lookups", func(c *Counts) *int64 { return &c.Lookups }),
		projections.Number("searches", func(c *Counts) *int64 { return &c.Searches }),
		projections.Number("logos", func(c *Counts) *int64 { return &c.Logos }),
	},
	Compare: compare,
	Found:   func(k key, c *Counts) { c.Month = k.month },
}

// Counts is what an account used in a month.
type Counts struct {
	Month    string `json:"month"`   // YYYY-MM
	Lookups  int64  `json:"lookups"` // charges of the month that were not reversed, at any time
	Searches int64  `json:"searches"`
	Logos    int64  `json:"logos"`
}

// Model is the read model.
type Model struct {
	projections.Model
	log eventlog.Log
}

// New returns the read model. The log is used to find the month of a reversed charge.
func New(store *sqlstore.Store, log eventlog.Log) *Model {
	m := &Model{log: log}
	m.Model = projections.NewModel(Name, store, projections.Version{
		Number:  2,
		Streams: []string{account.StreamPrefix, usage.StreamPrefix},
		Tables:  []projections.Table{table.Table(), daysTable.Table()},
		NewFold: m.newFold,
	})
	return m
}

// Get returns what an account used in a month (YYYY-MM), or zeros. Errors: projections.ErrNotReady,
// sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Get(ctx context.Context, accountID, month string) (Counts, error) {
	c, _, err := table.Get(ctx, m.Handle(), key{accountID, month})
	c.Month = month
	return c, sqlstore.Wrap(err, "usage of account %s in %s", accountID, month)
}

// List returns the months in which an account used anything, latest first, at most MaxMonths. Errors: as Get.
func (m *Model) List(ctx context.Context, accountID string) ([]Counts, error) {
	all, err := table.List(ctx, m.Handle(), "WHERE account = $1 ORDER BY month DESC LIMIT $2", accountID, MaxMonths)
	return all, sqlstore.Wrap(err, "usage of account %s", accountID)
}

// key is a row's primary key.
type key struct{ account, month string }

func compare(a, b key) int {
	return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.month, b.month))
}

type fold struct {
	model  *Model
	tables *projections.Tables
	rows   *projections.Rows[key, Counts]
	days   days
	months map[int]string // YYYY-MM by year*12+month: formatting a time costs more than folding its event
}

func (m *Model) newFold(t *projections.Tables, empty bool) projections.Fold {
	return &fold{model: m, tables: t, rows: table.Rows(t, keptRows, empty), days: days{}, months: map[int]string{}}
}

func (f *fold) Fold(ctx context.Context, q projections.Queryer,
	events []*projections.Event) (projections.Changes, error) {
	sums := make(map[key]Counts)
	add := func(account, month string, c Counts) {
		k := key{account, month}
		s := sums[k]
		sums[k] = Counts{Lookups: s.Lookups + c.Lookups, Searches: s.Searches + c.Searches, Logos: s.Logos + c.Logos}
	}
	for i := range delay.InTurns(len(events)) {
		e := events[i]
		if err := f.days.add(e); err != nil {
			return projections.Changes{}, e.Errorf("%w", err)
		}
		switch ev := e.Body.(type) {
		case eventschemas.CreditsCharged:
			add(e.Subject, f.month(e.OccurredAt), Counts{Lookups: 1})
		case eventschemas.ChargeReversed:
			at, err := f.charged(ctx, e, ev.ChargeID)
			if err != nil {
				return projections.Changes{}, e.Errorf("%w", err)
			}
			add(e.Subject, f.month(at), Counts{Lookups: -1})
		case eventschemas.UsageTicked:
			for i := range ev.Entries {
				if u := &ev.Entries[i]; u.Searches != 0 || u.Logos != 0 {
					add(u.AccountID, u.Month, Counts{Searches: u.Searches, Logos: u.Logos})
				}
			}
		}
	}
	return f.changes(ctx, q, sums)
}

func (f *fold) changes(ctx context.Context, q projections.Queryer, sums map[key]Counts) (projections.Changes, error) {
	if err := f.rows.Want(ctx, q, maps.Keys(sums)); err != nil {
		return projections.Changes{}, err
	}
	for k, c := range sums {
		row := f.rows.Change(k)
		row.Month = k.month
		row.Lookups += c.Lookups
		row.Searches += c.Searches
		row.Logos += c.Logos
	}
	write := table.Take(f.tables, f.rows, nil)
	if !f.tables.Keep(len(f.days)) {
		write = projections.Writing(write, f.days.write(f.tables))
		f.days = days{}
	}
	return projections.Changes{Write: write}, nil
}

func (f *fold) Reset() {
	f.rows.Reset()
	clear(f.days)
}

func (f *fold) month(at time.Time) string {
	at = at.UTC()
	n := at.Year()*12 + int(at.Month())
	text, ok := f.months[n]
	if !ok {
		text = at.Format(monthLayout)
		f.months[n] = text
	}
	return text
}

// charged returns when a reversed charge was made. Charges can be reversed for a day, so only on the
// first day of a month can the charge belong to another month; only then is the stream read backwards
// for it. That makes a table of all charges unnecessary.
func (f *fold) charged(ctx context.Context, reversal *projections.Event, chargeID string) (time.Time, error) {
	earliest := reversal.OccurredAt.Add(-account.ReversalWindow)
	if f.month(earliest) == f.month(reversal.OccurredAt) {
		return reversal.OccurredAt, nil
	}
	for rec, err := range eventlog.Events(ctx, f.model.log, reversal.Stream, reversal.Revision, eventlog.Backward,
		searchPage) {
		if err != nil {
			return time.Time{}, fmt.Errorf("find charge %s: %w", chargeID, err)
		}
		if rec.OccurredAt.Before(earliest) {
			break
		}
		if found, err := isCharge(rec, chargeID); err != nil || found {
			return rec.OccurredAt, err
		}
	}
	return reversal.OccurredAt, nil // without such a charge the reversal still counts once
}

func isCharge(rec *eventlog.Recorded, chargeID string) (bool, error) {
	if rec.Type != (eventschemas.CreditsCharged{}).EventType() {
		return false, nil
	}
	ev, err := eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data)
	if err != nil {
		return false, fmt.Errorf("find charge %s: %w", chargeID, err)
	}
	charge, ok := ev.(eventschemas.CreditsCharged)
	return ok && charge.ChargeID == chargeID, nil
}
