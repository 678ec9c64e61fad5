package adminapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/billing"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/projections/payments"
)

const (
	// processor is the name under which reports are recorded, whichever payment processor they are of.
	processor = "admin"
	// maxReported limits an id in a report, in bytes. With the type, and a number after the first, it is the id of the
	// report.
	maxReported = 100
	// maxTwins limits the reports of the same type about the same payment, refund or dispute.
	maxTwins = 99
	// maxAhead limits how far a processor's clock may be ahead.
	maxAhead = 5 * time.Minute
	// outcomeWithin limits the time to wait for the outcome of a report.
	outcomeWithin = 5 * time.Second
	// firstLook is the pause before the outcome is looked up again; it doubles up to lastLook.
	firstLook = 5 * time.Millisecond
	lastLook  = 200 * time.Millisecond
)

// failure is the type of a report of a payment that failed.
const failure = "payment_failed"

// noCurrency is the currency of no money (ISO 4217).
const noCurrency = "XXX"

// voids are the types of the reports that return what another one took.
var voids = map[string]string{"refund": "refund_failed", "dispute": "dispute_won", "chargeback": "dispute_won"}

// claims are the types of reports about money that goes back, as kinds and states of domain/billing.
var claims = map[string]struct{ kind, state string }{
	"refund":        {billing.KindRefund, "succeeded"},
	"refund_failed": {billing.KindRefund, "failed"},
	"dispute":       {billing.KindDispute, "under_review"},
	"chargeback":    {billing.KindDispute, "lost"},
	"dispute_won":   {billing.KindDispute, "won"},
}

// report is what a payment processor reports, in a neutral form.
type report struct {
	Type      string `json:"type"`
	Account   string `json:"account"`
	DisputeID string `json:"dispute_id"`
	RefundID  string `json:"refund_id"`
	// OccurredAt orders reports about the same dispute. Without it, the time at which the report is recorded does.
	OccurredAt time.Time `json:"occurred_at"`
	Attempt    int64     `json:"attempt"` // to pay what failed
	grant
}

type recorded struct {
	Change
	State  string `json:"state"`            // applied, waiting, inbox, dismissed
	Reason string `json:"reason,omitempty"` // why it was not applied, or has less effect than it says
}

func (x *exchange) recordPayment() error {
	in := report{grant: grant{Kind: account.KindTopup}}
	if err := x.decode(&in); err != nil {
		return err
	}
	if in.PaymentID == "" || in.Account == "" {
		return invalid("The fields account and payment_id are needed.")
	}
	paid, err := in.value()
	err = errors.Join(err, checkMoney(paid), checkID("account", in.Account), checkReported("payment_id", in.PaymentID),
		checkReported("dispute_id", in.DisputeID), checkReported("refund_id", in.RefundID))
	if err != nil {
		return err
	}
	if in.OccurredAt.After(x.api.Now().Add(maxAhead)) {
		return invalid("The field occurred_at is in the future.")
	}
	if in.Attempt != 0 && in.Type != failure {
		return invalid("Only a report of the type %s has an attempt.", failure)
	}
	if err := x.api.Operations.Reads.AccountExists(x.ctx, in.Account); err != nil {
		return x.explain(in.Account, err)
	}
	r := eventschemas.BillingReported{Processor: processor, Type: in.Type, AccountID: in.Account,
		PaymentID: in.PaymentID, Money: paid, CreatedAt: in.OccurredAt.UTC().Truncate(time.Microsecond)}
	switch in.Type {
	case "payment":
		return x.reportPayment(in, r)
	case failure:
		return x.reportFailure(in, r)
	}
	return x.reportClaim(in, r)
}

// checkReported checks an id that becomes one of a report: printable ASCII without spaces.
func checkReported(field, id string) error {
	if len(id) > maxReported || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return invalid("The field %s takes at most %d letters, digits and signs, without spaces.", field, maxReported)
	}
	return nil
}

func checkMoney(m *eventschemas.Money) error {
	switch {
	case m == nil:
		return nil
	case m.Minor < 0 || m.Minor > account.MaxMoney:
		return invalid("The field money is a number of minor units, such as 4900.")
	case !account.IsCurrency(m.Currency):
		return invalid("The field currency must be an ISO 4217 code, such as EUR.")
	}
	return nil
}

