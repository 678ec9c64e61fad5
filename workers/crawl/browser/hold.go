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
	shown   bool                          // the page's main frame received a document
	changed time.Time                     // time of the last event
	main    cdp.FrameID                   // the page's main frame
	moved   map[string]*safehttp.Response // responses of redirected documents, by original URL
}

// event handles an event of the tab. It must not block.
func (h *holder) event(ctx context.Context, target *chromedp.Target, ev any) {
	switch ev := ev.(type) {
	case *fetch.EventRequestPaused:
		if !h.begin(ev) {
			go fail(ctx, target, ev)
			return
		}
		go func() {
			defer h.note(func() { h.pending-- })
			h.answer(ctx, target, ev)
		}()
	case *page.EventLoadEventFired:
		h.note(func() { h.loaded = true })
	case *page.EventJavascriptDialogOpening: // an alert blocks the page until it is answered
		go cdp.Call(ctx, target, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: false})
	}
}

func (h *holder) note(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = time.Now()
	change()
}

// begin counts a request. It returns false if there are too many.
func (h *holder) begin(ev *fetch.EventRequestPaused) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	if h.pending >= maxPending || h.asked > maxAsked {
		return false
	}
	if h.main == "" {
		h.main = ev.FrameID // the first request fetches the page
	}
	h.pending++
	h.changed = time.Now()
	return true
}

// rest waits until the page is loaded and idle for a while, until it has made too many requests, or until ctx ends.
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

// pixel is a transparent GIF of one pixel: pages that hide images that fail to load must not hide their logo.
const pixel = "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"

func (h *holder) answer(ctx context.Context, target *chromedp.Target, ev *fetch.EventRequestPaused) {
	switch ev.ResourceType {
	case network.ResourceTypeImage:
		fulfill(ctx, target, ev, http.StatusOK, []byte(pixel), "Content-Type", "image/gif",
			"Access-Control-Allow-Origin", "*")
	case network.ResourceTypeStylesheet:
		fulfill(ctx, target, ev, http.StatusOK, nil, "Content-Type", "text/css", "Access-Control-Allow-Origin", "*")
	case network.ResourceTypeDocument, network.ResourceTypeScript, network.ResourceTypeXHR, network.ResourceTypeFetch:
		response := h.fetch(ctx, ev)
		switch {
		case response == nil && h.shows(ev):
			// Without a response the browser's own error page would replace the page.
			fulfill(ctx, target, ev, http.StatusNoContent, nil)
			return
		case response == nil:
			fail(ctx, target, ev)
			return
		}
		if to := response.FinalURL.String(); ev.ResourceType == network.ResourceTypeDocument && to != ev.Request.URL {
			// The browser must know the final URL: it is the base of relative URLs in the page.
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

// shows reports whether a request would replace an existing page.
func (h *holder) shows(ev *fetch.EventRequestPaused) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return ev.ResourceType == network.ResourceTypeDocument && ev.FrameID == h.main && h.shown
}

// fetch fetches a resource for the page, or returns nil if it is denied.
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
	limit := int64(safehttp.MaxImageBytes) // the largest limit, because bundles of scripts are large
	if ev.ResourceType == network.ResourceTypeDocument {
		limit = safehttp.MaxHTMLBytes
	}
	response, err := h.session.Get(ctx, ev.Request.URL, safehttp.Limits{Body: limit}, asked(ev.Request.Headers)...)
	if err != nil || response.Truncated {
		h.logger.Debug("request of a page was denied", "error", err)
		return nil
	}
	return response
}

// asked returns the headers of a request that are forwarded: the accepted types, and the initiator.
func asked(headers network.Headers) []safehttp.Header {
	var out []safehttp.Header
	for name, value := range headers {
		if strings.EqualFold(name, "Accept") || strings.EqualFold(name, "Origin") {
			out = append(out, safehttp.Header{Name: name, Value: fmt.Sprint(value)})
		}
	}
	return out
}

// passed returns the headers of a response that the page sees. Cookies stay in the session.
func passed(header http.Header) []string {
	var out []string
	for _, name := range []string{
		"Content-Type", "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials",
		"Access-Control-Allow-Headers", "Access-Control-Expose-Headers", "Cross-Origin-Resource-Policy",
		"X-Content-Type-Options",
	} {
		if v := header.Get(name); v != "" {
			out = append(out, name, v)
		}
	}
	return out
}

// fulfill answers a request; headers alternates names and values. A closed tab needs no response.
func fulfill(ctx context.Context, target *chromedp.Target, ev *fetch.EventRequestPaused, status int, body []byte,
	headers ...string) {
	params := fetch.FulfillRequestParams{RequestID: ev.RequestID, ResponseCode: int64(status), Body: body}
	for i := 0; i+1 < len(headers); i += 2 {
		params.ResponseHeaders = append(params.ResponseHeaders,
			&fetch.HeaderEntry{Name: headers[i], Value: headers[i+1]})
	}
	_, _ = cdp.Call(ctx, target, fetch.FulfillRequest, params)
}

func fail(ctx context.Context, target *chromedp.Target, ev *fetch.EventRequestPaused) {
	_, _ = cdp.Call(ctx, target, fetch.FailRequest,
		fetch.FailRequestParams{RequestID: ev.RequestID, ErrorReason: network.ErrorReasonBlockedByClient})
}
