package safehttp

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
)

// Post sends a body to an https URL, and returns the response of its server without the body, which is not read: once
// the server has answered with a status, nothing can turn that into a failure. Post follows no redirect, and has no
// cookies: what it sends is only for the host of the URL. Any HTTP status is a response. Only the time of the limits
// counts. Errors are those of Get before the response, and ErrForbiddenURL for an http URL.
func (c *Client) Post(ctx context.Context, rawURL string, body []byte, limits Limits,
	headers ...Header) (*Response, error) {
	began := c.cfg.Now()
	limits = limits.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, limits.Time)
	defer cancel()
	res, err := c.post(ctx, rawURL, body, headers)
	c.metrics.observe(c.cfg.Now().Sub(began), 0, err)
	return res, err
}

func (c *Client) post(ctx context.Context, rawURL string, body []byte, headers []Header) (*Response, error) {
	u, err := CheckURL(rawURL)
	if err == nil && u.Scheme != "https" {
		err = forbidden("scheme %q", u.Scheme)
	}
	if err != nil {
		return nil, &Error{URL: redact(rawURL), Kind: ErrForbiddenURL, Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &Error{URL: show(u), Kind: ErrMalformed, Err: fmt.Errorf("%w: %w", ErrMalformed, err)}
	}
	for _, h := range headers {
		req.Header.Set(h.Name, h.Value)
	}
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	req.Header.Set("Accept-Encoding", "gzip")
	answer, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, &Error{URL: show(u), Kind: classify(ctx, err), Err: err}
	}
	if err := answer.Body.Close(); err != nil {
		c.cfg.Logger.Debug("the body of an answer was not closed", "host", u.Host, "error", err)
	}
	return &Response{StatusCode: answer.StatusCode, Header: answer.Header, FinalURL: u}, nil
}
