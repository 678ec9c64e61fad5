// Package payments is the read model of payments: the credits and the money of each, its refunds and its fees. It is
// for reports; the account stream decides what may be refunded.
package payments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "payments"
	// MaxPage limits the payments that List returns.
	MaxPage = 10_000
	// keptRows limits the rows of each table, of about 200 bytes each, that the fold keeps between batches.
	keptRows = 50_000
)

var (
	// ErrNotFound: there is no such payment.
	ErrNotFound = errors.New("payment not found")
	// ErrAmbiguous: several accounts have a payment with this id.
	ErrAmbiguous = errors.New("several accounts have a payment with this id")
)

// key is the primary key of all tables. Ids belong to an account: each account has its own stream.
type key struct{ account, id string }

func compare(a, b key) int {
	return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.id, b.id))
}

var keyColumns = []projections.Column[key]{
	projections.Text("account", func(k *key) *string { return &k.account }),
	projections.Text("id", func(k *key) *string { return &k.id }),
}

// Money is in minor units.
var payments = projections.Keyed[key, Payment]{
	Name: "payments",
	Key:  keyColumns,
	Columns: []projections.Column[Payment]{
		projections.Text("kind", func(p *Payment) *string { return &p.Kind }),
		projections.Number("credits", func(p *Payment) *int64 { return &p.Credits }),
		projections.Number("money", func(p *Payment) *int64 { return &p.Money }),
		projections.Text("currency", func(p *Payment) *string { return &p.Currency }),
		projections.Number("tax", func(p *Payment) *int64 { return &p.Tax }),
		projections.Time("paid_at", func(p *Payment) *time.Time { return &p.PaidAt }),
		projections.Number("refunded", func(p *Payment) *int64 { return &p.RefundedCredits }),
		projections.Number("returned", func(p *Payment) *int64 { return &p.RefundedMoney }),
		projections.Text("state", func(p *Payment) *State { return &p.State }),
	},
	Indexes: []projections.Index{{Name: "by_id", On: "(id)"}},
	Compare: compare,
	Found:   func(k key, p *Payment) { p.AccountID, p.ID = k.account, k.id },
}

var refunds = projections.Keyed[key, refund]{
	Name: "refunds",
	Key:  keyColumns,
	Columns: []projections.Column[refund]{
		projections.Text("payment", func(r *refund) *string { return &r.payment }),
		projections.Number("credits", func(r *refund) *int64 { return &r.Credits }),
		projections.Number("money", func(r *refund) *int64 { return &r.Money }),
		projections.Text("currency", func(r *refund) *string { return &r.Currency }),
		projections.Time("refunded_at", func(r *refund) *time.Time { return &r.At }),
		projections.TimeOrZero("reversed_at", func(r *refund) *time.Time { return &r.reversed }),
		projections.Number("revision", func(r *refund) *uint64 { return &r.revision }),
	},
	Indexes: []projections.Index{{Name: "by_payment", On: "(account, payment)"}},
	Compare: compare,
	Found: func(k key, r *refund) {
		if r.ID = k.id; !r.reversed.IsZero() {
			r.ReversedAt = &r.reversed
		}
	},
}

var fees = projections.Keyed[key, fee]{
	Name: "fees",
	Key:  keyColumns,
	Columns: []projections.Column[fee]{
		projections.Text("payment", func(f *fee) *string { return &f.payment }),
		projections.Number("money", func(f *fee) *int64 { return &f.Money }),
		projections.Text("currency", func(f *fee) *string { return &f.Currency }),
		projections.Time("recorded_at", func(f *fee) *time.Time { return &f.At }),
		projections.Number("revision", func(f *fee) *uint64 { return &f.revision }),
	},
	Indexes: []projections.Index{{Name: "by_payment", On: "(account, payment)"}},
	Compare: compare,
	Found:   func(k key, f *fee) { f.ID = k.id },
}

// State of a payment, by its credits.
type State string

// States of a payment.
const (
	Paid           State = "paid"
	PartlyRefunded State = "partly_refunded"
	Refunded       State = "refunded" // all credits; money that was kept stays with the payment
)

// Payment is a payment with its refunds and fees.
type Payment struct {
	AccountID string    `json:"account_id"`
	ID        string    `json:"payment_id"`
	Kind      string    `json:"kind"` // of the grant, such as topup
	Credits   int64     `json:"credits"`
	Money     int64     `json:"money"`              // minor units; 0 if none was recorded
	Currency  string    `json:"currency,omitempty"` // ISO 4217; empty if no money was recorded
	Tax       int64     `json:"tax"`                // the part of Money that is tax
	PaidAt    time.Time `json:"paid_at"`
	// RefundedCredits and RefundedMoney are the sums of the refunds that were not reversed, as account.Returned counts
	// them.
	RefundedCredits int64    `json:"refunded_credits"`
	RefundedMoney   int64    `json:"refunded_money"`
	State           State    `json:"state"`
	Refunds         []Refund `json:"refunds,omitempty"` // in the order of the stream; only Get sets them
	Fees            []Fee    `json:"fees,omitempty"`    // the same
}

