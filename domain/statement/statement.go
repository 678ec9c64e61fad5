// Package statement derives the statement of an account for a month of the books: its balances, grants, usage,
// reversals and refunds, the money, and the head of the account's hash chain.
//
// The read model of the ledger and the events themselves give the same lines to a Sheet, so everybody who has the
// account's events can derive the same statement, byte by byte. The package uses no clock.
package statement

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/eventschemas"
)

// Errors of Sheet.Statement.
var (
	// ErrNotBegun: the month has not begun.
	ErrNotBegun = errors.New("the month has not begun")
	// ErrNoEvents: the account was opened after the month.
	ErrNoEvents = errors.New("the account has no events up to the end of the month")
)

// Statement is the statement of an account for a month. Times are UTC; a grant, charge, reversal or refund belongs to
// the month of its time unless that month had ended before (books.Periods.Booked). Money is in minor units of its
// currency, with tax. The opening balance, plus what was granted and reversed, less what was used, refunded and removed
// as breakage, is the closing balance. Fees of the payment processor are left out.
type Statement struct {
	AccountID   string `json:"account_id"`
	Month       string `json:"month"`       // YYYY-MM
	Provisional bool   `json:"provisional"` // the month is not over
	Closed      bool   `json:"closed"`      // the books of the month are closed

	OpeningBalance int64 `json:"opening_balance"`
	Granted        int64 `json:"granted"`
	Used           int64 `json:"used"` // with charges that were reversed
	Reversed       int64 `json:"reversed"`
	Refunded       int64 `json:"refunded"`
	Breakage       int64 `json:"breakage"` // credits removed after the account was closed
	ClosingBalance int64 `json:"closing_balance"`

	Money      []Money  `json:"money"` // by currency
	Grants     []Grant  `json:"grants"`
	Refunds    []Refund `json:"refunds"`
	UsageByDay []Day    `json:"usage_by_day"` // days without charges and reversals are left out
	UsageByKey []Key    `json:"usage_by_key"`
	Chain      Chain    `json:"chain"`
}

// Money is what was paid and returned in a currency.
type Money struct {
	Currency    string `json:"currency"` // ISO 4217
	Paid        int64  `json:"paid"`
	PaidTax     int64  `json:"paid_tax"` // the part of Paid that is tax
	Refunded    int64  `json:"refunded"`
	RefundedTax int64  `json:"refunded_tax"` // the part of Refunded that is tax
}

// Grant is a grant of credits.
type Grant struct {
	Revision  uint64    `json:"revision"` // of the event in the account's stream
	At        time.Time `json:"at"`
	Kind      string    `json:"kind"` // free, subscription, topup, adjustment
	Credits   int64     `json:"credits"`
	PaymentID string    `json:"payment_id,omitempty"`
	Currency  string    `json:"currency,omitempty"` // empty if no money was paid
	Money     int64     `json:"money"`
	Tax       int64     `json:"tax"` // the part of Money that is tax
	Reason    string    `json:"reason,omitempty"`
}

// Refund is a refund of a payment, or of a part of it. A reversed refund, as of a dispute that was won, is a second one
// with the same id and amounts below zero.
type Refund struct {
	Revision  uint64    `json:"revision"`
	At        time.Time `json:"at"`
	RefundID  string    `json:"refund_id"`
	PaymentID string    `json:"payment_id"`
	Credits   int64     `json:"credits"`
	Currency  string    `json:"currency,omitempty"` // of the payment
	Money     int64     `json:"money"`
	Tax       int64     `json:"tax"` // the part of Money that is tax
}

// Day is the usage of a day.
type Day struct {
	Date      string `json:"date"` // YYYY-MM-DD
	Charges   int64  `json:"charges"`
	Used      int64  `json:"used"` // credits
	Reversals int64  `json:"reversals"`
	Reversed  int64  `json:"reversed"` // credits
}

// Key is the usage of an API key, with charges that were reversed.
type Key struct {
	KeyID   string `json:"key_id"` // empty for charges of releases that did not record it
	Charges int64  `json:"charges"`
	Used    int64  `json:"used"` // credits
}

