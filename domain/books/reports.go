package books

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Groups of Flows.
const (
	ByMonth   = "month"
	ByPlan    = "plan"
	ByAccount = "account"
)

// Groups returns the groups by which Flows sums.
func Groups() []string { return []string{ByMonth, ByPlan, ByAccount} }

// FlowKey identifies a row of a report.
type FlowKey struct {
	Group    string // a month, a plan or the id of an account
	Currency string // empty for promotional credits
}

// Compare orders rows.
func (k FlowKey) Compare(other FlowKey) int {
	return cmp.Or(cmp.Compare(k.Group, other.Group), cmp.Compare(k.Currency, other.Currency))
}

// flow is a row of sums: what came before the reported time, and what happened in it.
type flow struct {
	before, in Movement
	month      time.Time // of in, in a report by month
}

// Flows sums movements by month, plan or account.
type Flows struct {
	by          string
	from, until time.Time
	flows       map[FlowKey]flow
}

// NewFlows returns empty sums by one of Groups. The report begins at from, and ends before until; a zero time is open.
func NewFlows(by string, from, until time.Time) *Flows {
	return &Flows{by: by, from: from, until: until, flows: map[FlowKey]flow{}}
}

// Add adds a movement that is booked before the end of the report.
func (f *Flows) Add(at time.Time, h *Holder, currency string, m Movement) {
	key := FlowKey{h.ID, currency}
	switch f.by {
	case ByMonth:
		key.Group = at.UTC().Format(MonthLayout)
		if at.Before(f.from) {
			key.Group = "" // before all months
		}
	case ByPlan:
		key.Group = h.Plan
	}
	row := f.flows[key]
	if at.Before(f.from) {
		row.before.Add(m)
	} else {
		row.month = MonthOf(at)
		row.in.Add(m)
	}
	f.flows[key] = row
}

// rows returns the rows and their keys in order. A report by month has a row for each month from its start, or from the
// first movement, to its end, or now.
func (f *Flows) rows(now time.Time) ([]FlowKey, map[FlowKey]flow) {
	rows := f.flows
	if f.by == ByMonth {
		rows = f.months(now)
	}
	return slices.SortedFunc(maps.Keys(rows), FlowKey.Compare), rows
}

// months returns the rows with the months without movements, and gives each month what came before it.
func (f *Flows) months(now time.Time) map[FlowKey]flow {
	var month time.Time
	last := now.UTC()
	if !f.from.IsZero() {
		month = MonthOf(f.from)
	}
	if !f.until.IsZero() && f.until.Before(last) {
		last = f.until.Add(-time.Microsecond)
	}
	rows := map[FlowKey]flow{}
	currencies := map[string]Movement{} // what came before the month
	for k, row := range f.flows {
		sum := currencies[k.Currency]
		sum.Add(row.before)
		currencies[k.Currency] = sum
		if row.month.IsZero() { // before all months
			continue
		}
		rows[k] = row
		if month.IsZero() || row.month.Before(month) {
			month = row.month
		}
	}
	for ; !month.IsZero() && !month.After(last); month = month.AddDate(0, 1, 0) {
		for currency, before := range currencies {
			key := FlowKey{month.Format(MonthLayout), currency}
			row := rows[key]
			row.before = before
			rows[key] = row
			before.Add(row.in)
			currencies[currency] = before
		}
	}
	return rows
}

// isRunning reports whether the figures of a group still change: those of the running month, and those of each plan and
// account unless the report ends before now.
func (f *Flows) isRunning(group string, now time.Time) bool {
	if f.by == ByMonth {
		return group == now.UTC().Format(MonthLayout)
	}
	return f.until.IsZero() || f.until.After(now)
}

// RevenueRow is the money of a group in one currency, in minor units.
type RevenueRow struct {
	FlowKey
	Movement       // within the time of the report
	Opening  int64 // deferred revenue
	Closing  int64 // deferred revenue
	Credits  int64 // that are not used at the end
	Running  bool  // its figures still change, as in the running month
}

// Revenue returns the report of money, in the order of FlowKey.Compare. A change of plan does not move deferred
// revenue, so a report by plan should show neither the opening nor the closing one.
func (f *Flows) Revenue(now time.Time) []RevenueRow {
	promotional := func(r RevenueRow) bool { return r.Currency == "" }
	return slices.DeleteFunc(f.Totals(now), promotional)
}

// Totals returns the report of money with the rows of promotional credits, which have no currency.
func (f *Flows) Totals(now time.Time) (report []RevenueRow) {
	keys, rows := f.rows(now)
	for _, k := range keys {
		row := rows[k]
		opening := row.before.Deferred()
		report = append(report, RevenueRow{FlowKey: k, Movement: row.in, Opening: opening,
			Closing: opening + row.in.Deferred(), Credits: row.before.Unspent() + row.in.Unspent(),
			Running: f.isRunning(k.Group, now)})
	}
	return report
}

// UsageRow is the credits of a group.
type UsageRow struct {
	Group       string
	Paid        Movement // of grants with money, in any currency
	Promotional Movement
	Running     bool // its figures still change, as in the running month
}

// Usage returns the report of credits, in the order of groups.
func (f *Flows) Usage(now time.Time) (report []UsageRow) {
	keys, rows := f.rows(now)
	for _, k := range keys {
		if n := len(report); n == 0 || report[n-1].Group != k.Group {
			report = append(report, UsageRow{Group: k.Group, Running: f.isRunning(k.Group, now)})
		}
		last := &report[len(report)-1]
		if k.Currency == "" {
			last.Promotional.Add(rows[k].in)
		} else {
			last.Paid.Add(rows[k].in)
		}
	}
	return report
}

// UnspentRow is what is left of the grants of an account in one currency.
type UnspentRow struct {
	Holder   *Holder
	Currency string // empty for promotional credits
	Rest
	Deficit int64 // credits below zero; in the row without a currency
}

// Unspent returns what is left of the grants of all accounts, in the order of ids and currencies.
func (l *Ledger) Unspent() (report []UnspentRow) {
	for _, id := range slices.Sorted(maps.Keys(l.holders)) {
		h := l.holders[id]
		rests := h.Rests()
		if h.Deficit() > 0 {
			rests[""] = Rest{} // a deficit leaves no unspent credits
		}
		for _, currency := range slices.Sorted(maps.Keys(rests)) {
			u := UnspentRow{Holder: h, Currency: currency, Rest: rests[currency]}
			if currency == "" {
				u.Deficit = h.Deficit()
			}
			report = append(report, u)
		}
	}
	return report
}
