package readapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"letterhead/commands"
	"letterhead/domain/plan"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
)

// ticked sums up the customer's searches in a month from the log. It need not wait: answered searches are on the log.
func (c *customer) ticked(month usage.Month) int64 {
	c.s.t.Helper()
	var sum int64
	for from := uint64(0); ; {
		events, err := c.s.log.ReadStream(context.Background(), usage.Stream(c.id, month), from, eventlog.Forward, 1000)
		c.s.must(err)
		for _, recorded := range events {
			ev, err := eventschemas.Decode(recorded.Type, recorded.SchemaVersion, recorded.Data)
			c.s.must(err)
			for _, entry := range ev.(eventschemas.UsageTicked).Entries {
				sum += entry.Searches
			}
			from = recorded.Revision + 1
		}
		if len(events) < 1000 {
			return sum
		}
	}
}

func (c *customer) me() specAccount {
	c.s.t.Helper()
	a := c.get("/v1/me")
	a.ok(c.s.t)
	return decodeAccount(c.s.t, a.body)
}

// TestSearchQuota_MonthOfAnAccount_EndsAtLimit covers the first month of a leap year and the next two: usage counts until a
// month's last nanosecond, and at midnight UTC of the 1st searches and look-ups start over while
// credits are kept.
// Rule 10.
func TestSearchQuota_MonthOfAnAccount_EndsAtLimit(t *testing.T) {
	t.Parallel()
	const day, days = 24 * time.Hour, 9
	inBubbleAfter(t, (31-days)*day, func(s *service) {
		s.known("acme.com", record("acme"))
		c := s.account(plan.Starter, 500)
		for n := int64(1); n <= days; n++ {
			s.send(request{path: "/v1/search?q=acme", header: bearer(c.publishable)}).ok(s.t)
			c.get("/v1/search?q=acme").ok(s.t)
			c.get("/v1/search?q=").rejected(s.t, http.StatusBadRequest, "invalid_request")
			c.get("/v1/brands/acme.com").ok(s.t)
			if me := c.me(); me.Period != "2000-01" || me.Usage.Searches != 2*n || me.Usage.Lookups != n || me.Credits.Balance != 500-n {
				s.t.Fatalf("/v1/me on day %d: %+v", 31-days+n, me)
			}
			if n < days {
				s.clock.add(day)
			}
		}
		january := usage.MonthOf(s.clock.now())
		s.clock.add(day - 1) // the last nanosecond
		c.get("/v1/search?q=acme").ok(s.t)
		if me := c.me(); me.Period != "2000-01" || me.Usage.Searches != 2*days+1 || me.Usage.Lookups != days {
			s.t.Errorf("/v1/me in the last nanosecond of January: %+v", me)
		}
		s.clock.add(1)
		if me := c.me(); me.Period != "2000-02" || me.Usage.Searches != 0 || me.Usage.Lookups != 0 || me.Credits.Balance != 500-days {
			s.t.Errorf("/v1/me at midnight: %+v", me)
		}
		c.get("/v1/search?q=acme").ok(s.t)
		c.get("/v1/brands/acme.com").ok(s.t)
		if me := c.me(); me.Period != "2000-02" || me.Usage.Searches != 1 || me.Usage.Lookups != 1 || me.Credits.Balance != 500-days-1 {
			s.t.Errorf("/v1/me after midnight: %+v", me)
		}
		s.clock.add(29*day - 1)
		if me := c.me(); me.Period != "2000-02" || me.Usage.Searches != 1 {
			s.t.Errorf("/v1/me on 29 February: %+v", me)
		}
		s.clock.add(1)
		if me := c.me(); me.Period != "2000-03" || me.Usage.Searches != 0 || me.Usage.Lookups != 0 || me.Credits.Balance != 500-days-1 {
			s.t.Errorf("/v1/me on 1 March: %+v", me)
		}
		if got := c.ticked(january); got != 2*days+1 {
			s.t.Errorf("%d searches of January on the log, want %d", got, 2*days+1)
		}
	})
}

