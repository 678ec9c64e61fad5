package readapi

import (
	"net/http"
	"net/url"
	"sync"

	"github.com/gorilla/mux"

	"letterhead/domain/brand"
	"letterhead/readapi/lookup"
)

// serveBrand answers GET and HEAD /v1/brands/{identifier}, and the same below /v2.
func (x *exchange) serveBrand() error { return x.serveBrandBy(brand.ParseIdentifier) }

// serveBrandBy answers for the brand in the path, in the forms that parse accepts.
func (x *exchange) serveBrandBy(parse func(string) (brand.Identifier, error)) error {
	refresh, problem := parseRefresh(x.request.URL.RawQuery)
	if problem != nil {
		return problem
	}
	// Decoded once. If it is still encoded, it was encoded twice, and no host has a percent sign.
	text, err := url.PathUnescape(mux.Vars(x.request)["identifier"])
	if err != nil {
		return invalidRequest("The identifier is not percent-encoded correctly.")
	}
	identifier, err := parse(text)
	if err != nil {
		return err
	}
	return x.answerLookup(lookup.Query{
		Request: x.command(), Caller: x.caller.Caller, Identifier: identifier,
		Refresh: refresh, Peek: x.request.Method == http.MethodHead,
	})
}

// answerLookup runs a look-up and sends the answer.
func (x *exchange) answerLookup(q lookup.Query) error {
	ctx := x.context()
	if !q.Peek { // HEAD costs nothing, so there is nothing to charge once
		key, present, problem := x.idempotencyKey()
		if problem != nil {
			return problem
		}
		if present {
			q.Once = lookup.OnceFor(key, q)
		}
	}
	answer, err := x.api.lookup.Do(ctx, q)
	x.domain = answer.Domain
	if err != nil {
		return err
	}
	sent := false
	defer func() {
		if !sent { // even after a panic below
			x.api.lookup.Reverse(ctx, q, answer)
		}
	}()
	buffer := bodies.Get().(*[]byte)
	*buffer = answer.Body.AppendTo((*buffer)[:0], x.api.baseURL)
	h := x.Header()
	h["Cache-Control"] = cachePrivate
	h[headerCache] = cacheHeader(answer.Cache)
	x.cache = string(answer.Cache)
	x.setCredits(answer.Remaining)
	// Until the first byte is sent, the charge is reversed for a caller who left; afterwards it is
	// final.
	if err := ctx.Err(); err != nil {
		return err
	}
	sent = x.sendWhole(http.StatusOK, typeJSON, *buffer)
	if !sent {
		return errClientGone
	}
	if cap(*buffer) <= maxKeptBuffer {
		bodies.Put(buffer)
	}
	return nil
}

// bodies are buffers for rendering records.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

func cacheHeader(c lookup.Cache) []string {
	if c == lookup.Hit {
		return cacheHit
	}
	return cacheMiss
}
