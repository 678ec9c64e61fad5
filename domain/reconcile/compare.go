package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"letterhead/eventschemas"
)

// Options of a comparison.
type Options struct {
	// From and Until limit the time: From ≤ time < Until. If one is zero, that side ends with the day (UTC) of the
	// earliest or latest row. Rows and events outside are used only as counterparts of those inside.
	From, Until time.Time
	// Opening is the balance at the processor before the first row, by currency, in minor units.
	Opening map[string]int64
	// Fees lists the fees of payments that are missing from the ledger even if the ledger has no fees at all.
	Fees bool
}

// reach is how long before the range, or before a row, a refund of the ledger with another id may be about the row.
const reach = 24 * time.Hour

// Report is the result of a comparison.
type Report struct {
	Differences []Difference // first by row of the export, then of the ledger by time
	Clearing    []Clearing   // by currency
}

// found sums up the rows about one payment, refund or dispute.
type found struct {
	kind     Kind
	id       string
	payments []string
	sums     []eventschemas.Money // one for each currency
	at       time.Time            // of the first row
	line     int                  // of the first row; 0 if there is none
	within   bool                 // a row is within the range
	failed   bool                 // all rows are payments that failed
}

func (f *found) add(r *Row, within bool) error {
	if f.line == 0 {
		*f = found{kind: r.Kind, id: r.ID, payments: r.Payments, at: r.At, line: r.Line, failed: true}
	}
	f.within = f.within || within
	f.failed = f.failed && failures[r.Category]
	i := slices.IndexFunc(f.sums, func(m eventschemas.Money) bool { return m.Currency == r.Paid.Currency })
	if i < 0 {
		i, f.sums = len(f.sums), append(f.sums, eventschemas.Money{Currency: r.Paid.Currency})
	}
	f.sums[i].Minor += r.Paid.Minor
	if f.sums[i].Minor > maxSum || f.sums[i].Minor < -maxSum {
		return &ParseError{Line: r.Line,
			Err: fmt.Errorf("the sum of the %s %s is too large", f.kind, cmp.Or(f.id, f.payment()))}
	}
	return nil
}

// money returns the amount of the rows; the first that is not zero if there are several currencies.
func (f *found) money() eventschemas.Money {
	for _, m := range f.sums {
		if m.Minor != 0 {
			return m
		}
	}
	return f.sums[0]
}

// is reports whether the rows have exactly an amount.
func (f *found) is(m eventschemas.Money) bool {
	if m.Minor == 0 {
		return f.isZero()
	}
	return f.money() == m &&
		!slices.ContainsFunc(f.sums, func(sum eventschemas.Money) bool { return sum != m && sum.Minor != 0 })
}

func (f *found) isZero() bool { return f.money().Minor == 0 }

// comparison is a comparison that is running.
type comparison struct {
	ledger      *Ledger
	options     Options
	clearing    map[string]*Clearing
	inRange     bool              // a row is within the range
	unknown     []*found          // payments that are not in the ledger
	unknownByID map[string]*found // by each of their ids
	outflows    []*found          // refunds and disputes
	outflowByID map[string]*found
	fees        []*foundFee
	feeByID     map[string]*foundFee
	report      Report
}

