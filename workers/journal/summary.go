package journal

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"letterhead/domain/books"
)

// Summary is the length of the periods whose transactions an export adds up; it is empty for the detail.
type Summary string

// Summaries.
const (
	ByDay   Summary = "day"
	ByMonth Summary = "month"
)

// Summarized is the event name of the transactions of a summary, but for those that open it.
const Summarized = "Summary"

// summaryOnly is the number of the last columns, which only a summary has.
const summaryOnly = 2

// columns returns the columns of formats that have a row for each posting.
func (s Summary) columns() []string {
	details := len(columns) - summaryOnly
	if s == "" {
		return columns[:details]
	}
	return slices.Concat(columns[:slices.Index(columns[:], "kind")], columns[details:])
}

// group is what the postings of a transaction of a summary have in common: the period, the commodity, the plan, the tax
// rate, and the month that had ended before.
type group [5]string

// summary adds up transactions, those of all customers together.
type summary struct {
	by      Summary
	journal *books.Journal // from which the transactions are
	entries map[group]*entry
}

// add adds the current transaction of the journal, or one that opens it.
func (s *summary) add(e *entry) {
	period, plan, event := e.booked.Format(time.DateOnly), s.journal.Plan(e.account), Summarized
	if s.by == ByMonth {
		period = e.booked.Format(books.MonthLayout)
	}
	if e.isSum() {
		period, plan, event = "opening", "", Opening
	}
	post := func(taxRate string, p books.Posting) {
		g := group{period, p.Commodity, plan, taxRate, e.lateFor}
		sum, ok := s.entries[g]
		if !ok {
			sum = &entry{id: strings.TrimRight(strings.Join(g[:], "/"), "/"), event: event,
				details: details{plan: plan, taxRate: taxRate}, lateFor: e.lateFor}
			s.entries[g] = sum
		}
		if e.booked.After(sum.booked) {
			sum.booked, sum.at = e.booked, e.booked
		}
		p.Customer = ""
		sum.postings = books.Merge(sum.postings, p)
	}
	for _, p := range e.postings {
		if e.isSum() || p.Commodity == books.CreditUnit {
			post("", p)
		}
	}
	if !e.isSum() {
		s.journal.Money(post)
	}
}

// transactions returns the sums in order, but for those whose amounts are all zero.
func (s *summary) transactions() []*entry {
	all := slices.SortedFunc(maps.Values(s.entries), func(a, b *entry) int {
		return cmp.Or(strings.Compare(a.event, b.event), strings.Compare(a.id, b.id)) // Opening is first
	})
	return slices.DeleteFunc(all, func(e *entry) bool {
		e.postings = slices.DeleteFunc(e.postings, func(p books.Posting) bool { return p.Amount == 0 })
		slices.SortFunc(e.postings, func(a, b books.Posting) int { return cmp.Compare(a.Account, b.Account) })
		return len(e.postings) == 0
	})
}
