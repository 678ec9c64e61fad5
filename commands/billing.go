package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"letterhead/domain/billing"
	"letterhead/domain/text"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/stripeapi"
)

var (
	// ErrInvalidReport means that a report lacks a field, or has one that cannot be used.
	ErrInvalidReport = errors.New("invalid billing report")
	// ErrUnknownReport means that the processor reported no event with this id.
	ErrUnknownReport = errors.New("no such billing event")
	// ErrReportDone means that the event was applied or dismissed, so that it cannot be decided again.
	ErrReportDone = errors.New("the billing event was applied or dismissed already")
	// ErrReportTooLong means that the event was reopened too often to be replaced by a copy.
	ErrReportTooLong = errors.New("the billing event was reopened too often to be replaced")
)

// maxReportEvents limits the events that are read of the stream of a report. An operator reopened it once for every
// two.
const maxReportEvents = eventlog.MaxPage

// maxReportTurns limits the attempts to append to the stream of a report that was recorded before.
const maxReportTurns = 3

// Billing appends the events of payment processors, and what becomes of them. Each event of a processor has a stream of
// its own, so its repeats change nothing. It is safe for concurrent use.
type Billing struct{ coldStreams }

// NewBilling returns a Billing.
func NewBilling(log eventlog.Log, encoder eventschemas.Encoder, now func() time.Time) *Billing {
	return &Billing{coldStreams{log, encoder, now}}
}

// Record appends what any payment processor reports; the worker of workers/billing applies it to the account. The event
// is durable when Record returns. An event that was recorded before changes nothing, unless the copy can be used better
// and the event is neither applied nor dismissed.
//
// Errors: ErrInvalidReport, ErrInvalidRequest, ErrReportTooLong, ErrBusy, eventschemas.ErrNotYet, and the errors of the
// log.
func (b *Billing) Record(ctx context.Context, request Request, report eventschemas.BillingReported) error {
	if err := request.Validate(); err != nil {
		return err
	}
	if report.CreatedAt.IsZero() {
		report.CreatedAt = b.now()
	}
	report.CreatedAt = report.CreatedAt.UTC().Truncate(time.Microsecond)
	if err := billing.Validate(report); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidReport, err)
	}
	stream := billing.Stream(report.Processor, report.EventID)
	known, expected := useOf(report), eventlog.NoStream()
	for range maxReportTurns + 1 {
		err := b.append(ctx, request, stream, expected, string(known), report)
		if !errors.Is(err, eventlog.ErrWrongRevision) {
			return err
		}
		var recorded use
		if expected, recorded, err = b.lastReport(ctx, stream); err != nil || recorded >= known {
			return err
		}
	}
	return fmt.Errorf("record %s: %w", stream, ErrBusy)
}

// use is how well a report can be used. It is the key of the report's event, so that a copy that can be used better is
// another event.
type use string

const (
	notRead    use = "0" // an event that was not understood
	partlyRead use = "1" // one with a problem, which an operator may have applied as far as it was read
	usable     use = "2" // one without a problem, or one that is done
)

func useOf(r eventschemas.BillingReported) use {
	switch {
	case r.Problem == "":
		return usable
	case r.Kind != "":
		return partlyRead
	}
	return notRead
}

// Reported is a report, and what became of it.
type Reported struct {
	Report  eventschemas.BillingReported
	Outcome eventschemas.BillingSettled // of its last event; zero until it is settled
}

// Reported returns the first report of an event of a processor, and its outcome. Errors: ErrUnknownReport, and the
// errors of the log.
func (b *Billing) Reported(ctx context.Context, processor, eventID string) (out Reported, err error) {
	stream := billing.Stream(processor, eventID)
	first, err := b.log.ReadStream(ctx, stream, 0, eventlog.Forward, 1)
	if err == nil && len(first) == 0 {
		err = fmt.Errorf("%s: %w", stream, ErrUnknownReport)
	}
	if err != nil {
		return out, err
	}
	last, err := b.log.ReadStream(ctx, stream, eventlog.End, eventlog.Backward, 1)
	if err != nil {
		return out, err
	}
	for _, rec := range append(first, last...) {
		ev, err := eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data)
		if err != nil {
			return out, fmt.Errorf("revision %d of %s: %w", rec.Revision, stream, err)
		}
		switch ev := ev.(type) {
		case eventschemas.BillingReported:
			out.Report = ev
		case eventschemas.BillingSettled:
			out.Outcome = ev
		}
	}
	return out, nil
}

