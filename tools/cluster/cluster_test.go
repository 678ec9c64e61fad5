//go:build services

package cluster

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"letterhead/internal/testlink"
	"letterhead/tools/e2e/program"
)

// Sizes of the cluster under test.
const (
	apiNodes   = 3
	crawlers   = 2
	projectors = 2
	relays     = 2
)

// hit is a brand of the starter index with a logo. Its look-up costs a credit and needs no crawl.
const hit = "github.com"

// cluster is a complete installation. It uses its own names in the services: schema, index, topics.
type cluster struct {
	name    string
	at      addresses
	assets  string
	store   *process // stand-in of the event store
	storeAt string

	apis, crawlers, projectors, relays []*node
	sweeper                            *node
	more                               []*node // added by single tests
	lost                               error   // why no test can use the cluster any more
}

var (
	sharedMu sync.Mutex
	shared   *cluster
)

// whole returns the cluster that the tests share, with every process alive and ready. It restarts processes that an
// earlier test killed. If the test fails, it prints what the processes logged during the test.
func whole(t testing.TB) *cluster {
	t.Helper()
	at := servicesOf(t)
	sharedMu.Lock()
	defer sharedMu.Unlock()
	if shared == nil {
		c, err := newCluster("lh"+random(), at)
		if err != nil {
			t.Fatal(err)
		}
		shared = c
		c.show(t)
		c.begin(t)
		return c
	}
	if shared.lost != nil {
		t.Fatalf("an earlier test broke the shared cluster: %v", shared.lost)
	}
	shared.show(t)
	shared.mend(t)
	return shared
}

// endShared stops the shared cluster and removes its data from the services.
func endShared() error {
	if shared == nil {
		return nil
	}
	return shared.end()
}

func random() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails, according to its documentation
	return hex.EncodeToString(b[:])
}

// newCluster prepares a cluster without starting it.
func newCluster(name string, at addresses) (*cluster, error) {
	c, err := newServices(name, at)
	if err != nil {
		return nil, err
	}
	add := func(into *[]*node, role string, count int) {
		for i := range count {
			n, nodeErr := c.newNode(fmt.Sprintf("%s-%d", role, i+1), role)
			err = errors.Join(err, nodeErr)
			*into = append(*into, n)
		}
	}
	add(&c.apis, "api", apiNodes)
	add(&c.crawlers, "crawler", crawlers)
	add(&c.projectors, "projector", projectors)
	add(&c.relays, "relay", relays)
	var sweepers []*node
	add(&sweepers, "sweeper", 1)
	c.sweeper = sweepers[0]
	return c, err
}

// newServices prepares a cluster without nodes.
func newServices(name string, at addresses) (*cluster, error) {
	c := &cluster{name: name, at: at, assets: filepath.Join(scratch, name+"-assets")}
	if err := os.MkdirAll(c.assets, 0o700); err != nil {
		return nil, err
	}
	if err := c.sql("CREATE SCHEMA " + name); err != nil {
		return nil, err
	}
	var err error
	if c.storeAt, err = program.FreeAddress(); err != nil {
		return nil, err
	}
	c.store = newEventStore(name+"-eventstore", c.storeAt, "--dir", filepath.Join(scratch, name+"-eventstore"))
	return c, nil
}

// newNode prepares a process with its own data folder and links. env overrides the settings that all nodes share.
func (c *cluster) newNode(name, roles string, env ...string) (*node, error) {
	postgresURL, err := url.Parse(c.at.postgres)
	if err != nil {
		return nil, fmt.Errorf("LETTERHEAD_TEST_POSTGRES: %w", err)
	}
	searchURL, err := url.Parse(c.at.elasticsearch)
	if err != nil {
		return nil, fmt.Errorf("LETTERHEAD_TEST_ELASTICSEARCH: %w", err)
	}
	n := &node{data: filepath.Join(scratch, c.name+"-"+name), roles: roles, links: map[string]*testlink.Link{}}
	for service, target := range map[string]string{eventStore: c.storeAt, postgres: postgresURL.Host, elasticsearch: searchURL.Host} {
		if n.links[service], err = testlink.Open(target); err != nil {
			return nil, err
		}
	}
	listen, err := program.FreeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := program.FreeAddress()
	if err != nil {
		return nil, err
	}
	n.url, n.admin = "http://"+listen, "http://"+admin
	settings := []string{
		"LETTERHEAD_EVENTSTORE=esdb://" + n.links[eventStore].Address() + "?tls=false",
		"LETTERHEAD_DATABASE=" + c.databaseURL(postgresURL, n.links[postgres].Address()),
		"LETTERHEAD_SEARCH=" + c.searchURL(searchURL, n.links[elasticsearch].Address()),
		"LETTERHEAD_BROKER=kafka://" + c.at.kafka + "?prefix=" + c.name + ".",
		"LETTERHEAD_ASSETS=" + (&url.URL{Scheme: "file", Path: c.assets}).String(),
		"LETTERHEAD_BASE_URL=http://letterhead.test",
		"LETTERHEAD_METRICS_LISTEN=api",
		"LETTERHEAD_ADMIN_LISTEN=" + admin,
		"LETTERHEAD_NODE=" + name,
		"LETTERHEAD_REFRESH=off",
		"LETTERHEAD_CRAWL_TIMEOUT=" + crawlTimeout.String(),
		// Low crawl limits would interfere with other tests.
		"LETTERHEAD_CRAWLS_PER_MINUTE=10000",
		"LETTERHEAD_PLAN_CRAWLS=free=10,starter=30,growth=60,custom=10000",
	}
	n.process = newProcess(c.name+"-"+name, append(settings, env...), "--data", n.data, "serve", "--roles", roles, "--listen", listen)
	return n, nil
}