// reportPayment reports a payment, which grants its credits.
func (x *exchange) reportPayment(in report, r eventschemas.BillingReported) error {
	switch {
	case in.Kind == account.KindAdjustment:
		return invalid("The field kind of a payment is topup or subscription.")
	case in.RefundID != "" || in.DisputeID != "":
		return invalid("A payment has no refund_id and no dispute_id.")
	case in.Reason != "":
		return invalid("A payment has no reason.")
	}
	if err := errors.Join(in.command(x.by(), in.Account, r.Money).CheckOperator(),
		checkID("payment_id", in.PaymentID)); err != nil {
		return err
	}
	if in.Tax < 0 || in.Tax > 0 && (r.Money == nil || in.Tax > r.Money.Minor) {
		return invalid("The field tax is a part of money.")
	}
	known, err := x.paymentOf(in.Account, in.PaymentID)
	if err != nil {
		return err
	}
	if known != nil { // the account compares the payment with what it has
		if err := x.compare(in, r); err != nil {
			return err
		}
		if known.Kind != in.Kind && known.Kind != account.KindAdjustment {
			return conflicting("The payment " + in.PaymentID + " was granted before, with the kind " + known.Kind + ".")
		}
	}
	r.Kind, r.State, r.GrantKind, r.Credits, r.Tax = billing.KindPayment, "paid", in.Kind, in.Credits, in.Tax
	r.EventID = "payment-" + in.PaymentID
	repeated, err := x.record(&r, known != nil)
	if err != nil {
		return err
	}
	outcome, err := x.outcomeOf(r.EventID)
	if err == nil && outcome.Outcome == billing.Applied && known == nil { // another report may have granted it
		err = x.compare(in, r)
	}
	return x.answerReport(r, repeated || known != nil, outcome, err)
}

// reportFailure reports that a payment was attempted and failed, which raises a notice.
func (x *exchange) reportFailure(in report, r eventschemas.BillingReported) error {
	switch {
	case in.RefundID != "" || in.DisputeID != "":
		return invalid("A report of the type %s has no refund_id and no dispute_id.", failure)
	case in.Credits != 0 || in.Tax != 0 || in.Reason != "" || in.Kind != account.KindTopup: // the default
		return invalid("A report of the type %s has no kind, no credits, no tax and no reason.", failure)
	case in.Attempt < 0 || in.Attempt > billing.MaxAttempt:
		return invalid("The field attempt is a number from 1 to %d, or missing.", billing.MaxAttempt)
	}
	if _, err := x.paymentOf(in.Account, in.PaymentID); err != nil {
		return err
	}
	r.Kind, r.Attempt = billing.KindFailure, in.Attempt
	r.EventID = fmt.Sprintf("failed-%s-%d", in.PaymentID, in.Attempt)
	repeated, err := x.record(&r, false)
	if err != nil {
		return err
	}
	outcome, err := x.outcomeOf(r.EventID)
	return x.answerReport(r, repeated, outcome, err)
}

// compare rejects a report of a payment that was granted to its account with other values.
func (x *exchange) compare(in report, r eventschemas.BillingReported) error {
	_, err := x.api.Writer.GrantCredits(x.ctx, commands.GrantCredits{
		Request: x.by(), AccountID: in.Account, Kind: in.Kind, Credits: in.Credits, PaymentID: in.PaymentID,
		Money: r.Money, Tax: in.Tax,
	})
	return x.explain(in.Account, err)
}

// reportClaim reports that money of a payment goes back, or does not after all.
func (x *exchange) reportClaim(in report, r eventschemas.BillingReported) error {
	claim, ok := claims[in.Type]
	if !ok {
		return invalid("The field type is payment, payment_failed, refund, refund_failed, dispute, chargeback or dispute_won, not %q.", in.Type)
	}
	void := in.Type == "refund_failed" || in.Type == "dispute_won"
	refunded := claim.kind == billing.KindRefund
	switch {
	case refunded && (in.RefundID == "" || in.DisputeID != ""):
		return invalid("A report of the type %s has a refund_id, and no dispute_id.", in.Type)
	case !refunded && (in.DisputeID == "" || in.RefundID != ""):
		return invalid("A report of the type %s has a dispute_id, and no refund_id.", in.Type)
	case in.Tax != 0 || in.Reason != "":
		return invalid("A report of the type %s has no tax and no reason.", in.Type)
	case in.Credits < 0 || void && in.Credits != 0:
		return invalid("The field credits is a positive number, or missing; a report of the type refund_failed or dispute_won has none.")
	}
	known, err := x.paymentOf(in.Account, in.PaymentID)
	if err != nil {
		return err
	}
	if known == nil && (r.Money == nil || in.Credits != 0) {
		return notFound(
			"There is no payment %s yet. To let the report wait for it, send money and currency, and no credits.",
			in.PaymentID)
	}
	id := in.RefundID
	if !refunded {
		// A chargeback has the id of its dispute: both together take the credits once.
		id = "dispute:" + in.DisputeID
	}
	if !void && (r.Money == nil || in.Credits != 0) {
		return x.refundNow(in, id, r.Money)
	}
	if r.Money == nil {
		r.Money = &eventschemas.Money{Currency: cmp.Or(known.Currency, noCurrency)}
	}
	r.Kind, r.State, r.Subject = claim.kind, claim.state, id
	r.EventID = in.Type + "-" + cmp.Or(in.RefundID, in.DisputeID)
	if known != nil { // it may have been granted without a report
		paid := paymentReport(known)
		if _, err := x.record(&paid, true); err != nil {
			return err
		}
	}
	repeated, err := x.record(&r, false)
	if err != nil {
		return err
	}
	outcome := eventschemas.BillingSettled{Outcome: billing.Waiting,
		Reason: "its payment " + in.PaymentID + " was not granted yet"}
	if known != nil {
		outcome, err = x.outcomeOf(r.EventID)
	}
	return x.answerReport(r, repeated, outcome, err)
}

