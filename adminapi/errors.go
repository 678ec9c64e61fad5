package adminapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/domain/brand"
	"letterhead/domain/notices"
	"letterhead/domain/operator"
	"letterhead/domain/proof"
	"letterhead/domain/signin"
	"letterhead/domain/statement"
	"letterhead/domain/text"
	"letterhead/eventschemas"
	"letterhead/faults"
	"letterhead/internal/eventlog"
	"letterhead/internal/stripeapi"
	"letterhead/internal/warming"
	"letterhead/internal/web"
	"letterhead/operations"
	"letterhead/projections/accounts"
	"letterhead/projections/brands"
	"letterhead/projections/engine"
	"letterhead/projections/ledger"
	"letterhead/projections/payments"
)

type problem = web.Problem

// CodeLogLost is the code of an error that is an eventlog.ErrLoss or an operations.ErrLogChanged.
const CodeLogLost = "log_lost"

// newProblem returns a problem. cause, which is for the log, may be nil.
func newProblem(status int, code, message string, cause error) *problem {
	return &problem{Status: status, Code: code, Text: message, Cause: cause}
}

func conflicting(message string) *problem {
	return newProblem(http.StatusConflict, "conflict", message, nil)
}

func invalid(format string, args ...any) *problem { return web.Invalid(format, args...) }

func notFound(format string, args ...any) *problem {
	return newProblem(http.StatusNotFound, "not_found", fmt.Sprintf(format, args...), nil)
}

var errUnknownPath = notFound("This path does not exist. GET /admin/openapi.yaml describes the existing ones.")

// conflicts are rejections of a valid request by the state of what it is about. Their texts are for operators.
var conflicts = faults.OneOf(
	account.ErrExists, account.ErrClosed, account.ErrPaymentMismatch, account.ErrRefundTooLarge, account.ErrCreditLimit,
	account.ErrTooManyKeys, account.ErrKeyExists, account.ErrTooLate, account.ErrChargeKept, account.ErrSuspended,
	account.ErrNotClosed, account.ErrOpenHolds, brand.ErrWithdrawn, brand.ErrRecordTooLarge, operator.ErrTooManyTokens,
	operator.ErrTokenExists, operator.ErrTooManyLinks, operations.ErrAdminOff, operations.ErrLacksAccounts, signin.ErrTooManyLinks,
	signin.ErrTooManyEmails, payments.ErrAmbiguous, eventschemas.ErrNotYet, engine.ErrBuilding, engine.ErrNoSpace,
	brands.ErrRestricted, notices.ErrNotDead, operations.ErrNoNoticesKey, operations.ErrNotClosed, books.ErrSum,
	operations.ErrNoCheckpoint, operations.ErrLinked, operations.ErrTooMany, proof.ErrTooManyEvents, stripeapi.ErrNoKey,
	warming.ErrRunning,
)

// absent are errors about things that do not exist.
var absent = faults.OneOf(
	account.ErrNotFound, account.ErrUnknownPayment, account.ErrUnknownKey, accounts.ErrNotFound, payments.ErrNotFound,
	brand.ErrNoSuchBrand, brands.ErrNotFound, operator.ErrUnknownToken, statement.ErrNotBegun, statement.ErrNoEvents,
	ledger.ErrNotFound, engine.ErrUnknown, operations.ErrNotCharged, notices.ErrUnknown, operations.ErrNotSold,
	warming.ErrNone,
)

// malformed are errors about the values of a request.
var malformed = faults.OneOf(account.ErrInvalid, brand.ErrInvalidDomain, brand.ErrInvalidField, operator.ErrInvalid,
	commands.ErrInvalidReport, notices.ErrInvalid, signin.ErrInvalid, operations.ErrInvalidList)

// again ends sentences about failures that another attempt may not have.
const again = ", with the same Idempotency-Key if it had one."

// problems is the table from errors of other parts to answers.
var problems = []web.Row{
	{When: faults.OneOf(commands.ErrNotSeen), Problem: problem{Status: http.StatusServiceUnavailable,
		Code: "not_confirmed",
		Text: "It is recorded, but not every node has confirmed in time that it follows. Read the state before you rely on it."}},
	{When: faults.OneOf(eventlog.ErrLoss), Problem: problem{Status: http.StatusInternalServerError, Code: CodeLogLost,
		Text: "Acknowledged events are missing from the event log. \"letterhead doctor\" says which. Restore them first."}},
	{When: faults.OneOf(operations.ErrLogChanged), Problem: problem{Status: http.StatusConflict, Code: CodeLogLost},
		Say: sentenceOf},
	{When: faults.OneOf(operations.ErrNoPage), Problem: problem{Status: http.StatusServiceUnavailable,
		Code: "unavailable",
		Text: "The payment processor did not create a page to pay on. The log has its reason under the X-Request-Id."}},
	{When: absent, Problem: problem{Status: http.StatusNotFound, Code: "not_found"}, Say: sentenceOf, Expected: true},
	{When: conflicts, Problem: problem{Status: http.StatusConflict, Code: "conflict"}, Say: sentenceOf, Expected: true},
	{When: malformed, Problem: problem{Status: http.StatusBadRequest, Code: "invalid_request"},
		Say: sayField, Expected: true},
	{When: faults.Quarantined, Problem: problem{Status: http.StatusServiceUnavailable, Code: "unavailable",
		Text: "A read model is quarantined, so it cannot answer. GET /admin/projections has the reason; a rebuild may repair it."}},
	{When: faults.Full, Problem: problem{Status: http.StatusServiceUnavailable, Code: "unavailable"},
		Say: func(err error) string {
			return part(err) +
				" has no space left on its disk, so nothing can be changed. Make room, then send the request again" +
				again
		}},
	{When: faults.Unavailable, Problem: problem{Status: http.StatusServiceUnavailable, Code: "unavailable"},
		Say: func(err error) string {
			return part(err) + " could not be reached in time. Send the request again" + again
		}},
	{When: web.Any, Problem: problem{Status: http.StatusInternalServerError, Code: "internal_error",
		Text: "Something failed on our side. The log has the reason under the X-Request-Id."}},
}

func problemOf(err error) *problem {
	var p *problem
	var domain *brand.InvalidDomainError
	var remembered *brand.RememberedError
	var email *text.EmailError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &email):
		return invalid("The field %s %s.", email.Field, text.HoldsEmail)
	case errors.As(err, &domain):
		return invalid("%s", domain.Sentence)
	case errors.As(err, &remembered):
		return conflicting(fmt.Sprintf("The last crawl failed (%s); the site is not crawled again before %s.",
			remembered.Outcome, remembered.Until.UTC().Format(timeLayout)))
	}
	return web.ProblemOf(err, problems)
}

// part names the part of the service that an error is about.
func part(err error) string {
	switch {
	case faults.Log(err):
		return "The event log"
	case faults.Database(err):
		return "The database"
	}
	return "A part of the service"
}

// sentence returns the text of an error with a capital letter.
func sentence(err error) string {
	text := err.Error()
	if text != "" && text[0] >= 'a' && text[0] <= 'z' {
		text = string(text[0]-'a'+'A') + text[1:]
	}
	return text
}

// sayField is sentenceOf for an error about the values of a request. It begins with the field that the error names, so
// that clients find it.
func sayField(err error) string {
	if _, about, found := strings.Cut(err.Error(), ": the field "); found {
		return "The field " + about + "."
	}
	return sentenceOf(err)
}

func sentenceOf(err error) string { return sentence(err) + "." }
