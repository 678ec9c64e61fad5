package books

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"letterhead/eventschemas"
)

// Class is the kind of a ledger account.
type Class string

// Classes.
const (
	Assets      Class = "assets"
	Liabilities Class = "liabilities"
	Equity      Class = "equity"
	Income      Class = "income"
	Expenses    Class = "expenses"
)

// LedgerAccount is an account of the double entry, as opposed to an account of a customer.
type LedgerAccount int

// Ledger accounts. Chart describes them.
const (
	Payments LedgerAccount = iota
	TaxDue
	DeferredRevenue
	Revenue
	Breakage
	ProcessorFees
	Credits
	CreditsPaid
	CreditsPromotional
	CreditsUsed
	CreditsBroken
	CreditsRefunded
	OpeningBalances
)

// ChartEntry describes a ledger account.
type ChartEntry struct {
	Name  string
	Class Class
	// ByCustomer reports whether each customer has its own account below this one.
	ByCustomer bool
	Means      string
}

// Chart is the chart of accounts, indexed by LedgerAccount.
var Chart = [...]ChartEntry{
	Payments:           {"payments", Assets, false, "money that was paid and not returned, with tax, less fees"},
	TaxDue:             {"tax", Liabilities, false, "tax of the money that was paid and not returned"},
	DeferredRevenue:    {"deferred-revenue", Liabilities, true, "net money of credits that are not used yet"},
	Revenue:            {"revenue", Income, false, "net money of credits that were used"},
	Breakage:           {"breakage", Income, false, "net money of credits that were broken"},
	ProcessorFees:      {"processor-fees", Expenses, false, "what the payment processor took and did not return"},
	Credits:            {"credits", Assets, true, "credits that the customer can use: the balance in /v1/me"},
	CreditsPaid:        {"credits-paid", Equity, false, "credits that were granted for money"},
	CreditsPromotional: {"credits-promotional", Equity, false, "credits that were granted without money"},
	CreditsUsed:        {"credits-used", Expenses, false, "credits that were charged and not reversed"},
	CreditsBroken:      {"credits-broken", Expenses, false, "credits of closed accounts that were removed as breakage"},
	CreditsRefunded:    {"credits-refunded", Equity, false, "credits that refunds took back"},
	OpeningBalances: {"opening-balances", Equity, false,
		"income and expenses, and granted, used, broken and refunded credits, before the journal begins"},
}

// CreditUnit is the commodity of credits. All other commodities are ISO 4217 codes, which have three letters.
const CreditUnit = "CREDIT"

// Posting adds an amount to a ledger account.
type Posting struct {
	Account   LedgerAccount
	Customer  string // id; empty unless the ledger account is divided by customer
	Commodity string
	Amount    int64 // minor units, or credits; debits are positive
}

// Journal derives transactions from the events of all accounts.
type Journal struct {
	ledger   *Ledger
	balances map[string][]Posting // by customer, and in each ledger account and commodity
	moves    []currencySum        // of the current event, in each lot
	sums     []currencySum        // of the current event
}

type currencySum struct {
	currency string
	Movement
}

// post calls f for what each ledger account of money gains.
func (s *currencySum) post(f func(account LedgerAccount, commodity string, amount int64)) {
	if s.currency == "" {
		return // promotional credits
	}
	f(Payments, s.currency, s.Paid())
	f(TaxDue, s.currency, -s.Tax)
	f(DeferredRevenue, s.currency, -s.Deferred())
	f(Revenue, s.currency, -s.Recognized)
	f(Breakage, s.currency, -s.Breakage)
	f(ProcessorFees, s.currency, s.Fees)
}

// NewJournal returns the journal of no events.
func NewJournal() *Journal {
	return &Journal{ledger: NewLedger(), balances: map[string][]Posting{}}
}

