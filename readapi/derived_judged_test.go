package readapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"letterhead/readapi"
	"letterhead/readapi/openapi"
	"letterhead/readapi/openapi/openapitest"
)

// Judging the answers to derived requests: one by one against the document's description of the
// request, and all together against the ledger.

// longestTarget keeps a request's line below the limit of net/http's server.
const longestTarget = 12 << 10

// try sends a request and judges its answer. Requests that net/http's server would not read are skipped.
func (d *deriver) try(t rapid.TB, r *derived) {
	if len(r.target()) > longestTarget {
		return
	}
	req, err := http.NewRequestWithContext(d.s.t.Context(), r.method, d.s.url+r.target(), strings.NewReader(r.body))
	if err != nil {
		t.Errorf("%v: %v", r, err)
		return
	}
	if r.body == "" {
		req.Body, req.ContentLength = nil, 0
	}
	req.Header = r.header.Clone()
	if len(r.body) > readapi.MaxLingerBytes {
		// The answer may come before the end of the body, and is lost with the connection if the client sends on.
		req.Header.Set("Expect", "100-continue")
	}
	resp, err := d.s.transport.RoundTrip(req)
	if err != nil {
		t.Errorf("%v: %v", r, err)
		return
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Errorf("%v: %v", r, err)
		return
	}
	d.judge(t, r, req.URL.EscapedPath(), answer{status: resp.StatusCode, header: resp.Header, body: body})
}

func (d *deriver) judge(t rapid.TB, r *derived, path string, a answer) {
	plain, err := decode(a.header.Get("Content-Encoding"), a.body)
	if err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	row, described, err := d.checker.Check(openapitest.Answer{Method: r.method, Path: path, Status: a.status, Header: a.header, Body: plain})
	wrong := func(format string, args ...any) {
		t.Errorf("%v\nwas answered %d %.300s\n%s", r, a.status, a.body, fmt.Sprintf(format, args...))
	}
	if err != nil {
		wrong("%v", err)
	}
	if a.status >= http.StatusInternalServerError {
		wrong("no request should be able to do that")
	}
	id := a.header.Get("X-Request-Id")
	d.mu.Lock()
	_, again := d.ids[id]
	d.ids[id] = costOf(r, a)
	d.sent[r.o.ID]++
	if described {
		d.rows[row]++
	}
	d.mu.Unlock()
	if id == "" || again {
		wrong("request id %q is a repeat or not valid", id)
	}
	d.judgeStatus(wrong, r, row, a)
	o := openapitest.Operation(d.document, r.method, row.Path)
	if o != nil && described && a.status != http.StatusUnauthorized && a.status != http.StatusMethodNotAllowed && takesMinute(o) {
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			if a.header.Get(name) == "" {
				wrong("%s is missing", name)
			}
		}
	}
}

// takesMinute reports whether every request of an operation takes a unit of the minute window.
func takesMinute(o *openapi.Operation) bool {
	return slices.ContainsFunc(openapitest.Response(o, http.StatusOK).Headers, func(h *openapi.Parameter) bool { return h.Name == "X-RateLimit-Limit" && h.Required })
}

// judgeStatus compares an answer with the consequences that the document gives for the changes of its request.
func (d *deriver) judgeStatus(wrong func(string, ...any), r *derived, row openapitest.Row, a answer) {
	worst, certain, status := inside, true, 0
	for _, c := range r.changes {
		worst = max(worst, c.class)
		certain = certain && c.class != unclear && (!c.alone || !d.mixed)
		// The order of checks: unknown paths, then methods, then keys (a status of 401 before one of 403).
		if c.status != 0 && (status == 0 || slices.Index(rejections, c.status) < slices.Index(rejections, status)) {
			status = c.status
		}
		if c.elsewhere {
			return
		}
	}
	switch {
	case status != 0 && certain && a.status != status:
		wrong("that is a %d", status)
	case worst == outside && !a.rejection():
		wrong("want a rejection")
	case worst == inside && certain:
		operation := r.o // where the codes are documented: an answer to HEAD has no body
		if r.method == http.MethodHead {
			operation = openapitest.Operation(d.document, http.MethodGet, r.o.Path)
		}
		domain := openapitest.Response(operation, http.StatusBadRequest) != nil && slices.Contains(openapitest.Response(operation, http.StatusBadRequest).Codes(), "invalid_domain")
		switch {
		case a.status < 400 || a.status == http.StatusNotFound: // no such brand or file
		case a.status == http.StatusBadRequest && domain && (row.Code == "invalid_domain" || r.method == http.MethodHead): // a text without a domain
		case a.status == http.StatusBadRequest && ofLogos(r.o) && (!r.namesDomain() || r.excludesScheme()):
		default:
			wrong("the document allows it")
		}
	}
}

