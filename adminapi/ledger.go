package adminapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"letterhead/commands"
	"letterhead/domain/books"
	"letterhead/domain/proof"
	"letterhead/domain/statement"
	"letterhead/domain/text"
	"letterhead/internal/web"
	"letterhead/operations"
	"letterhead/projections/checkpoints"
	"letterhead/projections/ledger"
)

func (x *exchange) getLedger(id string) error {
	q := x.query("from", "to", "type", "payment_id", "request_id", "key", "domain", "credits", "order", "limit", "cursor")
	f := ledger.Filter{Type: q.oneOf("type", ledger.Types()...), PaymentID: q.text("payment_id"),
		RequestID: q.text("request_id"), KeyID: q.text("key"), Credits: q.flag("credits")}
	f.Domain, f.DomainPart = q.domain()
	f.From, f.Until = q.period()
	newest := q.oneOf("order", "oldest", "newest") == "newest"
	limit := q.limit()
	if text := q.text("cursor"); text != "" {
		revision, err := strconv.ParseUint(text, 10, 62)
		switch {
		case err != nil || newest && revision == 0:
			return invalid(notCursor)
		case newest:
			f.BeforeRevision = revision
		default:
			f.FromRevision = revision
		}
	}
	if err := x.read(q, ledger.Name); err != nil {
		return err
	}
	var entries []ledger.Entry
	out := map[string]any{}
	if newest {
		latest, next, err := x.api.Ledger.Latest(x.ctx, id, f, limit)
		if err != nil {
			return err
		}
		if next > 0 {
			out["next_cursor"] = strconv.FormatUint(next, 10)
		}
		return x.answerEntries(out, latest)
	}
	f.Limit = limit + 1 // one more shows that there are more
	for e, err := range x.api.Ledger.Entries(x.ctx, id, f) {
		if err != nil {
			return err
		}
		if len(entries) == limit {
			out["next_cursor"] = strconv.FormatUint(e.Revision, 10)
			break
		}
		entries = append(entries, e)
	}
	return x.answerEntries(out, entries)
}

func (x *exchange) answerEntries(out map[string]any, entries []ledger.Entry) error {
	lines, err := ledger.Lines(x.ctx, x.api.Names, entries)
	if err != nil {
		return err
	}
	shown := make([]LedgerEntry, len(lines))
	names := actorNames(x, entries, func(e *ledger.Entry) string { return e.Actor })
	for i := range lines {
		shown[i] = LedgerEntry{lines[i], names[lines[i].Actor]}
	}
	out["entries"] = shown
	return x.answer(http.StatusOK, out)
}

func (x *exchange) getStatement(id string) error {
	q := x.query("format")
	format := q.oneOf("format", "json", "csv")
	month, err := x.month()
	if err == nil {
		err = x.read(q, ledger.Name)
	}
	if err != nil {
		return err
	}
	s, err := x.api.Ledger.Statement(x.ctx, id, month, x.api.Now())
	if err != nil {
		return err
	}
	contentType, render := web.JSON, s.JSON
	if format == "csv" {
		contentType, render = []string{"text/csv; charset=utf-8"}, s.CSV
	}
	body, err := render()
	if err == nil {
		x.send(http.StatusOK, contentType, body)
	}
	return err
}

func (x *exchange) listMonths() error {
	months, err := x.api.Operations.Books.Months(x.ctx)
	return x.reply(map[string]any{"months": append([]operations.Month{}, months...)}, err)
}

// month returns the month in the path.
func (x *exchange) month() (time.Time, error) {
	month, err := time.Parse(books.MonthLayout, x.request.PathValue("month"))
	if err != nil {
		err = invalid("The month in the path must be like 2026-11.")
	}
	return month, err
}