// lastReport returns the revision of a stream, and how well its last report can be used. It reads the stream from its
// beginning, because any number of outcomes may follow the report.
func (b *Billing) lastReport(ctx context.Context, stream string) (at eventlog.Expected, recorded use, err error) {
	events := uint64(0)
	err = b.each(ctx, stream, 0, maxReportEvents-1, func(rec *eventlog.Recorded, ev eventschemas.Event) {
		events = rec.Revision + 1
		switch ev := ev.(type) {
		case eventschemas.BillingReported:
			recorded = useOf(ev)
		case eventschemas.BillingSettled:
			if ev.Outcome != billing.Inbox {
				recorded = usable
			}
		}
	})
	if err == nil && events == maxReportEvents {
		err = fmt.Errorf("%s: %w", stream, ErrReportTooLong)
	}
	return eventlog.After(events), recorded, err
}

// Settle records what became of a report whose stream has a number of events. Errors: eventlog.ErrWrongRevision if the
// stream has more, eventschemas.ErrNotYet, and the errors of the log.
func (b *Billing) Settle(ctx context.Context, request Request, stream string, revisions uint64,
	outcome eventschemas.BillingSettled) error {
	return b.append(ctx, request, stream, eventlog.After(revisions), strconv.FormatUint(revisions, 10), outcome)
}

// Reopen has a report that was not applied decided again. Errors: ErrUnknownReport, ErrReportDone,
// eventschemas.ErrNotYet, and the errors of the log.
func (b *Billing) Reopen(ctx context.Context, request Request, stream string) error {
	return b.follow(ctx, request, stream, eventschemas.BillingReopened{})
}

// Dismiss removes a report that was not applied from the inbox, without an effect. Errors: as Reopen, *FieldError, and
// *text.EmailError.
func (b *Billing) Dismiss(ctx context.Context, request Request, stream, reason string) error {
	if err := cmp.Or(checkReason(reason), text.CheckKept("reason", reason)); err != nil {
		return err
	}
	return b.follow(ctx, request, stream, eventschemas.BillingSettled{Outcome: billing.Dismissed, Reason: reason})
}

// follow appends an event to the stream of a report that is not done.
func (b *Billing) follow(ctx context.Context, request Request, stream string, next eventschemas.Event) error {
	if err := request.Validate(); err != nil {
		return err
	}
	events, err := b.log.ReadStream(ctx, stream, eventlog.End, eventlog.Backward, 1)
	if err != nil {
		return err
	}
	if len(events) == 0 {
		return fmt.Errorf("%s: %w", stream, ErrUnknownReport)
	}
	last := events[0]
	ev, err := eventschemas.Decode(last.Type, last.SchemaVersion, last.Data)
	if err != nil {
		return fmt.Errorf("revision %d of %s: %w", last.Revision, stream, err)
	}
	if settled, ok := ev.(eventschemas.BillingSettled); ok && settled.Outcome != billing.Inbox {
		return fmt.Errorf("%s: %w", stream, ErrReportDone)
	}
	return b.append(ctx, request, stream, eventlog.Exact(last.Revision), strconv.FormatUint(last.Revision+1, 10), next)
}

// append appends an event whose id follows from its stream, its type and a key.
func (b *Billing) append(ctx context.Context, request Request, stream string, expected eventlog.Expected, id string,
	ev eventschemas.Event) error {
	metadata := eventlog.Metadata{RequestID: request.ID, Actor: request.Actor}
	proposed, err := Proposal(b.events, stream, id, ev, b.now(), metadata)
	if err == nil {
		_, err = b.log.Append(ctx, stream, expected, []eventlog.Proposed{proposed})
	}
	return err
}

// Checkout returns the checkout session of an offer for an account.
func Checkout(offer billing.Offer, accountID string, catalog *billing.Catalog, baseURL string) stripeapi.Checkout {
	metadata := map[string]string{billing.MetaAccount: accountID, billing.MetaPrice: offer.Price}
	if offer.Plan == "" {
		metadata[billing.MetaGranted] = "checkout.session"
	}
	return stripeapi.Checkout{
		Price: offer.Price, Subscription: offer.Plan != "", AccountID: accountID, Metadata: metadata,
		SuccessURL: cmp.Or(catalog.SuccessURL, baseURL+"/"), CancelURL: cmp.Or(catalog.CancelURL, baseURL+"/"),
		Page: stripeapi.Page(catalog.Page),
	}
}
