package node

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/domain/plan"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/keys"
)

func TestReadiness_ListsWhatRemains(t *testing.T) {
	full := errors.New("no space is left for the event log")
	for _, c := range []struct {
		name       string
		state      readiness
		status     int
		body       string
		reason     string
		retryAfter string
	}{
		{"a node that starts", notStarted(), 503, "look_ups=false crawls=false logos=false reads=false", "", "1"},
		{"everything", whatRemains(nil, nil, nil, false), 200,
			"look_ups=true crawls=true logos=true reads=true", "", ""},
		{"a full disk", whatRemains(nil, nil, full, false), 503, "look_ups=false crawls=false logos=true reads=true",
			full.Error(), "5"},
		{"keys that may be wrong", whatRemains(nil, errors.New("a row is wrong"), nil, false), 503,
			"look_ups=false crawls=false logos=true reads=false", "no key can be checked: a row is wrong", "5"},
		{"a full folder of assets", whatRemains(nil, nil, nil, true), 200,
			"look_ups=true crawls=false logos=true reads=true", "no space is left for assets", ""},
		{"no event store", whatRemains([]string{serviceEventStore}, nil, nil, false), 503,
			"look_ups=false crawls=false logos=true reads=false", "the event store does not answer", "5"},
		{"no database", whatRemains([]string{serviceDatabase, serviceRegistry}, nil, nil, false), 503,
			"look_ups=false crawls=false logos=false reads=false",
			"the database does not answer; the registry of the read models does not answer", "5"},
		{"no object storage", whatRemains([]string{serviceAssets}, nil, nil, false), 503,
			"look_ups=true crawls=false logos=false reads=true", "the object storage does not answer", "5"},
	} {
		w := httptest.NewRecorder()
		c.state.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		var got map[string]any
		testmust.Succeed(t, json.Unmarshal(w.Body.Bytes(), &got))
		var body []string
		for _, word := range []string{"look_ups", "crawls", "logos", "reads"} {
			is, listed := got[word].(bool)
			if !listed {
				t.Errorf("with %s: %s is not listed", c.name, word)
			}
			body = append(body, word+map[bool]string{true: "=true", false: "=false"}[is])
		}
		reason, _ := got["reason"].(string)
		if text := strings.Join(body, " "); w.Code != c.status || text != c.body || reason != c.reason ||
			w.Header().Get("Retry-After") != c.retryAfter {
			t.Errorf("with %s: %d %s, reason %q, Retry-After %q; want %d %s, reason %q, Retry-After %q", c.name, w.Code,
				text, reason, w.Header().Get("Retry-After"), c.status, c.body, c.reason, c.retryAfter)
		}
	}
}

func TestReadiness_KeysCannotBeRepaired_LimitedWhileNoneCanBeChecked(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	resvgtest.Link(t, folder)
	open := func(t *testing.T) *Node {
		t.Helper()
		n := openNodeIn(t, folder, Parts{})
		testmust.Succeed(t, n.Runner.CatchUp(t.Context()))
		n.health.ready.Store(true)
		return n
	}
	failToRepair := func(t *testing.T, n *Node) {
		t.Helper()
		if err := n.Runner.ScrubOnce(t.Context(), keys.Name); err == nil {
			t.Fatal("the repair did not fail")
		}
	}
	want := func(t *testing.T, n *Node, able bool, when string) {
		t.Helper()
		s := n.health.readiness()
		if s.LookUps != able || s.Reads != able || s.Crawls != able || (n.health.whyNotReady() == "") != able {
			t.Errorf("%s: %+v, want %t", when, s, able)
		}
	}
	t.Run("first process", func(t *testing.T) {
		n := open(t)
		testmust.Succeed(t, testmust.Err(n.Operations.Accounts.Create(t.Context(), n.Operator(), "Jane Doe", plan.Free)))
		testmust.Succeed(t, n.Runner.CatchUp(t.Context()))
		for _, damage := range []string{
			`UPDATE {keys} SET last4 = 'xxxx'`,
			`CREATE TRIGGER full_disk BEFORE DELETE ON {keys} BEGIN SELECT RAISE(ABORT, 'full'); END`,
		} {
			var text string
			err := n.Models.Keys.Handle().Read(func(_ projections.Queryer, tables *projections.Tables) error {
				text = tables.SQL(damage)
				return nil
			})
			if err == nil {
				err = n.Stores.Database.Write(t.Context(), func(tx *sqlstore.Tx) error { _, err := tx.ExecContext(t.Context(), text); return err })
			}
			testmust.Succeed(t, err)
		}
		want(t, n, true, "before a pass")
		failToRepair(t, n)
		want(t, n, false, "after a pass that could not repair them")
	})
	n := open(t)
	want(t, n, false, "after a restart")
	failToRepair(t, n)
	want(t, n, false, "after a restart and another pass")
	testmust.Succeed(t, n.Stores.Database.Write(t.Context(), func(tx *sqlstore.Tx) error {
		return testmust.Err(tx.ExecContext(t.Context(), "DROP TRIGGER full_disk"))
	}))
	testmust.Succeed(t, n.Runner.ScrubOnce(t.Context(), keys.Name))
	want(t, n, true, "after a pass that repaired them")
}
