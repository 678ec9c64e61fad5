//go:build services && linux

package cluster

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/e2e/program"
	proc "letterhead/internal/process"
)

const (
	// flushTime is how long the event store takes for a flush: an append takes once to twice as long.
	flushTime = "8ms"
	// lookupAccounts share the look-ups, or take them one after the other.
	lookupAccounts = 300
	// lookupsOfMany is how many look-ups the accounts share in one measurement.
	lookupsOfMany = 12_000
	// lookupsOfOne is how many look-ups one account takes before the next one does, less than its minute allows;
	// accountsOfOne is how many do in one measurement.
	lookupsOfOne, accountsOfOne = 2_600, 4
	// lookupBrands is how many brands are looked up.
	lookupBrands = 200
	// commandsAtOnce is how many accounts are made at the same time.
	commandsAtOnce = 8
)

// installation is a small real one: a process that answers clients, and one for everything else.
type installation struct {
	*cluster
	name      string
	api, work *node
	signals   map[*node]string // where a node serves metrics and profiles
	accounts  []customer
	brands    []string
	fresh     int // the first account that no load of one account has used
}

// BenchmarkChargedLookups measures charged look-ups of known brands over HTTP, with a real PostgreSQL and an event
// store that takes 8 ms for a flush, of one account and of 300, with 64 and with 512 clients. It prints rates, times,
// and the CPU time of each process per look-up, the read models' part included: it waits until they have caught up.
// LETTERHEAD_TEST_PREVIOUS may name a binary to compare with; each load then runs on both, one after the other.
// LETTERHEAD_BENCH_PROFILES may name a folder for CPU profiles and metrics of each load.
func BenchmarkChargedLookups(b *testing.B) {
	at := servicesOf(b)
	releases := []struct{ name, binary string }{{"this", binary}}
	if previous := os.Getenv("LETTERHEAD_TEST_PREVIOUS"); previous != "" {
		releases = slices.Insert(releases, 0, struct{ name, binary string }{"before", previous})
	}
	var all []*installation
	for _, r := range releases {
		all = append(all, install(b, at, r.name, r.binary))
	}
	server := openServer(b, all[0].cluster)
	fmt.Println(lookupsHead)
	b.ResetTimer()
	for range b.N {
		for _, load := range []struct{ accounts, clients int }{{1, 64}, {lookupAccounts, 64}, {1, 512}, {lookupAccounts, 512}} {
			for _, in := range all {
				f := in.measure(b, server, load.accounts, load.clients)
				fmt.Println(f)
				if in == all[len(all)-1] {
					name := fmt.Sprintf("%d-accounts-%d-clients", load.accounts, load.clients)
					b.ReportMetric(f.rate, "lookups/s-"+name)
					b.ReportMetric(f.apiCPU+f.workCPU, "cpu-ms/lookup-"+name)
				}
			}
		}
	}
	b.StopTimer()
	for _, in := range all {
		in.verifiedOn(b, in.api)
	}
}

// install starts an installation of a binary, with accounts that have credits. It ends with the benchmark.
func install(b *testing.B, at addresses, name, release string) *installation {
	b.Helper()
	c, err := newServices("lh"+random(), at)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.end(); err != nil {
			b.Error(err)
		}
	})
	c.store.args = append(c.store.args, "--flush-time", flushTime)
	c.show(b)
	c.startStore(b)
	in := &installation{cluster: c, name: name, signals: map[*node]string{}}
	in.work = in.launch(b, release, "work", "crawler,projector,relay,sweeper,refresher")
	in.api = in.launch(b, release, "api", "api")
	until(b, readyWithin, "the starter index is served", func() bool {
		_, err := in.api.letterhead("brand", "get", hit)
		return err == nil
	})
	in.open(b)
	in.knownBrands(b)
	return in
}

