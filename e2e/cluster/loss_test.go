//go:build services

package cluster

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/e2e/program"
	"letterhead/internal/testservices"
)

// pair is two nodes with all roles on one PostgreSQL and one event store, which a test may exchange.
type pair struct {
	*cluster
	dir   string // of the event store
	nodes []*node
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{cluster: &cluster{name: "loss" + random(), at: addresses{postgres: testservices.Postgres(t)}}}
	p.dir = filepath.Join(scratch, p.name+"-eventstore")
	server, err := url.Parse(p.at.postgres)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.sql("CREATE SCHEMA " + p.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.sql("DROP SCHEMA " + p.name + " CASCADE"); err != nil {
			t.Error(err)
		}
	})
	if p.storeAt, err = program.FreeAddress(); err != nil {
		t.Fatal(err)
	}
	p.store = newProcess(p.name+"-eventstore", nil, "dev", "eventstore", "--listen", p.storeAt, "--dir", p.dir)
	t.Cleanup(p.store.kill)
	p.startStore(t)
	for _, name := range []string{"one", "two", "three"} {
		listen, err := program.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		n := &node{data: filepath.Join(scratch, p.name+"-"+name), url: "http://" + listen}
		n.process = newProcess(p.name+"-"+name, []string{
			"LETTERHEAD_EVENTSTORE=esdb://" + p.storeAt + "?tls=false", "LETTERHEAD_DATABASE=" + p.databaseURL(server, ""),
			"LETTERHEAD_ASSETS=" + (&url.URL{Scheme: "file", Path: scratch}).String(), "LETTERHEAD_BASE_URL=http://letterhead.test",
			"LETTERHEAD_METRICS_LISTEN=api", "LETTERHEAD_NODE=" + name, "LETTERHEAD_REFRESH=off", "LETTERHEAD_STARTER=off",
		}, "--data", n.data, "serve", "--listen", listen)
		t.Cleanup(n.kill)
		p.nodes = append(p.nodes, n)
	}
	return p
}

// exchange starts the event store again with another log.
func (p *pair) exchange(t *testing.T, from string) {
	t.Helper()
	p.store.kill()
	if err := os.RemoveAll(p.dir); err != nil {
		t.Fatal(err)
	}
	p.keep(t, from, p.dir)
	p.startStore(t)
}

func (p *pair) keep(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func (p *pair) begin(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		if n.alive() {
			continue
		}
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		until(t, readyWithin, n.name+" is ready", func() bool { return !n.alive() || n.ready() })
		if !n.alive() {
			t.Fatalf("%s has ended:\n%s", n.name, n.said(0))
		}
	}
}

// readiness is what /readyz answers.
func (n *node) readiness() (status int, text string) {
	resp, err := probes.Get(n.url + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

const missing = "acknowledged events are missing from the event log"

// An event store that comes back shorter, or as another one, is refused by the nodes that run and by those that start.
// An accepted loss is recorded, and all go on.
func TestEventStore_ComesBackWithoutEvents_IsRefusedUntilAccepted(t *testing.T) {
	p := newPair(t)
	one, two, three := p.nodes[0], p.nodes[1], p.nodes[2]
	empty, older, newer := p.dir+"-empty", p.dir+"-older", p.dir+"-newer"
	p.store.kill()
	p.keep(t, p.dir, empty)
	p.startStore(t)
	p.begin(t, one, two)
	who := one.open(t, "custom", 100)
	until(t, settledWithin, "the account is known to the other node", func() bool {
		_, err := two.letterhead("ledger", "show", "--account", who.id)
		return err == nil
	})
	p.store.kill()
	p.keep(t, p.dir, older)
	p.startStore(t)
	until(t, settledWithin, "the nodes are connected again", func() bool {
		_, err := one.letterhead("credits", "grant", "--account", who.id, "--amount", "21", "--kind", "adjustment")
		return err == nil
	})
	p.store.kill()
	p.keep(t, p.dir, newer)

	for name, log := range map[string]string{"shorter": older, "without events": empty} {
		p.exchange(t, log)
		before := three.logSize()
		for _, n := range []*node{one, two} {
			until(t, settledWithin, n.name+" refuses the store that is "+name, func() bool {
				status, text := n.readiness()
				return status == http.StatusServiceUnavailable && strings.Contains(text, missing) && strings.Contains(text, "letterhead recover accept-loss")
			})
			if v, ok := n.metric("letterhead_log_lost"); !ok || v != 1 {
				t.Errorf("%s: letterhead_log_lost is %v, %t", n.name, v, ok)
			}
		}
		if out, err := one.letterhead("credits", "grant", "--account", who.id, "--amount", "1", "--kind", "adjustment"); err == nil {
			t.Errorf("a grant was made on a store that is %s: %s", name, out)
		}
		if err := three.start(); err != nil {
			t.Fatal(err)
		}
		cmd, done := three.life()
		<-done
		if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(three.said(before), missing) {
			t.Errorf("a start on a store that is %s ended with %d:\n%s", name, code, three.said(before))
		}
		if _, err := three.letterhead("ledger", "verify"); err == nil || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("ledger verify on a store that is %s: %v", name, err)
		}
		// The right store is used again, by processes that start again.
		p.exchange(t, newer)
		for _, n := range []*node{one, two} {
			until(t, settledWithin, n.name+" has ended", func() bool { return !n.alive() })
		}
		p.begin(t, one, two)
		if got := one.standing(t, who).Balance; got != 121 {
			t.Errorf("the balance is %d, want 121", got)
		}
	}

	p.exchange(t, older)
	until(t, settledWithin, "both refuse", func() bool {
		a, _ := one.readiness()
		b, _ := two.readiness()
		return a == http.StatusServiceUnavailable && b == http.StatusServiceUnavailable
	})
	out := one.must(t, "recover", "accept-loss", "--yes", "--reason", "the store was restored from an older copy")
	if !strings.Contains(out, "records the loss") {
		t.Errorf("accept-loss said %s", out)
	}
	for _, n := range []*node{one, two} {
		until(t, settledWithin, n.name+" has ended", func() bool { return !n.alive() })
	}
	p.begin(t, one, two, three)
	for _, n := range p.nodes {
		if got := n.standing(t, who).Balance; got != 100 {
			t.Errorf("the balance on %s is %d, want 100", n.name, got)
		}
	}
	for _, command := range [][]string{{"doctor"}, {"ledger", "verify"}, {"projections", "verify"}} {
		two.must(t, command...)
	}
	if lines := strings.Count(one.must(t, "events", "replay", "--from-beginning", "--no-follow", "--json"), `"LossAccepted"`); lines != 1 {
		t.Errorf("%d events record the loss", lines)
	}
}
