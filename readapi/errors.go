package readapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/statement"
	"letterhead/domain/usage"
	"letterhead/faults"
	"letterhead/internal/assets"
	"letterhead/internal/searchindex"
	"letterhead/internal/variants"
	"letterhead/internal/web"
	"letterhead/readapi/logo"
	"letterhead/readapi/lookup"
)

// Code is the machine-readable name of an error. The codes are part of the service's contract.
type Code = string

// The codes of the OpenAPI description.
const (
	CodeInvalidRequest      Code = "invalid_request"
	CodeInvalidDomain       Code = "invalid_domain"
	CodeUnauthorized        Code = "unauthorized"
	CodeInsufficientCredits Code = "insufficient_credits"
	CodeForbidden           Code = "forbidden"
	CodeNotFound            Code = "not_found"
	CodeDomainNotFound      Code = "domain_not_found"
	CodeNoBrandData         Code = "no_brand_data"
	CodeFetchBlocked        Code = "fetch_blocked"
	CodeRateLimited         Code = "rate_limited"
	CodeQuotaExceeded       Code = "quota_exceeded"
	CodeInternalError       Code = "internal_error"
	CodeFetchFailed         Code = "fetch_failed"
	CodeTimeout             Code = "timeout"
	CodeUpstreamFailed      Code = "upstream_failed"
)

// Waits of a 503 when nothing better is known.
const (
	// retryBusy is for an account whose queue is full: the queue empties within milliseconds.
	retryBusy = time.Second
	// retryStarting is for keys that cannot be checked yet: the key directory catches up within seconds.
	retryStarting = time.Second
	// retryUnavailable is for a store that could not be reached.
	retryUnavailable = 5 * time.Second
)

// Messages of a 503. By then it may be unknown whether anything was charged: an append may succeed
// although its outcome was not reported in time. But such an answer is never charged in the end.
const (
	messageReversed    = "Any charge is reversed."
	messageUnavailable = "A part of the service could not be reached in time. " + messageReversed +
		" Send the request again."
	messageLoading = "The account's history is still being loaded. " + messageReversed +
		" Send the request again after Retry-After."
	messageBusy = "The account has more running requests than can be settled in time. " + messageReversed +
		" Send this one again."
	messageNotCrawled = "The site was not crawled in time: the part of the service that crawls is busy, away or cannot store " +
		"the result. " + messageReversed + " Send the request again; domains in the index are served as usual."
	messageFull = "The service has no storage left, so it can neither charge nor change anything. " + messageReversed +
		" Send the request again later; what is free and needs no change is answered as usual."
	messageInternal = "Something failed on our side. " + messageReversed +
		" Send the request again, and report the X-Request-Id if it keeps failing."
)

// statusClientGone is logged and counted for a request whose caller left before an answer; it is never
// sent. The number is the one that proxies use for it.
const statusClientGone = 499

// errClientGone: the caller left before the first byte of the answer.
var errClientGone = errors.New("client has gone")

// errOverloaded is the reason of a rejection before a request runs.
var errOverloaded = errors.New("too many requests are waiting for another part")

// Details accompany some errors.
type Details struct {
	Balance    *int64 `json:"balance,omitempty"`     // credits left to spend; negative after a refund of spent credits
	Required   *int64 `json:"required,omitempty"`    // credits the request needed
	BillingURL string `json:"billing_url,omitempty"` // where to add credits or upgrade
	RetryAfter *int64 `json:"retry_after,omitempty"` // seconds
	Limit      *int64 `json:"limit,omitempty"`       // monthly allowance of the plan
	KeyLimit   *int64 `json:"key_limit,omitempty"`   // credits that the API key may spend, if that is the cause
	KeyUsed    *int64 `json:"key_used,omitempty"`    // credits of that limit that are used
}

// Problem is an error as the API reports it. Its Details are *Details.
type Problem = web.Problem

func unauthorized(message string) *Problem {
	return &Problem{Status: http.StatusUnauthorized, Code: CodeUnauthorized, Text: message}
}

func forbidden(message string) *Problem {
	return &Problem{Status: http.StatusForbidden, Code: CodeForbidden, Text: message}
}

func unavailable(message string, wait time.Duration, cause error) *Problem {
	return &Problem{Status: http.StatusServiceUnavailable, Code: CodeUpstreamFailed, Text: message,
		RetryAfter: wait, Cause: cause}
}

func rateLimited(message string, wait time.Duration) *Problem {
	seconds := int64(wait / time.Second)
	return &Problem{Status: http.StatusTooManyRequests, Code: CodeRateLimited, Text: message, RetryAfter: wait,
		Details: &Details{RetryAfter: &seconds}}
}

