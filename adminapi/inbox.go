package adminapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"letterhead/commands"
	"letterhead/domain/billing"
	"letterhead/internal/eventlog"
)

// OpenReport is an event of a payment processor that was not applied, as it is shown.
type OpenReport struct {
	ID        string    `json:"id"` // processor:event_id
	Processor string    `json:"processor"`
	EventID   string    `json:"event_id"`
	Type      string    `json:"type"`
	At        time.Time `json:"at"`
	State     string    `json:"state"` // inbox, waiting, new
	Reason    string    `json:"reason,omitempty"`
	AccountID string    `json:"account_id,omitempty"`
	Customer  string    `json:"customer,omitempty"`
	PaymentID string    `json:"payment_id,omitempty"`
}

// newReport is the state of a report that has not been decided.
const newReport = "new"

// OpenReportOf returns an open report as it is shown. It decides a report without an outcome, with an empty catalog:
// whether it waits for another report does not depend on prices.
func OpenReportOf(state *billing.State, entry *billing.Entry) OpenReport {
	r := entry.Report
	shown := OpenReport{ID: r.Processor + ":" + r.EventID, Processor: r.Processor, EventID: r.EventID, Type: r.Type, At: entry.At, State: entry.State,
		Reason: entry.Reason, AccountID: r.AccountID, Customer: r.Customer, PaymentID: r.PaymentID}
	if shown.State == "" {
		shown.State = newReport
		if d := state.Decide(entry, &billing.Catalog{}); d.Outcome == billing.Waiting {
			shown.State, shown.Reason = d.Outcome, d.Reason
		}
	}
	return shown
}

// listInbox answers GET /admin/billing/inbox.
func (x *exchange) listInbox() error {
	q := x.query("state", "limit")
	wanted, limit := q.oneOf("state", billing.Inbox, billing.Waiting, newReport), q.limit()
	if q.err != nil {
		return q.err
	}
	if !x.api.reports.TryAcquire(1) {
		return errReportRuns
	}
	defer x.api.reports.Release(1)
	state, err := x.api.Operations.OpenReports(x.ctx)
	if err != nil {
		return err
	}
	shown, total := []OpenReport{}, 0
	for _, entry := range state.Open() {
		r := OpenReportOf(state, entry)
		if wanted != "" && r.State != wanted {
			continue
		}
		if total++; total <= limit {
			shown = append(shown, r)
		}
	}
	return x.answer(http.StatusOK, map[string]any{"reports": shown, "total": total})
}

// replayReport answers POST /admin/billing/inbox/{id}/replay.
func (x *exchange) replayReport() error {
	if err := x.noBody(); err != nil {
		return err
	}
	return x.follow("replayed", x.api.Reports.Reopen)
}

// dismissReport answers POST /admin/billing/inbox/{id}/dismiss.
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
func (x *exchange) follow(done string, decide func(ctx context.Context, by commands.Request, stream string) error) error {
	id, err := x.pathValue("id")
	if err != nil {
		return err
	}
	processor, event, ok := strings.Cut(id, ":")
	if !ok || processor == "" || event == "" {
		return invalid("The id of a report has its processor in front, such as stripe:evt_1. GET /admin/billing/inbox lists the ids.")
	}
	err = decide(x.ctx, x.by(), billing.Stream(processor, event))
	switch {
	case errors.Is(err, commands.ErrUnknownReport), errors.Is(err, eventlog.ErrTooLarge): // no stream has such a long name
		return notFound("There is no report %s. GET /admin/billing/inbox lists those that were not applied.", id)
	case errors.Is(err, commands.ErrReportDone):
		return &problem{http.StatusConflict, "conflict", "The report " + id + " was applied or dismissed already.", nil}
	case errors.Is(err, eventlog.ErrWrongRevision):
		return &problem{http.StatusConflict, "conflict", "The report " + id + " has changed meanwhile. Send the request again.", nil}
	case err != nil:
		return err
	}
	return x.answer(http.StatusOK, map[string]string{"id": id, "outcome": done})
}