// Chain is the head of the account's hash chain: the hash of its last event in the books up to the end of the month,
// which confirms all events before.
type Chain struct {
	Revision uint64 `json:"revision"`
	Hash     string `json:"hash"` // hex
}

// JSON returns the statement as one line of JSON. Equal statements give equal bytes.
func (s *Statement) JSON() ([]byte, error) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(s)
	return line.Bytes(), err
}

// State returns provisional, closed or open.
func (s *Statement) State() string {
	switch {
	case s.Closed:
		return "closed"
	case s.Provisional:
		return "provisional"
	}
	return "open"
}

// Line is an event of an account as a statement needs it. Charges with one key, and reversals, of one day may be one
// line with the sum of their credits.
type Line struct {
	Event    eventschemas.Event // a type that does not move credits is ignored
	Count    int64              // events in the line
	Revision uint64             // of a grant or a refund
	At       time.Time          // of a grant or a refund
	Booked   time.Time          // see books.Periods.Booked; of a sum, any time of the day
}

// Head is the last event up to a time, and the balance after it.
type Head struct {
	Chain
	Balance int64
}

// Sheet collects the lines of a statement. Use either Apply with all events, or Add and set Opening and Head.
type Sheet struct {
	Opening int64 // balance before the month
	Head    *Head // at the end of the month; nil without events

	start, end time.Time
	balance    int64          // of Apply
	lots       *books.Account // of all grants and refunds
	days       map[string]*Day
	keys       map[string]*Key
	money      map[string]*Money
	turnover   books.Turnover // of the sums of money
	statement  Statement
}

// New returns the sheet of an account and a month, given by its beginning.
func New(accountID string, month time.Time) *Sheet {
	month = books.MonthOf(month)
	return &Sheet{
		start: month, end: month.AddDate(0, 1, 0), lots: books.New(),
		days: map[string]*Day{}, keys: map[string]*Key{}, money: map[string]*Money{},
		statement: Statement{AccountID: accountID, Month: month.Format(books.MonthLayout), Grants: []Grant{},
			Refunds: []Refund{}},
	}
}

// Apply adds an event of the account's stream, from the first on, in order. hash is the event's hash in the chain, in
// hex. Events after the month change nothing.
func (s *Sheet) Apply(ev eventschemas.Event, revision uint64, at, booked time.Time, hash string) {
	s.balance += account.Delta(ev)
	if booked.Before(s.start) {
		s.Opening = s.balance
	}
	if booked.Before(s.end) {
		s.Head = &Head{Chain{revision, hash}, s.balance}
	}
	s.Add(Line{Event: ev, Count: 1, Revision: revision, At: at, Booked: booked})
}

// Add adds a line. All grants and refunds of the account are needed, from the first on, in order, because the tax of a
// refund depends on them; of the charges and reversals only the month's.
func (s *Sheet) Add(l Line) {
	if !l.Booked.Before(s.end) {
		return
	}
	in := !l.Booked.Before(s.start)
	switch ev := l.Event.(type) {
	case eventschemas.CreditsGranted:
		s.lots.Apply(ev, l.Revision, l.At)
		if in {
			s.grant(ev, l)
		}
	case eventschemas.PaymentRefunded:
		if effect := s.lots.Apply(ev, l.Revision, l.At); in {
			s.refund(ev, effect, l)
		}
	case eventschemas.RefundReversed:
		if effect := s.lots.Apply(ev, l.Revision, l.At); in { // a refund below zero
			s.refund(eventschemas.PaymentRefunded{RefundID: ev.RefundID, PaymentID: ev.PaymentID, Credits: -ev.Credits},
				effect, l)
		}
	case eventschemas.CreditsCharged:
		if in {
			s.charge(ev, l)
		}
	case eventschemas.BreakageRecognized:
		if in {
			s.statement.Breakage += ev.Credits
		}
	case eventschemas.ChargeReversed:
		if in {
			day := entry(s.days, l.Booked.UTC().Format(time.DateOnly))
			day.Reversals += l.Count
			day.Reversed += ev.Credits
			s.statement.Reversed += ev.Credits
		}
	}
}

