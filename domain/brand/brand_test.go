package brand_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// Crawls.

func TestSucceedCrawl_First_DiscoversBrand(t *testing.T) {
	given(t).
		when(lookup("c1")).
		then(requestedEvent("c1", brand.PriorityLive, brand.CauseLookup)).
		shows(brand.StatusPending, "").
		when(succeed("c1", record("Acme"))).
		then(discovered().event, succeeded("c1", record("Acme")).event).
		shows(brand.StatusReady, "Acme")
}

func TestDomainWithoutBrand_HasNoBrandDiscovered(t *testing.T) {
	given(t).
		when(lookup("c1")).then(requestedEvent("c1", brand.PriorityLive, brand.CauseLookup)).
		when(fail("c1", brand.DNS)).then(failed("c1", brand.DNS, 15*time.Minute).event)
}

func TestRequestCrawl_RunningCrawl_IsJoined(t *testing.T) {
	s := given(t, discovered(), requested("c1")).when(lookup("c2")).nothing()
	id, at, allowed, ok := s.brand.Running()
	if !ok || id != "c1" || !at.Equal(start.Add(2*time.Second)) || allowed != 8500*time.Millisecond {
		t.Fatalf("running: %s %s %s %v", id, at, allowed, ok)
	}
	s.when(refresh("c3")).nothing()
	s.when(schedule("c4")).nothing()
}

func TestRequestCrawl_Live_SupersedesRefreshCrawl(t *testing.T) {
	s := given(t, imported("s", partial("Old")), scheduled("bulk")).
		when(schedule("bulk2")).nothing().
		when(refresh("live")).then(requestedEvent("live", brand.PriorityLive, brand.CauseRefresh))
	if id, _, _, _ := s.brand.Running(); id != "live" {
		t.Fatalf("the running crawl is %q", id)
	}
	s.when(fail("bulk", brand.FetchFailed)).nothing()
	s.when(succeed("bulk", record("Bulk"))).then(succeeded("bulk", record("Bulk")).event).shows(brand.StatusReady, "Bulk")
	s.when(succeed("live", record("Live"))).shows(brand.StatusReady, "Live")
	given(t, imported("s", partial("Old")), scheduled("bulk"), requested("live"), succeeded("live", record("Live"))).
		when(succeed("bulk", record("Bulk"))).nothing().
		shows(brand.StatusReady, "Live")
}

func TestRequestCrawl_KnownBrand_IsRejected(t *testing.T) {
	known := []fact{discovered(), requested("c1"), succeeded("c1", record("Acme"))}
	given(t, known...).when(lookup("c2")).rejected(brand.ErrAlreadyKnown)
	given(t, known...).when(crawl("c2", brand.CauseLogo, brand.PriorityLive, false)).rejected(brand.ErrAlreadyKnown)
	given(t, known...).when(refresh("c2")).then(requestedEvent("c2", brand.PriorityLive, brand.CauseRefresh))
	given(t, known...).when(schedule("c2")).then(requestedEvent("c2", brand.PriorityBulk, brand.CauseSchedule))
	given(t, imported("s", partial("Acme"))).when(lookup("c2")).rejected(brand.ErrAlreadyKnown)
}

func TestRequestCrawl_Malformed_ReportsAllErrors(t *testing.T) {
	_, err := brand.New(domain).RequestCrawl(brand.RequestCrawl{Cause: "whim", Priority: "fast", Allowed: -1})
	if !errors.Is(err, brand.ErrInvalidCrawl) {
		t.Fatal(err)
	}
	for _, part := range []string{"crawl id", "whim", "fast", "allowed"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q does not mention %q", err, part)
		}
	}
	_, err = brand.New(domain).RequestCrawl(brand.RequestCrawl{CrawlID: "c", Cause: brand.CauseLookup, Priority: brand.PriorityLive, Allowed: 8500 * time.Hour})
	if !errors.Is(err, brand.ErrInvalidCrawl) {
		t.Fatalf("an allowed time of 8500 hours was accepted: %v", err)
	}
	given(t, discovered(), requested("c1")).when(fail("c1", "bored")).rejected(brand.ErrInvalidCrawl)
}

func TestRequest_EndedContext_IsNotRetried(t *testing.T) {
	s := given(t, discovered(), requested("c1"), failed("c1", brand.NoData, time.Minute)).waits(time.Hour).when(lookup("c1")).nothing()
	if e, ok := s.brand.LastOutcome("c1"); !ok || e.Outcome != brand.NoData || e.Succeeded() {
		t.Fatalf("outcome %+v %v", e, ok)
	}
}

