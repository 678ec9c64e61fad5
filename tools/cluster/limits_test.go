//go:build services

package cluster

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

const (
	freePerMinute = 60
	// roomInMinute is the time that must be left of a minute window so that a burst fits into it.
	roomInMinute = 20 * time.Second
)

// Rule 10.
func TestRateLimit_SixtyOneRequestsOverThreeNodes_RejectsOne(t *testing.T) {
	c := whole(t)
	c.oneTooMany(t, c.apis)
}

// oneTooMany sends one request more than the free plan allows per minute, concurrently and spread over nodes.
func (c *cluster) oneTooMany(t *testing.T, over []*node) {
	t.Helper()
	who := over[0].open(t, "free", 0)
	untilRoomInMinute(t, over[0])
	seen := newTally()
	resets := make([]string, freePerMinute+1)
	atOnce(freePerMinute+1, func(i int) {
		a, err := over[i%len(over)].get("/v1/me", who.secret)
		seen.count(a, err)
		if err != nil {
			return
		}
		resets[i] = a.header.Get("X-RateLimit-Reset")
		if a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") == "" {
			seen.mistake("%s without Retry-After", a)
		}
	})
	t.Logf("%s", seen)
	seen.check(t, 0)
	for _, r := range resets {
		if r != resets[0] {
			t.Fatalf("the burst was not in one minute window: the windows end at %s and at %s", resets[0], r)
		}
	}
	if ok, rejected := seen.status(http.StatusOK), seen.status(http.StatusTooManyRequests); ok != freePerMinute || rejected != 1 {
		t.Errorf("%d requests served and %d rejected, want %d and 1", ok, rejected, freePerMinute)
	}
}

// freeCrawls is the limit of the free plan in LETTERHEAD_PLAN_CRAWLS; see newNode.
const freeCrawls = 10

// Rule 10.
func TestCrawlLimits_OverThreeNodes_Hold(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "free", 0)
	untilRoomInMinute(t, c.apis[0])
	seen := newTally()
	atOnce(3*freeCrawls, func(i int) {
		a, err := c.apis[i%len(c.apis)].get(lookup(nowhere()), who.secret)
		seen.lookup(a, err)
		if err == nil && a.status != http.StatusTooManyRequests && !crawled(a) {
			seen.mistake("%s: %s", a, a.body)
		}
	})
	t.Logf("%s", seen)
	seen.check(t, 0)
	if rejected := seen.status(http.StatusTooManyRequests); rejected != 2*freeCrawls {
		t.Errorf("%d of %d look-ups of unknown domains were rejected, want %d", rejected, 3*freeCrawls, 2*freeCrawls)
	}
	c.agree(t, who, seen)
}

// untilRoomInMinute waits until enough of the nodes' current minute window is left for a burst. It also waits for the end
// of a window in which PostgreSQL crashed, as it does in TestMixedRequests: the counts of all accounts continue at four
// there (decision 20).
func untilRoomInMinute(t *testing.T, n *node) {
	t.Helper()
	const windows = 5
	for range windows {
		a := n.want(t, http.StatusOK, "/v1/me", n.open(t, "free", 0).secret)
		used := headerNumber(t, a, "X-RateLimit-Limit") - headerNumber(t, a, "X-RateLimit-Remaining")
		left := time.Until(time.Unix(headerNumber(t, a, "X-RateLimit-Reset"), 0))
		if used == 1 && left > roomInMinute {
			return
		}
		<-time.After(left)
	}
	t.Fatalf("none of %d minute windows had room for a burst", windows)
}

func headerNumber(t *testing.T, a answer, name string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(a.header.Get(name), 10, 64)
	if err != nil {
		t.Fatalf("%s is %q, want a number", name, a.header.Get(name))
	}
	return n
}
