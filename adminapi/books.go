package adminapi

import (
	"cmp"
	"slices"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/operations"
)

// maxReportRows limits the rows of a report in an answer. Each page folds the whole log, so pages are long.
const maxReportRows = 10_000

// revenueObject returns a row of the report of money for JSON. Money is in minor units.
func revenueObject(by string, r *books.RevenueRow) map[string]any {
	object := map[string]any{by: r.Group, "currency": r.Currency, "opening_deferred": r.Opening, "received": r.Received,
		"tax":      r.Tax,
		"refunded": r.Refunded, "recognized": r.Recognized, "breakage": r.Breakage, "fees": r.Fees,
		"closing_deferred": r.Closing}
	if by == books.ByPlan {
		delete(object, "opening_deferred")
		delete(object, "closing_deferred")
	}
	return markRunning(object, r.Running)
}

// usageObject returns a row of the report of credits for JSON.
func usageObject(by string, u *books.UsageRow) map[string]any {
	p, free := &u.Paid, &u.Promotional
	return markRunning(map[string]any{
		by: u.Group, "paid_granted": p.CreditsGranted, "paid_used": p.CreditsUsed, "paid_broken": p.CreditsBroken,
		"paid_refunded": p.CreditsRefunded, "promotional_granted": free.CreditsGranted,
		"promotional_used": free.CreditsUsed, "promotional_broken": free.CreditsBroken,
		"promotional_refunded": free.CreditsRefunded,
	}, u.Running)
}

func markRunning(object map[string]any, running bool) map[string]any {
	return Moment{Provisional: running}.Mark(object)
}

// unspentObject returns a row of the report of unspent credits for JSON. Money is in minor units.
func unspentObject(u *books.UnspentRow, provisional bool) map[string]any {
	return markRunning(map[string]any{"account": u.Holder.ID, "plan": u.Holder.Plan, "closed": u.Holder.Closed,
		"currency": u.Currency, "credits": u.Credits, "deferred": u.Deferred, "deficit": u.Deficit}, provisional)
}

// reportRow is a row of a report. Its exported fields are its place, which a cursor has.
type reportRow struct {
	Report string // and its groups
	books.FlowKey
	object any
}

func (x *exchange) getRevenue() error {
	q := x.query("by", "currency", "from", "to", "limit", "cursor")
	currency := q.text("currency")
	if q.err == nil && currency != "" && !account.IsCurrency(currency) {
		return invalid("The parameter currency must be an ISO 4217 code, such as EUR.")
	}
	return x.reportFlows("revenue", q, func(by string, f *books.Flows, now time.Time) (rows []reportRow) {
		for _, r := range f.Revenue(now) {
			if currency != "" && r.Currency != currency {
				continue
			}
			rows = append(rows, reportRow{FlowKey: r.FlowKey, object: revenueObject(by, &r)})
		}
		return rows
	})
}

func (x *exchange) getUsage() error {
	q := x.query("by", "from", "to", "limit", "cursor")
	return x.reportFlows("usage", q, func(by string, f *books.Flows, now time.Time) (rows []reportRow) {
		for _, u := range f.Usage(now) {
			rows = append(rows, reportRow{FlowKey: books.FlowKey{Group: u.Group}, object: usageObject(by, &u)})
		}
		return rows
	})
}

// reportFlows answers with the report of a name, which rows derives from sums.
func (x *exchange) reportFlows(name string, q *parameters,
	rows func(by string, f *books.Flows, now time.Time) []reportRow) error {
	by := cmp.Or(q.oneOf("by", books.Groups()...), books.ByMonth)
	from, until := q.period()
	return x.report(q, name+" by "+by, func() ([]reportRow, error) {
		flows, err := x.api.Operations.Books.Flows(x.ctx, by, from, until)
		return rows(by, flows, x.api.Now()), err
	})
}

func (x *exchange) getOverview() error {
	rows, complete, err := x.api.Operations.Books.Overview(x.ctx)
	return x.reply(map[string]any{"rows": append([]operations.MonthTotals{}, rows...), "complete": complete}, err)
}

func (x *exchange) getDeferred() error {
	q := x.query("at", "limit", "cursor")
	until, provisional := q.reportEnd(x.api.Now())
	return x.report(q, "deferred", func() (rows []reportRow, err error) {
		ledger, err := x.api.Operations.Books.Fold(x.ctx, until,
			func(time.Time, *books.Holder, string, books.Movement) {})
		if err != nil {
			return nil, err
		}
		for _, u := range ledger.Unspent() {
			rows = append(rows, reportRow{FlowKey: books.FlowKey{Group: u.Holder.ID, Currency: u.Currency},
				object: unspentObject(&u, provisional)})
		}
		return rows, nil
	})
}

func (x *exchange) getBreakage() error {
	q := x.query("closed_before", "limit", "cursor")
	before, _ := q.span("closed_before")
	if q.err == nil && before.IsZero() {
		return invalid("The parameter closed_before is needed: a time such as 2026-11-01.")
	}
	return x.report(q, "breakage", func() (rows []reportRow, err error) {
		all, err := x.api.Operations.Books.Breakage(x.ctx, before)
		if err != nil {
			return nil, err
		}
		for _, b := range all {
			rows = append(rows, reportRow{FlowKey: books.FlowKey{Group: b.Account, Currency: b.Currency}, object: b})
		}
		return rows, nil
	})
}

// report answers with the rows of a report that follow the page before. It may fold the whole log, so few run at a time.
func (x *exchange) report(q *parameters, name string, fold func() ([]reportRow, error)) error {
	limit, last := q.limitOf(maxReportRows, maxReportRows), after[reportRow](q)
	if q.err != nil {
		return q.err
	}
	if last != nil && last.Report != name {
		return invalid("The cursor belongs to another report. Send the same path and the same by as before.")
	}
	end, err := x.startReport()
	if err != nil {
		return err
	}
	defer end()
	rows, err := fold()
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].Report = name
	}
	if last != nil {
		rows = slices.DeleteFunc(rows, func(r reportRow) bool { return r.Compare(last.FlowKey) <= 0 })
	}
	return x.reply(page("rows", q, rows, limit, func(r *reportRow) any { return r.object }))
}

func (x *exchange) recognizeBreakage(id string, in struct {
	Policy string `json:"policy"`
}) error {
	if err := x.needsKey(""); err != nil {
		return err
	}
	rows, err := x.api.Operations.Books.RecognizeBreakage(x.ctx, x.by(), id, in.Policy)
	return x.reply(map[string]any{"rows": append([]operations.Breakage{}, rows...)}, err)
}