func TestSucceedCrawl_SetsView(t *testing.T) {
	given(t, requested("c1")).
		when(succeed("c1", record("Acme"))).then(discovered().event, succeeded("c1", record("Acme")).event).
		shows(brand.StatusReady, "Acme").
		when(succeed("c1", record("Other"))).nothing().
		when(fail("c1", brand.Blocked)).nothing().
		when(expire("c1")).nothing().
		shows(brand.StatusReady, "Acme")
	given(t, discovered(), requested("c1")).
		when(succeed("c1", partial("Acme"))).shows(brand.StatusPartial, "Acme")
}

func TestRecord_HasCompanyUnlessRestricted(t *testing.T) {
	bare := record("Acme")
	bare.Company = nil
	s := given(t, requested("c1")).when(succeed("c1", bare)).then(discovered().event, succeeded("c1", record("Acme")).event)
	if s.brand.View().Record.Company == nil {
		t.Fatal("the record has no company")
	}
	bare.Restriction = &eventschemas.Restriction{Code: "nsfw", Message: "The site is adult content."}
	s = given(t, discovered(), requested("c1")).when(succeed("c1", bare))
	if s.brand.View().Record.Company != nil {
		t.Fatal("a restricted record has a company")
	}
}

func TestSucceedCrawl_NothingNew_Confirms(t *testing.T) {
	held, again := record("Acme"), record("Acme")
	held.OGImage = ptr("https://acme.com/share.png?sig=1")
	again.OGImage = ptr("https://acme.com/share.png?sig=2#top")
	given(t, discovered(), requested("c1"), succeeded("c1", held), requested("c2")).
		when(succeed("c2", again)).then(confirmed("c2").event)
	again.OGImage = ptr("https://acme.com/other.png?sig=1")
	given(t, discovered(), requested("c1"), succeeded("c1", held), requested("c2")).
		when(succeed("c2", again)).then(succeeded("c2", again).event)
	again.OGImage = nil
	given(t, discovered(), requested("c1"), succeeded("c1", held), requested("c2")).
		when(succeed("c2", again)).then(succeeded("c2", again).event)
}

func TestSucceedCrawl_IgnoresEvidenceAndNilSlices(t *testing.T) {
	bare := eventschemas.Record{Name: ptr("Acme"), Complete: true, QualityScore: 0.5}
	s := given(t, discovered(), requested("c1"), succeeded("c1", record("Acme")), requested("c2"))
	events, err := s.brand.SucceedCrawl(brand.SucceedCrawl{
		CrawlID: "c2", Record: bare, ETag: `"v2"`, LastModified: "Sat, 21 Nov 2026 08:00:00 GMT",
		Evidence: []eventschemas.Evidence{{Field: "name", Source: "https://acme.com/", Method: "og:site_name", Confidence: 1}},
	})
	want := []eventschemas.Event{eventschemas.CrawlConfirmed{CrawlID: "c2", ETag: `"v2"`, LastModified: "Sat, 21 Nov 2026 08:00:00 GMT"}}
	if err != nil || !reflect.DeepEqual(events, want) {
		t.Fatalf("%+v, %v", events, err)
	}
	s.happened(events[0])
	if etag, modified, ok := s.brand.Conditional(); !ok || etag != `"v2"` || modified == "" {
		t.Fatal("the page's ETag and Last-Modified were lost")
	}
}

func TestSucceedCrawl_WithOverrides_NothingNewConfirms(t *testing.T) {
	given(t, discovered(), requested("c1"), succeeded("c1", record("Acme")), overriddenFact("name", `"ACME Inc."`), requested("c2")).
		when(succeed("c2", record("Acme"))).then(confirmed("c2").event).
		shows(brand.StatusReady, "ACME Inc.")
}

func TestOutcome_UnknownCrawl_IsNoOp(t *testing.T) {
	for _, c := range []command{succeed("x", record("X")), fail("x", brand.DNS), expire("x")} {
		given(t).when(c).nothing()
		given(t, discovered(), requested("c1")).when(c).nothing().shows(brand.StatusPending, "")
	}
}

