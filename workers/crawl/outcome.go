package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"letterhead/domain/brand"
	"letterhead/internal/safehttp"
)

// Failure reports a crawl without a result. Outcome is one of the brand's failures.
type Failure struct {
	Outcome string
	Detail  string // one sentence for operators, without fetched content
	Err     error  // the cause, or nil
}

func (f *Failure) Error() string { return f.Outcome + ": " + f.Detail }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// failed returns the outcome of a home page that could not be fetched. asked is the requested host: the target of a
// redirect may not exist although the domain does.
func failed(asked string, err error) *Failure {
	var dns *safehttp.DNSError
	detail := "The home page could not be fetched: " + safehttp.Reason(err) + "."
	switch {
	case errors.Is(err, errRulesUnavailable):
		return &Failure{Outcome: brand.FetchFailed, Detail: rulesUnavailable, Err: err}
	case errors.As(err, &dns) && dns.NotFound && dns.Host == asked:
		return &Failure{Outcome: brand.DNS, Detail: "The domain has no address.", Err: err}
	case errors.As(err, &dns) && dns.Timeout, errors.Is(err, safehttp.ErrTimeout), errors.Is(err, errSlowConnect),
		errors.Is(err, context.DeadlineExceeded):
		return &Failure{Outcome: brand.Timeout, Detail: "The home page did not answer in time.", Err: err}
	}
	return &Failure{Outcome: brand.FetchFailed, Detail: detail, Err: err}
}

// elsewhere reports whether the site may respond at another of its URLs: no web server has responded yet.
func elsewhere(err error) bool {
	if dns, ok := errors.AsType[*safehttp.DNSError](err); ok {
		return !dns.Timeout
	}
	kinds := []error{
		safehttp.ErrRefused, safehttp.ErrReset, safehttp.ErrUnreachable, safehttp.ErrTLS,
		safehttp.ErrTimeout, errSlowConnect,
	}
	return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}

func noData(format string, args ...any) *Failure {
	return &Failure{Outcome: brand.NoData, Detail: fmt.Sprintf(format, args...)}
}