func (s *Sheet) grant(ev eventschemas.CreditsGranted, l Line) {
	g := Grant{Revision: l.Revision, At: l.At.UTC(), Kind: ev.Kind, Credits: ev.Credits, PaymentID: ev.PaymentID,
		Reason: ev.Reason}
	if ev.Money != nil {
		g.Currency, g.Money, g.Tax = ev.Money.Currency, ev.Money.Minor, ev.Tax
		s.turnover.Add(g.Currency, g.Money, s.statement.AccountID, l.Revision)
		sum := entry(s.money, g.Currency)
		sum.Paid += g.Money
		sum.PaidTax += g.Tax
	}
	s.statement.Granted += g.Credits
	s.statement.Grants = append(s.statement.Grants, g)
}

func (s *Sheet) refund(ev eventschemas.PaymentRefunded, effect books.Effect, l Line) {
	r := Refund{Revision: l.Revision, At: l.At.UTC(), RefundID: ev.RefundID, PaymentID: ev.PaymentID,
		Credits: ev.Credits}
	if effect.Lot >= 0 {
		if r.Currency = s.lots.Lots()[effect.Lot].Paid.Currency; r.Currency != "" {
			r.Money, r.Tax = effect.Money, effect.Tax
			s.turnover.Add(r.Currency, r.Money, s.statement.AccountID, l.Revision)
			sum := entry(s.money, r.Currency)
			sum.Refunded += r.Money
			sum.RefundedTax += r.Tax
		}
	}
	s.statement.Refunded += r.Credits
	s.statement.Refunds = append(s.statement.Refunds, r)
}

func (s *Sheet) charge(ev eventschemas.CreditsCharged, l Line) {
	day, key := entry(s.days, l.Booked.UTC().Format(time.DateOnly)), entry(s.keys, ev.KeyID)
	day.Charges += l.Count
	day.Used += ev.Credits
	key.Charges += l.Count
	key.Used += ev.Credits
	s.statement.Used += ev.Credits
}

// entry returns the value of a key, which it adds if there is none.
func entry[V any](all map[string]*V, key string) *V {
	v, ok := all[key]
	if !ok {
		v = new(V)
		all[key] = v
	}
	return v
}

// Statement returns the statement of all lines so far; closed reports whether the books of the month are closed.
// Errors: ErrNotBegun, ErrNoEvents, books.ErrSum, or that the lines do not add up to the balance.
func (s *Sheet) Statement(now time.Time, closed bool) (*Statement, error) {
	st := s.statement
	switch {
	case now.Before(s.start):
		return nil, ErrNotBegun
	case s.Head == nil:
		return nil, ErrNoEvents
	case s.turnover.Err() != nil:
		return nil, s.turnover.Err()
	}
	st.Provisional, st.Closed = now.Before(s.end), closed
	st.OpeningBalance, st.ClosingBalance, st.Chain = s.Opening, s.Head.Balance, s.Head.Chain
	sum := st.OpeningBalance + st.Granted + st.Reversed - st.Used - st.Refunded - st.Breakage
	if sum != st.ClosingBalance {
		return nil, fmt.Errorf("statement of account %s for %s: the lines add up to %d, but the balance is %d",
			st.AccountID, st.Month, sum, st.ClosingBalance)
	}
	st.UsageByDay = sorted(s.days, func(date string, d *Day) { d.Date = date })
	st.UsageByKey = sorted(s.keys, func(id string, k *Key) { k.KeyID = id })
	st.Money = sorted(s.money, func(currency string, m *Money) { m.Currency = currency })
	return &st, nil
}

// sorted returns the values in the order of their keys, with the keys that name sets; never nil.
func sorted[V any](all map[string]*V, name func(string, *V)) []V {
	values := make([]V, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		v := *all[key]
		name(key, &v)
		values = append(values, v)
	}
	return values
}
