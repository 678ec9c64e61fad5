package reconcile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"letterhead/eventschemas"
)

// foundFee sums up the rows with one fee.
type foundFee struct {
	id       string
	made     []string // ids under which an earlier export may have had it
	isMade   bool     // the id is made from the row
	ids      []string // of the payment, or of its refund or dispute
	paid     eventschemas.Money
	money    eventschemas.Money
	at       time.Time // of the first row
	line     int       // of the first row
	rows     int       // with the same made id
	within   bool      // a row is within the range
	payment  *payment
	accounts int // that have the payment
	inLedger *fee
}

// fee adds the fee of a row about a payment.
func (c *comparison) fee(r *Row, within bool) error {
	if r.Fee == 0 || r.FeeID == "" || r.Kind != Payment && r.Kind != Refund && r.Kind != Dispute {
		return nil
	}
	id := r.FeeID
	f, ok := c.feeByID[id]
	isMade := slices.Contains(r.MadeFeeIDs, id)
	if ok && isMade { // another row with the same amount is another fee
		f.rows++
		id, ok = id+":"+strconv.Itoa(f.rows), false
	}
	if !ok {
		f = &foundFee{id: id, rows: 1, made: r.MadeFeeIDs, isMade: isMade,
			money: eventschemas.Money{Currency: r.Currency}, at: r.At, line: r.Line}
		c.fees, c.feeByID[f.id] = append(c.fees, f), f
	}
	if r.Kind == Payment && f.paid.Currency == "" {
		f.paid = r.Paid
	}
	f.within = f.within || within
	for _, id := range append([]string{r.ID}, r.Payments...) {
		if id != "" && !slices.Contains(f.ids, id) {
			f.ids = append(f.ids, id)
		}
	}
	f.money.Minor += r.Fee
	switch {
	case f.money.Currency != r.Currency:
		return &ParseError{Line: r.Line,
			Err: fmt.Errorf("fee %s is in %s and in %s", f.id, f.money.Currency, r.Currency)}
	case f.money.Minor > maxSum || f.money.Minor < -maxSum:
		return &ParseError{Line: r.Line, Err: fmt.Errorf("the sum of fee %s is too large", f.id)}
	}
	return nil
}

// isExported reports whether a fee with this id comes from an export: of a balance transaction, or made from a row. Two
// rows may have the same fee, so another id is another fee.
func isExported(id string) bool {
	category, _, made := strings.Cut(id, ":")
	switch kinds[category] {
	case Payment, Refund, Dispute:
		return made
	case "": // only the id of a dispute makes an adjustment one
		return made && category == "adjustment" || strings.HasPrefix(id, "txn_")
	}
	return false
}

// paymentOf returns the payment of the ledger that a fee is about, nil if there is none, and the number of accounts
// whose payment it may be. If several accounts have a payment with the id, it must have the fee, the amount or the
// refund.
func (c *comparison) paymentOf(f *foundFee) (_ *payment, accounts int) {
	var all []*payment
	for _, id := range f.ids {
		all = append(all, c.ledger.byID[id]...)
	}
	if len(all) == 0 {
		for _, id := range f.ids {
			for _, r := range c.ledger.refunds[id] {
				all = append(all, r.payment)
			}
		}
	}
	for _, fits := range []func(*payment) bool{
		func(p *payment) bool {
			return slices.ContainsFunc(p.fees,
				func(e *fee) bool { return f.isRecorded(e) || f.isByHand(e) || f.isTransaction(e) })
		},
		func(p *payment) bool { return f.paid.Currency != "" && p.paid == f.paid },
		func(p *payment) bool {
			return slices.ContainsFunc(p.refunds, func(r *refund) bool { return slices.Contains(f.ids, r.id) })
		},
	} {
		if accountsOf(all) < 2 {
			break
		}
		fitting := slices.DeleteFunc(slices.Clone(all), func(p *payment) bool { return !fits(p) })
		if len(fitting) > 0 {
			all = fitting
		}
	}
	if len(all) == 0 {
		return nil, 0
	}
	if at := slices.IndexFunc(all, func(p *payment) bool { return p.found.line == f.line }); at > 0 {
		return all[at], accountsOf(all)
	}
	return all[0], accountsOf(all)
}

func accountsOf(all []*payment) int {
	names := map[string]bool{}
	for _, p := range all {
		names[p.account] = true
	}
	return len(names)
}

