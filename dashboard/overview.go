package dashboard

import (
	"context"
	"errors"
	"net/http"
	"time"

	"letterhead/domain/plan"
	"letterhead/domain/usage"
	"letterhead/projections/ledger"
	usagemodel "letterhead/projections/usage"
)

// latestEntries is the number of entries of the ledger on the overview.
const latestEntries = 8

// overviewView is the data of the overview. A problem takes the place of a part that cannot be shown now.
type overviewView struct {
	Balance, Available, Held int64
	Plan                     plan.Plan
	CreditsProblem           *problem

	Month        time.Time
	Lookups      int64
	Allowances   []allowance
	UsageProblem *problem

	Burn        usage.Burn
	RunsOut     time.Time // zero: not within ten years
	BurnProblem *problem

	Lines         []ledger.Line
	LedgerProblem *problem

	BaseURL string
}

// allowance is what a month's allowance of the plan has left.
type allowance struct {
	Name        string
	Used, Limit int64 // the limit is plan.Unlimited if there is none
}

// Unlimited reports whether there is no limit.
func (a allowance) Unlimited() bool { return a.Limit == plan.Unlimited }

// Percent returns the share that is used.
func (a allowance) Percent() int64 { return min(a.Used, a.Limit) * 100 / max(a.Limit, 1) }

// High returns the number from which little is left.
func (a allowance) High() int64 { return a.Limit / 10 * 9 }

// showOverview answers GET /dashboard. Each part has its own source, and the page shows those that answer.
func (x *exchange) showOverview() error {
	now := x.Now().UTC()
	v := overviewView{Month: usage.MonthOf(now).Start(), BaseURL: x.BaseURL}
	notice := x.fresh(ledger.Name, usagemodel.Name)
	for _, part := range []struct {
		load    func(*overviewView, time.Time) error
		problem **problem
	}{
		{x.loadCredits, &v.CreditsProblem}, {x.loadUsage, &v.UsageProblem}, {x.loadBurn, &v.BurnProblem},
		{x.loadLatest, &v.LedgerProblem},
	} {
		if err := part.load(&v, now); err != nil {
			p := problemOf(err)
			if p.Status != http.StatusServiceUnavailable {
				return err
			}
			if p != v.CreditsProblem { // which was logged
				x.log(p)
			}
			*part.problem = p
		}
	}
	return x.show(http.StatusOK, "overview", view{Title: "Overview", Section: "Overview", Notice: notice, Page: v})
}

func (x *exchange) loadCredits(v *overviewView, _ time.Time) error {
	standing, err := x.Writer.Standing(x.Ctx, x.session.AccountID)
	if err != nil {
		return err
	}
	v.Plan, err = x.Plans.Get(standing.Plan)
	v.Balance, v.Available, v.Lookups = standing.Balance, standing.Available, standing.Lookups
	v.Held = max(standing.Balance, 0) - max(standing.Available, 0)
	return err
}

func (x *exchange) loadUsage(v *overviewView, now time.Time) error {
	if v.CreditsProblem != nil { // without the plan there are no allowances
		return v.CreditsProblem
	}
	month := usage.MonthOf(now).String()
	searches, err := x.Quotas.Searches(x.Ctx, x.session.AccountID, month)
	if err != nil {
		return err
	}
	counted, err := x.Usage.Get(x.Ctx, x.session.AccountID, month)
	if err != nil {
		return err
	}
	v.Allowances = []allowance{{"Searches", searches, v.Plan.SearchesPerMonth}, {"Logos", counted.Logos,
		v.Plan.LogosPerMonth}}
	return nil
}

func (x *exchange) loadBurn(v *overviewView, now time.Time) error {
	if v.CreditsProblem != nil {
		return v.CreditsProblem
	}
	var spent int64
	err := x.readLedger(func(ctx context.Context) (err error) {
		spent, err = x.Ledger.Spent(ctx, x.session.AccountID, usage.BurnSince(now))
		return err
	})
	if err != nil {
		return err
	}
	v.Burn = usage.BurnOf(spent, x.account.OpenedAt, now)
	v.RunsOut, _ = v.Burn.RunsOut(v.Available, now)
	return nil
}

func (x *exchange) loadLatest(v *overviewView, _ time.Time) error {
	return x.readLedger(func(ctx context.Context) error {
		latest, _, err := x.Ledger.Latest(ctx, x.session.AccountID,
			ledger.Filter{Credits: true, ForCustomer: true}, latestEntries)
		if err != nil {
			return err
		}
		v.Lines, err = ledger.Lines(ctx, x.Names, latest)
		return err
	})
}

// fresh waits until the named read models have what was answered before. If that is not certain, it returns a sentence
// for the page, which then shows what they have.
func (x *exchange) fresh(names ...string) (notice string) {
	ctx, cancel := context.WithTimeout(x.Ctx, freshWithin)
	defer cancel()
	return x.noticeOf(x.Operations.Reads.Folded(ctx, names...))
}

// noticeOf returns the sentence for a page that shows read models which may be behind for a reason; empty for nil.
func (x *exchange) noticeOf(err error) string {
	if err == nil {
		return ""
	}
	x.log(&problem{Status: http.StatusServiceUnavailable, Cause: err})
	p := problemOf(err)
	if errors.Is(err, context.DeadlineExceeded) {
		return "The tables that this page reads are behind. What happened in the last moments may be missing."
	}
	return p.Title + ". What happened in the last moments may be missing."
}
