package safehttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

// Kinds of failure. Get returns an *Error that wraps exactly one of them; callers use errors.Is.
var (
	// ErrForbiddenURL: the URL may not be fetched (scheme, port, user info, IP address, local name,
	// or not a URL at all). Nothing was sent.
	ErrForbiddenURL = errors.New("URL is not allowed")
	// ErrDNS: the host could not be resolved. The error is also a *DNSError.
	ErrDNS = errors.New("name could not be resolved")
	// ErrBlockedAddress: the host resolves, but to no public address. Nothing was sent.
	ErrBlockedAddress = errors.New("address is not public")
	// ErrRefused: the server refused the connection.
	ErrRefused = errors.New("connection refused")
	// ErrReset: the server ended the connection before the answer was complete.
	ErrReset = errors.New("connection reset")
	// ErrUnreachable: there is no route to the server.
	ErrUnreachable = errors.New("server is unreachable")
	// ErrTLS: no trusted encrypted connection could be made.
	ErrTLS = errors.New("TLS failed")
	// ErrTimeout: a phase, the fetch, or the caller's deadline ran out of time.
	ErrTimeout = errors.New("timed out")
	// ErrTooLarge: the body is past Limits.Body, or the header past MaxHeaderBytes. For a body Get also
	// returns the response, with Truncated set and what fitted.
	ErrTooLarge = errors.New("response is too large")
	// ErrTooManyRedirects: more than MaxRedirects.
	ErrTooManyRedirects = errors.New("too many redirects")
	// ErrBadRedirect: a redirect led to a URL that is not allowed. Wraps ErrForbiddenURL too.
	ErrBadRedirect = errors.New("redirect is not allowed")
	// ErrMalformed: the answer is not HTTP, or its encoding is broken or unknown.
	ErrMalformed = errors.New("response is malformed")
	// ErrBudget: the session has used up its fetches or bytes. When bytes ran out inside a body, Get also
	// returns the response, as with ErrTooLarge.
	ErrBudget = errors.New("session budget is used up")
	// ErrCanceled: the caller went away. Wraps context.Canceled too.
	ErrCanceled = errors.New("fetch was canceled")
)

// reasons names each kind for metrics and logs.
var reasons = []struct {
	kind error
	name string
}{
	{ErrBadRedirect, "bad_redirect"}, // before ErrForbiddenURL, which it wraps
	{ErrForbiddenURL, "forbidden_url"},
	{ErrBlockedAddress, "blocked_address"},
	{ErrRefused, "refused"},
	{ErrReset, "reset"},
	{ErrUnreachable, "unreachable"},
	{ErrTLS, "tls"},
	{ErrTimeout, "timeout"},
	{ErrTooLarge, "too_large"},
	{ErrTooManyRedirects, "too_many_redirects"},
	{ErrMalformed, "malformed"},
	{ErrBudget, "budget"},
	{ErrCanceled, "canceled"},
}

// Reason names the kind of a Get error in one word for metrics and logs: "ok" for nil, "dns_not_found",
// "dns_failed", "blocked_address", "refused", …
func Reason(err error) string {
	if err == nil {
		return "ok"
	}
	var dns *DNSError
	if errors.As(err, &dns) {
		if dns.NotFound {
			return "dns_not_found"
		}
		return "dns_failed"
	}
	for _, r := range reasons {
		if errors.Is(err, r.kind) {
			return r.name
		}
	}
	return "other"
}

// Error is a failed fetch.
type Error struct {
	URL  string // of the hop that failed, without query, which may hold secrets
	Kind error  // one of the Err values above
	Err  error  // what the network said; may be nil
}

func (e *Error) Error() string {
	switch {
	case e.Err == nil:
		return fmt.Sprintf("get %s: %s", e.URL, e.Kind)
	case errors.Is(e.Err, e.Kind): // says so itself
		return fmt.Sprintf("get %s: %s", e.URL, e.Err)
	}
	return fmt.Sprintf("get %s: %s: %s", e.URL, e.Kind, e.Err)
}

// Unwrap makes errors.Is and errors.As see the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// DNSError is a failed resolution.
type DNSError struct {
	Host     string
	NotFound bool // NXDOMAIN, or the name has no address; false: the name server failed or did not answer
	Timeout  bool // the name server did not answer in time
	Err      error
}

func (e *DNSError) Error() string {
	switch {
	case e.NotFound:
		return fmt.Sprintf("%s has no address", e.Host)
	case e.Timeout:
		return fmt.Sprintf("no answer from the name server for %s", e.Host)
	}
	return fmt.Sprintf("name server failed for %s: %v", e.Host, e.Err)
}

// Unwrap returns what the resolver said.
func (e *DNSError) Unwrap() error { return e.Err }

// classify finds the kind of an error from the transport or a body. ctx is the fetch's.
func classify(ctx context.Context, err error) error {
	for _, kind := range []error{ErrDNS, ErrBlockedAddress, ErrBudget, ErrTooLarge, ErrMalformed} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	if kind := classifyContext(ctx, err); kind != nil {
		return kind
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return ErrRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed):
		return ErrReset
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		return ErrUnreachable
	case isTLS(err):
		return ErrTLS
	}
	return classifyText(err.Error())
}

func classifyContext(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(err, context.Canceled) && ctx.Err() == nil:
		return ErrCanceled
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return ErrTimeout
	}
	var timeout interface{ Timeout() bool } // also the transport's own, which are no context errors
	if errors.As(err, &timeout) && timeout.Timeout() {
		return ErrTimeout
	}
	return nil
}

func isTLS(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		alert        tls.AlertError
		authority    x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
	)
	if errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid) {
		return true
	}
	// Alerts from the other side arrive as a net.OpError around an unexported type.
	text := err.Error()
	return strings.Contains(text, "tls: ") || strings.Contains(text, "x509: ") ||
		strings.Contains(text, "server gave HTTP response to HTTPS client")
}

// classifyText tells apart errors that net/http has no types for. What is left after it are complaints
// about the answer, so an unknown text is ErrMalformed.
func classifyText(text string) error {
	for _, t := range []struct {
		part string
		kind error
	}{
		{"response headers exceeded", ErrTooLarge},
		{"header list larger than", ErrTooLarge},
		{"stream error", ErrReset},
		{"GOAWAY", ErrReset},
		{"server closed", ErrReset},
		{"connection lost", ErrReset},
	} {
		if strings.Contains(text, t.part) {
			return t.kind
		}
	}
	return ErrMalformed
}
