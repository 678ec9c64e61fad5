package journal

import (
	"strconv"
	"time"

	"letterhead/domain/books"
	"letterhead/eventschemas"
)

// Opening is the event name of the transactions that open an export.
const Opening = "OpeningBalance"

// entry is a transaction of the journal.
type entry struct {
	id       string    // account and revision, or "opening"
	booked   time.Time // to which the transaction belongs
	at       time.Time // at which the event occurred
	lateFor  string    // month that had ended before the event was appended
	event    string    // type
	account  string    // id
	revision uint64
	details
	postings []books.Posting
}

func (e *entry) isOpening() bool { return e.event == Opening }

// details are fields of some events.
type details struct {
	kind      string // of a grant
	paymentID string
	reference string // id of the grant, charge, refund or fee
	requestID string
	domain    string
	keyID     string
}

func detailsOf(ev eventschemas.Event) details {
	switch ev := ev.(type) {
	case eventschemas.CreditsGranted:
		return details{kind: ev.Kind, paymentID: ev.PaymentID, reference: ev.GrantID}
	case eventschemas.CreditsCharged:
		return details{reference: ev.ChargeID, requestID: ev.RequestID, domain: ev.Domain, keyID: ev.KeyID}
	case eventschemas.ChargeReversed:
		return details{reference: ev.ChargeID, requestID: ev.RequestID}
	case eventschemas.PaymentRefunded:
		return details{reference: ev.RefundID, paymentID: ev.PaymentID}
	case eventschemas.PaymentFeeRecorded:
		return details{reference: ev.FeeID, paymentID: ev.PaymentID}
	case eventschemas.RefundReversed:
		return details{reference: ev.RefundID, paymentID: ev.PaymentID}
	}
	return details{}
}

// columns are the columns of formats that have a row for each posting.
var columns = [...]string{"transaction", "date", "time", "event", "account", "revision", "code", "ledger_account",
	"commodity", "amount",
	"late_for", "kind", "payment_id", "reference", "request_id", "domain", "key_id"}

// texts returns the last columns.
func (e *entry) texts() [7]string {
	return [...]string{e.lateFor, e.kind, e.paymentID, e.reference, e.requestID, e.domain, e.keyID}
}

// tags are the names of texts in the formats for accounting programs.
var tags = [...]string{"late-for", "kind", "payment-id", "reference", "request-id", "domain", "key-id"}

func (e *entry) revisionText() string {
	if e.isOpening() {
		return ""
	}
	return strconv.FormatUint(e.revision, 10)
}

// encoder writes a journal in one format.
type encoder interface {
	entry(e *entry) error
	// close ends the journal with the balances at the ends of months.
	close(b *balances) error
}