func TestSucceedCrawl_AfterTimeout_IsAccepted(t *testing.T) {
	late := []fact{requested("c1"), failed("c1", brand.Timeout, 5*time.Minute)}
	given(t, late...).
		when(succeed("c1", record("Acme"))).then(discovered().event, succeeded("c1", record("Acme")).event).
		shows(brand.StatusReady, "Acme").
		when(succeed("c1", record("Acme"))).nothing().
		when(lookup("c2")).rejected(brand.ErrAlreadyKnown)
	given(t, append(late, requested("c2"))...).
		when(succeed("c1", record("Late"))).shows(brand.StatusReady, "Late").
		when(succeed("c2", record("Newer"))).shows(brand.StatusReady, "Newer")
	given(t, append(late, requested("c2"), succeeded("c2", record("Newer")))...).
		when(succeed("c1", record("Late"))).nothing().
		shows(brand.StatusReady, "Newer")
	given(t, append(late, requested("c2"), failed("c2", brand.Timeout, time.Minute), succeeded("c1", record("Late")))...).
		when(succeed("c2", record("Later"))).shows(brand.StatusReady, "Later")
	given(t, discovered(), requested("c1"), failed("c1", brand.Blocked, time.Hour)).
		when(succeed("c1", record("Late"))).nothing()
}

func TestSucceedCrawl_AfterTimeout_ForgetsFailure(t *testing.T) {
	s := given(t, discovered(), requested("c1"), failed("c1", brand.Timeout, 5*time.Minute), succeeded("c1", record("Acme")))
	if outcome, _, ok := s.brand.Remembered(s.now); ok {
		t.Fatalf("%s is still remembered", outcome)
	}
}

func TestExpireCrawl_AtDeadline(t *testing.T) {
	given(t, discovered(), requested("c1")).
		waits(8499 * time.Millisecond).when(expire("c1")).nothing().
		waits(time.Millisecond).when(expire("c1")).
		then(eventschemas.CrawlFailed{CrawlID: "c1", Outcome: brand.Timeout, RememberSeconds: 300, Detail: "No outcome arrived within 8.5s."}).
		when(expire("c1")).nothing().
		when(fail("c1", brand.Timeout)).nothing()
}

// A crawl that no crawler began says nothing about the site: the next look-up starts another, and its late success
// still counts.
// Rule 5.
func TestExpireCrawl_NotBegunInTime_IsNotRemembered(t *testing.T) {
	for name, after := range map[string]time.Duration{"not at all": 0, "too late": 4251 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			ended := eventschemas.CrawlFailed{CrawlID: "c1", Outcome: brand.Timeout, RememberSeconds: 1, Detail: "No crawler began the crawl in the first half of its 8.5s."}
			given(t, discovered(), requested("c1")).
				waits(8499*time.Millisecond).when(expireLate("c1", after)).nothing().
				waits(time.Millisecond).when(expireLate("c1", after)).then(ended).
				when(lookup("c2")).then(requestedEvent("c2", brand.PriorityLive, brand.CauseLookup)).
				when(succeed("c1", record("Acme"))).shows(brand.StatusReady, "Acme")
			lost := ended
			lost.CrawlID, lost.RememberSeconds, lost.Detail = "c2", 300, "No outcome arrived within 8.5s."
			s := given(t, discovered(), requested("c1")).waits(8500 * time.Millisecond).when(expireLate("c1", after)).then(ended)
			if state := string(testmust.Get(json.Marshal(s.brand))(t)); !strings.Contains(state, `"lost_in_a_row":1`) || strings.Contains(state, "egun") {
				t.Errorf("%s, want the state that release 0.1.0 folds", state)
			}
			s.when(lookup("c2")).then(requestedEvent("c2", brand.PriorityLive, brand.CauseLookup)).
				waits(8500 * time.Millisecond).when(expire("c2")).then(lost) // the first one that was lost
		})
	}
	given(t, discovered(), requested("c1")).waits(8500 * time.Millisecond).when(expireLate("c1", 4250*time.Millisecond)).
		then(eventschemas.CrawlFailed{CrawlID: "c1", Outcome: brand.Timeout, RememberSeconds: 300, Detail: "No outcome arrived within 8.5s."})
}

// Remembered outcomes.

