package readapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/projections/brands"
	"letterhead/projections/keys"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

func TestMCPToolCall_EachTool_IsMeteredLikeREST(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Starter, 50)
	s.known("acme.com", record("acme"))
	s.known("plain.com", plainRecord("plain"))
	fresh := record("fresh")
	s.crawler.finds("fresh.com", fresh)
	s.crawler.finds("acme.com", record("acme"))
	call := func(what, body string, credits, searches int64) answer {
		t.Helper()
		before, counted := c.books().balance(), decodeAccount(t, c.get("/v1/me").body).Usage.Searches
		a := c.agent(body)
		a.one(t, http.StatusOK).found(t)
		if spent := before - c.books().balance(); spent != credits {
			t.Errorf("%s cost %d credits, want %d", what, spent, credits)
		}
		if n := decodeAccount(t, c.get("/v1/me").body).Usage.Searches - counted; n != searches {
			t.Errorf("%s counted as %d searches, want %d", what, n, searches)
		}
		return a
	}
	a := call("a brand", getBrand(1, "acme.com"), 1, 0)
	charges := c.books().charges
	if last := charges[len(charges)-1]; last.RequestID != a.header.Get("X-Request-Id") || last.Domain != "acme.com" || last.KeyID == "" {
		t.Errorf("charge %+v of request %s", last, a.header.Get("X-Request-Id"))
	}
	if got, want := string(a.one(t, 200).found(t)), string(c.get("/v1/brands/acme.com").body); got != want {
		t.Errorf("the brand is\n%s\nthe REST API returns\n%s", got, want)
	}
	call("a brand without a logo", getBrand(1, "plain.com"), 0, 0)
	call("a crawled brand", getBrand(1, "fresh.com"), 1, 0)
	call("a refreshed brand", toolCall(1, "get_brand", `{"identifier":"acme.com","refresh":true}`), 1, 0)
	if n := len(s.crawler.of("acme.com")); n != 1 {
		t.Errorf("%d crawls of the refreshed brand, want 1", n)
	}
	call("a search", toolCall(1, "search_brands", `{"query":"acme"}`), 0, 1)
	call("a logo's URL", toolCall(1, "get_logo_url", `{"domain":"acme.com"}`), 0, 0)
}

func TestMCPToolCall_LookupFails_IsErrorWithCode(t *testing.T) {
	t.Parallel()
	s := start(t)
	c, broke := s.account(plan.Free, 50), s.account(plan.Free, 0)
	s.known("acme.com", record("acme"))
	outcomes := map[string]string{
		brand.DNS: "domain_not_found", brand.NoData: "no_brand_data", brand.Blocked: "fetch_blocked",
		brand.FetchFailed: "fetch_failed", brand.Timeout: "timeout",
	}
	for outcome, code := range outcomes {
		domain := strings.ReplaceAll(outcome, "_", "-") + ".com"
		s.crawler.fails(domain, outcome)
		if f := c.agent(getBrand(1, domain)).one(t, 200).isError(t, code); f.RetryAfter != nil {
			t.Errorf("%s: retry_after %d", code, *f.RetryAfter)
		}
		again := c.agent(getBrand(1, domain)).one(t, 200).isError(t, code)
		if remembered := code == "fetch_failed" || code == "timeout"; remembered != (again.RetryAfter != nil) {
			t.Errorf("%s, repeated: %+v", code, again)
		}
	}
	c.agent(getBrand(1, "2c4f3dcd-9c5d-5b0a-8f8a-000000000000")).one(t, 200).isError(t, "not_found")
	broke.agent(getBrand(1, "acme.com")).one(t, 200).isError(t, "insufficient_credits")
	if b := c.books(); b.balance() != 50 || len(b.openHolds) != 0 {
		t.Errorf("balance %d, holds %v", b.balance(), b.openHolds)
	}
	quota := s.account(plan.Free, 50)
	quota.searched(250_000)
	if f := quota.agent(toolCall(1, "search_brands", `{"query":"acme"}`)).one(t, 200).isError(t, "quota_exceeded"); f.RetryAfter == nil || *f.RetryAfter < 86400 {
		t.Errorf("search past the quota: %+v", f)
	}
}