// Refund is a refund of a payment, or of a part of it.
type Refund struct {
	ID       string    `json:"refund_id"`
	Credits  int64     `json:"credits"`
	Money    int64     `json:"money"` // minor units; 0 if none was recorded
	Currency string    `json:"currency,omitempty"`
	At       time.Time `json:"at"`
	// ReversedAt is when the refund was reversed, because it failed or the dispute behind it was won; nil if it was
	// not.
	ReversedAt *time.Time `json:"reversed_at,omitempty"`
}

// Fee is what the payment processor took from a payment, or returned of it.
type Fee struct {
	ID       string    `json:"fee_id"`
	Money    int64     `json:"money"` // minor units; below zero if it was returned
	Currency string    `json:"currency"`
	At       time.Time `json:"at"` // when it was recorded
}

type fee struct {
	Fee
	payment  string
	revision uint64
}

type refund struct {
	Refund
	reversed time.Time // zero if it was not reversed; what ReversedAt points to
	payment  string
	revision uint64
}

// Model is the read model.
type Model struct{ projections.Model }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{projections.NewModel(Name, store, projections.Version{
		Number:  3,
		Streams: []string{account.StreamPrefix},
		Tables:  []projections.Table{payments.Table(), refunds.Table(), fees.Table()},
		NewFold: newFold,
	})}
}

// Get returns a payment with its refunds and fees; accountID may be empty. Errors: ErrNotFound, ErrAmbiguous (only
// without an account), projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Get(ctx context.Context, accountID, id string) (*Payment, error) {
	// Two rows show that the id is ambiguous.
	where, args := "WHERE id = $1 ORDER BY account LIMIT 2", []any{id}
	if accountID != "" {
		where, args = "WHERE id = $1 AND account = $2", append(args, accountID)
	}
	var found []Payment
	err := m.Handle().Snapshot(ctx, func(q projections.Queryer, t *projections.Tables, _ eventlog.Position) error {
		found = nil // drops rows of an earlier attempt
		err := payments.Each(ctx, q, t, func(_ key, p Payment) { found = append(found, p) }, where, args...)
		if err != nil || len(found) != 1 {
			return err
		}
		p := &found[0]
		const ofPayment = "WHERE account = $1 AND payment = $2 ORDER BY revision"
		err = refunds.Each(ctx, q, t, func(_ key, r refund) { p.Refunds = append(p.Refunds, r.Refund) },
			ofPayment, p.AccountID, id)
		if err != nil {
			return err
		}
		return fees.Each(ctx, q, t, func(_ key, f fee) { p.Fees = append(p.Fees, f.Fee) }, ofPayment, p.AccountID, id)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("get payment %s: %w", id, err)
	case len(found) == 0:
		return nil, fmt.Errorf("%s: %w", id, ErrNotFound)
	case len(found) > 1:
		return nil, fmt.Errorf("%s: %w", id, ErrAmbiguous)
	}
	return &found[0], nil
}

// sorts are the columns by which List sorts, by the name that a Selection uses.
var sorts = map[string][]string{"": nil, "account": nil, "paid": {"paid_at"}, "credits": {"credits"},
	"money": {"money"}, "state": {"state"}}

// Sorts are the values of Selection.Sort.
var Sorts = []string{"account", "paid", "credits", "money", "state"}

// Selection selects and sorts payments.
type Selection struct {
	AccountID string // empty for all
	ID        string // empty for all
	State     State  // empty for all
	Kind      string // empty for all
	// From and Until, if not zero, select the payments from a time on and before another.
	From, Until time.Time
	Sort        string // one of Sorts; by account and id if empty
	Descending  bool
}

// List returns at most limit payments (no more than MaxPage) after the given one, which is nil for the first page. If a
// payment changes its place in the order between two pages, it is returned twice or not at all.
// Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err(), or an error that names an unknown Sort.
func (m *Model) List(ctx context.Context, s Selection, after *Payment, limit int) ([]Payment, error) {
	by, ok := sorts[s.Sort]
	if !ok {
		return nil, fmt.Errorf("payments cannot be sorted by %q", s.Sort)
	}
	page := projections.Page[key, Payment]{By: by, Descending: s.Descending, Limit: min(max(limit, 0), MaxPage)}
	page.Equal("account", s.AccountID)
	page.Equal("id", s.ID)
	page.Equal("state", string(s.State))
	page.Equal("kind", s.Kind)
	page.Between("paid_at", s.From, s.Until)
	if after != nil {
		page.AfterKey, page.After = key{after.AccountID, after.ID}, after
	}
	all, err := payments.Page(ctx, m.Handle(), page)
	return all, sqlstore.Wrap(err, "list payments")
}