// Compare reads an export to its end and compares it with the ledger, which it changes. Errors: as Reader.Next,
// except io.EOF; that the export has no rows, or none in the range, unless the range has both limits.
//
// A payment is found by any of its ids. A refund or dispute is found by its id among the refunds of the ledger, or else
// by its payment and amount, or else by its payment. Without the id, refunds long before the range and
// the row do not count, and for rows within the range those within are preferred. Rows with the same id count together:
// a refund that fails, or a dispute that is won, adds up to zero and is not expected in the ledger. The fee of a
// payment, or of its refund or dispute, is found by its id among the fees of the payment, or else by its amount among
// those that were not recorded from an export. Fees are compared if the ledger has any.
func Compare(ledger *Ledger, in *Reader, o Options) (*Report, error) {
	c := &comparison{ledger: ledger, options: o, clearing: map[string]*Clearing{}, unknownByID: map[string]*found{},
		outflowByID: map[string]*found{}, feeByID: map[string]*foundFee{}}
	for currency, opening := range o.Opening {
		if opening > maxSum || opening < -maxSum {
			return nil, fmt.Errorf("the opening balance in %s is too large", currency)
		}
		c.clearing[currency] = &Clearing{Currency: currency, Opening: opening, Closing: opening}
	}
	var first, last time.Time
	for {
		row, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if first.IsZero() || row.At.Before(first) {
			first = row.At
		}
		if row.At.After(last) {
			last = row.At
		}
		if err := c.row(&row); err != nil {
			return nil, err
		}
	}
	switch both := !o.From.IsZero() && !o.Until.IsZero(); {
	case both || c.inRange:
	case first.IsZero():
		return nil, errors.New("the file has no rows; give --from and --to")
	default:
		return nil, errors.New("no row of the file is in the range")
	}
	const day = 24 * time.Hour
	if c.options.From.IsZero() {
		c.options.From = first.Truncate(day)
	}
	if c.options.Until.IsZero() {
		c.options.Until = last.Truncate(day).Add(day)
	}
	c.finish()
	return &c.report, nil
}

func (c *comparison) within(at time.Time) bool {
	return !at.Before(c.options.From) && (c.options.Until.IsZero() || at.Before(c.options.Until))
}

func (c *comparison) row(r *Row) error {
	within := c.within(r.At)
	if within {
		c.inRange = true
		sums, ok := c.clearing[r.Currency]
		if !ok {
			sums = &Clearing{Currency: r.Currency}
			c.clearing[r.Currency] = sums
		}
		if err := sums.add(r); err != nil {
			return err
		}
	}
	if err := c.fee(r, within); err != nil {
		return err
	}
	switch r.Kind {
	case Payment:
		return c.pay(r).add(r, within)
	case Refund, Dispute:
		return c.outflow(r).add(r, within)
	}
	return nil
}

// pay returns what the row is added to.
func (c *comparison) pay(r *Row) *found {
	if p := c.payment(r.Payments, func(p *payment) bool { return p.found.line == 0 && p.paid == r.Paid }); p != nil {
		return &p.found
	}
	if f := c.unknownOf(r.Payments); f != nil {
		return f
	}
	f := &found{}
	c.unknown = append(c.unknown, f)
	for _, id := range r.Payments {
		c.unknownByID[id] = f
	}
	return f
}

// payment returns the payment of the ledger with one of the ids. If several accounts have one, it prefers those that
// fit.
func (c *comparison) payment(ids []string, fits func(*payment) bool) *payment {
	var first *payment
	for _, id := range ids {
		for _, p := range c.ledger.byID[id] {
			if fits(p) {
				return p
			}
			first = cmp.Or(first, p)
		}
	}
	return first
}

// outflow returns what the row of a refund or dispute is added to.
func (c *comparison) outflow(r *Row) *found {
	if f, ok := c.outflowByID[r.ID]; ok {
		return f
	}
	f := &found{}
	c.outflows = append(c.outflows, f)
	if r.ID != "" {
		c.outflowByID[r.ID] = f
	}
	return f
}

func (c *comparison) finish() {
	c.pair()
	for _, f := range c.unknown {
		if !f.isZero() && f.within {
			c.add(Difference{Result: Missing, Processor: pointer(f.money()), PaymentID: f.payment(), At: f.at,
				Line: f.line, Kind: Payment})
		}
	}
	for _, p := range c.ledger.payments {
		c.comparePayment(p)
		for _, r := range p.refunds {
			c.compareRefund(r)
		}
	}
	c.compareFees()
	slices.SortFunc(c.report.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), a.At.Compare(b.At), strings.Compare(a.AccountID, b.AccountID),
			strings.Compare(a.PaymentID, b.PaymentID), strings.Compare(a.ID, b.ID))
	})
	for _, currency := range slices.Sorted(maps.Keys(c.clearing)) {
		c.report.Clearing = append(c.report.Clearing, *c.clearing[currency])
	}
}

// order sorts the differences without a row after all others.
func order(d Difference) uint { return uint(d.Line) - 1 }

