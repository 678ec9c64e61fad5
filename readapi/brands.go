package readapi

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"net/url"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/gorilla/mux"

	"letterhead/domain/brand"
	"letterhead/internal/contentcoding"
	"letterhead/internal/web"
	"letterhead/projections/brands"
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
	text, err := url.PathUnescape(cmp.Or(x.identifier, mux.Vars(x.request)["identifier"]))
	if err != nil {
		return web.Invalid("The identifier is not percent-encoded correctly.")
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
	ctx := x.ctx
	if condition := x.request.Header["If-None-Match"]; condition != nil {
		q.Has = func(body brands.Body) bool {
			return contentcoding.Match(condition, etagOf(x.appendRecord(nil, body))) != ""
		}
	}
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
	*buffer = x.appendRecord((*buffer)[:0], answer.Body)
	h, etag := x.Header(), etagOf(*buffer)
	h["Cache-Control"] = cachePrivate
	x.setCredits(answer.Remaining)
	coding := x.coding(web.JSON, len(*buffer))
	if (answer.Unchanged || q.Peek) && x.unmodified(coding, etag) {
		return nil
	}
	x.setHeader(headerETag, coding.Tag(etag))
	h[headerCache] = cacheHeader(answer.Cache)
	x.cache = string(answer.Cache)
	body := coding.Encode(*buffer)
	// Until the first byte is sent, the charge is reversed for a caller who left; afterwards it is final.
	if err := ctx.Err(); err != nil {
		return err
	}
	if sent = x.whole(func() { web.Send(x, http.StatusOK, web.JSON, coding, body) }); !sent {
		return errClientGone
	}
	if cap(*buffer) <= maxKeptBuffer {
		bodies.Put(buffer)
	}
	return nil
}

// appendRecord appends a record in the shape that the request's path has.
func (x *exchange) appendRecord(dst []byte, body brands.Body) []byte {
	if isV2(x.request.URL.EscapedPath()) {
		return body.AppendWithoutTags(dst, x.api.BaseURL)
	}
	return body.AppendTo(dst, x.api.BaseURL)
}

// etagOf returns the tag of a record, a hash of the body. It therefore differs between base URLs and between /v1 and
// /v2, and is the same on every node. The hash needs no secret: a tag reveals only whether the record has changed, and
// only a caller who has the record can compute it.
func etagOf(body []byte) string {
	var sum [8]byte
	var tag [2 + 2*len(sum)]byte
	binary.BigEndian.PutUint64(sum[:], xxhash.Sum64(body))
	return string(append(hex.AppendEncode(append(tag[:0], '"'), sum[:]), '"'))
}

// maxKeptBuffer limits the size of a buffer that is kept for the next answer.
const maxKeptBuffer = 128 << 10

// bodies are buffers for rendering records.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

func cacheHeader(c lookup.Cache) []string {
	if c == lookup.Hit {
		return cacheHit
	}
	return cacheMiss
}