// closeMonth answers POST /admin/books/{month}/close. It reads the whole log, so few run at a time.
func (x *exchange) closeMonth() error {
	month, err := x.month()
	if err != nil {
		return err
	}
	end, err := x.startReport()
	if err != nil {
		return err
	}
	defer end()
	closed, repeated, err := x.api.Operations.Books.CloseMonth(x.ctx, x.by(), month)
	if errors.Is(err, context.DeadlineExceeded) { // a repeat takes as long
		return newProblem(http.StatusServiceUnavailable, "unavailable", fmt.Sprintf(
			"The month was not closed within %d seconds. Run \"letterhead books close %s\", which has no limit.",
			requestTimeout/time.Second, month.Format(books.MonthLayout)), err)
	}
	return x.reply(struct {
		operations.Month
		Repeated bool `json:"repeated"`
	}{closed, repeated}, err)
}

var errReportRuns = newProblem(http.StatusServiceUnavailable, "unavailable",
	"Another report is being made. Send the request again when it is finished.",
	errors.New("another report is running"))

// startReport waits until no other request reads the whole log, if the request is one of the command line; others do
// not wait. end lets the next one begin.
func (x *exchange) startReport() (end func(), err error) {
	if x.local {
		err = x.api.reports.Acquire(x.ctx, 1)
	} else if !x.api.reports.TryAcquire(1) {
		err = errReportRuns
	}
	return func() { x.api.reports.Release(1) }, err
}

// getTrialBalance answers GET /admin/books/trial-balance. It folds the whole log, so few run at a time.
func (x *exchange) getTrialBalance() error {
	q := x.query("at")
	until, provisional := q.reportEnd(x.api.Now())
	if q.err != nil {
		return q.err
	}
	end, err := x.startReport()
	if err != nil {
		return err
	}
	defer end()
	balances, err := x.api.Operations.Books.Balances(x.ctx, until)
	if err != nil {
		return err
	}
	slices.SortFunc(balances, func(a, b books.Posting) int {
		return cmp.Or(strings.Compare(a.Commodity, b.Commodity), cmp.Compare(a.Account, b.Account))
	})
	lines := []map[string]any{}
	for _, b := range balances {
		lines = append(lines, map[string]any{"currency": b.Commodity, "account": books.Chart[b.Account].Name,
			"debit": max(b.Amount, 0), "credit": max(-b.Amount, 0)})
	}
	return x.answer(http.StatusOK, markRunning(map[string]any{"balances": lines}, provisional))
}

// parseSince returns the time of the field since; zero if it is empty.
func parseSince(text string) (since time.Time, err error) {
	if text == "" {
		return since, nil
	}
	if since, _, err = books.ParseSpan(text); err != nil {
		err = invalid("The field since: %s.", err)
	}
	return since, err
}

// makeCheckpoint answers POST /admin/ledger/checkpoints. It reads the streams of all accounts, so few run at a time.
func (x *exchange) makeCheckpoint() error {
	var in struct {
		Since         string `json:"since"`
		AcceptChanges string `json:"accept_changes"`
	}
	if err := x.decodeAny(&in); err != nil {
		return err
	}
	switch {
	case in.AcceptChanges != "" && in.Since != "":
		return invalid("Give one of the fields since and accept_changes.")
	case in.AcceptChanges != "" && !allows(x.token.Scope, everything):
		return newProblem(http.StatusForbidden, "forbidden", "accept_changes needs a token with the scope admin.", nil)
	case in.AcceptChanges != "":
		if err := cmp.Or(commands.CheckName("accept_changes", in.AcceptChanges),
			text.CheckKept("accept_changes", in.AcceptChanges)); err != nil {
			return err
		}
	}
	since, err := parseSince(in.Since)
	if in.Since == "" {
		err = x.needsKey(", or the field since in the body")
	}
	if err != nil {
		return err
	}
	end, err := x.startReport()
	if err != nil {
		return err
	}
	defer end()
	made, err := x.api.Operations.Checkpoints.Make(x.ctx, x.by(), since, strings.TrimSpace(in.AcceptChanges))
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, map[string]any{
		"checkpoint": operations.CheckpointObject(made.Note, made.Checkpoint), "note": made.Note.Text})
}

