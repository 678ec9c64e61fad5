package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
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
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/stripeapi"
	"letterhead/projections"
	"letterhead/projections/accounts"
	"letterhead/projections/brands"
	"letterhead/projections/engine"
	"letterhead/projections/ledger"
	"letterhead/projections/payments"
)

// problem is an error as the API reports it.
type problem struct {
	Status  int
	Code    string
	Message string
	cause   error // for the log
}

func (p *problem) Error() string { return fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.Message) }

func (p *problem) Unwrap() error { return p.cause }

// invalid returns a 400 whose message names the required change.
func invalid(format string, args ...any) *problem {
	return &problem{http.StatusBadRequest, "invalid_request", fmt.Sprintf(format, args...), nil}
}

func notFound(format string, args ...any) *problem {
	return &problem{http.StatusNotFound, "not_found", fmt.Sprintf(format, args...), nil}
}

var errUnknownPath = notFound("This path does not exist. GET /admin/openapi.yaml describes those that do.")

// conflicts are rejections of a valid request by the state of what it is about. Their texts are for operators.
var conflicts = []error{
	account.ErrExists, account.ErrClosed, account.ErrPaymentMismatch, account.ErrRefundTooLarge, account.ErrCreditLimit, account.ErrTooManyKeys, account.ErrKeyExists,
	account.ErrTooLate, account.ErrChargeKept, account.ErrSuspended, account.ErrNotClosed, account.ErrOpenHolds,
	brand.ErrWithdrawn, brand.ErrRecordTooLarge, operator.ErrTooManyTokens, operator.ErrTokenExists, signin.ErrTooManyLinks, signin.ErrTooManyEmails, payments.ErrAmbiguous, eventschemas.ErrNotYet,
	engine.ErrBuilding, engine.ErrNoSpace, brands.ErrRestricted, notices.ErrNotDead, ErrNoNoticesKey, ErrNotClosed, books.ErrSum, ErrNoCheckpoint,
	ErrLinked, ErrTooMany, proof.ErrTooManyEvents, stripeapi.ErrNoKey,
}

// absent are errors about things that do not exist.
var absent = []error{
	account.ErrNotFound, account.ErrUnknownPayment, account.ErrUnknownKey, accounts.ErrNotFound, payments.ErrNotFound, brand.ErrNoSuchBrand, brands.ErrNotFound,
	operator.ErrUnknownToken, statement.ErrNotBegun, statement.ErrNoEvents, ledger.ErrNotFound, engine.ErrUnknown, ErrNotCharged, notices.ErrUnknown, ErrNotSold,
}

// malformed are errors about the values of a request.
var malformed = []error{account.ErrInvalid, brand.ErrInvalidDomain, brand.ErrInvalidField, operator.ErrInvalid, commands.ErrInvalidReport, notices.ErrInvalid, signin.ErrInvalid}

// unavailable are errors that a later attempt may not have.
var unavailable = []error{
	commands.ErrBusy, eventlog.ErrUnavailable, eventlog.ErrAmbiguous, eventlog.ErrClosed, sqlstore.ErrUnavailable, sqlstore.ErrClosed, projections.ErrNotReady,
	context.DeadlineExceeded, context.Canceled,
}

func isOne(err error, of []error) bool {
	for _, target := range of {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// problemOf is the table from errors of other parts to answers.
func problemOf(err error) *problem {
	var p *problem
	var domain *brand.InvalidDomainError
	var remembered *brand.RememberedError
	var email *text.EmailError
	switch {
	case err == nil:
		return &problem{Status: http.StatusOK}
	case errors.As(err, &p):
		return p
	case errors.As(err, &email):
		return invalid("The field %s %s.", email.Field, text.HoldsEmail)
	case errors.As(err, &domain):
		return invalid("%s", domain.Sentence)
	case errors.As(err, &remembered):
		return &problem{http.StatusConflict, "conflict", fmt.Sprintf("The last crawl failed (%s); the site is not crawled again before %s.", remembered.Outcome, remembered.Until.UTC().Format(timeLayout)), nil}
	case errors.Is(err, ErrNotSeen):
		return &problem{http.StatusServiceUnavailable, "not_confirmed", "It is recorded, but not every node has confirmed in time that it follows. Read the state before you rely on it.", err}
	case errors.Is(err, ErrNoPage):
		return &problem{http.StatusServiceUnavailable, "unavailable", "The payment processor did not create a page to pay on. The log has its reason under the X-Request-Id.", err}
	case isOne(err, absent):
		return notFound("%s.", sentence(err))
	case isOne(err, conflicts):
		return &problem{http.StatusConflict, "conflict", sentence(err) + ".", nil}
	case isOne(err, malformed):
		return invalid("%s.", sentence(err))
	case errors.As(err, new(*engine.QuarantinedError)):
		return &problem{http.StatusServiceUnavailable, "unavailable", "A read model is quarantined, so it cannot answer. GET /admin/projections has the reason; a rebuild may repair it.", err}
	case isOne(err, []error{eventlog.ErrFull, sqlstore.ErrFull}):
		message := part(err) + " has no space left on its disk, so nothing can be changed. " +
			"Make room, then send the request again, with the same Idempotency-Key if it had one."
		return &problem{http.StatusServiceUnavailable, "unavailable", message, err}
	case errors.As(err, new(*streamwriter.LoadingError)), isOne(err, unavailable):
		return &problem{http.StatusServiceUnavailable, "unavailable", part(err) + " could not be reached in time. Send the request again, with the same Idempotency-Key if it had one.", err}
	}
	return &problem{http.StatusInternalServerError, "internal_error", "Something failed on our side. The log has the reason under the X-Request-Id.", err}
}

// part names the part of the service that an error is about.
func part(err error) string {
	switch {
	case isOne(err, []error{eventlog.ErrUnavailable, eventlog.ErrAmbiguous, eventlog.ErrClosed}):
		return "The event log"
	case isOne(err, []error{sqlstore.ErrUnavailable, sqlstore.ErrClosed}):
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