func TestFailCrawl_IsRemembered(t *testing.T) {
	for outcome, d := range map[string]time.Duration{
		brand.Timeout:     5 * time.Minute,
		brand.Blocked:     24 * time.Hour,
		brand.FetchFailed: time.Hour,
		brand.DNS:         15 * time.Minute,
		brand.NoData:      24 * time.Hour,
	} {
		t.Run(outcome, func(t *testing.T) {
			given(t, discovered(), requested("c1")).
				when(fail("c1", outcome)).then(failedEvent("c1", outcome, d)).
				shows(brand.StatusFailed, "").
				when(lookup("c2")).remembered(outcome, d).
				when(schedule("c2")).remembered(outcome, d).
				waits(d-time.Second).when(lookup("c2")).remembered(outcome, time.Second).
				waits(time.Second).when(lookup("c2")).then(requestedEvent("c2", brand.PriorityLive, brand.CauseLookup)).
				shows(brand.StatusPending, "")
			given(t, discovered(), requested("c1"), failed("c1", outcome, d)).
				when(refresh("c2")).then(requestedEvent("c2", brand.PriorityLive, brand.CauseRefresh))
		})
	}
}

func TestFetchFailed_RememberedLongerEachTime(t *testing.T) {
	s := given(t, discovered())
	for i, hours := range []time.Duration{1, 2, 4, 8, 16, 24, 24, 24} {
		id := fmt.Sprintf("c%d", i)
		s.waits(48 * time.Hour).when(lookup(id)).
			when(fail(id, brand.FetchFailed)).then(failedEvent(id, brand.FetchFailed, hours*time.Hour))
	}
}

func TestRemembering_OtherOutcome_ResetsGrowth(t *testing.T) {
	twice := []fact{
		discovered(), requested("c1"), failed("c1", brand.FetchFailed, time.Hour),
		requested("c2"), failed("c2", brand.FetchFailed, 2*time.Hour),
	}
	given(t, append(twice, requested("c3"))...).
		when(fail("c3", brand.FetchFailed)).then(failedEvent("c3", brand.FetchFailed, 4*time.Hour))
	given(t, append(twice, requested("c3"), failed("c3", brand.DNS, time.Minute), requested("c4"))...).
		when(fail("c4", brand.FetchFailed)).then(failedEvent("c4", brand.FetchFailed, time.Hour))
	given(t, append(twice, requested("c3"), succeeded("c3", record("Acme")), requested("c4"))...).
		when(fail("c4", brand.FetchFailed)).then(failedEvent("c4", brand.FetchFailed, time.Hour))
}

func TestFailCrawl_DetailIsTruncated(t *testing.T) {
	events, err := given(t, discovered(), requested("c1")).brand.FailCrawl(brand.FailCrawl{
		CrawlID: "c1", Outcome: brand.Blocked, Detail: "a\nb\x00c\xff" + strings.Repeat("ü", 600),
	})
	testmust.Succeed(t, err)
	detail := events[0].(eventschemas.CrawlFailed).Detail
	if !strings.HasPrefix(detail, "a bcü") || utf8.RuneCountInString(detail) != 500 {
		t.Fatalf("%d characters: %q", utf8.RuneCountInString(detail), detail)
	}
	stored(t, events[0])
}

// Views.

func TestFailCrawl_Refresh_KeepsOldRecord(t *testing.T) {
	s := given(t, discovered(), requested("c1"), succeeded("c1", record("Acme")), requested("c2")).
		shows(brand.StatusReady, "Acme").
		when(fail("c2", brand.Blocked)).
		shows(brand.StatusFailed, "Acme")
	v := s.brand.View()
	if v.Revision != 4 || !v.UpdatedAt.Equal(start.Add(3*time.Second)) {
		t.Fatalf("revision %d, updated at %s", v.Revision, v.UpdatedAt)
	}
	s.when(refresh("again")).when(fail("again", brand.Timeout))
	if now := s.brand.View(); !reflect.DeepEqual(now, v) {
		t.Fatalf("after another failure the view is %+v, want %+v", now, v)
	}
	s.waits(time.Hour).when(refresh("c3")).when(succeed("c3", record("Acme"))).shows(brand.StatusReady, "Acme")
}

func TestImport_IsPartialUntilConfirmed(t *testing.T) {
	given(t, imported("starter 1", record("Acme"))).
		shows(brand.StatusPartial, "Acme").
		when(schedule("c1")).shows(brand.StatusPartial, "Acme").
		when(fail("c1", brand.FetchFailed)).shows(brand.StatusPartial, "Acme").
		waits(2*time.Hour).when(schedule("c2")).
		when(succeed("c2", record("Acme"))).then(confirmed("c2").event).
		shows(brand.StatusReady, "Acme")
}