func TestMCPBatch_MinuteUsedUp_RejectsEachToolCall(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Free, 50)
	s.known("acme.com", record("acme"))
	c.useUp()
	a := c.agent(rpcBatch(getBrand(1, "acme.com"), ping, toolCall(3, "nothing", `{}`)))
	all := a.several(t)
	for _, i := range []int{0, 2} {
		if f := all[i].isError(t, "rate_limited"); f.RetryAfter == nil || *f.RetryAfter < 1 || *f.RetryAfter > 60 || strings.Contains(f.Message, "Retry-After") {
			t.Errorf("got %+v", f)
		}
	}
	if string(all[1].Result) != "{}" || a.header.Get("X-RateLimit-Remaining") != "0" || a.header.Get("Retry-After") != "" {
		t.Errorf("body %s, header %v", a.body, a.header)
	}
	// A POST without a tool call neither takes nor needs a unit.
	if a := c.agent(ping); a.status != http.StatusOK || a.header.Get("X-RateLimit-Limit") != "" {
		t.Errorf("status %d, header %v", a.status, a.header)
	}
	if b := c.books(); len(b.charges) != 0 || b.balance() != 50 {
		t.Errorf("got %+v", b)
	}
	s.clock.add(time.Minute)
	if a := c.agent(getBrand(1, "acme.com")); a.header.Get("X-RateLimit-Remaining") != "59" {
		t.Errorf("tool call after a minute: headers %v, body %s", a.header, a.body)
	}
}

func TestMCP_KeyCannotBeChecked_Is503(t *testing.T) {
	t.Parallel()
	var directory *keys.Directory
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { directory = d.Keys.(*keys.Directory) }
	})
	c := s.account(plan.Free, 50)
	head, err := s.log.Head(t.Context())
	s.must(err)
	directory.Open(head+1, s.runner) // the log has one event more than the directory has folded
	a := c.agent(`{"jsonrpc":`)
	a.one(t, http.StatusServiceUnavailable).failed(t, -32603)
	if a.header.Get("Retry-After") != "1" || a.header.Get("WWW-Authenticate") != "" {
		t.Errorf("headers %v", a.header)
	}
}

// Both look-ups of a batch were charged when the caller left.
// Rule 2.
func TestMCP_ClientLeaves_ReversesEveryCharge(t *testing.T) {
	t.Parallel()
	both := make(chan struct{}, 2)
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.Credits = &interceptedWriter{Credits: d.Credits, charged: func(ctx context.Context) {
				both <- struct{}{}
				<-ctx.Done()
			}}
		}
	})
	c := s.account(plan.Free, 50)
	s.known("acme.com", record("acme"))
	s.known("other.com", record("other"))
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.tryMCP(ctx, bearer(c.secret), rpcBatch(getBrand(1, "acme.com"), getBrand(2, "other.com")))
		done <- err
	}()
	<-both
	<-both
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want context.Canceled", err)
	}
	b := c.until("both charges are reversed", func(b books) bool { return len(b.reversals) == 2 })
	if b.balance() != 50 || len(b.charges) != 2 {
		t.Errorf("balance %d, charges %+v", b.balance(), b.charges)
	}
}

// No crawl ends before five are running, so sequential calls would never be answered.
func TestMCPBatch_UnknownDomains_CrawledConcurrently(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Starter, 50)
	var five sync.WaitGroup
	five.Add(5)
	var messages []string
	for i := range 7 {
		domain := fmt.Sprintf("side%d.com", i)
		messages = append(messages, getBrand(i, domain))
		r := record(fmt.Sprintf("side%d", i))
		s.crawler.does(domain, func(context.Context, eventschemas.CrawlRequested) ending {
			if i < 5 {
				five.Done()
			}
			five.Wait()
			return ending{record: &r}
		})
	}
	for i, r := range c.agent(rpcBatch(messages...)).several(t) {
		if got := decodeBrand(t, r.found(t)).Domain; got != fmt.Sprintf("side%d.com", i) {
			t.Errorf("answer %d has the brand %s", i, got)
		}
	}
	if b := c.books(); len(b.charges) != 7 || len(b.openHolds) != 0 {
		t.Errorf("%d charges, holds %v", len(b.charges), b.openHolds)
	}
}

