package readapi_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/plan"
)

// to changes the customer's plan, as an operator does: it is effective when to returns.
func (c *customer) to(id plan.ID) {
	c.s.t.Helper()
	done, err := c.s.writer.ChangePlan(c.s.t.Context(), commands.ChangePlan{Request: operator(), AccountID: c.id, Plan: id})
	c.s.must(err)
	c.s.inForce(done)
}

func (c *customer) reinstate() {
	c.s.t.Helper()
	done, err := c.s.writer.Reinstate(c.s.t.Context(), commands.ReinstateAccount{Request: operator(), AccountID: c.id})
	c.s.must(err)
	c.s.inForce(done)
}

// window checks an answer's headers about the minute.
func (a answer) window(t testing.TB, limit, remaining int, ends time.Time) {
	t.Helper()
	h := a.header
	if h.Get("X-RateLimit-Limit") != strconv.Itoa(limit) || h.Get("X-RateLimit-Remaining") != strconv.Itoa(remaining) || h.Get("X-RateLimit-Reset") != strconv.FormatInt(ends.Unix(), 10) {
		t.Errorf("window headers: %s of %s until %s, want %d of %d until %d", h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Reset"), remaining, limit, ends.Unix())
	}
}

// A client that waits as long as the rejection says is served, and a second less is too early,
// wherever in the minute the limit was reached.
// Rule 10.
func TestMinuteWindow_UsedUp_RetryAfterIsNextMinute(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Free, 50)
		for _, at := range []time.Duration{0, 1, 500 * time.Millisecond, 30*time.Second + 1, 58 * time.Second, 59 * time.Second, 59*time.Second + 1, time.Minute - 1} {
			s.clock.add(at - s.clock.now().Sub(s.clock.now().Truncate(time.Minute)))
			ends := s.clock.now().Truncate(time.Minute).Add(time.Minute)
			for left := 59; left >= 0; left-- {
				a := c.get("/v1/me")
				a.ok(s.t)
				a.window(s.t, 60, left, ends)
			}
			a := c.get("/v1/me")
			p := a.rejected(s.t, http.StatusTooManyRequests, "rate_limited")
			a.window(s.t, 60, 0, ends)
			wait := seconds(s.t, a.header.Get("Retry-After"))
			if p.Error.Details == nil || p.Error.Details.RetryAfter == nil || time.Duration(*p.Error.Details.RetryAfter)*time.Second != wait {
				s.t.Errorf("%s into the minute: Retry-After %s with the body %s", at, wait, a.body)
			}
			if wait > time.Second {
				s.clock.add(wait - time.Second)
				c.get("/v1/me").rejected(s.t, http.StatusTooManyRequests, "rate_limited")
				wait = time.Second
			}
			s.clock.add(wait)
			a = c.get("/v1/me")
			a.ok(s.t)
			a.window(s.t, 60, 59, s.clock.now().Truncate(time.Minute).Add(time.Minute))
			s.clock.add(time.Minute)
		}
	})
}

// Used units remain used, and the new limit applies from the next request on, in both directions.
func TestMinuteWindow_PlanChanges_NewLimitApplies(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Free, 50)
		ends := s.clock.now().Truncate(time.Minute).Add(time.Minute)
		c.useUp()
		c.get("/v1/me").rejected(s.t, http.StatusTooManyRequests, "rate_limited")
		s.clock.add(20 * time.Second)
		c.to(plan.Starter)
		a := c.get("/v1/me")
		a.ok(s.t)
		a.window(s.t, 300, 239, ends)
		c.to(plan.Growth)
		a = c.get("/v1/me")
		a.ok(s.t)
		a.window(s.t, 600, 538, ends)
		c.to(plan.Free)
		s.clock.add(40*time.Second - 1)
		a = c.get("/v1/me")
		a.rejected(s.t, http.StatusTooManyRequests, "rate_limited")
		a.window(s.t, 60, 0, ends)
		s.clock.add(1)
		a = c.get("/v1/me")
		a.ok(s.t)
		a.window(s.t, 60, 59, ends.Add(time.Minute))
	})
}

// A 401 takes no unit, whatever else is wrong. Every other answer to a key takes one, except that requests beyond the
// limit take none. A 403 beyond the limit remains a 403.
func TestMinuteWindow_Rejections_TakeAUnitOrNot(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Free, 50)
		ends := s.clock.now().Truncate(time.Minute).Add(time.Minute)
		for range 100 {
			s.send(request{path: "/v1/search?q=", header: bearer(mistyped(c.secret))}).rejected(s.t, http.StatusUnauthorized, "unauthorized")
		}
		a := c.get("/v1/search?q=")
		a.rejected(s.t, http.StatusBadRequest, "invalid_request")
		a.window(s.t, 60, 59, ends)
		a = s.send(request{path: "/v1/me", header: bearer(c.publishable)})
		a.rejected(s.t, http.StatusForbidden, "forbidden")
		a.window(s.t, 60, 58, ends)
		c.suspend()
		for _, key := range []string{c.secret, c.publishable} {
			s.send(request{path: "/v1/search?q=", header: bearer(key)}).rejected(s.t, http.StatusForbidden, "forbidden")
		}
		c.reinstate()
		a = c.get("/v1/me")
		a.ok(s.t)
		a.window(s.t, 60, 55, ends)
		c.useUp()
		for range 5 {
			a = c.get("/v1/me")
			a.rejected(s.t, http.StatusTooManyRequests, "rate_limited")
			a.window(s.t, 60, 0, ends)
			a = s.send(request{path: "/v1/me", header: bearer(c.publishable)})
			a.rejected(s.t, http.StatusForbidden, "forbidden")
			a.window(s.t, 60, 0, ends)
		}
		c.to(plan.Starter) // rejected requests took nothing: 60 are used
		a = c.get("/v1/me")
		a.ok(s.t)
		a.window(s.t, 300, 239, ends)
	})
}

// After hours nothing of the account is in memory, and it is reported unchanged.
func TestAccount_IdleForHours_IsReportedUnchanged(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		s.known("acme.com", record("acme"))
		c := s.account(plan.Starter, 50)
		c.get("/v1/brands/acme.com").ok(s.t)
		c.get("/v1/search?q=acme").ok(s.t)
		before := decodeAccount(s.t, c.get("/v1/me").body)
		const inMemory = `letterhead_desk_live_streams{desk="account"} `
		if !strings.Contains(s.scrape(), inMemory+"1\n") {
			s.t.Fatalf("the account is not in memory:\n%s", s.scrape())
		}
		s.clock.add(6 * time.Hour)
		if !strings.Contains(s.scrape(), inMemory+"0\n") {
			s.t.Fatalf("six hours later the account is still in memory:\n%s", s.scrape())
		}
		after := decodeAccount(s.t, c.get("/v1/me").body)
		if after.Credits != before.Credits || after.Usage != before.Usage || after.Usage.Searches != 1 || after.Usage.Lookups != 1 || after.Period != "2000-01" {
			s.t.Errorf("%+v, and after six hours %+v", before, after)
		}
		c.get("/v1/search?q=acme").ok(s.t)
		c.get("/v1/brands/acme.com").ok(s.t)
		if me := decodeAccount(s.t, c.get("/v1/me").body); me.Usage.Searches != 2 || me.Usage.Lookups != 2 || me.Credits.Balance != 48 {
			s.t.Errorf("got %+v", me)
		}
	})
}