// refundNow takes back credits of a payment, or the rest of them, which a BillingReported cannot express. A dispute
// takes no more than is left. It takes nothing if the refund has failed or the dispute was won.
func (x *exchange) refundNow(in report, id string, money *eventschemas.Money) error {
	void, err := x.voided(in)
	if err != nil {
		return err
	}
	if void {
		standing, err := x.api.Writer.Standing(x.ctx, in.Account)
		if err != nil {
			return err
		}
		return x.answer(http.StatusOK, recorded{
			Change: Change{Account: in.Account, Balance: standing.Balance, Repeated: true}, State: billing.Applied,
		})
	}
	done, err := x.api.Writer.RefundPayment(x.ctx, commands.RefundPayment{
		Request: x.by(), AccountID: in.Account, RefundID: id, PaymentID: in.PaymentID, Credits: in.Credits,
		Money: money, AtMost: claims[in.Type].kind == billing.KindDispute,
	})
	if err != nil {
		return x.explain(in.Account, err)
	}
	return x.answer(http.StatusOK,
		recorded{State: billing.Applied,
			Change: Change{Account: in.Account, Balance: done.Balance, Repeated: done.Repeated, Refund: done.Refund}})
}

// voided reports whether a report says that the refund failed, or that the dispute was won. A chargeback is the loss of
// a dispute, so the later of both counts; one that is later is rejected, as only a report with money has an order.
func (x *exchange) voided(in report) (void bool, err error) {
	at := in.OccurredAt
	if at.IsZero() {
		at = x.api.Now()
	}
	first, lost := voids[in.Type]+"-"+cmp.Or(in.RefundID, in.DisputeID), false
	for n := range maxTwins {
		known, err := x.api.Reports.Reported(x.ctx, processor, twin(first, n))
		if errors.Is(err, commands.ErrUnknownReport) {
			break
		}
		if err != nil {
			return false, err
		}
		r := known.Report
		if known.Outcome.Outcome == billing.Dismissed || r.AccountID != in.Account || r.PaymentID != in.PaymentID {
			continue
		}
		if in.Type != "chargeback" || !at.After(r.CreatedAt) {
			return true, nil
		}
		lost = true
	}
	if lost {
		return false, conflicting("The dispute " + in.DisputeID +
			" was won. If it was lost after that, send money and currency, and no credits.")
	}
	return false, nil
}

// paymentOf returns a payment of an account, or nil if no account has one with the id. Payments of other accounts are
// rejected, so that a report never moves their credits.
func (x *exchange) paymentOf(accountID, id string) (*payments.Payment, error) {
	if err := x.folded(payments.Name); err != nil {
		return nil, err
	}
	p, err := x.api.Payments.Get(x.ctx, "", id)
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return nil, nil
	case errors.Is(err, payments.ErrAmbiguous):
		return nil, conflicting("Several accounts have a payment " + id +
			". Use POST /admin/accounts/ID/grants and POST /admin/accounts/ID/refunds.")
	case err == nil && p.AccountID != accountID:
		return nil, ofAnotherAccount(id)
	}
	return p, err
}

func ofAnotherAccount(paymentID string) *problem {
	return conflicting("The payment " + paymentID + " is one of another account. GET /admin/payments/ID shows it.")
}

// paymentReport returns the report of a payment that was granted.
func paymentReport(p *payments.Payment) eventschemas.BillingReported {
	r := eventschemas.BillingReported{
		Processor: processor, EventID: "payment-" + p.ID, Type: "payment", Kind: billing.KindPayment, State: "paid",
		GrantKind: p.Kind, AccountID: p.AccountID, PaymentID: p.ID, Credits: p.Credits, Tax: p.Tax,
	}
	if p.Kind != account.KindSubscription {
		r.GrantKind = account.KindTopup // the account knows the payment, whose kind stays
	}
	if p.Currency != "" {
		r.Money = &eventschemas.Money{Minor: p.Money, Currency: p.Currency}
	}
	return r
}