// problemOf is the table from errors of other parts to answers. now is used for waits; billingURL for
// answers that a payment would change.
func problemOf(err error, now time.Time, billingURL string) *Problem {
	var (
		problem    *Problem
		credits    *account.InsufficientCreditsError
		crawl      *lookup.CrawlError
		remembered *brand.RememberedError
		limit      *lookup.LimitError
		domain     *brand.InvalidDomainError
		loading    *streamwriter.LoadingError
		size       *lookup.BatchSizeError
	)
	switch {
	case errors.As(err, &problem):
		return problem
	case errors.As(err, &credits):
		return insufficientCredits(credits, billingURL)
	case errors.As(err, &crawl):
		return crawlProblem(crawl, now)
	case errors.As(err, &remembered):
		return crawlProblem(&lookup.CrawlError{Outcome: remembered.Outcome, Until: remembered.Until}, now)
	case errors.As(err, &limit):
		return limitProblem(limit, now)
	case errors.As(err, &domain):
		// No cause: the log must not repeat identifiers, which may be e-mail addresses.
		return &Problem{Status: http.StatusBadRequest, Code: CodeInvalidDomain, Text: domain.Sentence}
	case errors.As(err, &size):
		return web.Invalid(
			"The identifiers name %d different domains; the plan looks up at most %d in one batch. Send fewer.",
			size.Domains, size.Limit)
	case errors.As(err, &loading):
		return unavailable(messageLoading, loading.RetryAfter, err)
	}
	return web.ProblemOf(err, problems)
}

func row(when func(error) bool, status int, code Code, text string) web.Row {
	return web.Row{When: when, Problem: Problem{Status: status, Code: code, Text: text}}
}

// away is row for a part of the service that may be back after a wait.
func away(when func(error) bool, wait time.Duration, text string) web.Row {
	return web.Row{When: when,
		Problem: Problem{Status: http.StatusServiceUnavailable, Code: CodeUpstreamFailed, Text: text, RetryAfter: wait}}
}

// expected is row for an error that the log does not have.
func expected(when func(error) bool, status int, code Code, text string) web.Row {
	r := row(when, status, code, text)
	r.Expected = true
	return r
}

// problems is the table from errors of other parts to answers. Those with values in their answers are in problemOf.
var problems = []web.Row{
	expected(faults.OneOf(lookup.ErrNotStarted), http.StatusGatewayTimeout, CodeTimeout,
		"The batch ran out of time before this item was tried. Send it again."),
	row(faults.OneOf(lookup.ErrNoSuchBrand), http.StatusNotFound, CodeNotFound,
		"No brand has that id. Look the brand up by its domain."),
	row(faults.OneOf(lookup.ErrNotIndexed), http.StatusNotFound, CodeNotFound,
		"The index does not hold that domain. GET crawls it."),
	row(faults.OneOf(statement.ErrNotBegun), http.StatusNotFound, CodeNotFound,
		"There is no statement yet: the month has not begun."),
	row(faults.OneOf(statement.ErrNoEvents), http.StatusNotFound, CodeNotFound,
		"There is no statement: the account was opened after that month."),
	row(faults.OneOf(brand.ErrWithdrawn), http.StatusNotFound, CodeNoBrandData,
		"The owner of that brand had it taken out of the index."),
	expected(faults.OneOf(account.ErrNotFound, account.ErrClosed), http.StatusUnauthorized, CodeUnauthorized,
		"The API key is not valid. Copy it again from where it was issued, or issue a new one."),
	expected(faults.OneOf(account.ErrIdempotencyMismatch), http.StatusBadRequest, CodeInvalidRequest,
		"The "+headerIdempotencyKey+
			" was used for another request. Send a new one with each new request, and the same one only to repeat it."),
	expected(faults.OneOf(account.ErrSuspended), http.StatusForbidden, CodeForbidden, messageSuspended),
	row(faults.OneOf(logo.ErrNotDrawn), http.StatusInternalServerError, CodeInternalError,
		"The logo could not be rendered. Report the X-Request-Id if it keeps failing."),
	away(faults.OneOf(variants.ErrBusy), retryBusy,
		"Too many logos are being drawn. Send the request again after Retry-After."),
	away(faults.OneOf(assets.ErrUnavailable), retryUnavailable, "The asset store cannot be reached. Try again later."),
	away(faults.Busy, retryBusy, messageBusy),
	away(faults.Full, retryUnavailable, messageFull),
	away(faults.OneOf(lookup.ErrNotCrawled), retryUnavailable, messageNotCrawled),
	away(lookup.Unavailable, retryUnavailable, messageUnavailable),
	away(faults.OneOf(searchindex.ErrUnavailable, searchindex.ErrClosed), retryUnavailable, messageUnavailable),
	row(web.Any, http.StatusInternalServerError, CodeInternalError, messageInternal),
}

