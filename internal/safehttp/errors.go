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
	// ErrForbiddenURL means that the URL may not be fetched (scheme, port, user info, IP address,
	// local name, or not a URL at all). Nothing was sent.
	ErrForbiddenURL error = &kind{"forbidden_url", "URL is not allowed"}
	// ErrDNS means that the host could not be resolved. The error is also a *DNSError.
	ErrDNS error = &kind{"other", "name could not be resolved"}
	// ErrBlockedAddress means that the host does not resolve to a public address. Nothing was sent.
	ErrBlockedAddress error = &kind{"blocked_address", "address is not public"}
	// ErrRefused means that the server refused the connection.
	ErrRefused error = &kind{"refused", "connection refused"}
	// ErrReset means that the server closed the connection before the response was complete.
	ErrReset error = &kind{"reset", "connection reset"}
	// ErrUnreachable means that there is no route to the server.
	ErrUnreachable error = &kind{"unreachable", "server is unreachable"}
	// ErrTLS means that no trusted encrypted connection could be made.
	ErrTLS error = &kind{"tls", "TLS failed"}
	// ErrTimeout means that a phase or the fetch took too long, or that the caller's deadline passed.
	ErrTimeout error = &kind{"timeout", "timed out"}
	// ErrTooLarge means that the body exceeds Limits.Body, or the header MaxHeaderBytes. For a body
	// Get also returns the response, with Truncated set and the part within the limit.
	ErrTooLarge error = &kind{"too_large", "response is too large"}
	// ErrTooManyRedirects means more than MaxRedirects redirects.
	ErrTooManyRedirects error = &kind{"too_many_redirects", "too many redirects"}
	// ErrBadRedirect means that a redirect led to a URL that is not allowed. It also wraps ErrForbiddenURL.
	ErrBadRedirect error = &kind{"bad_redirect", "redirect is not allowed"}
	// ErrMalformed means that the response is not HTTP, or that its encoding is broken or unknown.
	ErrMalformed error = &kind{"malformed", "response is malformed"}
	// ErrBudget means that the session has used up its fetches or bytes. If a body exceeds the bytes, Get
	// also returns the response, as with ErrTooLarge.
	ErrBudget error = &kind{"budget", "session budget is used up"}
	// ErrCanceled means that the caller canceled the fetch. It also wraps context.Canceled.
	ErrCanceled error = &kind{"canceled", "fetch was canceled"}
)

// kind is a kind of failure, with its name for metrics and logs.
type kind struct{ name, text string }

func (k *kind) Error() string { return k.text }

// Reason returns the kind of a Get error as one word for metrics and logs: "ok" for nil,
// "dns_not_found", "dns_failed", "blocked_address", "refused", …
func Reason(err error) string {
	if err == nil {
		return "ok"
	}
	if dns, ok := errors.AsType[*DNSError](err); ok {
		if dns.NotFound {
			return "dns_not_found"
		}
		return "dns_failed"
	}
	if k, ok := errors.AsType[*kind](err); ok {
		return k.name
	}
	return "other"
}

// Error is a failed fetch.
type Error struct {
	URL  string // of the failed hop, without the query, which may contain secrets
	Kind error  // one of the Err values above
	Err  error  // the network's error; may be nil
}

func (e *Error) Error() string {
	switch {
	case e.Err == nil:
		return fmt.Sprintf("get %s: %s", e.URL, e.Kind)
	case errors.Is(e.Err, e.Kind): // its text contains the kind
		return fmt.Sprintf("get %s: %s", e.URL, e.Err)
	}
	return fmt.Sprintf("get %s: %s: %s", e.URL, e.Kind, e.Err)
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// DNSError is a failed resolution.
type DNSError struct {
	Host     string
	NotFound bool // NXDOMAIN, or a name without an address; if false, the name server failed or did not respond
	Timeout  bool // the name server did not respond in time
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

// Unwrap returns the resolver's error.
func (e *DNSError) Unwrap() error { return e.Err }

// classify returns the kind of an error of the transport or of a body. ctx is the context of the fetch.
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
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, net.ErrClosed):
		return ErrReset
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH),
		errors.Is(err, syscall.EADDRNOTAVAIL):
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
	var timeout interface{ Timeout() bool } // also matches timeouts of the transport, which are not context errors
	if errors.As(err, &timeout) && timeout.Timeout() {
		return ErrTimeout
	}
	return nil
}

func isTLS(err error) bool {
	if errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(tls.RecordHeaderError)) ||
		errors.As(err, new(tls.AlertError)) || errors.As(err, new(x509.UnknownAuthorityError)) ||
		errors.As(err, new(x509.HostnameError)) || errors.As(err, new(x509.CertificateInvalidError)) {
		return true
	}
	// Alerts from the server are a net.OpError around an unexported type.
	text := err.Error()
	return strings.Contains(text, "tls: ") || strings.Contains(text, "x509: ") ||
		strings.Contains(text, "server gave HTTP response to HTTPS client")
}

// classifyText distinguishes errors for which net/http has no types. All others concern the response,
// so an unknown text is ErrMalformed.
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