// quota checks a rejection for the month completely, and returns its wait.
func (a answer) quota(s *service, limit int64) time.Duration {
	t := s.t
	t.Helper()
	p := a.rejected(t, http.StatusTooManyRequests, "quota_exceeded")
	wait, d := seconds(t, a.header.Get("Retry-After")), p.Error.Details
	if d == nil || d.Limit == nil || *d.Limit != limit || d.RetryAfter == nil || time.Duration(*d.RetryAfter)*time.Second != wait || d.BillingURL == nil || *d.BillingURL != baseURL+"/billing" || d.Balance != nil {
		t.Errorf("Retry-After %s with details in %s, want limit %d", wait, a.body, limit)
	}
	return wait
}

// TestSearchQuota_UsedUp_RetryAfterIsFirstOfMonth runs from the first second of a month to its last nanosecond.
func TestSearchQuota_UsedUp_RetryAfterIsFirstOfMonth(t *testing.T) {
	const january = 31 * 24 * time.Hour
	for _, left := range []time.Duration{january, 25*time.Hour + 1, time.Second + 1, 1} {
		t.Run(left.String(), func(t *testing.T) {
			t.Parallel()
			inBubbleAfter(t, january-left, func(s *service) {
				c := s.account(plan.Free, 50)
				end := usage.MonthOf(s.clock.now()).End()
				left := end.Sub(s.clock.now())
				c.searched(249_999)
				c.get("/v1/search?q=acme").ok(s.t)
				wait := c.get("/v1/search?q=acme").quota(s, 250_000)
				if wait < left || wait >= left+time.Second {
					s.t.Errorf("%s before the month's end: Retry-After %s", left, wait)
				}
				if wait > time.Second {
					s.clock.add(wait - time.Second)
					c.get("/v1/search?q=acme").quota(s, 250_000)
					wait = time.Second
				}
				s.clock.add(wait)
				other := c.s.account(plan.Free, 50) // c's new month has no search yet, and gets none
				other.get("/v1/search?q=acme").ok(s.t)
				if me := c.me(); me.Usage.Searches != 0 || me.Period != usage.MonthOf(end).String() {
					s.t.Errorf("/v1/me after Retry-After: %+v", me)
				}
				c.get("/v1/search?q=acme").ok(s.t)
			})
		})
	}
}

// An upgrade raises the allowance and the minute limit together, on the next request. After a downgrade
// below the used number, searches are rejected until the month ends. No count is lost.
func TestSearchQuota_PlanChanges_NewLimitApplies(t *testing.T) {
	t.Parallel()
	inBubbleAfter(t, 28*24*time.Hour, func(s *service) {
		c := s.account(plan.Free, 50)
		search := func() answer {
			return s.send(request{path: "/v1/search?q=acme", header: bearer(c.publishable)})
		}
		limits := func(id plan.ID, perMinute int, perMonth string, used int64) {
			s.t.Helper()
			me := c.me()
			if me.Plan != string(id) || me.Limits.PerMinute != perMinute || allowance(me.Limits.SearchesPerMonth) != perMonth || me.Usage.Searches != used {
				s.t.Errorf("%+v, want %s with %d a minute, %s a month, %d used", me, id, perMinute, perMonth, used)
			}
		}
		c.searched(249_998)
		limits(plan.Free, 60, "250000", 249_998)
		search().ok(s.t)
		search().ok(s.t)
		search().quota(s, 250_000)
		limits(plan.Free, 60, "250000", 250_000)
		c.to(plan.Starter)
		if h := search().ok(s.t); h.Get("X-RateLimit-Limit") != "300" {
			s.t.Errorf("headers %v", h)
		}
		limits(plan.Starter, 300, "1000000", 250_001)
		c.to(plan.Free)
		if h := search(); h.quota(s, 250_000) <= 2*24*time.Hour || h.header.Get("X-RateLimit-Limit") != "60" {
			s.t.Errorf("headers %v", h.header)
		}
		limits(plan.Free, 60, "250000", 250_001)
		c.to(plan.Growth)
		for range 3 {
			search().ok(s.t)
		}
		limits(plan.Growth, 600, "<nil>", 250_004)
		c.to(plan.Starter)
		c.suspend()
		search().rejected(s.t, http.StatusForbidden, "forbidden")
		c.reinstate()
		search().ok(s.t)
		limits(plan.Starter, 300, "1000000", 250_005)
		c.to(plan.Free)
		s.clock.add(search().quota(s, 250_000))
		search().ok(s.t)
		limits(plan.Free, 60, "250000", 1)
	})
}