func TestImport_NeverOverwritesCrawledRecord(t *testing.T) {
	s := given(t, discovered(), requested("c1"), succeeded("c1", record("Found"))).
		when(importing("starter 1", record("Imported"))).nothing().
		shows(brand.StatusReady, "Found")
	// The fold also ignores such an event, which an older release may have written.
	s.happened(imported("starter 1", record("Imported")).event)
	s.shows(brand.StatusReady, "Found")
	given(t, imported("starter 1", record("Acme")), requested("c1"), confirmed("c1")).
		when(importing("starter 2", record("Newer"))).nothing()
}

func TestImport_SameSource_IsNoOp(t *testing.T) {
	given(t).
		when(importing("starter 1", record("One"))).then(imported("starter 1", record("One")).event).
		when(importing("starter 1", record("Two"))).nothing().
		shows(brand.StatusPartial, "One").
		when(importing("starter 2", record("Two"))).
		shows(brand.StatusPartial, "Two")
	given(t, discovered(), requested("c1"), failed("c1", brand.DNS, time.Minute)).
		when(importing("starter 1", record("One"))).shows(brand.StatusPartial, "One")
}

func TestImported_RemainsCandidate(t *testing.T) {
	s := given(t, imported("starter 1", record("Imported")), requested("c1"), succeeded("c1", record("Found")))
	if got := s.brand.Imported(); got == nil || text(got.Name) != "Imported" {
		t.Fatalf("%+v", got)
	}
	if got := s.brand.Held(); text(got.Name) != "Found" || !s.brand.Crawled() {
		t.Fatalf("%+v", got)
	}
}

func TestView_IdentifiesBrand(t *testing.T) {
	v := given(t, discovered(), requested("c1"), succeeded("c1", record("Acme")), claimed()).brand.View()
	id := brand.ID(domain).String()
	if v.ID != id || v.URN != "urn:letterhead:brand:"+id || v.Domain != domain || !v.Claimed || v.Revision != 3 {
		t.Fatalf("%+v", v)
	}
}

func TestID_FixedByFirstEvent(t *testing.T) {
	const other = "11111111-2222-5333-8444-555555555555"
	s := given(t, soon(eventschemas.BrandDiscovered{BrandID: other, Domain: domain}), requested("c1"))
	s.happened(imported("starter 1", record("Acme")).event)
	if s.brand.ID() != other || s.brand.View().URN != "urn:letterhead:brand:"+other {
		t.Fatalf("the id changed to %s", s.brand.ID())
	}
}

func TestApply_SameRevision_FoldsOnce(t *testing.T) {
	b := given(t, discovered(), requested("c1"), succeeded("c1", record("Acme"))).brand
	b.Apply(eventschemas.BrandWithdrawn{}, 1, start)
	if b.Withdrawn() || b.Events() != 3 {
		t.Fatal("a revision that was already folded was applied again")
	}
}

// Overrides, claims, withdrawals.

func TestOverride_WinsOverCrawls(t *testing.T) {
	given(t, discovered(), requested("c1"), succeeded("c1", record("Acme"))).
		when(override("name", ` "ACME & Inc." `)).then(eventschemas.FieldOverridden{Field: "name", Value: json.RawMessage(`"ACME & Inc."`)}).
		shows(brand.StatusReady, "ACME & Inc.").
		when(override("name", `"ACME \u0026 Inc."`)).nothing().
		when(refresh("c2")).when(succeed("c2", record("Acme Corp"))).
		shows(brand.StatusReady, "ACME & Inc.").
		when(removeOverride("name")).then(eventschemas.OverrideRemoved{Field: "name"}).
		shows(brand.StatusReady, "Acme Corp").
		when(removeOverride("name")).nothing().
		when(override("complete", `false`)).shows(brand.StatusPartial, "Acme Corp")
}

