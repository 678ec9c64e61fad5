// Package journal exports the journal: the double entry that domain/books derives from the events of all accounts, in
// money and in credits.
//
// An export depends on nothing but its options and the events of the log up to its head, so two exports without an
// event between them are equal byte by byte. The memory that it takes grows with the number of accounts, their grants
// and the months of their assertions and, in a summary, its transactions, not with the number of events.
package journal

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/disk"
	"letterhead/internal/eventlog"
)

const bufferBytes = 1 << 20

// ErrDigest: the journal of a closed month differs from the one that was closed.
var ErrDigest = errors.New("the journal differs from the one that was closed")

// Format is the format of an export.
type Format string

// Formats.
const (
	CSV       Format = "csv"
	JSONL     Format = "jsonl"
	Parquet   Format = "parquet"
	XLSX      Format = "xlsx"
	HLedger   Format = "hledger"
	Beancount Format = "beancount"
)

// Formats returns all formats.
func Formats() []Format { return []Format{CSV, JSONL, Parquet, XLSX, HLedger, Beancount} }

// Options select and shape an export.
type Options struct {
	Format Format
	// From and Until limit the times of the events: From ≤ time < Until. Zero times do not limit. If there are events
	// before From, the export begins with an opening transaction of each account.
	From, Until time.Time
	// AccountID selects one account; empty for all.
	AccountID string
	// Summary adds up the transactions of each day or month; empty for all of them.
	Summary Summary
	// Chart has the codes of the ledger accounts.
	Chart Chart
	// Progress may be nil.
	Progress Progress

	maxSheetRows int // tests make sheets smaller; default: maxSheetRows
}

func (o Options) encoder(ctx context.Context, w *bufio.Writer) (encoder, error) {
	switch o.Format {
	case CSV:
		_, err := w.WriteString(strings.Join(o.Summary.columns(), ",") + "\n")
		return &textEncoder{w: w, appendEntry: (&csvFormat{chart: o.Chart}).appendEntry}, err
	case JSONL:
		return &textEncoder{w: w, appendEntry: o.Chart.appendLine}, nil
	case Parquet:
		return newParquet(w, o.Chart), nil
	case XLSX:
		return newXLSX(ctx, w, o), nil
	case HLedger:
		_, err := w.WriteString("decimal-mark .\n\n")
		h := &hledger{o.Chart}
		return &textEncoder{w, h.appendEntry, h.writeEnd}, err
	case Beancount:
		c := &beancount{o.Chart}
		return &textEncoder{w, c.appendEntry, c.writeEnd}, nil
	}
	return nil, fmt.Errorf("there is no format %q; the formats are %v", o.Format, Formats())
}

// Write writes the journal of the events in the log to w, up to the head of the log at the call, or to the position
// after which no event can belong to the export. If it is the journal of all accounts in one closed month, Write
// compares it with the digest of the closing.
//
// Errors: as the log and of w; of an event that cannot be decoded, with its position; ErrDigest.
func Write(ctx context.Context, log eventlog.Log, o Options, w io.Writer) error {
	o.maxSheetRows = cmp.Or(o.maxSheetRows, maxSheetRows)
	r, err := newReader(ctx, log, o.AccountID, o.Progress)
	if err != nil {
		return err
	}
	buffer := bufio.NewWriterSize(w, bufferBytes)
	out, err := o.encoder(ctx, buffer)
	if err != nil {
		return err
	}
	e := &export{Options: o, reader: r, journal: books.NewJournal(), balances: newBalances(o.Until)}
	if r.stopAt(o.Until) {
		e.balances.saw(o.Until)
	}
	asserts := o.Format == HLedger || o.Format == Beancount // the others have no assertions
	write := func(entry *entry) error {
		if asserts {
			e.balances.add(entry)
		}
		return out.entry(entry)
	}
	sums := summary{by: o.Summary, journal: e.journal, entries: map[group]*entry{}}
	var digest *digest // of a closed month
	period := r.periods.Find(o.From)
	if period != nil && period.Closed() && o.AccountID == "" && o.Until.Equal(o.From.AddDate(0, 1, 0)) {
		digest = newDigest()
	}
	err = e.run(ctx, func(entry *entry) error {
		if digest != nil {
			if err := digest.entry(entry); err != nil {
				return err
			}
		}
		if o.Summary != "" {
			sums.add(entry)
			return nil
		}
		return write(entry)
	})
	if err == nil && digest != nil && digest.sum() != period.Closing.Digest {
		err = fmt.Errorf("%s was closed on %s with the digest %s; its digest is %s: %w",
			period.Closing.Month, period.ClosedAt.Format(time.DateOnly), period.Closing.Digest, digest.sum(), ErrDigest)
	}
	for _, sum := range sums.transactions() {
		if err == nil {
			err = write(sum)
		}
	}
	if err == nil {
		err = out.close(e.balances)
	}
	if flushed := buffer.Flush(); err == nil {
		err = flushed
	}
	return err
}

type export struct {
	Options
	*reader
	journal  *books.Journal
	balances *balances
	entry    entry // of the current event
	postings []books.Posting
}

