package readapi_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// batchOutcomes are the kinds of identifiers of the test below, and the possible outcomes of an item of each kind.
var batchOutcomes = map[string]struct {
	crawl ending // how its crawl ends; none for indexed brands
	paid  bool
	says  []string // the first time and while it is remembered
}{
	"known":   {paid: true, says: []string{"200"}},
	"plain":   {says: []string{"200"}},
	"found":   {crawl: ending{record: ref(record("found"))}, paid: true, says: []string{"200"}},
	"bare":    {crawl: ending{record: ref(plainRecord("bare"))}, says: []string{"200"}},
	"dns":     {crawl: ending{outcome: brand.DNS}, says: []string{"404 domain_not_found"}},
	"blocked": {crawl: ending{outcome: brand.Blocked}, says: []string{"422 fetch_blocked"}},
	"down":    {crawl: ending{outcome: brand.FetchFailed}, says: []string{"502 fetch_failed", "503 fetch_failed"}},
	"late":    {crawl: ending{outcome: brand.Timeout}, says: []string{"504 timeout", "503 timeout"}},
	"invalid": {says: []string{"400 invalid_domain"}},
	"nobody":  {says: []string{"404 not_found"}},
}

func ref[T any](v T) *T { return &v }

// asked is an identifier in the test.
type asked struct{ kind, text string }

// TestBatches_AnySequence_NeverOverspendOrOvercharge sends concurrent batches and look-ups to accounts with few
// credits.
// Rule 1.
func TestBatches_AnySequence_NeverOverspendOrOvercharge(t *testing.T) {
	t.Parallel()
	enough := int64(25) // of rapid's hundred rounds, to save time
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() != checks.DefValue {
		enough = math.MaxInt64 // more were requested
	}
	s := start(t, func(set *setup) { set.config.CrawlsPerMinute = 1_000_000 })
	kinds := make([]string, 0, len(batchOutcomes))
	for kind := range batchOutcomes {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for i := range 4 {
		s.known(fmt.Sprintf("known-%d.com", i), record("known"))
		s.known(fmt.Sprintf("plain-%d.com", i), plainRecord("plain"))
	}
	var rounds atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		round := rounds.Add(1)
		if round > enough {
			return
		}
		identifier := rapid.Custom(func(t *rapid.T) asked {
			kind, n := rapid.SampledFrom(kinds).Draw(t, "kind"), rapid.IntRange(0, 3).Draw(t, "n")
			switch kind {
			case "invalid":
				return asked{kind, []string{"co.uk", "", "a b", "1.2.3.4"}[n]}
			case "nobody":
				return asked{kind, uuid.NewString()}
			case "known", "plain":
				domain := fmt.Sprintf("%s-%d.com", kind, n)
				return asked{kind, rapid.SampledFrom([]string{domain, "www." + domain, "https://" + domain + "/x", "me@" + domain, brand.ID(domain).String()}).Draw(t, "form")}
			default:
				domain := fmt.Sprintf("%s-%d-%d.com", kind, round, n) // never crawled before this round
				end := batchOutcomes[kind].crawl
				s.crawler.does(domain, func(context.Context, eventschemas.CrawlRequested) ending { return end })
				return asked{kind, domain}
			}
		})
		credits := rapid.Int64Range(0, 10).Draw(t, "credits")
		batches := rapid.SliceOfN(rapid.SliceOfN(identifier, 1, 14), 1, 3).Draw(t, "batches")
		singles := rapid.SliceOfN(identifier, 0, 3).Draw(t, "singles")
		c := s.account(plan.Custom, credits)
		paid := make([]int, len(batches)+len(singles))
		requests := make([]string, len(batches))
		rejections := make([]bool, len(batches))
		together(len(paid), func(i int) {
			if i >= len(batches) {
				one := singles[i-len(batches)]
				a := c.get("/v1/brands/" + strings.ReplaceAll(strings.ReplaceAll(one.text, "/", "%2F"), " ", "%20"))
				if a.status == http.StatusOK && batchOutcomes[one.kind].paid {
					paid[i]++
				}
				return
			}
			identifiers := make([]string, len(batches[i]))
			for n, one := range batches[i] {
				identifiers[n] = one.text
			}
			a := c.asks(identifiers...)
			requests[i] = a.header.Get("X-Request-Id")
			if a.status != http.StatusOK {
				a.rejected(s.t, 402, "insufficient_credits")
				rejections[i] = true
				return
			}
			domains := map[string]bool{}
			for n, item := range a.items(s.t, identifiers) {
				kind := batchOutcomes[batches[i][n].kind]
				switch {
				case item.said() == "402 insufficient_credits" && item.Domain != nil:
					rejections[i] = true
				case !slices.Contains(kind.says, item.said()):
					t.Errorf("%s: %s", identifiers[n], item.said())
				case kind.paid:
					domains[*item.Domain] = true
				}
			}
			paid[i] = len(domains)
			if remaining := a.header.Get("X-Credits-Remaining"); len(paid) == 1 && remaining != strconv.FormatInt(credits-int64(paid[i]), 10) {
				t.Errorf("%s remaining of %d credits after %d", remaining, credits, paid[i])
			}
		})
		b := c.books()
		charged := map[string]map[string]int{}
		for _, charge := range b.charges {
			if charged[charge.RequestID] == nil {
				charged[charge.RequestID] = map[string]int{}
			}
			charged[charge.RequestID][charge.Domain]++
		}
		sum := 0
		for i, n := range paid {
			sum += n
			if i < len(batches) && len(charged[requests[i]]) != n {
				t.Errorf("batch %d found %d brands with a logo and was charged for %v", i, n, charged[requests[i]])
			}
		}
		for request, domains := range charged {
			for domain, n := range domains {
				if n != 1 {
					t.Errorf("request %s was charged %d times for %s; want 1", request, n, domain)
				}
			}
		}
		if len(b.charges) != sum || b.balance() != credits-int64(sum) || b.lowest < 0 || len(b.openHolds) != 0 || len(b.reversals) != 0 {
			t.Errorf("%d charges for %d brands, balance %d of %d, lowest %d, %d holds open, %d reversals",
				len(b.charges), sum, b.balance(), credits, b.lowest, len(b.openHolds), len(b.reversals))
		}
		if len(paid) == 1 && rejections[0] && b.balance() != 0 {
			t.Errorf("rejected for lack of credits with %d left", b.balance())
		}
		for _, request := range requests {
			if n := c.mostHolds(request); n > 5 {
				t.Errorf("%d open holds of one batch, want at most 5", n)
			}
		}
	})
}

// mostHolds returns the maximum number of holds of a request that were open at a time.
func (c *customer) mostHolds(request string) int {
	c.s.t.Helper()
	open, most := map[string]bool{}, 0
	events, err := c.s.log.ReadStream(context.Background(), account.Stream(c.id), 0, eventlog.Forward, 1000)
	c.s.must(err)
	for _, recorded := range events {
		ev, err := eventschemas.Decode(recorded.Type, recorded.SchemaVersion, recorded.Data)
		c.s.must(err)
		switch ev := ev.(type) {
		case eventschemas.CreditsHeld:
			if ev.RequestID == request {
				open[ev.HoldID] = true
			}
		case eventschemas.HoldReleased:
			delete(open, ev.HoldID)
		case eventschemas.CreditsCharged:
			delete(open, ev.HoldID)
		}
		most = max(most, len(open))
	}
	return most
}
