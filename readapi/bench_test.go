package readapi_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/ratelimit"
	"letterhead/internal/testmust"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

const (
	benchConnections = 64
	// benchRound is the number of look-ups that are sent before switching to the other variant, so
	// that both run under the same conditions.
	benchRound = 2048
)

// BenchmarkLookupHit measures a metered, durable look-up of a known brand (6 KiB) over HTTP with 64
// connections, and for comparison the same service without the charge: everything else (key, limits,
// reservation, index, headers, body) is the same. One iteration is a round of each, so that both run
// under the same conditions. The clients share its processors.
func BenchmarkLookupHit(b *testing.B) {
	for _, accounts := range []int{1, 1000} {
		b.Run(fmt.Sprintf("accounts=%d", accounts), func(b *testing.B) {
			metered, unmetered := lookupServices(b, accounts)
			for b.Loop() {
				metered.send(benchRound)
				unmetered.send(benchRound)
			}
			b.ReportMetric(metered.rate(), "metered-req/s")
			b.ReportMetric(unmetered.rate(), "unmetered-req/s")
			b.ReportMetric(metered.rate()/unmetered.rate(), "ratio")
			b.ReportMetric(metered.percentile(0.50), "p50-ms")
			b.ReportMetric(metered.percentile(0.99), "p99-ms")
			b.ReportMetric(unmetered.percentile(0.50), "unmetered-p50-ms")
			b.ReportMetric(unmetered.percentile(0.99), "unmetered-p99-ms")
		})
	}
}

// BenchmarkLookupGarbage counts what one charged, durable look-up allocates over HTTP with 300 accounts and 64
// connections: the whole process, without the folding of read models. The clients allocate next to nothing.
func BenchmarkLookupGarbage(b *testing.B) {
	s, config, deps, requests := benchService(b, 300)
	m := openServer(b, s, config, deps, readapi.NewPlainListener, requests)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		m.send(benchRound)
	}
	runtime.ReadMemStats(&after)
	lookups := float64(len(m.latencies))
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/lookups, "allocs/look-up")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/lookups, "B/look-up")
	b.ReportMetric(m.rate(), "look-ups/s")
}

// BenchmarkLogoHit measures a cached logo over HTTP with 64 connections: with a key, each taken from
// the account's allowance, and without one, as a trusted proxy sends them for many visitors. One
// iteration is a round of each. The clients share the processors.
func BenchmarkLogoHit(b *testing.B) {
	const path = "/logo/drawn.com?size=64&format=webp"
	for _, accounts := range []int{1, 1000} {
		b.Run(fmt.Sprintf("accounts=%d", accounts), func(b *testing.B) {
			s, config, deps, keys := benchService(b, accounts)
			config.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			s.known("drawn.com", s.withLogo("drawn", "svg", []byte(inkedSVG)))
			s.catchUp()
			for i, request := range keys {
				keys[i] = bytes.Replace(request, []byte("/v1/brands/acme.com"), []byte(path), 1)
			}
			visitors := make([][]byte, 1000)
			for i := range visitors {
				visitors[i] = fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: brands.example.com\r\nX-Forwarded-For: 198.51.%d.%d\r\n\r\n", path, i/250, i%250)
			}
			keyed := openServer(b, s, config, deps, readapi.NewPlainListener, keys)
			keyless := openServer(b, s, config, deps, readapi.NewPlainListener, visitors)
			for b.Loop() {
				keyed.send(benchRound)
				keyless.send(benchRound)
			}
			for name, m := range map[string]*bench{"keyed": keyed, "keyless": keyless} {
				b.ReportMetric(m.rate(), name+"-req/s")
				b.ReportMetric(m.percentile(0.50), name+"-p50-ms")
				b.ReportMetric(m.percentile(0.99), name+"-p99-ms")
			}
		})
	}
}

// generous counts like the real counters, with limits that a benchmark does not reach.
type generous struct{ ratelimit.Counters }

func (g generous) Take(ctx context.Context, key ratelimit.Key, units, limit int64) (ratelimit.Decision, error) {
	return g.Counters.Take(ctx, key, units, limit<<30)
}

// chargeless is the account writer without its charge.
type chargeless struct{ lookup.Credits }

func (d chargeless) ChargeLookup(_ context.Context, in commands.ChargeLookup) (commands.Receipt, error) {
	in.Reservation.Drop()
	return commands.Receipt{Credits: 1, Balance: 1, Remaining: 1}, nil
}

// bench is a service with clients.
type bench struct {
	b         *testing.B
	clients   []*benchClient
	latencies []time.Duration
	took      time.Duration
}

// BenchmarkOneWrite measures the gain of sending an answer in one write: the look-up without its
// charge over our listener, and over a plain one.
func BenchmarkOneWrite(b *testing.B) {
	s, config, deps, requests := benchService(b, 1)
	deps.Credits = chargeless{deps.Credits}
	one := openServer(b, s, config, deps, readapi.NewPlainListener, requests)
	several := openServer(b, s, config, deps, func(l net.Listener) net.Listener { return l }, requests)
	for b.Loop() {
		one.send(benchRound)
		several.send(benchRound)
	}
	b.ReportMetric(one.rate(), "one-write-req/s")
	b.ReportMetric(several.rate(), "plain-req/s")
	b.ReportMetric(one.rate()/several.rate(), "ratio")
}

