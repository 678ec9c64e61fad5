package browser

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"letterhead/internal/safehttp"
)

// holder answers the requests of one page.
type holder struct {
	session *safehttp.Session
	logger  *slog.Logger

	mu      sync.Mutex
	pending int
	asked   int
	loaded  bool
	shown   bool                          // a document was given to the page's own frame
	changed time.Time                     // when something happened last
	main    cdp.FrameID                   // the frame of the page itself
	moved   map[string]*safehttp.Response // answers of documents that redirected, by where they came from
}

func newHolder(session *safehttp.Session, logger *slog.Logger) *holder {
	return &holder{session: session, logger: logger, changed: time.Now(), moved: map[string]*safehttp.Response{}}
}

// event hears what happens in the tab. It must not wait.
func (h *holder) event(ctx context.Context, target *chromedp.Target, ev any) {
	switch ev := ev.(type) {
	case *fetch.EventRequestPaused:
		if !h.begin(ev) {
			go fail(ctx, target, ev)
			return
		}
		go func() {
			defer h.end()
			h.answer(ctx, target, ev)
		}()
	case *page.EventLoadEventFired:
		h.note(func() { h.loaded = true })
	case *page.EventJavascriptDialogOpening: // an alert stops everything until somebody answers
		go cdp.Call(ctx, target, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: false})
	}
}

func (h *holder) note(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = time.Now()
	change()
}

// begin counts a request in; false when there are too many.
func (h *holder) begin(ev *fetch.EventRequestPaused) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	if h.pending >= maxPending || h.asked > maxAsked {
		return false
	}
	if h.main == "" {
		h.main = ev.FrameID // the first request is that of the page
	}
	h.pending++
	h.changed = time.Now()
	return true
}

func (h *holder) end() { h.note(func() { h.pending-- }) }

// rest waits until the page is loaded and nothing has happened for a while, until it has asked for too much,
// or until ctx ends.
func (h *holder) rest(ctx context.Context) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		h.mu.Lock()
		still := time.Since(h.changed)
		done := h.shown && h.pending == 0 && (still >= stuck || h.loaded && still >= quiet) || h.asked > maxAsked
		h.mu.Unlock()
		if done {
			return
		}
	}
}

// pixel is a transparent GIF of one pixel: pages that hide what does not load must not hide their logo.
const pixel = "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"

// answer answers one request.
func (h *holder) answer(ctx context.Context, target *chromedp.Target, ev *fetch.EventRequestPaused) {
	switch ev.ResourceType {
	case network.ResourceTypeImage:
		fulfill(ctx, target, ev, http.StatusOK, []byte(pixel), "Content-Type", "image/gif", "Access-Control-Allow-Origin", "*")
	case network.ResourceTypeStylesheet:
		fulfill(ctx, target, ev, http.StatusOK, nil, "Content-Type", "text/css", "Access-Control-Allow-Origin", "*")
	case network.ResourceTypeDocument, network.ResourceTypeScript, network.ResourceTypeXHR, network.ResourceTypeFetch:
		response := h.fetch(ctx, ev)
		switch {
		case response == nil && h.shows(ev):
			// Without an answer the page would give way to the browser's own page about errors.
			fulfill(ctx, target, ev, http.StatusNoContent, nil)
			return
		case response == nil:
			fail(ctx, target, ev)
			return
		}
		if to := response.FinalURL.String(); ev.ResourceType == network.ResourceTypeDocument && to != ev.Request.URL {
			// The browser must know where it is: what is relative in the page stands on that.
			h.note(func() { h.moved[to] = response })
			fulfill(ctx, target, ev, http.StatusFound, nil, "Location", to)
			return
		}
		if ev.ResourceType == network.ResourceTypeDocument {
			h.note(func() { h.shown = true })
		}
		fulfill(ctx, target, ev, response.StatusCode, response.Body, passed(response.Header)...)
	default:
		fail(ctx, target, ev)
	}
}

// shows reports whether a request would replace a page that is there already.
func (h *holder) shows(ev *fetch.EventRequestPaused) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return ev.ResourceType == network.ResourceTypeDocument && ev.FrameID == h.main && h.shown
}

// fetch fetches what the page asks for, nil when it gets nothing.
func (h *holder) fetch(ctx context.Context, ev *fetch.EventRequestPaused) *safehttp.Response {
	h.mu.Lock()
	frame := ev.ResourceType == network.ResourceTypeDocument && ev.FrameID != h.main
	before := h.moved[ev.Request.URL]
	h.mu.Unlock()
	if frame || ev.Request.Method != http.MethodGet {
		return nil
	}
	if before != nil && ev.ResourceType == network.ResourceTypeDocument {
		return before
	}
	limit := int64(safehttp.MaxImageBytes) // the largest there is: bundles of scripts are large
	if ev.ResourceType == network.ResourceTypeDocument {
		limit = safehttp.MaxHTMLBytes
	}
	response, err := h.session.Get(ctx, ev.Request.URL, safehttp.Limits{Body: limit}, asked(ev.Request.Headers)...)
	if err != nil || response.Truncated {
		h.logger.Debug("request of a page got nothing", "error", err)
		return nil
	}
	return response
}

// asked are the headers of a request that are sent on: what kind is wanted, and on whose behalf.
func asked(headers network.Headers) []safehttp.Header {
	var out []safehttp.Header
	for name, value := range headers {
		if strings.EqualFold(name, "Accept") || strings.EqualFold(name, "Origin") {
			out = append(out, safehttp.Header{Name: name, Value: fmt.Sprint(value)})
		}
	}
	return out
}

// passed are the headers of an answer that the page sees. Cookies stay in the session.
func passed(header http.Header) []string {
	var out []string
	for _, name := range []string{
		"Content-Type", "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Expose-Headers",
		"Cross-Origin-Resource-Policy", "X-Content-Type-Options",
	} {
		if v := header.Get(name); v != "" {
			out = append(out, name, v)
		}
	}
	return out
}

// fulfill answers a request; headers are names and values by turns. A tab that is gone needs no answer.
func fulfill(ctx context.Context, target *chromedp.Target, ev *fetch.EventRequestPaused, status int, body []byte, headers ...string) {
	params := fetch.FulfillRequestParams{RequestID: ev.RequestID, ResponseCode: int64(status), Body: body}
	for i := 0; i+1 < len(headers); i += 2 {
		params.ResponseHeaders = append(params.ResponseHeaders, &fetch.HeaderEntry{Name: headers[i], Value: headers[i+1]})
	}
	_, _ = cdp.Call(ctx, target, fetch.FulfillRequest, params)
}

func fail(ctx context.Context, target *chromedp.Target, ev *fetch.EventRequestPaused) {
	_, _ = cdp.Call(ctx, target, fetch.FailRequest, fetch.FailRequestParams{RequestID: ev.RequestID, ErrorReason: network.ErrorReasonBlockedByClient})
}
