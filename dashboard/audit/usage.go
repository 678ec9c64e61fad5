package audit

import (
	"context"
	"errors"
	"slices"
	"time"

	"letterhead/dashboard/site"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/usage"
)

// maxDrawnKeys limits the keys in the chart; the table has up to usage.MaxKeys.
const maxDrawnKeys = 10

// period is a choice of days up to today.
type period struct {
	Value string // in the URL
	Name  string
	start func(today time.Time) time.Time // the first day
}

// periods are the choices; the first one is the default.
var periods = []period{
	{"30d", "30 days", func(today time.Time) time.Time { return today.AddDate(0, 0, -29) }},
	{"90d", "90 days", func(today time.Time) time.Time { return today.AddDate(0, 0, -89) }},
	{"12m", "12 months", func(today time.Time) time.Time { return today.AddDate(-1, 0, 1) }},
}

// Usage is what an account used on some days, for charts.
type Usage struct {
	Periods []period
	Period  period
	Problem string // about the period in the URL; then there is nothing else

	First, Last      time.Time // days
	Opened           bool      // the account was opened within the period, which begins there
	Opening, Closing int64     // balances
	Days             []dayRow  // the latest first
	Total            usage.Day
	Keys             []keyUse // the most credits first
	MoreKeys         bool     // there are others, with fewer credits
	MaxKeys          int
	Behind           error // why the latest use may be missing; nil if it is not
}

// UsagePage is the use with what its page is made of.
type UsagePage struct {
	*Usage
	*site.Static
	URL    string // of the page
	Status string // of the account
}

// dayRow is a day with the balance at its end.
type dayRow struct {
	usage.Day
	Balance int64
}

// Number returns the day as the number of days since 1970.
func (d dayRow) Number() int64 { return d.Start.Unix() / int64(24*time.Hour/time.Second) }

// keyUse is what was charged with a key.
type keyUse struct {
	usage.Key
	Name  string // the name of the key, or else its end; empty if the key is not known
	State string // as Key.State
	Drawn bool
	Share float64 // of the credits, in percent
}

// Other returns by how much refunds, their reversal and the closing of the account changed the balance.
func (v *Usage) Other() int64 {
	return v.Total.Net - v.Total.Granted - v.Total.Returned + v.Total.Charged
}

// Usage returns the use of an account, which was opened at a time, in one of the periods; in the first one if none is
// chosen. Errors: those of the stores.
func (a *Auditor) Usage(ctx context.Context, accountID string, opened time.Time, chosen string) (*Usage, error) {
	v := &Usage{Periods: periods, MaxKeys: usage.MaxKeys}
	for _, p := range periods {
		if p.Value == chosen || chosen == "" && v.Period.Value == "" {
			v.Period = p
		}
	}
	if v.Period.Value == "" {
		v.Problem = "There is no such period. Choose one of these."
		return v, nil
	}
	v.Behind = a.fresh(ctx, ledger.Name, usage.Name, keys.Name)
	v.Last = a.Now().UTC().Truncate(24 * time.Hour)
	v.First = v.Period.start(v.Last)
	if opened := opened.UTC().Truncate(24 * time.Hour); opened.After(v.First) && !opened.After(v.Last) {
		v.First, v.Opened = opened, true
	}
	var used usage.Period
	err := a.readLedger(ctx, func() error {
		before, err := a.Ledger.AsOf(ctx, accountID, v.First.Add(-time.Microsecond))
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		v.Opening = before.Balance
		used, err = a.Counts.Period(ctx, accountID, v.First, v.Last.AddDate(0, 0, 1))
		return err
	})
	if err != nil {
		return nil, err
	}
	v.addDays(used.Days)
	v.MoreKeys = used.More
	v.Keys, err = a.keyUses(ctx, accountID, used.Keys, v.Total.Charged)
	return v, err
}

// addDays adds a row for each day of the period.
func (v *Usage) addDays(used []usage.Day) {
	v.Closing = v.Opening
	for day := v.First; !day.After(v.Last); day = day.AddDate(0, 0, 1) {
		row := dayRow{Day: usage.Day{Start: day}}
		if len(used) > 0 && used[0].Start.Equal(day) {
			row.Day, used = used[0], used[1:]
		}
		v.Closing += row.Net
		row.Balance = v.Closing
		v.Days = append(v.Days, row)
		t := &v.Total
		t.Hits, t.Crawls, t.Charged, t.Returned = t.Hits+row.Hits, t.Crawls+row.Crawls, t.Charged+row.Charged,
			t.Returned+row.Returned
		t.Granted, t.Net, t.Searches, t.Logos = t.Granted+row.Granted, t.Net+row.Net, t.Searches+row.Searches, t.Logos+
			row.Logos
	}
	slices.Reverse(v.Days)
}

func (a *Auditor) keyUses(ctx context.Context, accountID string, charged []usage.Key, total int64) ([]keyUse, error) {
	if len(charged) == 0 {
		return nil, nil
	}
	listed, err := a.ListKeys(ctx, accountID)
	if err != nil {
		return nil, err
	}
	known := make(map[string]Key, len(listed))
	for _, k := range listed {
		known[k.ID] = k
	}
	uses := make([]keyUse, len(charged))
	for i, k := range charged {
		uses[i] = keyUse{Key: k, Drawn: i < maxDrawnKeys, Share: float64(k.Charged) * 100 / float64(max(total, 1))}
		if row, ok := known[k.ID]; ok {
			uses[i].Name, uses[i].State = row.Title(), row.State
		}
	}
	return uses, nil
}