// run calls write for each transaction, which is valid until write returns.
func (e *export) run(ctx context.Context, write func(*entry) error) error {
	begin := eventlog.Position(0)
	if !e.From.IsZero() {
		var err error
		if begin, err = e.open(ctx, write); err != nil {
			return err
		}
	}
	return e.rest(ctx, begin, e.head, write)
}

// errBeforeOpening: an event after the opening is booked before From.
var errBeforeOpening = errors.New("an event belongs before the opening")

// rest writes the transactions from From on; begin is what open returned, and opened the head of the log at that time.
// Errors: errBeforeOpening, if the head is a later one now.
func (e *export) rest(ctx context.Context, begin, opened eventlog.Position, write func(*entry) error) error {
	return e.each(ctx, begin, func(_ eventlog.Position, ev bookedEvent) error {
		e.balances.saw(ev.booked)
		if ev.booked.Before(e.From) && ev.Position > opened {
			return errBeforeOpening
		}
		if ev.booked.Before(e.From) || !e.Until.IsZero() && !ev.booked.Before(e.Until) {
			return nil
		}
		body, err := e.apply(ev)
		if err != nil || len(e.postings) == 0 {
			return err
		}
		customer := ev.customer()
		e.entry = entry{id: customer + "/" + strconv.FormatUint(ev.Revision, 10), booked: ev.booked.UTC(),
			at: ev.OccurredAt.UTC(), event: ev.Type, account: customer,
			revision: ev.Revision, details: detailsOf(body), postings: e.postings}
		if ev.booked.After(ev.OccurredAt) {
			e.entry.lateFor = ev.OccurredAt.UTC().Format(books.MonthLayout)
		}
		return write(&e.entry)
	})
}

// open folds the events before From, and writes the opening transactions. It returns the position before the page of
// the first event from From on. The times of a stream never decrease, so the fold of each account ends at From; the
// streams of several nodes may lie in the log in another order.
func (e *export) open(ctx context.Context, write func(*entry) error) (eventlog.Position, error) {
	begin, found := e.head, false
	err := e.each(ctx, 0, func(start eventlog.Position, ev bookedEvent) error {
		if !ev.booked.Before(e.From) {
			if !found {
				begin, found = start, true
			}
			return nil
		}
		_, err := e.apply(ev)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, customer := range e.journal.Customers() {
		opening := e.journal.Opening(customer)
		if len(opening) == 0 {
			continue
		}
		if err := write(&entry{id: customer + "/opening", booked: e.From.UTC(), at: e.From.UTC(), event: Opening,
			account: customer, postings: opening}); err != nil {
			return 0, err
		}
	}
	return begin, nil
}

// apply folds an event into the journal and sets e.postings.
func (e *export) apply(ev bookedEvent) (eventschemas.Event, error) {
	body, err := ev.decode()
	if err == nil {
		e.postings = e.journal.Apply(ev.customer(), body, ev.Revision, ev.OccurredAt, e.postings)
		err = e.journal.Err()
	}
	return body, err
}

// Opening is the event name of the transactions that open an export.
const Opening = "OpeningBalance"

type entry struct {
	id       string    // account and revision, or "opening"; in a summary what its postings have in common
	booked   time.Time // to which the transaction belongs
	at       time.Time // at which the event occurred
	lateFor  string    // month that had ended before the event was appended
	event    string    // type
	account  string    // id; empty in a summary
	revision uint64
	details
	postings []books.Posting
}

// isSum reports whether the transaction is not the one of an event.
func (e *entry) isSum() bool { return e.event == Opening || e.event == Summarized }

// details are fields of some events.
type details struct {
	kind      string // of a grant
	paymentID string
	reference string // id of the grant, charge, refund or fee
	requestID string
	domain    string
	keyID     string

	plan, taxRate string // in a summary
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
	"late_for", "kind", "payment_id", "reference", "request_id", "domain", "key_id", "plan", "tax_rate"}

// texts returns the last columns.
func (e *entry) texts() [9]string {
	return [...]string{e.lateFor, e.kind, e.paymentID, e.reference, e.requestID, e.domain, e.keyID, e.plan, e.taxRate}
}

// cells returns the texts at the end of a row.
func (e *entry) cells() []string {
	if e.account == "" {
		return []string{e.lateFor, e.plan, e.taxRate}
	}
	all := e.texts()
	return all[:len(all)-summaryOnly]
}

// tags are the names of texts in the formats for accounting programs.
var tags = [...]string{"late-for", "kind", "payment-id", "reference", "request-id", "domain", "key-id",
	"plan", "tax-rate"}

func (e *entry) revisionText() string {
	if e.isSum() {
		return ""
	}
	return strconv.FormatUint(e.revision, 10)
}

type encoder interface {
	entry(e *entry) error
	// close ends the journal with the balances at the ends of months.
	close(b *balances) error
}

// WriteFile writes the journal to a file, which appears or is replaced when it is complete; otherwise nothing changes.
// Errors: as Write and of files.
func WriteFile(ctx context.Context, log eventlog.Log, o Options, name string) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", name)
	}
	return disk.WriteFile(name, func(w io.Writer) error { return Write(ctx, log, o, w) })
}