func TestOverride_Reason_IsRecordedOnce(t *testing.T) {
	value := json.RawMessage(`"ACME"`)
	given(t, discovered(), requested("c1"), succeeded("c1", record("Acme"))).
		when(overrideFor("name", `"ACME"`, "asked by its owner")).then(eventschemas.FieldOverridden{Field: "name", Value: value, Reason: "asked by its owner"}).
		when(overrideFor("name", `"ACME"`, "asked by its owner")).nothing().
		when(override("name", `"ACME"`)).nothing().
		when(overrideFor("name", `"ACME"`, "its register says so")).then(eventschemas.FieldOverridden{Field: "name", Value: value, Reason: "its register says so"}).
		when(overrideFor("name", `"Acme"`, strings.Repeat("x", brand.MaxReasonBytes+1))).rejected(brand.ErrInvalidField).
		when(overrideFor("name", `"Acme"`, "a\x00")).rejected(brand.ErrInvalidField)
}

func TestOverride_EveryField(t *testing.T) {
	values := map[string]string{
		"name": `"A"`, "description": `null`, "long_description": `"B"`,
		"links":  `[{"name":"github","url":"https://github.com/acme"}]`,
		"logos":  `[{"type":"icon","theme":null,"formats":[{"id":"` + strings.Repeat("ab", 32) + `","format":"svg","background":null,"width":null,"height":null,"size":10}],"tags":[]}]`,
		"colors": `[{"hex":"#ff0000","type":"accent","brightness":54}]`,
		"fonts":  `[{"name":"Inter","type":"body","origin":"google","origin_id":"Inter","weights":[400]}]`,
		"images": `[]`, "og_image": `"https://acme.com/og.png"`,
		"company":       `{"employees":51,"founded_year":1999,"kind":null,"location":null,"industries":[],"ticker":null,"tickers":[]}`,
		"quality_score": `0.9`, "nsfw": `true`, "restriction": `{"code":"nsfw","message":"Adult."}`, "complete": `false`,
	}
	if len(values) != len(brand.Fields()) {
		t.Fatalf("fields are %v", brand.Fields())
	}
	for _, field := range brand.Fields() {
		s := given(t, discovered(), requested("c1"), succeeded("c1", record("Acme"))).when(override(field, values[field]))
		if s.err != nil || len(s.events) != 1 {
			t.Errorf("%s: %v", field, s.err)
			continue
		}
		all := testmust.Get(json.Marshal(s.brand.View().Record))(t)
		var shown map[string]json.RawMessage
		testmust.Succeed(t, json.Unmarshal(all, &shown))
		if string(shown[field]) != values[field] {
			t.Errorf("%s is %s, want %s", field, shown[field], values[field])
		}
		if got := s.brand.Overridden(); len(got) != 1 || got[0] != field {
			t.Errorf("overridden: %v", got)
		}
	}
}

func TestOverride_ValueMustFitField(t *testing.T) {
	known := []fact{discovered(), requested("c1"), succeeded("c1", record("Acme"))}
	for _, c := range []struct{ field, value string }{
		{"slogan", `"x"`}, {"Name", `"x"`}, {"", `1`}, {"domain", `"evil.com"`},
		{"name", `5`}, {"name", ``}, {"name", `"a`}, {"name", `"a" "b"`}, {"name", `"a","nsfw":true`},
		{"links", `null`}, {"links", `{}`}, {"links", `[{"name":"myspace","url":"https://x.com"}]`}, {"links", `[{"name":"github","url":"x"}]`},
		{"colors", `[{"hex":"#FF0000","type":"accent","brightness":54}]`}, {"colors", `[{"hex":"#ff0000","type":"accent","brightness":256}]`},
		{"logos", `[{"type":"icon"}]`}, {"quality_score", `1.1`}, {"quality_score", `"1"`}, {"nsfw", `null`}, {"complete", `1`},
		{"company", `{"employees":7}`}, {"company", `{"extra":1}`}, {"restriction", `{"code":"boring","message":"x"}`},
		{"description", `"` + strings.Repeat("x", 64<<10) + `"`},
	} {
		s := given(t, known...).when(override(c.field, c.value))
		if !errors.Is(s.err, brand.ErrInvalidField) || s.events != nil {
			t.Errorf("%s = %.40s: got %v, %v", c.field, c.value, s.events, s.err)
		}
	}
	given(t, known...).when(removeOverride("slogan")).rejected(brand.ErrInvalidField)
}

func TestSchema_NullCompany_NeedsRestriction(t *testing.T) {
	known := []fact{discovered(), requested("c1"), succeeded("c1", record("Acme"))}
	s := given(t, known...).when(override("company", `null`))
	if s.err != nil || s.brand.View().Record.Company == nil {
		t.Fatalf("%v, company %v", s.err, s.brand.View().Record.Company)
	}
}