func (c *cluster) databaseURL(server *url.URL, at string) string {
	u := *server
	if at != "" {
		u.Host = at
	}
	query := u.Query()
	query.Set("search_path", c.name)
	u.RawQuery = query.Encode()
	return u.String()
}

func (c *cluster) searchURL(server *url.URL, at string) string {
	u := *server
	u.Host = at
	u.RawQuery = url.Values{"alias": {c.name}, "replicas": {"0"}}.Encode()
	return u.String()
}

// sql runs a statement in the cluster's schema.
func (c *cluster) sql(statement string) error {
	server, err := url.Parse(c.at.postgres)
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", c.databaseURL(server, ""))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), exitWithin)
	defer cancel()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// all returns every node of the cluster.
func (c *cluster) all() []*node {
	var nodes []*node
	for _, some := range [][]*node{c.apis, c.crawlers, c.projectors, c.relays, {c.sweeper}, c.more} {
		nodes = append(nodes, some...)
	}
	return slices.DeleteFunc(nodes, func(n *node) bool { return n == nil }) // the sweeper may be nil
}

// begin starts everything and waits until every API node serves the starter index.
func (c *cluster) begin(t testing.TB) {
	t.Helper()
	began := time.Now()
	c.mend(t)
	for _, n := range c.apis {
		until(t, readyWithin, n.name+" has the starter index", func() bool {
			_, err := n.letterhead("brand", "get", hit)
			return err == nil
		})
	}
	t.Logf("%d processes serve the starter index after %s", len(c.all())+1, time.Since(began).Round(time.Millisecond))
}

// mend restarts processes that have exited, and waits until all are ready.
func (c *cluster) mend(t testing.TB) {
	t.Helper()
	if !c.store.alive() {
		c.startStore(t)
	}
	for _, n := range c.all() {
		if !n.alive() {
			if err := n.start(); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.ready(t)
}

// startStore starts the event store and waits until it accepts connections.
func (c *cluster) startStore(t testing.TB) {
	t.Helper()
	if err := c.store.start(); err != nil {
		t.Fatal(err)
	}
	until(t, readyWithin, "the event store accepts connections", func() bool {
		conn, err := net.DialTimeout("tcp", c.storeAt, probeWithin)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
}

// ready waits until every node reports that it is ready.
func (c *cluster) ready(t testing.TB) {
	t.Helper()
	for _, n := range c.all() {
		until(t, readyWithin, n.name+" is ready", func() bool { return !n.alive() || n.ready() })
		if !n.alive() {
			t.Fatalf("%s exited", n.name)
		}
	}
}

// extra starts one more node for a test.
func (c *cluster) extra(t testing.TB, name, roles string, env ...string) *node {
	t.Helper()
	n, err := c.newNode(name, roles, env...)
	if err != nil {
		t.Fatal(err)
	}
	c.more = append(c.more, n)
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	until(t, readyWithin, n.name+" is ready", func() bool { return !n.alive() || n.ready() })
	if !n.alive() {
		t.Fatalf("%s exited", n.name)
	}
	return n
}

// drop stops an extra node and removes it from the cluster.
func (c *cluster) drop(t testing.TB, gone *node) {
	t.Helper()
	if gone.alive() {
		if err := gone.stop(); err != nil {
			t.Error(err)
		}
	}
	c.forget(gone)
}

func (c *cluster) forget(gone *node) {
	gone.kill()
	for _, l := range gone.links {
		l.Close()
	}
	var rest []*node
	for _, n := range c.more {
		if n != gone {
			rest = append(rest, n)
		}
	}
	c.more = rest
}

// show prints the logs of all processes during the test if the test fails.
func (c *cluster) show(t testing.TB) {
	processes := []*process{c.store}
	for _, n := range c.all() {
		processes = append(processes, n.process)
	}
	before := map[*process]int64{}
	for _, p := range processes {
		before[p] = p.logSize()
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, n := range c.more {
			if _, known := before[n.process]; !known {
				processes = append(processes, n.process)
			}
		}
		for _, p := range processes {
			state := "running"
			if !p.alive() {
				state = "exited"
			}
			if text := p.output(before[p]); text != "" {
				t.Logf("log of %s (%s):\n%s", p.name, state, text)
			}
		}
	})
}

// end kills all processes and removes the cluster's data from the services. Another test covers graceful stops.
func (c *cluster) end() error {
	for _, n := range c.all() {
		n.kill()
		for _, l := range n.links {
			l.Close()
		}
	}
	c.store.kill()
	return errors.Join(c.sql("DROP SCHEMA "+c.name+" CASCADE"), c.dropIndices(), c.dropTopics())
}

func (c *cluster) dropIndices() error {
	list, err := http.Get(strings.TrimSuffix(c.at.elasticsearch, "/") + "/_cat/indices/" + c.name + "*?h=index&expand_wildcards=all")
	if err != nil {
		return err
	}
	defer list.Body.Close()
	var names []string
	for {
		var name string
		if _, err := fmt.Fscan(list.Body, &name); err != nil {
			break
		}
		names = append(names, name)
	}
	for _, name := range names {
		req, err := http.NewRequest(http.MethodDelete, strings.TrimSuffix(c.at.elasticsearch, "/")+"/"+name, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
	}
	return nil
}
