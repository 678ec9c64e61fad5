package readapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections/brands"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

const batchPath = "/v1/brands/batch"

type (
	specBatch struct {
		Results []specBatchItem `json:"results"`
	}
	specBatchItem struct {
		Identifier string         `json:"identifier"`
		Domain     *string        `json:"domain"`
		Status     int            `json:"status"`
		Brand      *specBrand     `json:"brand,omitempty"`
		Error      *specItemError `json:"error,omitempty"`
		RetryAfter *int64         `json:"retryAfter,omitempty"`
	}
	specItemError struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
)

// said returns an item's status and code.
func (i specBatchItem) said() string {
	if i.Error == nil {
		return strconv.Itoa(i.Status)
	}
	return fmt.Sprintf("%d %s", i.Status, i.Error.Code)
}

func said(items []specBatchItem) []string {
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = item.said()
	}
	return all
}

// post sends a body with the content type of a form, as curl does by default.
func (s *service) post(ctx context.Context, path, body string, header http.Header) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	whole, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: whole}, err
}

func batchOf(t testing.TB, identifiers []string) string {
	t.Helper()
	body := testmust.Get(json.Marshal(map[string][]string{"identifiers": identifiers}))(t)
	return string(body)
}

// asks sends a batch.
func (c *customer) asks(identifiers ...string) answer {
	c.s.t.Helper()
	a, err := c.s.post(c.s.t.Context(), batchPath, batchOf(c.s.t, identifiers), bearer(c.secret))
	c.s.must(err)
	return a
}

// batch sends a batch, checks that it is answered and the answer's shape, and returns its items.
func (c *customer) batch(identifiers ...string) ([]specBatchItem, http.Header) {
	c.s.t.Helper()
	a := c.asks(identifiers...)
	return a.items(c.s.t, identifiers), a.header
}