func TestClaimAndOverride_NeedBrand(t *testing.T) {
	given(t).when(claim).rejected(brand.ErrNoSuchBrand)
	given(t).when(override("name", `"A"`)).rejected(brand.ErrNoSuchBrand)
	given(t).when(removeOverride("name")).rejected(brand.ErrNoSuchBrand)
	given(t, discovered()).when(claim).then(eventschemas.BrandClaimed{}).when(claim).nothing()
}

func TestWithdraw_BrandStaysUnknown(t *testing.T) {
	s := given(t, imported("starter 1", record("Acme")), requested("c1"), overriddenFact("name", `"A"`), claimed()).
		when(withdraw).then(eventschemas.BrandWithdrawn{Reason: "owner"}).
		shows("", "").
		when(withdraw).nothing().
		when(lookup("c2")).rejected(brand.ErrWithdrawn).
		when(refresh("c2")).rejected(brand.ErrWithdrawn).
		when(schedule("c2")).rejected(brand.ErrWithdrawn).
		when(claim).rejected(brand.ErrWithdrawn).
		when(override("name", `"B"`)).rejected(brand.ErrWithdrawn).
		when(removeOverride("name")).rejected(brand.ErrWithdrawn).
		when(succeed("c1", record("Back"))).nothing().
		when(importing("starter 2", record("Back"))).nothing()
	s.happened(succeeded("c1", record("Back")).event)
	s.shows("", "")
	b := s.brand
	if _, _, _, running := b.Running(); running || b.Known() || !b.Withdrawn() || b.Imported() != nil || b.Held() != nil || b.View().Claimed {
		t.Fatalf("a withdrawn brand has the view %+v", b.View())
	}
	if state, _ := json.Marshal(b); strings.Contains(string(state), "Acme") {
		t.Fatalf("the state of a withdrawn brand contains its data: %s", state)
	}
}

func TestWithdraw_UnknownBrand_Succeeds(t *testing.T) {
	given(t).when(withdraw).then(eventschemas.BrandWithdrawn{Reason: "owner"}).
		when(lookup("c1")).rejected(brand.ErrWithdrawn)
}

func TestLastOutcome_OnlyRecentCrawls(t *testing.T) {
	s := given(t, discovered())
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	for _, id := range ids {
		s.happened(requestedEvent(id, brand.PriorityLive, brand.CauseRefresh))
		s.happened(failedEvent(id, brand.Timeout, time.Second))
	}
	for i, id := range ids {
		if _, ok := s.brand.LastOutcome(id); ok != (i >= 2) {
			t.Errorf("crawl %s is remembered: %v", id, ok)
		}
	}
}

// Size.

func TestEvidence_TruncatedToFit(t *testing.T) {
	var evidence []eventschemas.Evidence
	for i := range 1000 {
		evidence = append(evidence, eventschemas.Evidence{
			Field: "name", Source: "https://acme.com/" + strings.Repeat("x", 100), Method: "m", Confidence: float64(i) / 1000,
		})
	}
	first := evidence[0]
	events, err := given(t, discovered(), requested("c1")).brand.SucceedCrawl(brand.SucceedCrawl{
		CrawlID: "c1", Record: record("Acme"), Evidence: evidence, FinalURL: "https://acme.com/",
	})
	testmust.Succeed(t, err)
	encoded := testmust.Get(eventschemas.Encode(events[1]))(t)
	kept := events[1].(eventschemas.CrawlSucceeded).Evidence
	if len(encoded.Data) > brand.MaxRecordEventBytes || len(encoded.Data) < brand.MaxRecordEventBytes-200 {
		t.Fatalf("the event has %d bytes and %d evidence entries", len(encoded.Data), len(kept))
	}
	for _, e := range kept {
		if e.Confidence < float64(1000-len(kept))/1000 {
			t.Fatalf("%v was kept among %d", e.Confidence, len(kept))
		}
	}
	if evidence[0] != first {
		t.Fatal("the caller's evidence was reordered")
	}
}

func TestEvidence_IsSortedByField(t *testing.T) {
	events, err := given(t).brand.Import(brand.Import{Source: "s", Record: record("Acme"), Evidence: []eventschemas.Evidence{
		{Field: "name", Source: "b", Method: "m", Confidence: 1}, {Field: "colors", Source: "z", Method: "m"}, {Field: "name", Source: "a", Method: "m"},
	}})
	testmust.Succeed(t, err)
	got := events[0].(eventschemas.BrandImported).Evidence
	if got[0].Field != "colors" || got[1].Source != "a" || got[2].Source != "b" {
		t.Fatalf("%+v", got)
	}
}