// rejections are the statuses that derived requests can predict, in the order of the checks.
var rejections = []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized, http.StatusForbidden}

// rejection reports whether an answer is a rejection: by its status, or, for JSON-RPC over 200, by an
// error in the body or in an item of it.
func (a answer) rejection() bool {
	if a.status >= 400 {
		return true
	}
	var one struct{ Error json.RawMessage }
	var many []struct{ Error json.RawMessage }
	if json.Unmarshal(a.body, &one) == nil {
		return one.Error != nil
	}
	return json.Unmarshal(a.body, &many) == nil && slices.ContainsFunc(many, func(item struct{ Error json.RawMessage }) bool { return item.Error != nil })
}

// costOf returns the possible cost of an answer: none unless it is a 200 that shows brands with a logo. A domain may be
// shown more often than it is charged, and an answer under an idempotency key may have been charged before.
func costOf(r *derived, a answer) shownBrands {
	var cost shownBrands
	var body any
	if a.status != http.StatusOK || json.Unmarshal(a.body, &body) != nil {
		return cost
	}
	domains := map[any]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if logos, ok := v["logos"].([]any); ok && len(logos) > 0 && v["domain"] != nil && v["urn"] != nil {
				cost.most++
				domains[v["domain"]] = true
			}
			for name, field := range v {
				if name != "paths" && name != "components" { // of the document itself
					walk(field)
				}
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(body)
	if cost.least = len(domains); r.header["Idempotency-Key"] != nil {
		cost.least = 0
	}
	return cost
}

// reconcile compares the ledger with the answers, and the rows that contractTransport recorded with those judged here.
func (d *deriver) reconcile(t *testing.T) {
	t.Helper()
	charged := map[string]int{}
	for _, c := range d.customers {
		b := c.books()
		for _, charge := range b.charges {
			charged[charge.RequestID[:min(len(uuid.Nil.String()), len(charge.RequestID))]]++ // an item of a batch has the id of its request as a prefix
		}
		if len(b.openHolds) > 0 || len(b.reversals) > 0 || b.lowest < 0 {
			t.Errorf("%d open holds, %d reversals, lowest %d; want 0, 0 and at least 0", len(b.openHolds), len(b.reversals), b.lowest)
		}
	}
	paid := 0
	for id, n := range charged {
		if _, ok := d.ids[id]; !ok {
			t.Errorf("%d charges for the request %s, which was not answered", n, id)
		}
		paid += n
	}
	for id, cost := range d.ids {
		if n := charged[id]; n < cost.least || n > cost.most {
			t.Errorf("request %s was charged %d times, its answer has %d to %d brands that cost a credit", id, n, cost.least, cost.most)
		}
	}
	if paid == 0 {
		t.Error("no request was charged")
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	contract.mu.Lock()
	for row := range d.rows {
		if !contract.seen[row][name] {
			t.Errorf("the contract checker did not see %s", row)
		}
	}
	contract.mu.Unlock()
	all := 0
	for _, o := range d.document.Operations {
		statuses := map[int]int{}
		for row, n := range d.rows {
			if row.Method == o.Method && row.Path == o.Path {
				statuses[row.Status] += n
			}
		}
		all += d.sent[o.ID]
		t.Logf("%5d derived from %-20s %v", d.sent[o.ID], o.ID, statuses)
	}
	t.Logf("%5d derived requests, %d statuses with codes, %d charges", all, len(d.rows), paid)
}
