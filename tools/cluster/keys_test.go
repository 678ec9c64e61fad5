//go:build services

package cluster

import (
	"net/http"
	"strings"
	"testing"
)

// rounds is the number of changes in a test, each on another node.
const rounds = 2 * apiNodes

// everywhere sends a request to all API nodes concurrently and fails the test on any other status.
func (c *cluster) everywhere(t *testing.T, status int, path, key string) []answer {
	t.Helper()
	answers := make([]answer, len(c.apis))
	atOnce(len(c.apis), func(i int) {
		a, err := c.apis[i].get(path, key)
		if err != nil {
			t.Errorf("GET %s on %s: %v", path, c.apis[i].name, err)
			return
		}
		if a.status != status {
			t.Errorf("GET %s answered %s, want %d", path, a, status)
		}
		answers[i] = a
	})
	return answers
}

// Rule 9.
func TestKey_IssuedAndRevoked_NextRequestOnEveryNodeFollows(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "custom", 0)
	for round := range rounds {
		operator := c.apis[round%apiNodes]
		var issued struct{ ID, Key string }
		decode(t, operator.must(t, "key", "issue", "--account", who.id, "--kind", "secret", "--name", "round", "--json"), &issued)
		c.everywhere(t, http.StatusOK, "/v1/me", issued.Key)
		c.apis[(round+1)%apiNodes].must(t, "key", "revoke", issued.ID)
		c.everywhere(t, http.StatusUnauthorized, "/v1/me", issued.Key)
		c.everywhere(t, http.StatusUnauthorized, lookup(hit), issued.Key)
	}
}

// Rule 9.
func TestSuspension_OnOneNode_NextRequestOnEveryNodeFollows(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "custom", 0)
	for round := range rounds {
		operator := c.apis[round%apiNodes]
		operator.must(t, "account", "suspend", "--reason", "test", who.id)
		c.everywhere(t, http.StatusForbidden, lookup(hit), who.secret)
		operator.must(t, "account", "reinstate", who.id)
		c.everywhere(t, http.StatusOK, "/v1/me", who.secret)
	}
	// Rejected requests were not charged, and the credits can be spent immediately.
	if got := c.apis[0].standing(t, who).Balance; got != 50 {
		t.Errorf("the balance is %d, want 50", got)
	}
	c.everywhere(t, http.StatusOK, lookup(hit), who.secret)
	if got := c.apis[0].standing(t, who).Balance; got != 50-apiNodes {
		t.Errorf("the balance is %d, want %d", got, 50-apiNodes)
	}
}

// Rule 9.
func TestPlan_ChangedOnOneNode_NextRequestOnEveryNodeFollows(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "free", 0)
	limits := map[string]string{"free": "60", "starter": "300", "growth": "600", "custom": "3000"}
	for i, plan := range []string{"starter", "growth", "custom", "growth"} {
		c.apis[i%apiNodes].must(t, "account", "plan", who.id, plan)
		for _, a := range c.everywhere(t, http.StatusOK, "/v1/me", who.secret) {
			if got := a.header.Get("X-RateLimit-Limit"); got != limits[plan] {
				t.Errorf("%s reports a limit of %s on plan %s, want %s", a.node, got, plan, limits[plan])
			}
		}
	}
}

// A node is frozen until its lease expires, and meanwhile a key is revoked. After it resumes it must not accept the key
// from its memory. The revocation does not wait for the node.
// Rule 9.
func TestNode_FrozenPastItsLease_RejectsKeyRevokedMeanwhile(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "custom", 0)
	frozen := c.apis[1]
	until(t, settledWithin, frozen.name+" serves keys from memory", func() bool {
		frozen.want(t, http.StatusOK, "/v1/me", who.secret)
		n, _ := frozen.metric(`letterhead_key_lookups_total{from="memory"}`)
		return n > 0
	})
	if err := frozen.freeze(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = frozen.thaw() }() // if the test ends early
	c.apis[0].must(t, "key", "revoke", who.keyID)
	if err := frozen.thaw(); err != nil {
		t.Fatal(err)
	}
	frozen.want(t, http.StatusUnauthorized, "/v1/me", who.secret)
	c.ready(t)
}

// The command must fail if the nodes do not enforce the revocation in time.
// Rule 9.
func TestRevocation_NotConfirmedInTime_ReportsIt(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "custom", 0)
	for _, n := range c.projectors {
		if err := n.freeze(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = n.thaw() }() // if the test ends early
	}
	out, err := c.apis[0].letterhead("key", "revoke", who.keyID)
	if err == nil || !strings.Contains(err.Error(), "not every node has confirmed it in time") {
		t.Errorf("without a running projector, key revoke returned %q, %v; want an error that nodes do not enforce it yet", out, err)
	}
	for _, n := range c.projectors {
		if err := n.thaw(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range c.apis {
		until(t, settledWithin, "the key is revoked on "+n.name, func() bool {
			a, err := n.get("/v1/me", who.secret)
			return err == nil && a.status == http.StatusUnauthorized
		})
	}
	c.ready(t)
}