// lookupServices returns two servers of one service: the real one, and one without the charge.
func lookupServices(b *testing.B, accounts int) (metered, unmetered *bench) {
	b.Helper()
	s, config, deps, requests := benchService(b, accounts)
	metered = openServer(b, s, config, deps, readapi.NewPlainListener, requests)
	deps.Credits = chargeless{deps.Credits}
	return metered, openServer(b, s, config, deps, readapi.NewPlainListener, requests)
}

// benchService returns a service with a brand, and with accounts and a request for each.
func benchService(b *testing.B, accounts int) (*service, readapi.Config, readapi.Deps, [][]byte) {
	b.Helper()
	s := start(b, func(set *setup) {
		set.deps = func(d *readapi.Deps) { d.Counters = generous{d.Counters} }
	})
	config := s.config
	config.Logger = slog.New(slog.DiscardHandler)
	s.known("acme.com", largeRecord())
	requests := make([][]byte, accounts)
	for i := range requests {
		key := s.bareAccount(1_000_000_000)
		requests[i] = []byte("GET /v1/brands/acme.com HTTP/1.1\r\nHost: brands.example.com\r\nAuthorization: Bearer " + key + "\r\n\r\n")
	}
	s.catchUp()
	return s, config, s.deps, requests
}

// openServer serves an API on its own port and connects clients; connections, caches and accounts are
// warm when it returns.
func openServer(b *testing.B, s *service, config readapi.Config, deps readapi.Deps, wrap func(net.Listener) net.Listener, requests [][]byte) *bench {
	b.Helper()
	config.Registerer = prometheus.NewRegistry()
	var err error
	if s.api, err = readapi.New(config, deps); err != nil {
		b.Fatal(err)
	}
	s.serve(b, wrap)
	m := connect(b, s.url, requests)
	m.send(max(2*len(requests), benchRound))
	m.latencies, m.took = nil, 0
	return m
}

func connect(b *testing.B, url string, requests [][]byte) *bench {
	b.Helper()
	m := &bench{b: b}
	for i := range benchConnections {
		conn := testmust.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(b)
		b.Cleanup(func() { conn.Close() })
		m.clients = append(m.clients, &benchClient{conn: conn, in: bufio.NewReaderSize(conn, 32<<10), requests: requests, next: i * 131})
	}
	return m
}

// bareAccount opens an account with one secret key, without waiting until the key is valid everywhere.
func (s *service) bareAccount(credits int64) (key string) {
	s.t.Helper()
	id, ctx := uuid.NewString(), s.t.Context()
	key, parsed := newKey(s.t, apikey.Secret)
	_, err := s.writer.OpenAccount(ctx, commands.OpenAccount{Request: operator(), AccountID: id, Holder: uuid.NewString(), Plan: plan.Custom})
	s.must(err)
	_, err = s.writer.GrantCredits(ctx, commands.GrantCredits{Request: operator(), AccountID: id, Kind: account.KindTopup, Credits: credits, PaymentID: uuid.NewString()})
	s.must(err)
	_, err = s.writer.IssueKey(ctx, commands.IssueKey{Request: operator(), AccountID: id, KeyID: uuid.NewString(), Key: parsed})
	s.must(err)
	return key
}

// largeRecord returns a record whose answer has about 6 KiB, the size of a crawled brand with its formats.
func largeRecord() eventschemas.Record {
	r := record("acme")
	for range 3 {
		r.Logos = append(r.Logos, eventschemas.Logo{Type: "icon", Formats: append(slices.Clone(r.Logos[0].Formats), r.Logos[0].Formats...), Tags: []string{}})
	}
	return r
}

// send sends n look-ups over all connections and waits for their answers.
func (m *bench) send(n int) {
	began := time.Now()
	var all sync.WaitGroup
	for i, c := range m.clients {
		share := n / len(m.clients)
		if i < n%len(m.clients) {
			share++
		}
		all.Go(func() {
			c.latencies = c.latencies[:0]
			for range share {
				if err := c.lookup(); err != nil {
					m.b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	m.took += time.Since(began)
	for _, c := range m.clients {
		m.latencies = append(m.latencies, c.latencies...)
	}
}

func (m *bench) rate() float64 { return float64(len(m.latencies)) / m.took.Seconds() }

func (m *bench) percentile(p float64) float64 {
	slices.Sort(m.latencies)
	return float64(m.latencies[int(p*float64(len(m.latencies)-1))]) / float64(time.Millisecond)
}

// benchClient is a connection with minimal cost, because it shares the processors with the measured service.
type benchClient struct {
	conn      net.Conn
	in        *bufio.Reader
	requests  [][]byte
	next      int
	latencies []time.Duration
}

func (c *benchClient) lookup() error {
	began := time.Now()
	c.next++
	if _, err := c.conn.Write(c.requests[c.next%len(c.requests)]); err != nil {
		return err
	}
	length, first := 0, true
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first {
			if first = false; !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
				return fmt.Errorf("answered %s", line)
			}
		}
		if len(line) == 2 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if _, err := c.in.Discard(length); err != nil {
		return err
	}
	c.latencies = append(c.latencies, time.Since(began))
	return nil
}
