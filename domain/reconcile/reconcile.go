// Package reconcile compares a payment processor's balance export with the payments, refunds and fees of the ledger.
//
// A Reader parses the export one row at a time, a Ledger folds the events of accounts, and Compare lists what is
// missing, extra or different, and sums up the clearing account: the balance at the processor, through which payments,
// refunds, disputes, fees and payouts go. Memory grows with the payments, refunds and fees of the ledger, and with the
// refunds, disputes, fees and unmatched payments of the export. The package uses no clock.
package reconcile

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"letterhead/eventschemas"
)

// Kind is how a row of the export moves the clearing account.
type Kind string

// Kinds.
const (
	Payment Kind = "payment"
	Refund  Kind = "refund"
	Dispute Kind = "dispute"
	Fee     Kind = "fee"
	Payout  Kind = "payout"
	Other   Kind = "other" // moves the balance, but neither pays nor refunds credits
)

// failures are the categories of a payment that fails after it counted.
var failures = map[string]bool{"charge_failure": true, "payment_failure_refund": true, "payment_reversal": true}

// kinds are the kinds of the categories; see kindOf.
var kinds = map[string]Kind{
	"charge": Payment, "payment": Payment, "partial_capture_reversal": Payment,
	"refund": Refund, "payment_refund": Refund, "refund_failure": Refund, "charge_failure": Refund,
	"payment_failure_refund": Refund, "payment_reversal": Refund,
	"dispute": Dispute, "dispute_reversal": Dispute, "chargeback": Dispute,
	"fee": Fee, "stripe_fee": Fee, "network_cost": Fee, "tax": Fee,
	"payout": Payout, "payout_reversal": Payout, "payout_failure": Payout, "payout_cancel": Payout,
}

// kindOf returns the kind of a category. Types of Stripe do not tell disputes from other adjustments, but ids do.
func kindOf(category, source string) Kind {
	if category == "adjustment" && (strings.HasPrefix(source, "dp_") || strings.HasPrefix(source, "du_")) {
		return Dispute
	}
	return cmp.Or(kinds[category], Other)
}

// falls reports, for the categories with a fixed sign, whether they take money from the balance.
var falls = map[string]bool{"charge": false, "payment": false, "refund": true, "payment_refund": true, "dispute": true,
	"chargeback": true}

// Row is a row of the export. Amounts are in minor units, and above zero if they add to the balance at the processor;
// Fee is above zero if it is paid.
type Row struct {
	Line            int
	At              time.Time
	Kind            Kind
	Category        string
	Currency        string
	Gross, Fee, Net int64
	// ID is the id of the refund or dispute, if the row has one.
	ID string
	// FeeID is the id of the fee: the id of the balance transaction, or else the first of MadeFeeIDs.
	FeeID string
	// MadeFeeIDs are those that the row may have without a balance transaction: the category and the id of the source
	// or of the payment, with the amount in minor units, and without, as earlier releases recorded it.
	MadeFeeIDs []string
	// Payments are the ids by which the payment may be known. Reports name the first, which is the payment intent, as
	// in webhooks, if the row has one.
	Payments []string
	// Paid is what the customer paid or got back: Gross, unless the processor converted it.
	Paid eventschemas.Money
}

// Result says in what an export and the ledger differ.
type Result string

// Results.
const (
	Missing   Result = "missing"   // from the ledger
	Extra     Result = "extra"     // in the ledger
	Different Result = "different" // amounts
	Recorded  Result = "recorded"  // a fee that was missing
)

// Difference is a payment, refund, dispute or fee in which the export and the ledger differ.
type Difference struct {
	Result Result
	Kind   Kind
	// Processor and Ledger are the amounts, above zero for payments and fees and below for refunds and disputes.
	// Processor is nil if the export has no such row, Ledger if the ledger has no such event, or no money for it.
	Processor, Ledger *eventschemas.Money
	AccountID         string // empty if it is missing, unless it is a fee
	PaymentID         string
	ID                string // of the refund, dispute or fee
	At                time.Time
	Line              int // of the first row; 0 if there is none
}

// Clearing is the clearing account in one currency, in minor units: Opening plus Received less Refunded, Disputed, Fees
// and Payouts plus Other is Closing.
type Clearing struct {
	Currency                     string
	Opening                      int64
	Received, Refunded, Disputed int64
	Fees, Payouts                int64
	Other                        int64
	Closing                      int64
}

// maxSum limits the absolute value of a sum, so that adding one more row cannot overflow it.
const maxSum = 1 << 61

func (c *Clearing) add(r *Row) error {
	switch r.Kind {
	case Payment:
		c.Received += r.Gross
	case Refund:
		c.Refunded -= r.Gross
	case Dispute:
		c.Disputed -= r.Gross
	case Fee:
		c.Fees -= r.Gross
	case Payout:
		c.Payouts -= r.Gross
	case Other:
		c.Other += r.Gross
	}
	c.Fees += r.Fee
	c.Closing += r.Net
	for _, sum := range []int64{c.Received, c.Refunded, c.Disputed, c.Fees, c.Payouts, c.Other, c.Closing} {
		if sum > maxSum || sum < -maxSum {
			return &ParseError{Line: r.Line, Err: fmt.Errorf("the sums of %s are too large", c.Currency)}
		}
	}
	return nil
}