func TestSucceedCrawl_RecordTooLarge_IsRejected(t *testing.T) {
	big := record("Acme")
	big.Links = slices.Repeat([]eventschemas.Link{{Name: "github", URL: "https://github.com/" + strings.Repeat("x", 1000)}}, 64)
	evidence := []eventschemas.Evidence{{Field: "name", Source: "s", Method: "m"}}
	b := given(t, discovered(), requested("c1")).brand
	if _, err := b.SucceedCrawl(brand.SucceedCrawl{CrawlID: "c1", Record: big, Evidence: evidence}); !errors.Is(err, brand.ErrRecordTooLarge) {
		t.Fatal(err)
	}
	if _, err := brand.New(domain).Import(brand.Import{Source: "s", Record: big}); !errors.Is(err, brand.ErrRecordTooLarge) {
		t.Fatal(err)
	}
}

// State.

func TestUnmarshal_DamagedState_ChangesNothing(t *testing.T) {
	b := given(t, discovered(), requested("c1")).brand
	before, _ := json.Marshal(b)
	for _, state := range []string{``, `null`, `{}`, `{"domain":"x.com"}`, `{"domain":"x.com","id":"y","events":-1}`, `[]`} {
		if err := b.UnmarshalJSON([]byte(state)); err == nil {
			t.Errorf("UnmarshalJSON accepted %q", state)
		}
	}
	if now, _ := json.Marshal(b); string(now) != string(before) {
		t.Fatalf("the brand changed to %s", now)
	}
}

func TestApply_TimesMatchTheirJSON(t *testing.T) {
	b := brand.New(domain)
	b.Apply(imported("starter 1", record("Acme")).event, 0, time.Now()) // local, with a monotonic reading
	var back brand.Brand
	state := testmust.Get(json.Marshal(b))(t)
	if err := json.Unmarshal(state, &back); err != nil || !reflect.DeepEqual(back.View(), b.View()) {
		t.Fatalf("%+v decodes as %+v, %v", b.View(), back.View(), err)
	}
}

// Nodes of the previous release read the state of a running crawl.
func TestMarshal_RunningCrawl_NamesPriorityLane(t *testing.T) {
	state, err := json.Marshal(given(t, discovered(), scheduled("c1")).brand)
	if err != nil || !strings.Contains(string(state), `"lane":"refresh"`) {
		t.Fatalf("state is %s, %v, want the priority as lane", state, err)
	}
}

// FuzzState decodes arbitrary bytes as a stored state. An accepted state must survive View, Apply and another encoding.
func FuzzState(f *testing.F) {
	for _, facts := range [][]fact{
		{},
		{discovered(), requested("c1")},
		{discovered(), requested("c1"), failed("c1", brand.FetchFailed, time.Hour)},
		{imported("s", record("Acme")), overriddenFact("name", `"A <b>"`), claimed(), scheduled("c1"), succeeded("c1", record("B"))},
		{withdrawn()},
	} {
		b := brand.New(domain)
		for i, fact := range facts {
			b.Apply(fact.event, uint64(i), start)
		}
		state := testmust.Get(json.Marshal(b))(f)
		f.Add(state)
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		var b brand.Brand
		if err := json.Unmarshal(state, &b); err != nil {
			return
		}
		first, err := json.Marshal(&b)
		if err != nil {
			return // a year past 9999
		}
		var back brand.Brand
		if err := json.Unmarshal(first, &back); err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		if again, err := json.Marshal(&back); err != nil || string(again) != string(first) {
			t.Fatalf("%s encodes again as %s, %v", first, again, err)
		}
		_ = b.View()
		for i, ev := range []eventschemas.Event{
			requestedEvent("f1", brand.PriorityLive, brand.CauseRefresh), failedEvent("f1", brand.FetchFailed, time.Hour),
			requestedEvent("f2", brand.PriorityLive, brand.CauseRefresh), succeeded("f2", record("F")).event,
		} {
			b.Apply(ev, b.Events(), start.Add(time.Duration(i)*time.Minute))
		}
		_ = b.View()
	})
}