func (a answer) items(t testing.TB, identifiers []string) []specBatchItem {
	t.Helper()
	h := a.ok(t)
	for _, name := range []string{"X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Credits-Remaining"} {
		if h.Get(name) == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if h.Get("Content-Type") != "application/json; charset=utf-8" || h.Get("Cache-Control") != "private" || h.Get("X-Cache") != "" ||
		h.Get("Content-Length") != strconv.Itoa(len(a.body)) {
		t.Errorf("headers %v", h)
	}
	items := decodeExactly[specBatch](t, a.body).Results
	if len(items) != len(identifiers) {
		t.Fatalf("%d items for %d identifiers", len(items), len(identifiers))
	}
	for i, item := range items {
		found := item.Status == http.StatusOK
		if item.Identifier != identifiers[i] || found != (item.Brand != nil) || found != (item.Error == nil) || found && *item.Domain != item.Brand.Domain {
			t.Errorf("item %d for %q: %+v", i, identifiers[i], item)
		}
		if !found && item.Error.Message == "" {
			t.Errorf("item %d has no message: %+v", i, item)
		}
	}
	return items
}

func (c *customer) chargedDomains() []string {
	c.s.t.Helper()
	var all []string
	for _, charge := range c.books().charges {
		all = append(all, charge.Domain)
	}
	slices.Sort(all)
	return all
}

func TestBatch_EachItem_AnsweredLikeALookup(t *testing.T) {
	s := start(t)
	s.shows("POST /v1/brands/batch", 200)
	c := s.account(plan.Growth, 100)
	acme := s.known("acme.com", record("acme"))
	other := s.known("other.com", record("other"))
	s.known("plain.com", plainRecord("plain"))
	s.crawler.finds("new.com", record("new"))
	s.crawler.finds("bare.com", plainRecord("bare"))
	failures := map[string]string{"dns.com": brand.DNS, "parked.com": brand.NoData, "blocked.com": brand.Blocked, "down.com": brand.FetchFailed, "late.com": brand.Timeout}
	for domain, outcome := range failures {
		s.crawler.fails(domain, outcome)
	}
	nobody := uuid.NewString()
	identifiers := []string{
		"acme.com", "https://www.acme.com/about?x=1", other, "urn:letterhead:brand:" + acme, "someone@other.com", "plain.com", "new.com", "bare.com",
		"dns.com", "parked.com", "blocked.com", "down.com", "late.com", "co.uk", "", "<not>\n\"a\" domain & more", nobody, "ACME.com", nobody, "müller.de.acme.com",
	}
	want := []string{
		"200", "200", "200", "200", "200", "200", "200", "200",
		"404 domain_not_found", "404 no_brand_data", "422 fetch_blocked", "502 fetch_failed", "504 timeout", "400 invalid_domain", "400 invalid_domain", "400 invalid_domain", "404 not_found", "200", "404 not_found", "200",
	}
	domains := []string{
		"acme.com", "acme.com", "other.com", "acme.com", "other.com", "plain.com", "new.com", "bare.com",
		"dns.com", "parked.com", "blocked.com", "down.com", "late.com", "", "", "", "", "acme.com", "", "acme.com",
	}
	items, h := c.batch(identifiers...)
	if got := said(items); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for i, item := range items {
		if got := item.Domain; (got == nil) != (domains[i] == "") || got != nil && *got != domains[i] {
			t.Errorf("%q was read as %v, want %q", identifiers[i], got, domains[i])
		}
		if item.RetryAfter != nil {
			t.Errorf("%q: retryAfter %d with %d", identifiers[i], *item.RetryAfter, item.Status)
		}
	}
	if got := c.chargedDomains(); !slices.Equal(got, []string{"acme.com", "new.com", "other.com"}) || h.Get("X-Credits-Remaining") != "97" {
		t.Errorf("charged for %q, %s remaining", got, h.Get("X-Credits-Remaining"))
	}
	for _, charge := range c.books().charges {
		if charge.RequestID != h.Get("X-Request-Id") {
			t.Errorf("%s is charged under request %s, not %s", charge.Domain, charge.RequestID, h.Get("X-Request-Id"))
		}
	}
	if n := s.tail.Open(); n != 0 || len(c.books().openHolds) != 0 {
		t.Errorf("%d watches and %d holds are left open; want 0 and 0", n, len(c.books().openHolds))
	}

	// Repeated separately and together, both give the same answer, byte for byte.
	var again struct {
		Results []struct {
			Status     int
			Brand      json.RawMessage
			Error      *specItemError
			RetryAfter int64
		}
	}
	a := c.asks(identifiers...)
	a.items(t, identifiers)
	s.must(json.Unmarshal(a.body, &again))
	for i, domain := range domains {
		if domain == "" {
			continue
		}
		single, item := c.get("/v1/brands/"+domain), again.Results[i]
		if single.status != item.Status || single.status == http.StatusOK && !bytes.Equal(single.body, item.Brand) {
			t.Errorf("%s: alone %d, body %s, together %d, %s", domain, single.status, single.body, item.Status, item.Brand)
		}
		if single.status != http.StatusOK {
			if p := single.rejected(t, item.Status, item.Error.Code); p.Error.Message != item.Error.Message {
				t.Errorf("%s: alone %q, together %q", domain, p.Error.Message, item.Error.Message)
			}
			if alone := single.header.Get("Retry-After"); alone != "" && alone != strconv.FormatInt(item.RetryAfter, 10) || (item.Status == http.StatusServiceUnavailable) != (item.RetryAfter > 0) {
				t.Errorf("%s: Retry-After %q, retryAfter %d", domain, alone, item.RetryAfter)
			}
		}
	}
}

func TestBatch_CrawlLimitReached_ItemReportsIt(t *testing.T) {
	gone := func(s *service, n int) []string {
		domains := numbered("gone-%d.com", n)
		for _, domain := range domains {
			s.crawler.fails(domain, brand.DNS)
		}
		return append(domains, "acme.com")
	}
	for name, c := range map[string]struct {
		ceiling, allowed int
		past             string
	}{
		"the account's":   {1000, 10, "429 rate_limited"},
		"the service's":   {4, 4, "503 upstream_failed"},
		"none at all":     {1000, 12, ""},
		"the first is it": {1, 1, "503 upstream_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(set *setup) { set.config.CrawlsPerMinute = c.ceiling })
			id := plan.Free
			if c.past == "" {
				id = plan.Custom
			}
			customer := s.account(id, 50)
			s.known("acme.com", record("acme"))
			identifiers := gone(s, 12)
			items, h := customer.batch(identifiers...)
			counts := map[string]int{}
			for _, item := range items {
				counts[item.said()]++
				if item.RetryAfter != nil {
					t.Errorf("retryAfter with %s", item.said())
				}
			}
			if counts["404 domain_not_found"] != c.allowed || counts["200"] != 1 || c.past != "" && counts[c.past] != 12-c.allowed {
				t.Errorf("got %v", counts)
			}
			if h.Get("X-Credits-Remaining") != "49" {
				t.Errorf("%s remaining, want %q", h.Get("X-Credits-Remaining"), "49")
			}
		})
	}
}

func TestBatch_ItemPanics_OthersAreAnswered(t *testing.T) {
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { d.Brands = &panicsFor{d.Brands, "boom.com"} }
	})
	c := s.account(plan.Custom, 3)
	s.known("acme.com", record("acme"))
	s.crawler.finds("new.com", record("new"))
	items, h := c.batch("boom.com", "acme.com", "new.com")
	if got, want := said(items), []string{"500 internal_error", "200", "200"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if strings.Contains(items[0].Error.Message, "secret detail") {
		t.Errorf("message %q", items[0].Error.Message)
	}
	lines := s.logs.of(h.Get("X-Request-Id"))
	if i := slices.IndexFunc(lines, func(line map[string]any) bool { return line["level"] == "ERROR" }); i < 0 ||
		!strings.Contains(fmt.Sprint(lines[i]["error"]), "secret detail") || lines[i]["stack"] == nil || lines[i]["domain"] != "boom.com" {
		t.Errorf("log %v", lines)
	}
	// No credit leaked: the third can still be spent.
	if h.Get("X-Credits-Remaining") != "1" || len(c.books().openHolds) != 0 {
		t.Errorf("%s remaining, %d holds open; want %q and 0", h.Get("X-Credits-Remaining"), len(c.books().openHolds), "1")
	}
	c.get("/v1/brands/acme.com").ok(t)
}

