package statement

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"time"

	"letterhead/domain/books"
)

// columns of the CSV form.
var columns = []string{"line", "date", "reference", "kind", "payment_id", "revision", "events", "credits",
	"currency", "money", "tax"}

// row is a line of the CSV form. Numbers are left out where they have no meaning.
type row struct {
	line, date, reference, kind, payment string
	revision                             string
	events, credits                      string
	currency, money, tax                 string
}

// CSV returns the statement as CSV (RFC 4180). The column line names what a row is. Credits and money that reduce the
// balance, or were returned, are negative; money has the decimals of its currency.
func (s *Statement) CSV() ([]byte, error) {
	var file bytes.Buffer
	w := csv.NewWriter(&file)
	if err := w.Write(columns); err != nil {
		return nil, err
	}
	for _, r := range s.rows() {
		cell := books.SafeCell
		if err := w.Write([]string{r.line, r.date, cell(r.reference), cell(r.kind), cell(r.payment), r.revision,
			r.events, r.credits, r.currency, r.money, r.tax}); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return file.Bytes(), w.Error()
}

func (s *Statement) rows() []row {
	rows := []row{
		{line: "statement", date: s.Month, reference: s.AccountID, kind: s.State()},
		{line: "opening_balance", credits: number(s.OpeningBalance)},
	}
	for _, g := range s.Grants {
		r := row{line: "grant", date: stamp(g.At), reference: g.Reason, kind: g.Kind, payment: g.PaymentID,
			revision: strconv.FormatUint(g.Revision, 10), events: "1", credits: number(g.Credits)}
		rows = append(rows, r.with(g.Currency, g.Money, g.Tax))
	}
	for _, f := range s.Refunds {
		r := row{line: "refund", date: stamp(f.At), reference: f.RefundID, payment: f.PaymentID,
			revision: strconv.FormatUint(f.Revision, 10), events: "1", credits: number(-f.Credits)}
		rows = append(rows, r.with(f.Currency, -f.Money, -f.Tax))
	}
	for _, d := range s.UsageByDay {
		rows = append(rows, row{line: "used", date: d.Date, events: number(d.Charges), credits: number(-d.Used)})
		if d.Reversals > 0 {
			rows = append(rows,
				row{line: "reversed", date: d.Date, events: number(d.Reversals), credits: number(d.Reversed)})
		}
	}
	for _, k := range s.UsageByKey {
		rows = append(rows,
			row{line: "used_by_key", reference: k.KeyID, events: number(k.Charges), credits: number(-k.Used)})
	}
	for _, m := range s.Money {
		rows = append(rows, row{line: "paid"}.with(m.Currency, m.Paid, m.PaidTax),
			row{line: "returned"}.with(m.Currency, -m.Refunded, -m.RefundedTax))
	}
	if s.Breakage > 0 {
		rows = append(rows, row{line: "breakage", credits: number(-s.Breakage)})
	}
	return append(rows,
		row{line: "closing_balance", credits: number(s.ClosingBalance)},
		row{line: "chain", reference: s.Chain.Hash, revision: strconv.FormatUint(s.Chain.Revision, 10)})
}

// with returns the row with an amount, unless it has no currency.
func (r row) with(currency string, minor, tax int64) row {
	if currency != "" {
		r.currency, r.money, r.tax = currency, amount(minor, currency), amount(tax, currency)
	}
	return r
}

func amount(minor int64, currency string) string {
	return string(books.AppendAmount(nil, minor, currency))
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func stamp(t time.Time) string { return t.Format(time.RFC3339) }