// Apply folds an event of an account's stream and appends its postings to postings[:0]. An event that moves neither
// credits nor money has none. The events of a stream must be applied in order.
func (j *Journal) Apply(accountID string, ev eventschemas.Event, revision uint64, at time.Time,
	postings []Posting) []Posting {
	postings, j.moves, j.sums = postings[:0], j.moves[:0], j.sums[:0]
	j.ledger.Apply(accountID, ev, revision, at, func(_ *Holder, currency string, m Movement) {
		j.moves = append(j.moves, currencySum{currency, m})
		for i := range j.sums {
			if j.sums[i].currency == currency {
				j.sums[i].Add(m)
				return
			}
		}
		j.sums = append(j.sums, currencySum{currency, m})
	})
	post := func(account LedgerAccount, commodity string, amount int64) {
		if amount == 0 {
			return
		}
		p := Posting{Account: account, Commodity: commodity, Amount: amount}
		if Chart[account].ByCustomer {
			p.Customer = accountID
		}
		postings = append(postings, p)
	}
	for i := range j.sums {
		j.sums[i].post(post)
	}
	other, credits := CreditsUsed, int64(0)
	switch ev := ev.(type) {
	case eventschemas.CreditsGranted:
		other, credits = CreditsPromotional, ev.Credits
		if ev.Money != nil {
			other = CreditsPaid
		}
	case eventschemas.CreditsCharged:
		credits = -ev.Credits
	case eventschemas.ChargeReversed:
		credits = ev.Credits
	case eventschemas.PaymentRefunded:
		other, credits = CreditsRefunded, -ev.Credits
	case eventschemas.BreakageRecognized:
		other, credits = CreditsBroken, -ev.Credits
	case eventschemas.RefundReversed:
		other, credits = CreditsRefunded, ev.Credits
	}
	post(Credits, CreditUnit, credits)
	post(other, CreditUnit, -credits)
	j.add(accountID, postings)
	return postings
}

// Plan returns the current plan of an account.
func (j *Journal) Plan(accountID string) string { return j.ledger.holders[accountID].Plan }

// Money calls f for the postings of money of the last event, apart by the tax rate of the lots, without customers.
func (j *Journal) Money(f func(taxRate string, p Posting)) {
	for i := range j.moves {
		move := &j.moves[i]
		move.post(func(account LedgerAccount, commodity string, amount int64) {
			f(move.TaxRate, Posting{Account: account, Commodity: commodity, Amount: amount})
		})
	}
}

// Err returns the error of the ledger that the journal folds: see Ledger.Err.
func (j *Journal) Err() error { return j.ledger.Err() }

func (j *Journal) add(customer string, postings []Posting) {
	if len(postings) == 0 {
		return
	}
	balances := j.balances[customer]
	for _, p := range postings {
		balances = Merge(balances, p)
	}
	j.balances[customer] = balances
}

// Merge adds a posting to the sum of its ledger account and commodity.
func Merge(sums []Posting, p Posting) []Posting {
	i := slices.IndexFunc(sums, func(s Posting) bool { return s.Account == p.Account && s.Commodity == p.Commodity })
	if i < 0 {
		return append(sums, p)
	}
	sums[i].Amount += p.Amount
	return sums
}

// Customers returns the ids of the accounts that have transactions, sorted.
func (j *Journal) Customers() []string { return slices.Sorted(maps.Keys(j.balances)) }

// Balances returns the sums of all postings to each ledger account in each commodity, sorted by name and commodity.
func (j *Journal) Balances() []Posting {
	all := []Posting{}
	for _, balances := range j.balances {
		for _, b := range balances {
			b.Customer = ""
			all = Merge(all, b)
		}
	}
	slices.SortFunc(all, func(a, b Posting) int {
		return cmp.Or(strings.Compare(Chart[a.Account].Name, Chart[b.Account].Name),
			strings.Compare(a.Commodity, b.Commodity))
	})
	return all
}

// Opening returns the postings of the transaction that opens the journal of a customer at this point: what the assets
// and liabilities hold, and the rest as OpeningBalances. It is empty if all of them are zero.
func (j *Journal) Opening(customer string) []Posting {
	var opening, rests []Posting
	for _, b := range j.balances[customer] {
		if class := Chart[b.Account].Class; b.Amount == 0 || class != Assets && class != Liabilities {
			continue
		}
		opening = append(opening, b)
		rests = Merge(rests, Posting{Account: OpeningBalances, Commodity: b.Commodity, Amount: -b.Amount})
	}
	rests = slices.DeleteFunc(rests, func(r Posting) bool { return r.Amount == 0 })
	return slices.SortedFunc(slices.Values(append(opening, rests...)), func(a, b Posting) int {
		return cmp.Or(strings.Compare(a.Commodity, b.Commodity), cmp.Compare(a.Account, b.Account))
	})
}
