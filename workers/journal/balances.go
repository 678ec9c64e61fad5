package journal

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"letterhead/domain/books"
)

// month counts months since the year 0.
type month int

func monthOf(t time.Time) month { return month(t.Year()*12 + int(t.Month()) - 1) }

// end returns the beginning of the next month.
func (m month) end() time.Time {
	return time.Date(int(m)/12, time.Month(int(m)%12+2), 1, 0, 0, 0, 0, time.UTC)
}

// target is what a posting changes.
type target struct {
	account   books.LedgerAccount
	customer  string
	commodity string
}

// compare orders targets for readers.
func (t target) compare(other target) int {
	return cmp.Or(cmp.Compare(t.account, other.account), strings.Compare(t.customer, other.customer),
		strings.Compare(t.commodity, other.commodity))
}

// balances are the sums of all targets, and their values at the ends of the months that changed them.
type balances struct {
	sums  map[target]*balance
	until time.Time // the first moment after the export; zero if it has no end
	last  time.Time // of all events that were read
}

type balance struct {
	sum   int64
	first time.Time
	month month // of the last change
	ends  []monthEnd
}

type monthEnd struct {
	month month
	sum   int64
}

func newBalances(until time.Time) *balances {
	return &balances{sums: map[target]*balance{}, until: until}
}

func (b *balances) add(e *entry) {
	in := monthOf(e.booked)
	for _, p := range e.postings {
		key := target{p.Account, p.Customer, p.Commodity}
		s, ok := b.sums[key]
		if !ok {
			s = &balance{first: e.booked, month: in}
			b.sums[key] = s
		}
		switch {
		case in > s.month:
			s.ends = append(s.ends, monthEnd{s.month, s.sum})
			s.month = in
		case in < s.month: // accounts share this target, and the clocks of nodes differ
			for i := range s.ends {
				if s.ends[i].month >= in {
					s.ends[i].sum += p.Amount
				}
			}
		}
		if e.booked.Before(s.first) {
			s.first = e.booked
		}
		s.sum += p.Amount
	}
}

// saw records the latest time of all events that were read, also of those outside the export.
func (b *balances) saw(at time.Time) {
	if at.After(b.last) {
		b.last = at
	}
}

// assertion is the value of a target at the end of a month.
type assertion struct {
	target
	monthEnd
}

// assertions returns the values at the ends of months, in order. A month has ended if the log has an event after it, or
// the end of the export has passed in the books; it does not depend on the clock.
func (b *balances) assertions() []assertion {
	var all []assertion
	for key, s := range b.sums {
		for _, end := range append(s.ends, monthEnd{s.month, s.sum}) {
			after := end.month.end()
			if after.After(b.last) || !b.until.IsZero() && after.After(b.until) {
				continue
			}
			all = append(all, assertion{key, end})
		}
	}
	slices.SortFunc(all,
		func(x, y assertion) int { return cmp.Or(cmp.Compare(x.month, y.month), x.target.compare(y.target)) })
	return all
}

type opened struct {
	target                // without a commodity
	first       time.Time // booked posting
	commodities []string
}

func (b *balances) opened() []opened {
	keys := slices.SortedFunc(maps.Keys(b.sums), target.compare)
	var all []opened
	for _, key := range keys {
		commodity, first := key.commodity, b.sums[key].first
		key.commodity = ""
		if n := len(all); n == 0 || all[n-1].target != key {
			all = append(all, opened{target: key, first: first})
		}
		o := &all[len(all)-1]
		o.commodities = append(o.commodities, commodity)
		if first.Before(o.first) {
			o.first = first
		}
	}
	return all
}