// panicsFor panics when a crawl of a domain is requested, which is after its credit was held.
type panicsFor struct {
	lookup.Brands
	domain string
}

func (p *panicsFor) RequestCrawl(ctx context.Context, in commands.RequestCrawl) (commands.Crawl, error) {
	if in.Domain == p.domain {
		panic("secret detail: requesting")
	}
	return p.Brands.RequestCrawl(ctx, in)
}

func TestBatch_StoreUnavailable_Is503(t *testing.T) {
	t.Run("the index", func(t *testing.T) {
		t.Parallel()
		index := &stuckCounting{}
		inBubble(t, func(s *service) {
			c := s.account(plan.Custom, 1)
			for range 3 { // the only credit is returned each time
				a := c.asks(numbered("d-%d.com", 50)...)
				a.rejected(s.t, http.StatusServiceUnavailable, "upstream_failed")
				if a.header.Get("X-Credits-Remaining") != "1" || len(c.books().charges) != 0 {
					s.t.Errorf("headers %v, %d charges", a.header, len(c.books().charges))
				}
			}
		}, func(set *setup) {
			set.requestTimeout = 100 * time.Millisecond
			set.deps = func(d *readapi.Deps) { index.stuck = stuck{d.Index}; d.Index = index }
		})
		if n := index.asked.Load(); n != 3 {
			t.Errorf("3 batches read a hanging index %d times, want 3", n)
		}
	})
	t.Run("the index of ids", func(t *testing.T) {
		t.Parallel()
		s := start(t, func(set *setup) {
			set.deps = func(d *readapi.Deps) { d.Index = noIDs{d.Index} }
		})
		c := s.account(plan.Custom, 10)
		c.asks("acme.com", uuid.NewString()).rejected(t, http.StatusServiceUnavailable, "upstream_failed")
	})
	t.Run("the account", func(t *testing.T) {
		t.Parallel()
		var log *faultyLog
		s := start(t, func(set *setup) {
			set.parts.Log = func(l eventlog.Log) eventlog.Log { log = &faultyLog{Log: l}; return log }
		})
		c := s.account(plan.Custom, 50)
		s.known("acme.com", record("acme"))
		s.known("plain.com", plainRecord("plain"))
		accounts := "account-"
		log.reject.Store(&accounts)
		c.asks("acme.com", "co.uk", "new.com").rejected(t, http.StatusServiceUnavailable, "upstream_failed")
		// Items that need no append are answered, and the batch continues.
		items, h := c.batch("acme.com", "plain.com", "new.com")
		if got, want := said(items), []string{"503 upstream_failed", "200", "503 upstream_failed"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if items[0].RetryAfter != nil {
			t.Errorf("retryAfter %d for no crawl", *items[0].RetryAfter)
		}
		if lines := s.logs.of(h.Get("X-Request-Id")); !slices.ContainsFunc(lines, func(line map[string]any) bool { return line["level"] == "WARN" && line["domain"] == "acme.com" }) {
			t.Errorf("log %v", lines)
		}
		log.reject.Store(nil)
		items, _ = c.batch("acme.com", "plain.com")
		if got := said(items); !slices.Equal(got, []string{"200", "200"}) || c.books().balance() != 49 {
			t.Errorf("%q, balance %d", got, c.books().balance())
		}
	})
}

// stuckCounting counts its calls.
type stuckCounting struct {
	stuck
	asked atomic.Int64
}

func (i *stuckCounting) Get(ctx context.Context, domain string) (*brands.Entry, error) {
	i.asked.Add(1)
	return i.stuck.Get(ctx, domain)
}

// noIDs is an index that cannot look ids up.
type noIDs struct{ lookup.Index }

func (noIDs) ByID(context.Context, uuid.UUID) (*brands.Entry, error) {
	return nil, fmt.Errorf("find: %w", eventlog.ErrUnavailable)
}

// With other nodes, an id that is not in the index is waited for, once for the whole batch.
func TestBatch_IndexLags_WaitsOnce(t *testing.T) {
	var waits atomic.Int64
	var s *service
	s = start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.CaughtUp = func(ctx context.Context) error {
				if waits.Add(1) == 1 { // as another node does in the meantime
					s.known("fresh.com", record("fresh"))
				}
				return ctx.Err()
			}
		}
	})
	c := s.account(plan.Custom, 10)
	s.known("acme.com", record("acme"))
	id := func(domain string) string { return brand.ID(domain).String() }
	items, _ := c.batch(id("acme.com"), id("fresh.com"), uuid.NewString(), id("nobody.com"), "fresh.com")
	if got, want := said(items), []string{"200", "200", "404 not_found", "404 not_found", "200"}; !slices.Equal(got, want) || waits.Load() != 1 {
		t.Errorf("got %q, want %q; %d waits", got, want, waits.Load())
	}
	c.batch(id("acme.com"), id("fresh.com"))
	if waits.Load() != 1 || len(c.books().charges) != 4 {
		t.Errorf("%d waits, %d charges; want 1 and 4", waits.Load(), len(c.books().charges))
	}
}
