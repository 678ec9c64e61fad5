package readapi_test

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/readapi/openapi/openapitest"
)

// sideBySide is the number of operations that are tried concurrently.
const sideBySide = 4

// TestDerivedRequests_Described_AnswerAsDocumented derives requests from the OpenAPI document: for each operation its
// plain request, then one change at a time. A new path or parameter in the document is covered automatically.
func TestDerivedRequests_Described_AnswerAsDocumented(t *testing.T) {
	t.Parallel()
	d := newDeriver(t)
	operations := d.document.Operations
	customers := make([]*customer, len(operations))
	for i := range operations {
		customers[i] = d.customer()
	}
	next := make(chan int, len(operations))
	for i := range operations {
		next <- i
	}
	close(next)
	together(sideBySide, func(int) {
		for i := range next {
			o, c := operations[i], customers[i]
			d.try(t, d.plain(o, c))
			for _, changed := range d.changesOf(o, c) {
				d.try(t, d.with(o, c, []change{changed}))
			}
		}
	})
	for _, o := range operations {
		for _, status := range []int{200, 401, 405} {
			method := o.Method
			if status == 405 {
				method = openapitest.Methods(d.document, o.Path)[0]
			}
			if openapitest.Response(o, status) != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(d.rows)), func(r openapitest.Row) bool {
				return r.Method == method && r.Path == o.Path && r.Status == status
			}) {
				t.Errorf("%s never answered %d: the derived requests are wrong", o.ID, status)
			}
		}
	}
	d.reconcile(t)
}

// TestDerivedRequests_NotDescribed_AreRejected derives requests with several changes each.
func TestDerivedRequests_NotDescribed_AreRejected(t *testing.T) {
	t.Parallel()
	d := newDeriver(t)
	d.mixed = true
	c := d.customer()
	changes := map[string][]change{}
	for _, o := range d.document.Operations {
		changes[o.ID] = d.changesOf(o, c)
	}
	rapid.Check(t, func(t *rapid.T) {
		d.s.clock.add(time.Minute) // a new window
		for range rapid.IntRange(1, 8).Draw(t, "requests") {
			o := d.document.Operations[rapid.IntRange(0, len(d.document.Operations)-1).Draw(t, "operation")]
			places := map[string][]change{}
			for _, changed := range changes[o.ID] {
				places[changed.place] = append(places[changed.place], changed)
			}
			names := slices.Sorted(maps.Keys(places))
			for _, place := range slices.Clone(names) { // more often where something can be wrong, because HTTP's own headers are many
				if slices.ContainsFunc(places[place], func(c change) bool { return c.class == outside }) {
					names = append(names, slices.Repeat([]string{place}, 8)...)
				}
			}
			var chosen []change
			for _, place := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 4, rapid.ID).Draw(t, "places") {
				some := places[place]
				if side := rapid.SampledFrom([]class{outside, inside, unclear}).Draw(t, "side"); slices.ContainsFunc(some, func(c change) bool { return c.class == side }) {
					some = slices.DeleteFunc(slices.Clone(some), func(c change) bool { return c.class != side })
				}
				chosen = append(chosen, rapid.SampledFrom(some).Draw(t, place))
			}
			d.try(t, d.with(o, c, compatible(chosen)))
		}
	})
	d.reconcile(t)
}

// compatible drops changes that are pointless together with one that turns the path into another.
func compatible(changes []change) []change {
	missing := slices.ContainsFunc(changes, func(c change) bool { return c.status == http.StatusNotFound })
	behind := slices.ContainsFunc(changes, func(c change) bool { return c.place == placeBehind })
	return slices.DeleteFunc(changes, func(c change) bool {
		return c.place == placeMethod && (missing || behind) || c.place == placeBehind && missing
	})
}

// TestDerivedRequests_RawBytes_AnswerAsDocumented derives requests from the document that net/http's client refuses to send.
func TestDerivedRequests_RawBytes_AnswerAsDocumented(t *testing.T) {
	t.Parallel()
	d := newDeriver(t)
	c := d.customer()
	for _, o := range d.document.Operations {
		plain := d.plain(o, c)
		send := func(what, method, target, headers string, want ...int) {
			t.Helper()
			var lines strings.Builder
			for name, values := range plain.header {
				fmt.Fprintf(&lines, "%s: %s\r\n", name, values[0])
			}
			conn := d.s.dial(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: %d\r\n%s%s\r\n%s",
				method, target, len(plain.body), lines.String(), headers, plain.body))
			defer conn.Close()
			resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
			if err != nil {
				t.Errorf("%s, %s: %v", o.ID, what, err)
				return
			}
			var body bytes.Buffer
			_, err = body.ReadFrom(resp.Body)
			resp.Body.Close()
			if err != nil || !slices.Contains(want, resp.StatusCode) {
				t.Errorf("%s, %s: status %d, want one of %v: %s %v", o.ID, what, resp.StatusCode, want, body.Bytes(), err)
			}
			if slices.Equal(want, []int{http.StatusBadRequest}) {
				// The document does not describe the rejections of invalid HTTP.
				if resp.Header.Get("X-Request-Id") == "" {
					t.Errorf("%s, %s: the answer has no request id", o.ID, what)
				}
				return
			}
			d.judge(t, &derived{o: o, method: method, changes: []change{{place: what, class: unclear}}},
				(&url.URL{Path: strings.Split(target, "?")[0]}).EscapedPath(), answer{status: resp.StatusCode, header: resp.Header, body: body.Bytes()})
		}
		send("CONNECT", http.MethodConnect, plain.target(), "", http.StatusMethodNotAllowed)
		send("a method with a slash", "GET/", plain.target(), "", http.StatusBadRequest)
		send("a byte that no header has", o.Method, plain.target(), "X: a\x01b\r\n", http.StatusBadRequest)
		send("a NUL in a header", o.Method, plain.target(), "X: a\x00b\r\n", http.StatusBadRequest)
		for _, p := range o.Parameters {
			switch p.In {
			case "header":
				send("DEL in "+p.Name, o.Method, plain.target(), p.Name+": a\x7fb\r\n", http.StatusBadRequest)
			case "query":
				send("unescaped letters in "+p.Name, o.Method, plain.target()+"?"+p.Name+"=é品", "", http.StatusOK, http.StatusBadRequest)
			case "path":
				odd := *plain
				odd.path = map[string]string{p.Name: "é品.com"}
				send("unescaped letters in "+p.Name, o.Method, odd.target(), "", http.StatusOK, http.StatusBadRequest, http.StatusNotFound)
				odd.path = map[string]string{p.Name: "%zz"}
				send("an invalid escape in "+p.Name, o.Method, odd.target(), "", http.StatusBadRequest)
			}
		}
	}
	sent := 0
	for _, n := range d.sent {
		sent += n
	}
	t.Logf("%5d derived requests that no client sends, excluding those that net/http rejects itself", sent)
}