// No answer is sent while the append that counts the search is in progress.
func TestSearch_CountNotDurable_IsNotAnswered(t *testing.T) {
	t.Parallel()
	log := &countingLog{}
	inBubble(t, func(s *service) {
		c := s.account(plan.Free, 50)
		reached, open := make(chan struct{}), make(chan struct{})
		log.before = func() { close(reached); <-open }
		log.account.Store(&c.id)
		answered := make(chan answer, 1)
		go func() { answered <- c.get("/v1/search?q=acme") }()
		<-reached
		synctest.Wait()
		select {
		case a := <-answered:
			s.t.Errorf("answered %d before it was counted", a.status)
		default:
		}
		close(open)
		a := <-answered
		a.ok(s.t)
		if got := c.ticked(usage.MonthOf(s.clock.now())); got != 1 {
			s.t.Errorf("%d searches on the log, want 1", got)
		}
	}, func(set *setup) {
		set.parts.Log = func(l eventlog.Log) eventlog.Log { log.Log = l; return log }
	})
}

// outcomes counts the outcomes of some searches.
type outcomes struct{ answered, limited, quota, forbidden atomic.Int64 }

// searchTogether sends searches concurrently, alternating between the keys.
func (c *customer) searchTogether(n int, keys ...string) *outcomes {
	o := &outcomes{}
	together(n, func(i int) {
		a, err := c.s.do(c.s.t.Context(), request{path: "/v1/search?q=acme", header: bearer(keys[i%len(keys)])})
		switch {
		case err != nil:
			c.s.t.Errorf("search: %v", err)
		case a.status == http.StatusOK:
			o.answered.Add(1)
		case a.status == http.StatusForbidden:
			o.forbidden.Add(1)
		case a.status == http.StatusTooManyRequests && strings.Contains(string(a.body), `"rate_limited"`):
			o.limited.Add(1)
		case a.status == http.StatusTooManyRequests && strings.Contains(string(a.body), `"quota_exceeded"`):
			o.quota.Add(1)
		default:
			c.s.t.Errorf("search: status %d, body %s", a.status, a.body)
		}
	})
	return o
}

func TestConcurrentSearches_FewLeft_UseExactlyThose(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Starter, 50)
	c.searched(999_950)
	o := c.searchTogether(200, c.secret, c.publishable)
	if o.answered.Load() != 50 || o.quota.Load() != 150 {
		t.Errorf("%d answered and %d rejected, want 50 and 150", o.answered.Load(), o.quota.Load())
	}
	if used, reported := c.ticked(usage.MonthOf(s.clock.now())), c.me().Usage.Searches; used != 1_000_000 || reported != used {
		t.Errorf("%d searches counted, %d reported; want 1,000,000", used, reported)
	}
}

// life models a customer according to the documentation, counted without the code under test.
type life struct {
	plan      plan.Plan
	suspended bool
	month     usage.Month
	used      int64 // searches of the month
	minute    time.Time
	taken     int // units of the minute
}