// isOfTheLog reports whether the event log was unavailable, or did not report the outcome of an append in time.
func isOfTheLog(err error) bool {
	return faults.Log(err) || errors.Is(err, commands.ErrUnknownOutcome)
}

// withoutCredits removes the sentence about credits, for requests that are always free.
func withoutCredits(p *Problem) *Problem {
	free := *p
	free.Text = strings.Replace(p.Text, messageReversed+" ", "", 1)
	return &free
}

func internalError(cause error) *Problem {
	return &Problem{Status: http.StatusInternalServerError, Code: CodeInternalError,
		Text: messageInternal, Cause: cause}
}

// insufficientCredits reports the spendable amount: the balance minus reserved credits, never below
// zero; a negative balance is reported unchanged.
func insufficientCredits(e *account.InsufficientCreditsError, billingURL string) *Problem {
	spendable, required := max(0, e.Available), e.Required
	details := &Details{Balance: &spendable, Required: &required, BillingURL: billingURL}
	message := "No credits are left for this look-up. Add credits, then send it again; retrying alone does not help."
	switch {
	case e.KeyLimit > 0:
		details.KeyLimit, details.KeyUsed = &e.KeyLimit, &e.KeyUsed
		message = "The limit of this API key leaves too few credits. Raise it on the dashboard, or, if it is by day or month, wait for the next one."
	case e.Balance < 0:
		spendable = e.Balance
	case e.Balance >= e.Required:
		message = "The credits that are left are reserved for running look-ups. Wait for these, or add credits."
	}
	return &Problem{Status: http.StatusPaymentRequired, Code: CodeInsufficientCredits, Text: message, Cause: e,
		Details: details}
}

// crawlProblem reports a failed crawl. A remembered failure answers 503 if trying again later may
// help, and otherwise repeats its first answer.
func crawlProblem(e *lookup.CrawlError, now time.Time) *Problem {
	p := &Problem{Cause: e}
	switch e.Outcome {
	case brand.DNS:
		p.Status, p.Code, p.Text = http.StatusNotFound, CodeDomainNotFound,
			"There is no such domain in the DNS. Check its spelling."
	case brand.NoData:
		p.Status, p.Code, p.Text = http.StatusNotFound, CodeNoBrandData,
			"The site responded, but contains no brand data: it is parked, empty or a placeholder."
	case brand.Blocked:
		p.Status, p.Code, p.Text = http.StatusUnprocessableEntity, CodeFetchBlocked,
			"The site refused to be read by our crawler."
	case brand.Timeout:
		p.Status, p.Code, p.Text = http.StatusGatewayTimeout, CodeTimeout, "The site was too slow for a live crawl."
	case brand.FetchFailed:
		p.Status, p.Code, p.Text = http.StatusBadGateway, CodeFetchFailed,
			"The site could not be fetched: it refused the connection, failed in TLS, or answered with a server error."
	default:
		return internalError(fmt.Errorf("crawl outcome %q is none that this release knows", e.Outcome))
	}
	if e.Until.IsZero() || p.Status < http.StatusInternalServerError {
		return p
	}
	p.Status = http.StatusServiceUnavailable
	p.RetryAfter = wholeSeconds(e.Until.Sub(now))
	p.Text += " That answer is remembered; Retry-After says when the domain is crawled again."
	return p
}

func limitProblem(e *lookup.LimitError, now time.Time) *Problem {
	wait := e.Decision.RetryAfter(now)
	if e.Service {
		return unavailable("The service is crawling as many new domains as it may in this minute. Send the request again after Retry-After; domains in the index are served as usual.", wait, e)
	}
	p := rateLimited(fmt.Sprintf("The plan crawls at most %d new domains a minute. Send the request again after Retry-After; domains in the index are served as usual.", e.Decision.Limit), wait)
	p.Cause = e
	return p
}

func quotaExceeded(limit int64, now time.Time, billingURL string) *Problem {
	wait := wholeSeconds(usage.MonthOf(now).End().Sub(now))
	seconds := int64(wait / time.Second)
	return &Problem{Status: http.StatusTooManyRequests, Code: CodeQuotaExceeded, RetryAfter: wait,
		Text:    fmt.Sprintf("The plan's %d searches of this month are used up. The allowance resets on the 1st (UTC); a larger plan raises it immediately.", limit),
		Details: &Details{RetryAfter: &seconds, Limit: &limit, BillingURL: billingURL}}
}

// wholeSeconds rounds a wait up, to at least one second, so that a client that waits that long is not too early.
func wholeSeconds(d time.Duration) time.Duration {
	if d <= time.Second {
		return time.Second
	}
	return (d + time.Second - 1).Truncate(time.Second)
}
