package adminapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"letterhead/commands"
	"letterhead/domain/billing"
	"letterhead/internal/eventlog"
	"letterhead/operations"
	"letterhead/projections/inbox"
	"letterhead/projections/payments"
)

func (x *exchange) linkBilling(in operations.Link) error {
	if in.AccountID == "" || (in.Customer == "") == (in.PaymentID == "") {
		return invalid("The fields account and either customer or payment_id are needed.")
	}
	if err := errors.Join(checkID("account", in.AccountID), checkID("processor", in.Processor),
		checkID("customer", in.Customer), checkID("payment_id", in.PaymentID)); err != nil {
		return err
	}
	in.Processor = cmp.Or(in.Processor, billing.Stripe)
	err := x.api.Operations.Billing.Link(x.ctx, x.by(), in)
	if errors.Is(err, payments.ErrNotFound) {
		return notFound("The account %s has no payment %s. GET /admin/payments lists the payments.",
			in.AccountID, in.PaymentID)
	}
	return x.reply(in, x.explain(in.AccountID, err))
}

func (x *exchange) createCheckout(in struct {
	Account string `json:"account"`
	Pack    string `json:"pack"`
	Price   string `json:"price"`
}) error {
	if in.Account == "" || (in.Pack == "") == (in.Price == "") {
		return invalid("The fields account and either pack or price are needed.")
	}
	if err := errors.Join(checkID("account", in.Account), checkID("pack", in.Pack),
		checkID("price", in.Price)); err != nil {
		return err
	}
	session, err := x.api.Operations.Billing.Checkout(x.ctx, in.Account, in.Pack, in.Price)
	return x.reply(session, x.explain(in.Account, err))
}

// maxReportEvents limits the events of a report that are read at a time, and that are shown to others than the command
// line. Its copies, outcomes and reopenings are few.
const maxReportEvents = 256

var errEnough = errors.New("the first events of a report are enough")

func (x *exchange) listInbox() error {
	q := x.query("state", "from", "to", "limit")
	s, limit := inbox.Selection{State: q.oneOf("state", billing.Inbox, billing.Waiting, inbox.Undecided)}, q.limit()
	s.From, s.Until = q.period()
	if err := x.read(q, inbox.Name); err != nil {
		return err
	}
	rows, total, err := x.api.Inbox.List(x.ctx, s, limit)
	if err != nil {
		return err
	}
	names, err := accountNames(x, rows, func(r *inbox.Report) string { return r.AccountID })
	shown := make([]Report, len(rows))
	for i, r := range rows {
		shown[i] = Report{r, names[r.AccountID]}
	}
	return x.reply(map[string]any{"reports": shown, "total": total}, err)
}

// showReport answers GET /admin/billing/inbox/{id} for a report in any state.
func (x *exchange) showReport() error {
	id, err := x.reportID()
	if err != nil {
		return err
	}
	if err := x.folded(inbox.Name); err != nil {
		return err
	}
	r, found, err := x.api.Inbox.Get(x.ctx, id)
	if err != nil {
		return err
	}
	if !found {
		return noReport(id)
	}
	events, truncated := []ReportEvent{}, false
	err = eventlog.ReadPages(x.ctx, x.api.Log, r.Stream(), maxReportEvents, func(page []eventlog.Recorded) error {
		if truncated = len(events) > 0 && len(page) > 0 && !x.local; truncated {
			return errEnough
		}
		for _, e := range page {
			events = append(events, ReportEvent{e.OccurredAt, e.Type, e.Metadata.Actor, e.Data})
		}
		return nil
	})
	if err != nil && !truncated {
		return err
	}
	return x.answer(http.StatusOK, struct {
		inbox.Report
		Events    []ReportEvent `json:"events"`
		Truncated bool          `json:"truncated,omitempty"`
	}{r, events, truncated})
}

func (x *exchange) replayReport() error {
	return x.follow("replayed", x.api.Reports.Reopen)
}

func (x *exchange) dismissReport() error {
	reason, err := x.reason("operator")
	if err != nil {
		return err
	}
	return x.follow("dismissed", func(ctx context.Context, by commands.Request, stream string) error {
		return x.api.Reports.Dismiss(ctx, by, stream, reason)
	})
}

// follow decides about the report in the path.
func (x *exchange) follow(done string,
	decide func(ctx context.Context, by commands.Request, stream string) error) error {
	id, err := x.reportID()
	if err != nil {
		return err
	}
	processor, event, _ := strings.Cut(id, ":")
	err = decide(x.ctx, x.by(), billing.Stream(processor, event))
	switch {
	// no stream has such a long name
	case errors.Is(err, commands.ErrUnknownReport), errors.Is(err, eventlog.ErrTooLarge):
		return noReport(id)
	case errors.Is(err, commands.ErrReportDone):
		return conflicting("The report " + id + " was applied or dismissed already.")
	case errors.Is(err, eventlog.ErrWrongRevision):
		return conflicting("The report " + id + " has changed meanwhile. Send the request again.")
	}
	return x.reply(map[string]string{"id": id, "outcome": done}, err)
}

// reportID returns the id of the report in the path.
func (x *exchange) reportID() (string, error) {
	id := x.request.PathValue("id")
	if processor, event, ok := strings.Cut(id, ":"); !ok || processor == "" || event == "" {
		return "", invalid("The id of a report has its processor in front, such as stripe:evt_1. GET /admin/billing/inbox lists the ids.")
	}
	return id, nil
}

func noReport(id string) error {
	return notFound("There is no report %s. GET /admin/billing/inbox lists those that were not applied.", id)
}
