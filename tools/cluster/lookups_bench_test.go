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

	proc "letterhead/internal/testprocess"
	"letterhead/tools/e2e/program"
)

const (
	// flushTime is the time that the event store takes for a flush. An append takes one to two flushes.
	flushTime = "8ms"
	// lookupAccounts is the number of accounts, which make look-ups concurrently or one after the other.
	lookupAccounts = 300
	// lookupsOfMany is the number of look-ups of all accounts in one measurement.
	lookupsOfMany = 12_000
	// lookupsOfOne is the number of look-ups of one account before the next account continues. It is below the limit
	// per minute. accountsOfOne is the number of such accounts in one measurement.
	lookupsOfOne, accountsOfOne = 2_600, 4
	// lookupBrands is the number of different brands.
	lookupBrands = 200
	// commandsAtOnce is the number of accounts that are created concurrently.
	commandsAtOnce = 8
)

// installation is a small cluster: one process that answers clients, and one with all other roles.
type installation struct {
	*cluster
	name      string
	api, work *node
	signals   map[*node]string // URLs at which nodes serve metrics and profiles
	accounts  []customer
	brands    []string
	fresh     int // index of the first account that no measurement with one account has used
}

// BenchmarkChargedLookups measures charged look-ups of known brands over HTTP, with a real PostgreSQL and an event
// store that takes 8 ms for a flush, for 1 and 300 accounts with 64 and 512 clients. It prints rates, response times,
// and the CPU time of each process per look-up. This includes updating the read models: the benchmark waits until they
// have caught up. If LETTERHEAD_TEST_PREVIOUS names a binary, each load runs on both binaries, one after the other. If
// LETTERHEAD_BENCH_PROFILES names a folder, CPU profiles and metrics of each load are written to it.
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

// install starts an installation of a binary, with accounts that have credits. It is removed after the benchmark.
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

// launch starts a process that connects to the services directly, because links would use CPU time.
func (in *installation) launch(b *testing.B, release, name, roles string) *node {
	b.Helper()
	metrics, err := program.FreeAddress()
	if err != nil {
		b.Fatal(err)
	}
	postgresURL, err := url.Parse(in.at.postgres)
	if err != nil {
		b.Fatal("LETTERHEAD_TEST_POSTGRES is not a URL") // do not print it: it may contain a password
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
		b.Fatalf("%s exited: %s", n.name, n.output(0))
	}
	return n
}

// open creates the accounts.
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

// knownBrands collects brands with a logo, because only their look-ups are charged.
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

// lookupFigures are the results of one load on one installation. CPU times are in milliseconds per look-up.
type lookupFigures struct {
	release                string
	accounts, clients      int
	rate                   float64
	p50, p99               time.Duration
	apiCPU, workCPU        float64
	storeCPU, postgresCPU  float64
	accountAppends, events float64 // appends to account streams per look-up, and events per append
	allAppends             float64
	appendTime, chargeTime float64 // milliseconds per append, and per charge in the account writer
	statements             float64
	inexact                bool // statements is the number of transactions
}

const lookupsHead = "release  accounts clients  look-ups/s    p50 ms   p99 ms | CPU ms each: api   work  both  store   PostgreSQL | ms per charge  append | account appends each  events/append  all appends each  statements each"

func (f lookupFigures) String() string {
	kind := ""
	if f.inexact {
		kind = " (transactions; pg_stat_statements is not loaded)"
	}
	return fmt.Sprintf("%-8s %8d %7d  %10.0f  %8.1f %8.1f | %16.3f  %5.3f %5.3f  %5.3f  %11.3f | %13.1f  %6.1f | %20.3f  %13.1f  %16.3f  %15.2f%s",
		f.release, f.accounts, f.clients, f.rate, float64(f.p50.Microseconds())/1000, float64(f.p99.Microseconds())/1000,
		f.apiCPU, f.workCPU, f.apiCPU+f.workCPU, f.storeCPU, f.postgresCPU, f.chargeTime, f.appendTime, f.accountAppends, f.events, f.allAppends, f.statements, kind)
}

// counts are totals that increase during a load.
type counts struct {
	api, work, store, postgres                time.Duration // CPU time
	accountAppends, accountEvents, allAppends float64
	allAppending, commanding, commands        float64 // seconds in appends and in charges, and the number of charges
	statements                                float64
}

func (in *installation) counts(b *testing.B, server *server) counts {
	b.Helper()
	c := counts{api: cpuOf(b, in.api.process), work: cpuOf(b, in.work.process), store: cpuOf(b, in.store), postgres: server.cpu(b)}
	for _, n := range []*node{in.api, in.work} {
		c.accountAppends += in.metric(b, n, `letterhead_desk_append_seconds_count{desk="account"`)
		c.accountEvents += in.metric(b, n, `letterhead_desk_events_total{desk="account"`)
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

// metric returns the sum of the samples of a node's metrics whose lines have a prefix.
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
			b.Fatal("all accounts have reached their limit per minute: run fewer rounds")
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
	load(0, lookupAccounts) // warm up connections, streams and caches
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
		accountAppends: (after.accountAppends - before.accountAppends) / n,
		events:         (after.accountEvents - before.accountEvents) / max(after.accountAppends-before.accountAppends, 1),
		allAppends:     (after.allAppends - before.allAppends) / n,
		appendTime:     1000 * (after.allAppending - before.allAppending) / max(after.allAppends-before.allAppends, 1),
		chargeTime:     1000 * (after.commanding - before.commanding) / max(after.commands-before.commands, 1),
		statements:     (after.statements - before.statements) / n, inexact: !server.counts,
	}
}

// caughtUp waits until the read models contain all appended events.
func (in *installation) caughtUp(b *testing.B) {
	b.Helper()
	in.api.must(b, "brand", "get", hit)
}

// profile starts CPU profiles of the nodes. The returned function waits for them.
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

// profileSeconds is about the duration of a load.
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

// lookupClient sends look-ups on one connection. It needs less CPU time than the client of net/http, which matters
// because client and server share the machine.
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

// server measures the PostgreSQL server.
type server struct {
	db         *sql.DB
	postmaster int
	counts     bool // pg_stat_statements is loaded
}

func openServer(b *testing.B, c *cluster) *server {
	b.Helper()
	postgresURL, err := url.Parse(c.at.postgres)
	if err != nil {
		b.Fatal("LETTERHEAD_TEST_POSTGRES is not a URL")
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
		b.Skip("PostgreSQL runs on another machine or in another container: cannot measure its CPU time")
	}
	s.postmaster = fields.parent
	_, err = db.Exec("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public; SELECT count(*) FROM public.pg_stat_statements")
	s.counts = err == nil
	return s
}

// statements returns the number of statements that the server has run, or, without pg_stat_statements, the number of
// transactions.
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

// cpu returns the CPU time of all processes of the server, including those that have exited.
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
		if child, err := statOf(id); err == nil && child.parent == s.postmaster { // an error means that the process has just exited
			ticks += child.own
		}
	}
	return time.Duration(ticks) * time.Second / 100 // USER_HZ
}

// stat contains values of /proc/PID/stat.
type stat struct {
	name        string
	parent      int
	own, waited int // CPU time of the process, and of its children that have exited
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