func (x *exchange) listCheckpoints() error {
	q := x.query("limit", "cursor")
	limit, before := q.limit(), q.before()
	if err := x.read(q, checkpoints.Name); err != nil {
		return err
	}
	rows, err := x.api.Checkpoints.List(x.ctx, before, limit+1)
	shown := make([]map[string]any, len(rows))
	for i, c := range rows {
		n, err := proof.ParseNote(c.Note)
		if err != nil {
			return fmt.Errorf("checkpoint %d: %w", c.Size, err)
		}
		shown[i] = map[string]any{"origin": n.Origin, "size": n.Size, "root": fmt.Sprintf("%x", n.Root),
			"time": c.At, "note": c.Note}
	}
	return x.reply(pageBefore("checkpoints", shown, limit, func(c *map[string]any) any { return (*c)["size"] }), err)
}

func (x *exchange) getProof(id string) error {
	month, err := x.month()
	if err != nil {
		return err
	}
	file, err := x.api.Operations.Checkpoints.Prove(x.ctx, id, month)
	switch {
	case errors.Is(err, proof.ErrNotInCheckpoint), errors.Is(err, checkpoints.ErrNone),
		errors.Is(err, statement.ErrNotBegun) && !x.api.Now().Before(month):
		return conflicting(sentence(err) + ". The service makes a checkpoint a day; POST /admin/ledger/checkpoints, or \"letterhead ledger checkpoint\", makes one now.")
	case err != nil:
		return err
	}
	file.Send(x, "text/plain; charset=utf-8", "proof-"+month.Format(books.MonthLayout)+".txt")
	return file.Close()
}

// maxListed limits the charges that are found for a request: some 20 MB.
const maxListed = 50_000

// maxListedLocally limits them for the command line: some 400 MB.
const maxListedLocally = 1_000_000

// maxReversals limits the charges that a request reverses, so that it ends in time.
const maxReversals = 1_000

// listUndelivered answers GET /admin/ledger/undelivered. It reads the ledger from since on, so few run at a time.
func (x *exchange) listUndelivered() error {
	q := x.query("since", "account", "limit", "cursor")
	since, _ := q.span("since")
	limit, last := q.limit(), after[operations.UndeliveredCharge](q)
	if q.err != nil {
		return q.err
	}
	charges, err := x.undelivered(q.text("account"), since)
	if err != nil {
		return err
	}
	if last != nil {
		charges = slices.DeleteFunc(charges,
			func(c operations.UndeliveredCharge) bool { return c.Position <= last.Position })
	}
	return x.reply(page("charges", q, charges, limit, asItIs))
}

func (x *exchange) undelivered(accountID string, since time.Time) ([]operations.UndeliveredCharge, error) {
	if since.IsZero() {
		return nil, invalid("Send since: the time of the earliest charge, such as 2026-11-30 or 2026-11-30T15:04:05Z.")
	}
	if accountID != "" {
		if err := x.api.Operations.Reads.AccountExists(x.ctx, accountID); err != nil {
			return nil, x.explain(accountID, err)
		}
	}
	end, err := x.startReport()
	if err != nil {
		return nil, err
	}
	defer end()
	most := maxListed
	if x.local {
		most = maxListedLocally
	}
	return x.api.Operations.Charges.Undelivered(x.ctx, accountID, since, most)
}

func (x *exchange) reverseUndelivered(in struct {
	Since   string `json:"since"`
	Account string `json:"account"`
}) error {
	since, err := parseSince(in.Since)
	if err != nil {
		return err
	}
	charges, err := x.undelivered(in.Account, since)
	if err != nil {
		return err
	}
	now, listed, most := x.api.Now(), len(charges), maxReversals
	if x.local {
		most = listed
	}
	charges = slices.DeleteFunc(charges,
		func(c operations.UndeliveredCharge) bool { return c.ReversibleUntil.Before(now) })
	old, remaining := listed-len(charges), max(len(charges)-most, 0)
	done, failed, err := x.api.Operations.Charges.Reverse(x.ctx, x.by(), charges[:len(charges)-remaining])
	if err != nil {
		return err
	}
	done.TooOld += old
	reasons := []string{}
	for _, err := range failed {
		reasons = append(reasons, sentence(err)+".")
	}
	return x.answer(http.StatusOK, struct {
		operations.Reversals
		Failed    []string `json:"failed"`
		Remaining int      `json:"remaining"`
	}{done, reasons, remaining})
}
