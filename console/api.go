package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"letterhead/internal/web"
)

// get sends a GET request to the API, and decodes the answer.
func (x *exchange) get(path string, query url.Values, out any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return x.call(http.MethodGet, path, nil, out)
}

const headerKey = "Idempotency-Key"

// call sends a request to the API as send does, and decodes the answer. out may be nil.
func (x *exchange) call(method, path string, in, out any) error {
	w, err := x.send(method, path, in)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
		return fmt.Errorf("decode the answer of %s %s: %w", method, path, err)
	}
	return nil
}

// send sends a request to the API as the operator. The form that it comes from has an id, so that sending it twice does
// nothing twice. in may be nil. An answer that is an error becomes a *problem.
func (x *exchange) send(method, path string, in any) (*web.Answer, error) {
	w := web.NewAnswer()
	if err := x.sendTo(w, w, method, path, in); err != nil {
		return nil, err
	}
	x.unconfirmed = x.unconfirmed || w.Header().Get("X-Unconfirmed") != ""
	return w, nil
}

// sendTo is send for an answer that goes to w, and to held if it is an error.
func (x *exchange) sendTo(w http.ResponseWriter, held *web.Answer, method, path string, in any) error {
	var body io.Reader = http.NoBody
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(x.Ctx, method, path, body)
	if err != nil {
		return err
	}
	r.Host, r.RemoteAddr = x.Request.Host, x.Request.RemoteAddr
	r.Header["X-Forwarded-For"] = x.Request.Header["X-Forwarded-For"]
	r.Header.Set("Authorization", "Bearer "+x.Token)
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if once := x.Form.Get("once"); method != http.MethodGet && once != "" {
		r.Header.Set(headerKey, once)
	}
	x.API.ServeHTTP(w, r)
	if err := x.Ctx.Err(); err != nil {
		return err
	}
	if held.Status >= http.StatusBadRequest {
		x.apiID = held.Header().Get("X-Request-Id")
		return problemOf(held)
	}
	return nil
}

// passing passes an answer on while it is made, unless it is an error.
type passing struct {
	*web.Answer // has the headers, and the error
	to          http.ResponseWriter
	begun       bool
}

func (p *passing) WriteHeader(status int) {
	p.Status = status
	if p.begun = status == http.StatusOK; p.begun {
		for _, name := range []string{"Content-Type", "Content-Disposition", "Content-Length"} {
			p.to.Header().Set(name, p.Header().Get(name))
		}
		p.to.WriteHeader(status)
	}
}

// Unwrap returns the writer whose deadline http.ResponseController sets.
func (p *passing) Unwrap() http.ResponseWriter { return p.to }

func (p *passing) Write(body []byte) (int, error) {
	if p.begun {
		return p.to.Write(body)
	}
	return p.Answer.Write(body)
}

// problemOf returns an error of the API as a page shows it.
func problemOf(w *web.Answer) *problem {
	var answer struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(w.Body.Bytes(), &answer) != nil || answer.Error.Message == "" {
		answer.Error.Message = "The API answered " + http.StatusText(w.Status) + "."
	}
	switch w.Status {
	case http.StatusUnauthorized:
		return errSignedOut
	case http.StatusForbidden:
		return &problem{Status: w.Status, Title: "You may not do this", Text: answer.Error.Message}
	case http.StatusNotFound:
		return &problem{Status: w.Status, Title: "Not found", Text: answer.Error.Message}
	case http.StatusTooManyRequests:
		return errTooManyFailures
	case http.StatusServiceUnavailable:
		return &problem{Status: w.Status, Title: "A part of the service does not answer",
			Text: strings.ReplaceAll(answer.Error.Message, ", with the same "+headerKey+" if it had one", "")}
	case http.StatusInternalServerError:
		return &problem{Status: w.Status, Title: "Something failed on our side", Text: answer.Error.Message}
	}
	return &problem{Status: w.Status, Title: "The request was rejected", Text: answer.Error.Message}
}
