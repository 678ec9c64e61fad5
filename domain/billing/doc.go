// Package billing decides what the events of a payment processor change in accounts.
//
// FromStripe reduces an event of Stripe to a BillingReported, which is the same for all processors. A State folds the
// reports of all accounts, and decides each of them: it grants credits, settles the claims against a payment, changes
// the plan, waits for another report, or goes to the inbox of the operator with a reason.
//
// A decision depends on the reports that the State has, not on their order: a refund that arrives before its payment
// waits for it, of several reports about a refund, a dispute or a subscription the latest state counts, and the effects
// are repeatable. So any order of the same reports leads to the same accounts.
//
// The exception is a customer that reports of two accounts name. The first one links it, and only an operator replaces
// the link. A report of the other account is applied to the account that it names, with the reason LinkStays; one that
// would only link the customer goes to the inbox.
//
// The package has no I/O and no clock.
package billing

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/eventschemas"
)

// Kinds of reports.
const (
	KindPayment      = "payment"      // grants credits
	KindFailure      = "failure"      // a payment was attempted and failed: raises a notice
	KindLink         = "link"         // an invoice was paid by a payment
	KindRefund       = "refund"       // takes credits once it has succeeded
	KindDispute      = "dispute"      // takes credits until it is won
	KindSubscription = "subscription" // gives a plan
	KindCustomer     = "customer"     // links a customer to an account
)

// Outcomes of reports.
const (
	Applied   = "applied"
	Waiting   = "waiting"   // for another report; not an event
	Inbox     = "inbox"     // for an operator
	Dismissed = "dismissed" // by an operator
)

// NothingLeft is the reason of a refund or dispute that was applied and took nothing.
const NothingLeft = "nothing was left of the payment: other refunds and disputes had returned all of it"

// LessLeft returns the reason of a refund or dispute that took less money than it claims, by a number of minor units.
func LessLeft(short int64, currency string) string {
	return fmt.Sprintf("it exceeds what was left of the payment by %s %s; the rest was taken",
		books.Grouped(string(books.AppendAmount(nil, short, currency))), currency)
}

// Reasons of failed payments that were applied and raised no notice.
const (
	GrantedBefore = "the payment was granted before" // also of a payment that was applied again
	PaidSince     = "the payment was paid, and its event is not applied yet"
	LaterAttempt  = "a later attempt to pay was reported before"
	AccountClosed = "the account is closed"
	NotSoldHere   = "none of its prices is in LETTERHEAD_BILLING_FILE"
)

// LinkStays is the reason, or the end of the reason, of the outcome of a report that names another account than the one
// to which its customer is linked. A report that was applied without it links its customer. So the outcome records
// which account the customer has, and the text must not change.
const LinkStays = "its customer stays linked to another account until an operator links it"

// LinkedByOperator is the type of the reports with which operators link customers and payments.
const LinkedByOperator = "letterhead.link"

// AsksToLink reports whether an operator settles a report with this reason by linking its customer to its account.
func AsksToLink(reason string) bool {
	return reason == LinkStays || reason == fmt.Sprintf(cannotBeUsed, errReferenceOnly)
}

// Limits of reports.
const (
	MaxID       = 120 // bytes of an id
	MaxPrices   = 100 // prices of a payment or subscription
	MaxQuantity = 1_000_000_000
	MaxAttempt  = 1_000_000 // attempts to pay
)

// Stream returns the name of the stream of a processor's event.
func Stream(processor, eventID string) string {
	return eventschemas.BillingPrefix + processor + ":" + eventID
}

// Validate returns an error that names the first field of a report that no State can use.
func Validate(r eventschemas.BillingReported) error {
	if r.Processor == "" || strings.Trim(r.Processor, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" ||
		len(r.Processor) > 32 {
		return fmt.Errorf("processor %q is not a name of at most 32 lower-case letters, digits, dashes and underscores",
			r.Processor)
	}
	if r.EventID == "" {
		return fmt.Errorf("event_id is missing")
	}
	for _, f := range []struct{ name, value string }{
		{"event_id", r.EventID}, {"event_type", r.Type}, {"subject", r.Subject}, {"state", r.State},
		{"account_id", r.AccountID}, {"customer", r.Customer}, {"payment_id", r.PaymentID}, {"invoice_id", r.InvoiceID},
	} {
		if !isID(f.value) {
			return fmt.Errorf("%s is not an id of at most %d letters, digits and signs", f.name, MaxID)
		}
	}
	if r.AccountID != "" && !isAccountID(r.AccountID) {
		return errors.New("account_id is not the id of an account")
	}
	needs := map[string][]string{
		"": nil, KindPayment: {r.PaymentID, r.GrantKind}, KindFailure: {r.PaymentID},
		KindLink: {r.PaymentID, r.InvoiceID}, KindRefund: {r.Subject, r.PaymentID, r.State},
		KindDispute: {r.Subject, r.PaymentID, r.State}, KindSubscription: {r.Subject, r.State}, KindCustomer: {},
	}
	needed, known := needs[r.Kind]
	if !known {
		return fmt.Errorf("kind %q is unknown", r.Kind)
	}
	if slices.Contains(needed, "") {
		return fmt.Errorf("a field of the %s is missing", r.Kind)
	}
	if r.Kind == "" && r.Problem == "" {
		return fmt.Errorf("kind is missing")
	}
	if len(r.Prices) > MaxPrices {
		return fmt.Errorf("it has more than %d prices", MaxPrices)
	}
	for _, p := range r.Prices {
		if p.Price == "" || !isID(p.Price) || p.Quantity < 0 || p.Quantity > MaxQuantity {
			return fmt.Errorf("its prices need ids, and quantities from 0 to %d", MaxQuantity)
		}
	}
	if r.Kind == KindPayment && r.GrantKind != account.KindTopup && r.GrantKind != account.KindSubscription {
		return fmt.Errorf("grant_kind is topup or subscription")
	}
	if r.Credits < 0 || r.Credits > account.MaxCredits {
		return fmt.Errorf("credits are from 0 to %d", account.MaxCredits)
	}
	if r.Attempt < 0 || r.Attempt > MaxAttempt {
		return fmt.Errorf("attempt is from 1 to %d", MaxAttempt)
	}
	if (r.Kind == KindRefund || r.Kind == KindDispute) && r.Money == nil {
		return fmt.Errorf("the money of the %s is missing", r.Kind)
	}
	return nil
}

// isAccountID reports whether a text has the form of the id of an account.
func isAccountID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}

// isID reports whether a text can be an id: printable ASCII without spaces.
func isID(s string) bool {
	return len(s) <= MaxID && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}