// launch starts a process without links between it and the services: they would take time of the processor.
func (in *installation) launch(b *testing.B, release, name, roles string) *node {
	b.Helper()
	metrics, err := program.FreeAddress()
	if err != nil {
		b.Fatal(err)
	}
	postgresURL, err := url.Parse(in.at.postgres)
	if err != nil {
		b.Fatal("LETTERHEAD_TEST_POSTGRES is no URL") // it may hold a password
	}
	n, err := in.newNode(name, roles,
		"LETTERHEAD_EVENTSTORE=esdb://"+in.storeAt+"?tls=false",
		"LETTERHEAD_DATABASE="+in.databaseURL(postgresURL, ""),
		"LETTERHEAD_METRICS_LISTEN="+metrics, "LETTERHEAD_PPROF=on")
	if err != nil {
		b.Fatal(err)
	}
	n.release = release
	in.signals[n] = "http://" + metrics
	in.more = append(in.more, n)
	if err := n.start(); err != nil {
		b.Fatal(err)
	}
	until(b, readyWithin, n.name+" is ready", func() bool { return !n.alive() || n.ready() })
	if !n.alive() {
		b.Fatalf("%s has ended: %s", n.name, n.said(0))
	}
	return n
}

// open makes the accounts.
func (in *installation) open(b *testing.B) {
	b.Helper()
	in.accounts = make([]customer, lookupAccounts)
	var next atomic.Int64
	var running sync.WaitGroup
	for range commandsAtOnce {
		running.Go(func() {
			for i := next.Add(1) - 1; i < lookupAccounts && !b.Failed(); i = next.Add(1) - 1 {
				in.accounts[i] = in.api.open(b, "custom", 1_000_000)
			}
		})
	}
	running.Wait()
}

// knownBrands takes brands with a logo, whose look-ups are charged.
func (in *installation) knownBrands(b *testing.B) {
	b.Helper()
	for text := range strings.Lines(in.api.must(b, "brand", "list", "--json")) {
		var row struct {
			Domain  string
			HasLogo bool `json:"has_logo"`
		}
		decode(b, text, &row)
		if row.HasLogo && len(in.brands) < lookupBrands {
			in.brands = append(in.brands, row.Domain)
		}
	}
}

// figures of one load on one installation; times are of the processor, in milliseconds for each look-up.
type lookupFigures struct {
	release                string
	accounts, clients      int
	rate                   float64
	p50, p99               time.Duration
	apiCPU, workCPU        float64
	storeCPU, postgresCPU  float64
	deskAppends, events    float64 // appends of account streams, and the events of each
	allAppends             float64
	appendTime, chargeTime float64 // milliseconds that an append takes, and a charge at the desk
	statements             float64
	inexact                bool // transactions were counted instead
}

const lookupsHead = "release  accounts clients  look-ups/s    p50 ms   p99 ms | CPU ms each: api   work  both  store   PostgreSQL | ms a charge  an append | desk appends each  events an append  all appends each  statements each"

func (f lookupFigures) String() string {
	kind := ""
	if f.inexact {
		kind = " (transactions; pg_stat_statements is not loaded)"
	}
	return fmt.Sprintf("%-8s %8d %7d  %10.0f  %8.1f %8.1f | %16.3f  %5.3f %5.3f  %5.3f  %11.3f | %11.1f  %9.1f | %17.3f  %16.1f  %16.3f  %15.2f%s",
		f.release, f.accounts, f.clients, f.rate, float64(f.p50.Microseconds())/1000, float64(f.p99.Microseconds())/1000,
		f.apiCPU, f.workCPU, f.apiCPU+f.workCPU, f.storeCPU, f.postgresCPU, f.chargeTime, f.appendTime, f.deskAppends, f.events, f.allAppends, f.statements, kind)
}

// counts are what grows while a load runs.
type counts struct {
	api, work, store, postgres          time.Duration // of the processor
	deskAppends, deskEvents, allAppends float64
	allAppending, commanding, commands  float64 // seconds in appends and in charges, and how many charges
	statements                          float64
}