// at moves to a point in time.
func (l *life) at(now time.Time) {
	if m := usage.MonthOf(now); m != l.month {
		l.month, l.used = m, 0
	}
	if m := now.Truncate(time.Minute); !m.Equal(l.minute) {
		l.minute, l.taken = m, 0
	}
}

// takes takes n units of the minute, or those that remain.
func (l *life) takes(n int) int {
	n = min(n, max(0, l.plan.PerMinute-l.taken))
	l.taken += n
	return n
}

// searches returns the outcomes of n concurrent searches.
func (l *life) searches(n int) (answered, limited, quota, forbidden int) {
	admitted := l.takes(n)
	if l.suspended {
		return 0, 0, 0, n
	}
	answered = admitted
	if allowed := l.plan.SearchesPerMonth; allowed != plan.Unlimited {
		answered = int(min(int64(admitted), max(0, allowed-l.used)))
	}
	l.used += int64(answered)
	return answered, n - admitted, admitted - answered, 0
}

// Whatever the order of searches from several keys, rejected requests, plan changes, suspensions and
// steps of the clock, the answered searches are those that the current plan allows, the counted ones
// are the answered ones, and /v1/me reports them.
// Rule 10.
func TestLimits_AnyInterleaving_Hold(t *testing.T) {
	t.Parallel()
	s := start(t)
	table := plan.Default()
	plans := []plan.ID{plan.Free, plan.Starter, plan.Growth}
	rapid.Check(t, func(r *rapid.T) {
		s.clock.add(usage.MonthOf(s.clock.now()).End().Sub(s.clock.now())) // the same time in every run
		c := s.account(plan.Free, 50)
		second, _ := c.issue(apikey.Publishable)
		keys := []string{c.secret, c.publishable, second}
		var l life
		row, err := table.Get(plan.Free)
		s.must(err)
		l.plan = row
		begin := func() {
			l.at(s.clock.now())
			if used := rapid.SampledFrom([]int64{0, 249_990, 999_990}).Draw(r, "used before"); used > 0 {
				used += rapid.Int64Range(0, 9).Draw(r, "and")
				c.searched(used)
				l.used = used
			}
		}
		begin()
		var story []string
		for range rapid.IntRange(1, 7).Draw(r, "steps") {
			step := rapid.SampledFrom([]string{"search", "search", "search", "rejected", "plan", "suspend", "wait", "month"}).Draw(r, "step")
			story = append(story, step)
			switch step {
			case "search":
				n := rapid.IntRange(1, 45).Draw(r, "searches")
				o := c.searchTogether(n, keys[:rapid.IntRange(1, 3).Draw(r, "keys")]...)
				answered, limited, quota, forbidden := l.searches(n)
				got := fmt.Sprint(o.answered.Load(), o.limited.Load(), o.quota.Load(), o.forbidden.Load())
				if want := fmt.Sprint(answered, limited, quota, forbidden); got != want {
					r.Fatalf("%v: of %d searches (answered, limited, quota, forbidden) were %s, want %s", story, n, got, want)
				}
			case "rejected":
				for i, header := range []http.Header{bearer(mistyped(c.secret)), bearer(c.publishable), bearer(c.secret)} {
					path := []string{"/v1/search?q=acme", "/v1/me", "/v1/search?q="}[i]
					if a := s.send(request{path: path, header: header}); a.status == http.StatusOK {
						r.Fatalf("%v: %s was not rejected", story, path)
					}
				}
				l.takes(1)
				l.takes(1)
			case "plan":
				id := rapid.SampledFrom(plans).Draw(r, "plan")
				if id != l.plan.ID {
					c.to(id)
				}
				l.plan, err = table.Get(id)
				s.must(err)
			case "suspend":
				if l.suspended {
					c.reinstate()
				} else {
					c.suspend()
				}
				l.suspended = !l.suspended
			case "wait":
				s.clock.add(time.Duration(rapid.Int64Range(1, int64(90*time.Second)).Draw(r, "wait")))
				if usage.MonthOf(s.clock.now()) != l.month {
					begin()
				}
				l.at(s.clock.now())
			case "month":
				end := l.month.End()
				if before := time.Duration(rapid.Int64Range(1, 3).Draw(r, "before")); s.clock.now().Before(end.Add(-before)) {
					s.clock.add(end.Add(-before).Sub(s.clock.now()))
					l.at(s.clock.now())
				} else {
					s.clock.add(end.Sub(s.clock.now()))
					begin()
				}
			}
			if counted := c.ticked(l.month); counted != l.used {
				r.Fatalf("%v: %d searches are counted, %d were answered", story, counted, l.used)
			}
			a := c.get("/v1/me")
			admitted := l.takes(1)
			switch {
			case l.suspended:
				if a.status != http.StatusForbidden {
					r.Fatalf("%v: /v1/me of a suspended account is %d, want %d", story, a.status, http.StatusForbidden)
				}
			case admitted == 0:
				if a.status != http.StatusTooManyRequests {
					r.Fatalf("%v: /v1/me past the minute is %d, want %d", story, a.status, http.StatusTooManyRequests)
				}
			default:
				me := decodeAccount(t, a.body)
				if me.Usage.Searches != l.used || me.Period != l.month.String() || me.Plan != string(l.plan.ID) || me.Limits.PerMinute != l.plan.PerMinute {
					r.Fatalf("%v: body %s, want %+v", story, a.body, l)
				}
			}
			if got, want := a.header.Get("X-RateLimit-Remaining"), fmt.Sprint(max(0, l.plan.PerMinute-l.taken)); got != want {
				r.Fatalf("%v: %s units are left, want %s", story, got, want)
			}
		}
	})
}