type fold struct {
	tables   *projections.Tables
	payments *projections.Rows[key, Payment]
	refunds  *projections.Rows[key, refund]
	fees     *projections.Rows[key, fee]
}

func newFold(t *projections.Tables, empty bool) projections.Fold {
	return &fold{tables: t, payments: payments.Rows(t, keptRows, empty), refunds: refunds.Rows(t, keptRows, empty),
		fees: fees.Rows(t, keptRows, empty)}
}

func (f *fold) Fold(ctx context.Context, q projections.Queryer,
	events []*projections.Event) (projections.Changes, error) {
	var paid, refunded, charged []key
	for _, e := range events {
		switch ev := e.Body.(type) {
		case eventschemas.CreditsGranted:
			if ev.PaymentID != "" {
				paid = append(paid, key{e.Subject, ev.PaymentID})
			}
		case eventschemas.PaymentRefunded:
			paid = append(paid, key{e.Subject, ev.PaymentID})
			refunded = append(refunded, key{e.Subject, ev.RefundID})
		case eventschemas.PaymentFeeRecorded:
			charged = append(charged, key{e.Subject, ev.FeeID})
		case eventschemas.RefundReversed:
			paid = append(paid, key{e.Subject, ev.PaymentID})
			refunded = append(refunded, key{e.Subject, ev.RefundID})
		}
	}
	err := errors.Join(f.payments.Want(ctx, q, slices.Values(paid)), f.refunds.Want(ctx, q, slices.Values(refunded)),
		f.fees.Want(ctx, q, slices.Values(charged)))
	if err != nil {
		return projections.Changes{}, err
	}
	for _, e := range events {
		switch ev := e.Body.(type) {
		case eventschemas.CreditsGranted:
			if ev.PaymentID != "" {
				f.grant(e, ev)
			}
		case eventschemas.PaymentRefunded:
			f.refund(e, ev)
		case eventschemas.PaymentFeeRecorded:
			row := f.fees.Change(key{e.Subject, ev.FeeID})
			row.Fee = Fee{ID: ev.FeeID, Money: ev.Money.Minor, Currency: ev.Money.Currency, At: e.OccurredAt}
			row.payment, row.revision = ev.PaymentID, e.Revision
		case eventschemas.RefundReversed:
			f.reverse(e, ev)
		}
	}
	return projections.Changes{Write: projections.Writing(
		payments.Take(f.tables, f.payments, nil), refunds.Take(f.tables, f.refunds, nil),
		fees.Take(f.tables, f.fees, nil),
	)}, nil
}

func (f *fold) Reset() {
	f.payments.Reset()
	f.refunds.Reset()
	f.fees.Reset()
}

func (f *fold) grant(e *projections.Event, ev eventschemas.CreditsGranted) {
	p := f.payments.Change(key{e.Subject, ev.PaymentID})
	p.AccountID, p.ID, p.Kind, p.PaidAt = e.Subject, ev.PaymentID, ev.Kind, e.OccurredAt
	p.Credits += ev.Credits
	if ev.Money != nil {
		p.Money, p.Currency, p.Tax = ev.Money.Minor, ev.Money.Currency, ev.Tax // a payment grants once
	}
	p.State = p.state()
}

func (f *fold) refund(e *projections.Event, ev eventschemas.PaymentRefunded) {
	p, r := f.payments.Change(key{e.Subject, ev.PaymentID}), f.refunds.Change(key{e.Subject, ev.RefundID})
	r.Refund = Refund{ID: ev.RefundID, Credits: ev.Credits, At: e.OccurredAt}
	r.reversed, r.payment, r.revision = time.Time{}, ev.PaymentID, e.Revision
	if ev.Money != nil {
		r.Money, r.Currency = ev.Money.Minor, ev.Money.Currency
	}
	p.AccountID, p.ID = e.Subject, ev.PaymentID
	paid := eventschemas.Money{Minor: p.Money, Currency: p.Currency}
	p.RefundedMoney += account.Returned(paid, p.RefundedMoney, p.Credits-p.RefundedCredits, ev)
	p.RefundedCredits += r.Credits
	p.State = p.state()
}

func (f *fold) reverse(e *projections.Event, ev eventschemas.RefundReversed) {
	p, r := f.payments.Change(key{e.Subject, ev.PaymentID}), f.refunds.Change(key{e.Subject, ev.RefundID})
	r.ID, r.payment, r.reversed = ev.RefundID, ev.PaymentID, e.OccurredAt
	p.AccountID, p.ID = e.Subject, ev.PaymentID
	p.RefundedMoney -= account.Unreturned(eventschemas.Money{Minor: p.Money, Currency: p.Currency}, p.RefundedMoney, ev)
	p.RefundedCredits -= ev.Credits
	p.State = p.state()
}

func (p *Payment) state() State {
	switch {
	case p.RefundedCredits <= 0:
		return Paid
	case p.RefundedCredits < p.Credits:
		return PartlyRefunded
	}
	return Refunded
}