// A key has the same meaning over MCP and over REST.
func TestMCPGetBrand_IdempotencyKey_ChargedOnce(t *testing.T) {
	s := start(t)
	s.known("acme.com", record("Acme"))
	c := s.account(plan.Free, 50)
	call := func(arguments string) rpc { return c.agent(toolCall(1, "get_brand", arguments)).one(t, http.StatusOK) }
	first := call(`{"identifier":"acme.com","idempotency_key":"one"}`).found(t)
	if again := call(`{"identifier":"https://acme.com/","idempotency_key":"one"}`).found(t); !bytes.Equal(again, first) {
		t.Errorf("the repeat returns %s", again)
	}
	if a := c.once("/v1/brands/acme.com", "one"); a.status != http.StatusOK || a.header.Get("X-Credits-Remaining") != "49" {
		t.Errorf("the repeat over REST returns %d with %s credits left; want %d and %q", a.status, a.header.Get("X-Credits-Remaining"), http.StatusOK, "49")
	}
	call(`{"identifier":"other.com","idempotency_key":"one"}`).failed(t, -32602)
	call(`{"identifier":"acme.com","idempotency_key":"two words"}`).failed(t, -32602)
	if b := c.books(); len(b.charges) != 1 {
		t.Errorf("%d charges, want 1", len(b.charges))
	}
}

// panickingIndex panics in a look-up.
type panickingIndex struct{ lookup.Index }

func (panickingIndex) Get(context.Context, string) (*brands.Entry, error) { panic("index panics") }

func TestMCPBatch_ToolPanics_FailsOnlyThatCall(t *testing.T) {
	t.Parallel()
	s := start(t, func(set *setup) { set.deps = func(d *readapi.Deps) { d.Index = panickingIndex{d.Index} } })
	c := s.account(plan.Free, 50)
	a := c.agent(rpcBatch(getBrand(1, "acme.com"), ping))
	all := a.several(t)
	all[0].failed(t, -32603)
	if strings.Contains(string(a.body), "panics") || string(all[1].Result) != "{}" {
		t.Errorf("body %s", a.body)
	}
	if b := c.books(); b.balance() != 50 || len(b.openHolds) != 0 {
		t.Errorf("got %+v", b)
	}
	if !strings.Contains(s.logs.all(), "index panics") {
		t.Error("the log lacks the panic")
	}
}

func TestMCPLog_ToolCall_OmitsArguments(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Free, 50)
	s.known("acme.com", record("acme"))
	a := c.agent(rpcBatch(getBrand(1, "jane.doe@acme.com"), toolCall(2, "search_brands", `{"query":"jane doe"}`), getBrand(3, "jane doe"), `{"jsonrpc":"2.0","id":4,"method":"jane.doe"}`))
	a.several(t)
	id := a.header.Get("X-Request-Id")
	c.agent(ping) // on the same connection, so the previous request is logged
	logged := map[string]string{}
	for _, line := range s.logs.of(id) {
		logged[fmt.Sprintf("%v %v %v", line["msg"], line["tool"], line["call_id"])] = fmt.Sprintf("%v %v %v %v", line["domain"], line["code"], line["rpc_method"], line["route"])
	}
	for what, want := range map[string]string{
		"tool call get_brand " + id + "-0": "acme.com <nil> <nil> mcp", "tool call search_brands " + id + "-1": "<nil> <nil> <nil> mcp",
		"tool call get_brand " + id + "-2": "<nil> invalid_domain <nil> mcp", "request <nil> <nil>": "<nil> <nil> tools/call,other mcp",
	} {
		if logged[what] != want {
			t.Errorf("%s: %q, want %q in %v", what, logged[what], want, logged)
		}
	}
	if strings.Contains(strings.ToLower(s.logs.all()), "jane") {
		t.Error("an argument is in the log")
	}
	// The ping is counted after its answer, so it may be missing yet.
	if !strings.Contains(s.scrape(), `letterhead_http_requests_total{method="POST",route="mcp",status="200"} `) {
		t.Error("the POST is not counted")
	}
}