// searchedNow counts searches of this month by the machine's clock, as the nodes of a site do.
func (c *customer) searchedNow(n int64) {
	c.s.t.Helper()
	c.s.clock = &clock{bubble: true}
	c.searched(n)
}

func TestThreeNodes_FewSearchesLeft_AnswerExactlyThose(t *testing.T) {
	s := startSite(t, 3)
	c := s.nodes[0].account(plan.Starter, 50)
	c.searchedNow(999_950)
	month := usage.MonthOf(time.Now())
	var answered, rejected atomic.Int64
	together(200, func(i int) {
		key := c.secret
		if i%2 == 0 {
			key = c.publishable
		}
		for range 50 { // 503 means retry
			a, err := s.nodes[i%3].do(t.Context(), request{path: "/v1/search?q=acme", header: bearer(key)})
			switch {
			case err != nil:
				t.Errorf("search: %v", err)
				return
			case a.status == http.StatusOK:
				answered.Add(1)
				return
			case strings.Contains(string(a.body), `"quota_exceeded"`):
				rejected.Add(1)
				return
			case a.status != http.StatusServiceUnavailable:
				t.Errorf("search: status %d, body %s", a.status, a.body)
				return
			}
		}
		t.Error("a search was answered 503 50 times")
	})
	if answered.Load() != 50 || rejected.Load() != 150 {
		t.Errorf("%d answered and %d rejected, want 50 and 150", answered.Load(), rejected.Load())
	}
	if got := c.ticked(month); got != 1_000_000 {
		t.Errorf("%d searches are counted, want 1,000,000", got)
	}
	for _, n := range s.nodes {
		if got := c.at(n).me().Usage.Searches; got != 1_000_000 {
			t.Errorf("a node reports %d searches, want 1,000,000", got)
		}
	}
	// An upgrade on one node takes effect on the next, and the rest is one allowance for all.
	done, err := s.nodes[1].writer.ChangePlan(t.Context(), commands.ChangePlan{Request: operator(), AccountID: c.id, Plan: plan.Growth})
	s.must(err)
	s.nodes[1].inForce(done)
	for _, n := range s.nodes {
		c.at(n).get("/v1/search?q=acme").ok(t)
	}
}