// isByHand reports whether the fee may be one of the ledger that was not recorded from an export.
func (f *foundFee) isByHand(e *fee) bool { return !isExported(e.id) && e.money == f.money }

// isRecorded reports whether the fee was recorded as one of the ledger, with its id or from an earlier export.
func (f *foundFee) isRecorded(e *fee) bool {
	return e.id == f.id || slices.ContainsFunc(f.made, func(made string) bool {
		return e.id == made || e.money == f.money && isNumbered(e.id, made)
	})
}

// isNumbered reports whether an id belongs to another row with the same made id.
func isNumbered(id, made string) bool {
	number, ok := strings.CutPrefix(id, made+":")
	_, err := strconv.ParseUint(number, 10, 64)
	return ok && err == nil
}

// isTransaction reports whether the fee, which has no balance transaction, may be one of the ledger that has one.
func (f *foundFee) isTransaction(e *fee) bool {
	return f.isMade && strings.HasPrefix(e.id, "txn_") && e.money == f.money
}

// withoutSums removes the fees that an earlier build has recorded as one: it had one made id for all rows of a source,
// and recorded their sum. A later file may have more rows, so the sum covers the first ones.
func (c *comparison) withoutSums(known []*foundFee) []*foundFee {
	type madeID struct {
		payment *payment
		id      string
	}
	rows := map[madeID][]*foundFee{}
	for _, f := range known {
		if f.accounts > 1 {
			continue
		}
		for _, id := range f.made {
			if at := (madeID{f.payment, id}); !slices.Contains(rows[at], f) {
				rows[at] = append(rows[at], f)
			}
		}
	}
	for _, p := range c.ledger.payments {
		for _, e := range p.fees {
			all := slices.DeleteFunc(slices.Clone(rows[madeID{p, e.id}]), func(f *foundFee) bool {
				return f.inLedger != nil || f.money.Currency != e.money.Currency
			})
			slices.SortStableFunc(all, func(a, b *foundFee) int { return a.at.Compare(b.at) })
			sum, n := int64(0), 0
			for i, f := range all {
				if sum += f.money.Minor; sum > maxSum || sum < -maxSum {
					break
				}
				if i > 0 && sum == e.money.Minor {
					n = i + 1
				}
			}
			for _, f := range all[:n] {
				f.inLedger, e.found = e, true
			}
		}
	}
	return slices.DeleteFunc(known, func(f *foundFee) bool { return f.inLedger != nil })
}

func (c *comparison) compareFees() {
	if !c.ledger.hasFees && !c.options.Fees {
		return
	}
	// A payment that is missing from the ledger is listed as such.
	known := slices.DeleteFunc(slices.Clone(c.fees), func(f *foundFee) bool {
		f.payment, f.accounts = c.paymentOf(f)
		return f.payment == nil
	})
	known = c.withoutSums(known)
	for _, same := range []func(*foundFee, *fee) bool{
		func(f *foundFee, e *fee) bool { return e.id == f.id },
		func(f *foundFee, e *fee) bool { return f.isRecorded(e) && e.money == f.money },
		(*foundFee).isRecorded,
		(*foundFee).isByHand,
		(*foundFee).isTransaction,
	} {
		for _, f := range known {
			for _, e := range f.payment.fees {
				if f.inLedger == nil && f.accounts == 1 && !e.found && same(f, e) {
					f.inLedger, e.found = e, true
				}
			}
		}
	}
	for _, f := range known {
		d := Difference{Result: Missing, Kind: Fee, Processor: pointer(f.money), AccountID: f.payment.account,
			PaymentID: f.payment.key.payment, ID: f.id, At: f.at, Line: f.line}
		if f.accounts > 1 {
			d.AccountID = "" // the fee is recorded for none of them
		}
		if f.inLedger != nil {
			d.Result, d.Ledger, d.ID = Different, pointer(f.inLedger.money), f.inLedger.id
		}
		if f.within && (f.inLedger == nil && f.money.Minor != 0 || f.inLedger != nil && f.inLedger.money != f.money) {
			c.add(d)
		}
	}
	// A fee can be recorded long after its row, so only the payment shows that the file should have it.
	for _, p := range c.ledger.payments {
		for _, e := range p.fees {
			if !e.found && p.found.within && c.within(e.at) {
				c.add(Difference{Result: Extra, Kind: Fee, Ledger: pointer(e.money), AccountID: p.account,
					PaymentID: p.key.payment, ID: e.id, At: e.at})
			}
		}
	}
}
