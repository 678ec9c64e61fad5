//go:build services

package cluster

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/testservices"
	"letterhead/tools/e2e/program"
)

// pair is an installation of three nodes, of which two usually run, with all roles on one PostgreSQL and one event
// store, whose log a test may replace.
type pair struct {
	*cluster
	dir   string // folder of the event store
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
	p.store = newEventStore(p.name+"-eventstore", p.storeAt, "--dir", p.dir)
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
			"LETTERHEAD_METRICS_LISTEN=api", "LETTERHEAD_NODE=" + name, "LETTERHEAD_STARTER=off",
		}, "--data", n.data, "serve", "--listen", listen)
		t.Cleanup(n.kill)
		p.nodes = append(p.nodes, n)
	}
	return p
}

// exchange restarts the event store with another log.
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
			t.Fatalf("%s exited:\n%s", n.name, n.output(0))
		}
	}
}

// readiness returns the answer of /readyz.
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

// unanswered copies a log and appends events that no node has seen.
func (p *pair) unanswered(t *testing.T, from, to string, events int) {
	t.Helper()
	p.keep(t, from, to)
	at, err := program.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	store := newEventStore(filepath.Base(to), at, "--dir", to)
	defer store.kill()
	if err := store.start(); err != nil {
		t.Fatal(err)
	}
	log, err := esdb.Open(t.Context(), esdb.Config{ConnectionString: "esdb://" + at + "?tls=false"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		event := eventlog.Proposed{ID: uuid.New(), Type: "Unanswered", SchemaVersion: 1, Data: []byte("{}"), OccurredAt: time.Now()}
		if _, err := log.Append(t.Context(), "unanswered-"+strconv.Itoa(i), eventlog.NoStream(), []eventlog.Proposed{event}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(log.Close(), store.stop()); err != nil {
		t.Fatal(err)
	}
}

// contents returns the contents of the files in a folder, by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		out[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// registry returns the generations of the read models in the database, with their states and positions.
func (p *pair) registry(t *testing.T) (out string) {
	t.Helper()
	server, err := url.Parse(p.at.postgres)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", p.databaseURL(server, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const list = `SELECT string_agg(concat_ws(' ', name, generation, state, position), E'\n' ORDER BY name, generation)
FROM projections_registry WHERE state <> 'scratch'` // a comparison with the log may begin at any time, and fails
	if err := db.QueryRowContext(t.Context(), list).Scan(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// rejects waits until a node rejects the event store, and checks that its probe and its metric report it.
func (n *node) rejects(t *testing.T, what string) {
	t.Helper()
	text := ""
	until(t, settledWithin, n.name+" rejects a log that is "+what, func() bool {
		var status int
		status, text = n.readiness()
		return status == http.StatusServiceUnavailable && strings.Contains(text, missing)
	})
	t.Logf("%s: %s", n.name, text)
	if !strings.Contains(text, "letterhead recover accept-loss") || !strings.Contains(text, "The recorded log begins with event ") ||
		!strings.Contains(text, " and reaches position ") || !strings.Contains(text, "; the log that was found ") {
		t.Errorf("%s does not name both logs: %s", n.name, text)
	}
	if v, ok := n.metric("letterhead_log_lost"); !ok || v != 1 {
		t.Errorf("%s: letterhead_log_lost = %v (found: %t), want 1", n.name, v, ok)
	}
}

// commandsFail checks that commands in their own processes reject the event store.
func (p *pair) commandsFail(t *testing.T, env []string, who customer) {
	t.Helper()
	var running sync.WaitGroup
	for i, args := range [][]string{
		{"credits", "grant", "--account", who.id, "--amount", "1", "--kind", "adjustment", "--reason", "test"}, {"key", "revoke", who.keyID},
		{"ledger", "verify"}, {"projections", "rebuild", "--all"}, {"backup", p.dir + "-backup"},
		{"brand", "override", "--reason", "test", "github.com", "name", `"Wrong"`},
	} {
		running.Go(func() {
			cli := fmt.Sprint("cli", i)
			_, err := command(append(slices.Clone(env), "LETTERHEAD_NODE="+cli), append([]string{"--data", p.dir + "-" + cli}, args...)...)
			if err == nil || !strings.Contains(err.Error(), "exit status 3") {
				t.Errorf("%v: %v, want exit status 3", args, err)
			}
		})
	}
	running.Wait()
}

// If the event store has any other log, nodes that run or start must not write to it or answer from it. They must
// continue by themselves when the right log is back.
// Rule 8.
func TestEventStore_WrongLog_IsRejectedUntilRightLogIsBack(t *testing.T) {
	p := newPair(t)
	one, two, three := p.nodes[0], p.nodes[1], p.nodes[2]
	empty, older, newer, fork := p.dir+"-empty", p.dir+"-older", p.dir+"-newer", p.dir+"-fork"
	p.store.kill()
	p.keep(t, p.dir, empty)
	p.startStore(t)
	p.begin(t, one, two)
	who := one.open(t, "custom", 100)
	until(t, settledWithin, "the other node knows the account", func() bool {
		_, err := two.letterhead("ledger", "show", "--account", who.id)
		return err == nil
	})
	p.store.kill()
	p.keep(t, p.dir, older)
	p.startStore(t)
	until(t, settledWithin, "the nodes are connected again", func() bool {
		_, err := one.letterhead("credits", "grant", "--account", who.id, "--amount", "21", "--kind", "adjustment", "--reason", "test")
		return err == nil
	})
	until(t, settledWithin, "the grant is folded", func() bool { return two.standing(t, who).Balance == 121 })
	p.store.kill()
	p.unanswered(t, empty, p.dir+"-other", 40)
	p.unanswered(t, older, fork, 40)
	p.startStore(t)
	lives := map[*node]*exec.Cmd{}
	for _, n := range []*node{one, two} {
		lives[n], _ = n.life()
	}
	for _, other := range []struct{ name, log string }{
		{"shorter", older}, {"empty", empty}, {"different and longer", p.dir + "-other"},
		// This must be the last log, because node three starts here and keeps running.
		{"equal at the beginning but longer", fork},
	} {
		name, log := other.name, other.log
		p.store.kill()
		if err := os.RemoveAll(newer); err != nil {
			t.Fatal(err)
		}
		p.keep(t, p.dir, newer)
		p.exchange(t, log)
		nodes := p.nodes[:2]
		if log == fork { // the log that is hardest to distinguish
			nodes = p.nodes
			if err := three.start(); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range nodes {
			n.rejects(t, name)
		}
		registry := p.registry(t)
		for _, n := range p.nodes[:2] {
			n.want(t, http.StatusServiceUnavailable, "/v1/me", who.secret)
			n.want(t, http.StatusServiceUnavailable, "/v1/brands/github.com", who.secret)
		}
		if out, err := one.letterhead("credits", "grant", "--account", who.id, "--amount", "1", "--kind", "adjustment", "--reason", "test"); err == nil {
			t.Errorf("a node granted credits on a log that is %s: %s", name, out)
		}
		if log == fork {
			p.commandsFail(t, three.env, who)
		}
		if now := p.registry(t); now != registry {
			t.Errorf("on a log that is %s the read models changed from\n%s\nto\n%s", name, registry, now)
		}
		p.store.kill()
		if !maps.Equal(contents(t, p.dir), contents(t, log)) {
			t.Errorf("the nodes wrote to a log that is %s", name)
		}
		p.exchange(t, newer)
		for _, n := range nodes {
			until(t, settledWithin, n.name+" continues", func() bool { return !n.alive() || n.ready() })
			if v, ok := n.metric("letterhead_log_lost"); !ok || v != 0 {
				t.Errorf("%s: letterhead_log_lost = %v (found: %t), want 0", n.name, v, ok)
			}
			if got := n.standing(t, who).Balance; got != 121 {
				t.Errorf("the balance on %s is %d, want 121", n.name, got)
			}
		}
		for n, life := range lives {
			if cmd, _ := n.life(); cmd != life || !n.alive() {
				t.Errorf("%s exited", n.name)
			}
		}
	}
	for _, command := range [][]string{{"doctor"}, {"ledger", "verify"}, {"projections", "verify"}} {
		two.must(t, command...)
	}
}

// After an operator accepts a shorter or a different log, the running nodes must serve it. They discard the data of the
// previous log and do not exit.
// Rule 8.
func TestEventStore_AnotherLogAccepted_IsServed(t *testing.T) {
	p, foreign := newPair(t), newPair(t)
	foreign.begin(t, foreign.nodes[0])
	stranger := foreign.nodes[0].open(t, "custom", 300)
	foreign.nodes[0].kill()
	foreign.store.kill()

	one, two := p.nodes[0], p.nodes[1]
	older := p.dir + "-older"
	p.begin(t, one, two)
	who := one.open(t, "custom", 100)
	p.store.kill()
	p.keep(t, p.dir, older)
	p.startStore(t)
	until(t, settledWithin, "the nodes are connected again", func() bool {
		_, err := one.letterhead("credits", "grant", "--account", who.id, "--amount", "21", "--kind", "adjustment", "--reason", "test")
		return err == nil
	})
	two.want(t, http.StatusOK, "/v1/me", who.secret)
	life, _ := one.life()
	accept := func(log, reason string) {
		t.Helper()
		for range 2 { // of the second one the workers know in memory only
			one.must(t, "credits", "grant", "--account", who.id, "--amount", "1", "--kind", "adjustment", "--reason", "test")
		}
		p.exchange(t, log)
		one.rejects(t, reason)
		two.rejects(t, reason)
		if out := one.must(t, "recover", "accept-loss", "--yes", "--reason", reason); !strings.Contains(out, "records the loss") {
			t.Errorf("accept-loss printed %s", out)
		}
		for _, n := range p.nodes {
			if !n.alive() {
				if err := n.start(); err != nil {
					t.Fatal(err)
				}
			}
			until(t, settledWithin, n.name+" serves", func() bool { return !n.alive() || n.ready() })
		}
		if cmd, _ := one.life(); cmd != life || !one.alive() {
			t.Errorf("%s exited:\n%s", one.name, one.output(0))
		}
		for _, command := range [][]string{{"doctor"}, {"ledger", "verify"}, {"projections", "verify"}} {
			two.must(t, command...)
		}
		if lines := strings.Count(one.must(t, "events", "replay", "--from-beginning", "--no-follow", "--json"), `"LossAccepted"`); lines != 1 {
			t.Errorf("%d events record the loss, want 1", lines)
		}
	}
	accept(older, "the store was restored from an older copy")
	for _, n := range p.nodes {
		if got := n.standing(t, who).Balance; got != 100 {
			t.Errorf("the balance on %s is %d, want 100", n.name, got)
		}
	}
	accept(foreign.dir, "another store is used from now on")
	for _, n := range p.nodes {
		n.want(t, http.StatusUnauthorized, "/v1/me", who.secret)
		n.want(t, http.StatusOK, "/v1/me", stranger.secret)
		if got := n.standing(t, stranger).Balance; got != 300 {
			t.Errorf("the balance of the other log's account on %s is %d, want 300", n.name, got)
		}
	}
}
