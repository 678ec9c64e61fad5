package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"letterhead/internal/uplot"
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

// usageView is the data of the page with charts.
type usageView struct {
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

	UPlot, UPlotStyle, Script string // paths
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
	State string // as keyRow.State
	Drawn bool
	Share float64 // of the credits, in percent
}

// Other returns by how much refunds, their reversal and the closing of the account changed the balance.
func (v usageView) Other() int64 {
	return v.Total.Net - v.Total.Granted - v.Total.Returned + v.Total.Charged
}

func (x *exchange) showUsage() error {
	v := usageView{Periods: periods, MaxKeys: usage.MaxKeys, UPlot: x.pages.uplot, UPlotStyle: x.pages.uplotStyle,
		Script: x.pages.charts}
	chosen := x.Request.URL.Query().Get("period")
	for _, p := range periods {
		if p.Value == chosen || chosen == "" && v.Period.Value == "" {
			v.Period = p
		}
	}
	if v.Period.Value == "" {
		v.Problem = "There is no such period. Choose one of these."
		return x.show(http.StatusUnprocessableEntity, "usage", view{Title: "Usage", Section: "Usage", Page: v})
	}
	notice := x.fresh(ledger.Name, usage.Name, keys.Name)
	v.Last = x.Now().UTC().Truncate(24 * time.Hour)
	v.First = v.Period.start(v.Last)
	if opened := x.account.OpenedAt.UTC().Truncate(24 * time.Hour); opened.After(v.First) && !opened.After(v.Last) {
		v.First, v.Opened = opened, true
	}
	var used usage.Period
	err := x.readLedger(func(ctx context.Context) (err error) {
		before, err := x.Ledger.AsOf(ctx, x.session.AccountID, v.First.Add(-time.Microsecond))
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		v.Opening = before.Balance
		used, err = x.Usage.Period(ctx, x.session.AccountID, v.First, v.Last.AddDate(0, 0, 1))
		return err
	})
	if err != nil {
		return err
	}
	v.addDays(used.Days)
	if v.Keys, err = x.keyUses(used.Keys, v.Total.Charged); err != nil {
		return err
	}
	v.MoreKeys = used.More
	return x.show(http.StatusOK, "usage", view{Title: "Usage", Section: "Usage", Notice: notice, Page: v})
}

// addDays adds a row for each day of the period.
func (v *usageView) addDays(used []usage.Day) {
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

func (x *exchange) keyUses(charged []usage.Key, total int64) ([]keyUse, error) {
	if len(charged) == 0 {
		return nil, nil
	}
	listed, err := x.listKeys()
	if err != nil {
		return nil, err
	}
	known := make(map[string]keyRow, len(listed))
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

func (p *pages) addCharts() (err error) {
	p.uplot = p.static.Serve(uplot.ScriptName, "text/javascript; charset=utf-8", uplot.Script)
	p.uplotStyle = p.static.Serve(uplot.StyleName, "text/css; charset=utf-8", uplot.Style)
	p.charts, err = p.static.Add(files, "files/charts.js", "text/javascript; charset=utf-8")
	return err
}