// twin returns the id of a report after n others about the same payment, refund or dispute.
func twin(first string, n int) string {
	if n == 0 {
		return first
	}
	return fmt.Sprintf("%s.%02d", first, n+1) // in the order of the reports
}

// record records a report, sets its id, and reports whether it was recorded before. The streams of reports decide
// between two requests at the same time. Earlier reports with other values do not matter if they were not applied to
// the account; neither do dismissed ones. The report of a payment that was granted is a repeat of any that was applied,
// and is decided again if it is in the inbox.
func (x *exchange) record(r *eventschemas.BillingReported, granted bool) (repeated bool, err error) {
	first, conflict := r.EventID, ""
	for n := range maxTwins {
		r.EventID = twin(first, n)
		known, err := x.api.Reports.Reported(x.ctx, processor, r.EventID)
		if repeated = err == nil; errors.Is(err, commands.ErrUnknownReport) {
			if conflict != "" {
				break
			}
			if err = x.api.Reports.Record(x.ctx, x.by(), *r); err == nil {
				known, err = x.api.Reports.Reported(x.ctx, processor, r.EventID)
			}
		}
		if err != nil {
			return false, err
		}
		if repeated && known.Outcome.Outcome == billing.Dismissed {
			continue
		}
		applied := known.Outcome.Outcome == billing.Applied && known.Report.AccountID == r.AccountID
		same := sameReport(*r, known.Report)
		switch {
		case same && granted && known.Outcome.Outcome == billing.Inbox:
			err := x.api.Reports.Reopen(x.ctx, x.by(), billing.Stream(processor, r.EventID))
			if errors.Is(err, commands.ErrReportDone) || errors.Is(err, eventlog.ErrWrongRevision) {
				err = nil // another request was faster
			}
			return true, err
		case same, applied && granted:
			return repeated, nil
		case repeated && r.Kind == billing.KindFailure && known.Report.AccountID != r.AccountID:
			return false, ofAnotherAccount(r.PaymentID)
		// other attempts that are not counted have other times
		case applied && (r.Kind != billing.KindFailure || r.Attempt > 0):
			conflict = r.EventID
		}
	}
	kind := strings.ReplaceAll(r.Type, "_", " ")
	if r.Kind == billing.KindFailure {
		kind = "failed payment"
	}
	if conflict == "" {
		return false, conflicting(fmt.Sprintf("The %s was reported %d times before. Use POST /admin/accounts/ID/grants or POST /admin/accounts/ID/refunds.", kind, maxTwins))
	}
	return false, conflicting(fmt.Sprintf(
		"The %s was reported before with other values. \"letterhead billing inbox show %s:%s\" shows them.",
		kind, processor, conflict))
}

// sameReport reports whether a report repeats one that was recorded. Without occurred_at, a report has the time at
// which it was recorded.
func sameReport(r, recorded eventschemas.BillingReported) bool {
	if r.CreatedAt.IsZero() || r.CreatedAt.Equal(recorded.CreatedAt) {
		r.CreatedAt = recorded.CreatedAt
	}
	return reflect.DeepEqual(r, recorded)
}

// answerReport answers with what became of a report, unless that is not known because of an error.
func (x *exchange) answerReport(r eventschemas.BillingReported, repeated bool, outcome eventschemas.BillingSettled,
	err error) error {
	if err != nil {
		return err
	}
	standing, err := x.api.Writer.Standing(x.ctx, r.AccountID)
	if err != nil {
		return err
	}
	out := recorded{Change: Change{Account: r.AccountID, Balance: standing.Balance, Repeated: repeated},
		State: outcome.Outcome, Reason: outcome.Reason}
	if out.State != billing.Applied {
		return x.answerForNow(http.StatusAccepted, out)
	}
	if r.Kind == billing.KindPayment {
		out.Reason = "" // repeated says it
	}
	return x.answer(http.StatusOK, out)
}

// outcomeOf waits for the outcome of a report. The worker that applies it may run in another process.
func (x *exchange) outcomeOf(eventID string) (eventschemas.BillingSettled, error) {
	ctx, cancel := context.WithTimeout(x.ctx, outcomeWithin)
	defer cancel()
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		known, err := x.api.Reports.Reported(x.ctx, processor, eventID)
		if err != nil || known.Outcome.Outcome != "" {
			return known.Outcome, err
		}
		if delay.For(ctx, pause) != nil {
			return eventschemas.BillingSettled{Outcome: billing.Waiting,
				Reason: "it is recorded, and was not applied in time; repeat the request to see what became of it"}, nil
		}
	}
}