// pair finds the refunds of the ledger for the refunds and disputes of the export.
func (c *comparison) pair() {
	left := c.outflows
	sameSide := func(f *found, r *refund) bool { return f.within == c.within(r.at) }
	near := func(f *found, r *refund) bool {
		return !r.at.Before(c.options.From.Add(-reach)) || !r.at.Before(f.at.Add(-reach))
	}
	for _, same := range []func(*found, *refund) bool{
		func(f *found, r *refund) bool { return f.id != "" && r.id == f.id && f.is(r.money) },
		func(f *found, r *refund) bool { return f.id != "" && r.id == f.id },
		func(f *found, r *refund) bool { return f.is(r.money) && sameSide(f, r) },
		func(f *found, r *refund) bool { return f.is(r.money) && near(f, r) },
		sameSide,
		near,
	} {
		left = slices.DeleteFunc(left, func(f *found) bool {
			for _, r := range c.candidates(f) {
				if r.found == nil && same(f, r) {
					r.found = f
					return true
				}
			}
			return false
		})
	}
	for _, f := range left {
		unknown := c.unknownOf(f.ids())
		switch {
		case f.isZero():
		case f.failed && unknown != nil:
			for _, m := range f.sums { // the payment was never granted
				unknown.add(&Row{Paid: m}, false)
			}
		case f.failed && !c.granted(f): // the payment is in an earlier file
		case f.within:
			c.add(Difference{Result: Missing, Kind: f.kind, Processor: pointer(f.money()), PaymentID: f.payment(),
				ID: f.id, At: f.at, Line: f.line})
		}
	}
}

// candidates returns the refunds of the ledger that rows may be about, because they have their id or their payment.
// Rows that add up to zero are only about a refund with their id.
func (c *comparison) candidates(f *found) []*refund {
	all := slices.Clone(c.ledger.refunds[f.id])
	if f.isZero() {
		return all
	}
	for _, id := range f.ids() {
		for _, p := range c.ledger.byID[id] {
			all = append(all, p.refunds...)
		}
	}
	return all
}

// granted reports whether the payment of a refund is in the ledger.
func (c *comparison) granted(f *found) bool {
	return slices.ContainsFunc(f.ids(), func(id string) bool { return len(c.ledger.byID[id]) > 0 })
}

// unknownOf returns the payment that has one of the ids and is not in the ledger, or nil.
func (c *comparison) unknownOf(ids []string) *found {
	for _, id := range ids {
		if unknown, ok := c.unknownByID[id]; ok {
			return unknown
		}
	}
	return nil
}

func (c *comparison) comparePayment(p *payment) {
	d := Difference{Kind: Payment, Ledger: pointer(p.paid), AccountID: p.account, PaymentID: p.key.payment, At: p.at}
	c.compare(d, &p.found, p.paid)
}

func (c *comparison) compareRefund(r *refund) {
	d := Difference{Kind: Refund, Ledger: pointer(r.money), AccountID: r.account, PaymentID: r.key.payment,
		ID: r.id, At: r.at}
	f := &found{}
	if r.found != nil {
		f, d.Kind = r.found, r.found.kind
	}
	c.compare(d, f, r.money)
}

// compare adds d, which describes an event, if the rows about the event do not have its money.
func (c *comparison) compare(d Difference, f *found, money eventschemas.Money) {
	switch {
	case !c.within(d.At) && !f.within:
		return
	case f.line == 0 && money.Minor == 0: // no money was to be paid
		return
	case f.line == 0:
		d.Result = Extra
	case f.is(money):
		return
	default:
		d.Result, d.Processor, d.Line = Different, pointer(f.money()), f.line
	}
	c.add(d)
}

func (c *comparison) add(d Difference) { c.report.Differences = append(c.report.Differences, d) }

// ids returns the ids of the payment of a refund or dispute; some processors give the payment as the source.
func (f *found) ids() []string { return append([]string{f.id}, f.payments...) }

// payment returns the id to name in a report, empty if there is none.
func (f *found) payment() string { return append(slices.Clone(f.payments), "")[0] }

// pointer returns nil for no money.
func pointer(m eventschemas.Money) *eventschemas.Money {
	if m.Currency == "" {
		return nil
	}
	return &m
}