func (in *installation) counts(b *testing.B, server *server) counts {
	b.Helper()
	c := counts{api: cpuOf(b, in.api.process), work: cpuOf(b, in.work.process), store: cpuOf(b, in.store), postgres: server.cpu(b)}
	for _, n := range []*node{in.api, in.work} {
		c.deskAppends += in.metric(b, n, `letterhead_desk_append_seconds_count{desk="account"`)
		c.deskEvents += in.metric(b, n, `letterhead_desk_events_total{desk="account"`)
		c.allAppending += in.metric(b, n, "letterhead_eventlog_append_duration_seconds_sum")
		c.commanding += in.metric(b, n, `letterhead_desk_command_seconds_sum{desk="account"`)
		c.commands += in.metric(b, n, `letterhead_desk_command_seconds_count{desk="account"`)
		c.allAppends += in.metric(b, n, "letterhead_eventlog_append_duration_seconds_count")
	}
	c.statements = server.statements(b)
	return c
}

func cpuOf(b *testing.B, p *process) time.Duration {
	b.Helper()
	cmd, _ := p.life()
	spent, err := proc.ID(cmd.Process.Pid).CPUTime()
	if err != nil {
		b.Fatal(err)
	}
	return spent
}

// metric adds up the samples of a node's metrics whose line begins like this.
func (in *installation) metric(b *testing.B, n *node, begins string) float64 {
	b.Helper()
	sum, _ := metricAt(in.signals[n]+"/metrics", begins)
	return sum
}

// measure loads an installation with charged look-ups.
func (in *installation) measure(b *testing.B, server *server, accounts, clients int) lookupFigures {
	b.Helper()
	total, accountOf := lookupsOfMany, func(i int) customer { return in.accounts[i%lookupAccounts] }
	if accounts == 1 {
		if in.fresh+accountsOfOne > len(in.accounts) {
			b.Fatal("no account is left that was not used up in this minute: run fewer rounds")
		}
		turn := in.accounts[in.fresh : in.fresh+accountsOfOne]
		in.fresh += accountsOfOne
		total, accountOf = lookupsOfOne*accountsOfOne, func(i int) customer { return turn[i/lookupsOfOne] }
	}
	host := strings.TrimPrefix(in.api.url, "http://")
	callers := make([]*lookupClient, clients)
	for i := range callers {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		callers[i] = &lookupClient{conn: conn, reader: bufio.NewReaderSize(conn, 16<<10), host: host}
	}
	load := func(from, to int) (took [][]time.Duration) {
		took = make([][]time.Duration, clients)
		var next atomic.Int64
		next.Store(int64(from))
		atOnce(clients, func(client int) {
			for i := int(next.Add(1) - 1); i < to; i = int(next.Add(1) - 1) {
				began := time.Now()
				if err := callers[client].lookup(in.brands[i%len(in.brands)], accountOf(i).secret); err != nil {
					b.Error(err)
					return
				}
				took[client] = append(took[client], time.Since(began))
			}
		})
		return took
	}
	load(0, lookupAccounts) // connections, streams, caches
	in.caughtUp(b)
	before := in.counts(b, server)
	profiled := in.profile(b, fmt.Sprintf("%s-%d-%d", in.name, accounts, clients))
	began := time.Now()
	waits := slices.Concat(load(lookupAccounts, total)...)
	lasted := time.Since(began)
	in.caughtUp(b)
	profiled()
	if b.Failed() {
		b.FailNow()
	}
	after := in.counts(b, server)
	slices.Sort(waits)
	n := float64(len(waits))
	each := func(before, after time.Duration) float64 { return float64((after - before).Microseconds()) / 1000 / n }
	return lookupFigures{
		release: in.name, accounts: accounts, clients: clients, rate: n / lasted.Seconds(),
		p50: waits[len(waits)/2], p99: waits[len(waits)*99/100],
		apiCPU: each(before.api, after.api), workCPU: each(before.work, after.work),
		storeCPU: each(before.store, after.store), postgresCPU: each(before.postgres, after.postgres),
		deskAppends: (after.deskAppends - before.deskAppends) / n,
		events:      (after.deskEvents - before.deskEvents) / max(after.deskAppends-before.deskAppends, 1),
		allAppends:  (after.allAppends - before.allAppends) / n,
		appendTime:  1000 * (after.allAppending - before.allAppending) / max(after.allAppends-before.allAppends, 1),
		chargeTime:  1000 * (after.commanding - before.commanding) / max(after.commands-before.commands, 1),
		statements:  (after.statements - before.statements) / n, inexact: !server.counts,
	}
}

