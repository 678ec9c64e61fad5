package plan_test

import (
	"strings"
	"testing"

	"letterhead/domain/plan"
)

// The expected values are from the tables of the service specification, except limits.crawlsPerMinute, which
// is our interpretation.
func TestTable_MatchesSpecification(t *testing.T) {
	for _, want := range []plan.Plan{
		{ID: "free", PerMinute: 60, BatchSize: 25, CrawlsPerMinute: 10, LogosPerMonth: 500_000, SearchesPerMonth: 250_000, Refresh: false},
		{ID: "starter", PerMinute: 300, BatchSize: 50, CrawlsPerMinute: 30, LogosPerMonth: 3_000_000, SearchesPerMonth: 1_000_000, Refresh: true},
		{ID: "growth", PerMinute: 600, BatchSize: 100, CrawlsPerMinute: 60, LogosPerMonth: plan.Unlimited, SearchesPerMonth: plan.Unlimited, Refresh: true},
		{ID: "custom", PerMinute: 3000, BatchSize: 100, CrawlsPerMinute: 300, LogosPerMonth: plan.Unlimited, SearchesPerMonth: plan.Unlimited, Refresh: true},
	} {
		if got, err := plan.Default().Get(want.ID); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", want.ID, got, err)
		}
	}
	if plan.FreeCredits != 50 {
		t.Errorf("an account starts with %d credits, want 50", plan.FreeCredits)
	}
}

func TestGet_UnknownPlan_IsReported(t *testing.T) {
	for _, id := range []plan.ID{"platinum", "", "Free"} {
		got, err := plan.Default().Get(id)
		if err == nil || got != (plan.Plan{}) {
			t.Fatalf("%q: got %+v", id, got)
		}
		for _, part := range []string{string(id), "free", "starter", "growth", "custom"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error %q does not contain %q", err, part)
			}
		}
	}
}

func TestWithCrawlsPerMinute_ChangesOnePlanOfCopy(t *testing.T) {
	table := plan.Default()
	changed := table.WithCrawlsPerMinute(plan.Growth, 600)
	for _, id := range []plan.ID{plan.Free, plan.Starter, plan.Growth, plan.Custom} {
		before, errBefore := table.Get(id)
		after, errAfter := changed.Get(id)
		if errBefore != nil || errAfter != nil {
			t.Fatal(errBefore, errAfter)
		}
		if id == plan.Growth {
			if before.CrawlsPerMinute != 60 || after.CrawlsPerMinute != 600 {
				t.Errorf("%d became %d, want 60 and 600", before.CrawlsPerMinute, after.CrawlsPerMinute)
			}
			before.CrawlsPerMinute = after.CrawlsPerMinute
		}
		if before != after {
			t.Errorf("%s: %+v became %+v", id, before, after)
		}
	}
}