// caughtUp waits until the read models have what was appended.
func (in *installation) caughtUp(b *testing.B) {
	b.Helper()
	in.api.must(b, "brand", "get", hit)
}

// profile begins CPU profiles of the nodes. The returned function ends them.
func (in *installation) profile(b *testing.B, name string) (end func()) {
	folder := os.Getenv("LETTERHEAD_BENCH_PROFILES")
	if folder == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, n := range []*node{in.api, in.work} {
		running.Go(func() {
			file := filepath.Join(folder, name+"-"+n.roles[:3])
			profile := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", in.signals[n], profileSeconds)
			if err := errors.Join(save(ctx, profile, file+".pprof"), save(ctx, in.signals[n]+"/metrics", file+".metrics")); err != nil {
				b.Error(err)
			}
		})
	}
	return func() { running.Wait(); cancel() }
}

// profileSeconds is about as long as a load.
const profileSeconds = 4

func save(ctx context.Context, from, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// lookupClient asks on one connection, at less cost than net/http's client: both share the processors.
type lookupClient struct {
	conn   net.Conn
	reader *bufio.Reader
	host   string
	out    []byte
}

func (c *lookupClient) lookup(domain, key string) error {
	c.out = fmt.Appendf(c.out[:0], "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", lookup(domain), c.host, key)
	if err := c.conn.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("look-up of %s: %s", domain, resp.Status)
	}
	return nil
}

// server is the PostgreSQL server, as far as it is measured.
type server struct {
	db         *sql.DB
	postmaster int
	counts     bool // whether it counts statements
}

func openServer(b *testing.B, c *cluster) *server {
	b.Helper()
	postgresURL, err := url.Parse(c.at.postgres)
	if err != nil {
		b.Fatal("LETTERHEAD_TEST_POSTGRES is no URL")
	}
	db, err := sql.Open("pgx", c.databaseURL(postgresURL, ""))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	s := &server{db: db}
	var backend int
	if err := db.QueryRow("SELECT pg_backend_pid()").Scan(&backend); err != nil {
		b.Fatal(err)
	}
	fields, err := statOf(backend)
	if err != nil || fields.name != "postgres" {
		b.Skip("PostgreSQL runs on another machine or in another container: its processor time cannot be seen")
	}
	s.postmaster = fields.parent
	_, err = db.Exec("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public; SELECT count(*) FROM public.pg_stat_statements")
	s.counts = err == nil
	return s
}

// statements is how many the server has run; without pg_stat_statements, how many transactions have ended.
func (s *server) statements(b *testing.B) (n float64) {
	b.Helper()
	query := "SELECT sum(calls) FROM public.pg_stat_statements"
	if !s.counts {
		query = "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database"
	}
	if err := s.db.QueryRow(query).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

// cpu is the processor time of all processes of the server, also of those that have ended.
func (s *server) cpu(b *testing.B) time.Duration {
	b.Helper()
	main, err := statOf(s.postmaster)
	if err != nil {
		b.Fatal(err)
	}
	ticks := main.own + main.waited
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range processes {
		var id int
		if _, err := fmt.Sscanf(filepath.Base(path), "%d", &id); err != nil {
			continue
		}
		if child, err := statOf(id); err == nil && child.parent == s.postmaster { // else it has just ended
			ticks += child.own
		}
	}
	return time.Duration(ticks) * time.Second / 100 // USER_HZ
}

// stat is what /proc/PID/stat says.
type stat struct {
	name        string
	parent      int
	own, waited int // processor time of the process, and of its children that have ended
}

func statOf(id int) (s stat, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return s, err
	}
	before, after, _ := strings.Cut(string(text), ") ")
	_, s.name, _ = strings.Cut(before, "(")
	var state string
	var skip, user, system, childUser, childSystem int
	_, err = fmt.Sscan(after, &state, &s.parent, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip,
		&user, &system, &childUser, &childSystem)
	s.own, s.waited = user+system, childUser+childSystem
	return s, err
}
