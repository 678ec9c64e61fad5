package readapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"letterhead/readapi"
)

// bounded is a server with few connections, in a bubble.
type bounded struct {
	pipes    *pipes
	listener *readapi.Listener
	finish   chan struct{} // of requests to /slow
	server   *http.Server
	served   chan error
}

func serveBounded(limit int, proxies []netip.Prefix, logger *slog.Logger) *bounded {
	b := &bounded{pipes: newPipes(), finish: make(chan struct{}), served: make(chan error, 1)}
	b.server = readapi.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-b.finish
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	}))
	b.listener = readapi.NewSmallListener(b.pipes, limit, proxies, logger)
	go func() { b.served <- b.server.Serve(b.listener) }()
	return b
}

func (b *bounded) close() {
	close(b.finish)
	b.server.Close()
	<-b.served
	synctest.Wait()
}

// metric returns the value of a counter of the listener with one label.
func (b *bounded) metric(name, label string) (value float64) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(b.listener.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && m.GetLabel()[0].GetValue() == label {
				value = m.GetCounter().GetValue()
			}
		}
	}
	return value
}

// held is a connection that a client keeps open.
type held struct {
	conn    net.Conn
	end     *pipe // the server's
	address string
	kind    string
	since   time.Time // when it last began to wait or to be served
}

// Kinds of connections by what the client sends: "stalled" does not read its answer.
var kinds = map[string]string{
	"silent":  "",
	"idle":    "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"body":    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
	"stalled": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"busy":    "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n",
}

// hold connects from an address, after a millisecond, and sends the bytes of its kind.
func (b *bounded) hold(address, kind string) *held {
	time.Sleep(time.Millisecond)
	conn, end, err := b.pipes.dialFrom(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 1)))
	if err != nil {
		panic(err)
	}
	synctest.Wait()
	h := &held{conn, end, address, kind, time.Now()}
	if kind != "stalled" {
		go io.Copy(io.Discard, conn)
	}
	h.send()
	return h
}

// send sends the bytes of the connection's kind, which fails if it was refused.
func (h *held) send() {
	h.since = time.Now()
	_, _ = io.WriteString(h.conn, kinds[h.kind])
	synctest.Wait()
}

func (h *held) open() bool { return !h.end.ended.Load() }

// victim implements the rule: the longest waiting connection of the client with the most waiting ones;
// for a client with more connections than that one, only if it has waited for WaitGrace. Each connection
// of a proxy is its own client.
func victim(all []*held, isProxy func(*held) bool, has int) *held {
	var best *held
	most := 0
	for _, h := range all {
		if h.kind == "busy" || h.kind == "stalled" && time.Since(h.since) < readapi.StalledWrite {
			continue
		}
		waits, open := 0, 0
		for _, other := range all {
			if other != h && (other.address != h.address || isProxy(h)) {
				continue
			}
			open++
			if other.kind != "busy" {
				waits++
			}
		}
		if open < has && time.Since(h.since) < readapi.WaitGrace {
			continue
		}
		if waits > most || waits == most && h.since.Before(best.since) {
			best, most = h, waits
		}
	}
	return best
}

// undated hides the test's deadline, which a bubble does not have, from rapid.
type undated struct{ *testing.T }

// TestConnections_AnySequence_EvictsLongestWaitingOfBusiestClient compares the connections that a
// server closes with the rule.
func TestConnections_AnySequence_EvictsLongestWaitingOfBusiestClient(t *testing.T) {
	t.Parallel()
	const limit, byAddress = 12, 3
	addresses := []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "198.51.100.1", "2001:db8::1", "10.0.0.1"}
	isProxy := func(h *held) bool { return strings.HasPrefix(h.address, "10.") }
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(undated{t}, func(r *rapid.T) {
			b := serveBounded(limit, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, slog.New(slog.DiscardHandler))
			defer b.close()
			var all []*held
			steps := rapid.IntRange(1, 60).Draw(r, "steps")
			pause := rapid.IntRange(0, steps).Draw(r, "a pause before step")
			for step := range steps {
				if step == pause {
					time.Sleep(readapi.StalledWrite)
				}
				if i := rapid.IntRange(-5, len(all)-1).Draw(r, "asks again"); i >= 0 && all[i].kind == "idle" {
					time.Sleep(time.Millisecond)
					all[i].send()
					continue
				}
				address := rapid.SampledFrom(addresses).Draw(r, "address")
				kind := rapid.SampledFrom([]string{"silent", "idle", "body", "stalled", "busy"}).Draw(r, "kind")
				added := &held{address: address}
				// The connection is made after a millisecond.
				time.Sleep(time.Millisecond)
				of := slices.DeleteFunc(slices.Clone(all), func(h *held) bool { return h.address != address })
				var out *held
				refused := false
				has := len(of)
				if isProxy(added) {
					has = 0
				}
				switch {
				case has >= byAddress:
					out = victim(of, isProxy, has)
					refused = out == nil
				case len(all) >= limit:
					out = victim(all, isProxy, has)
					refused = out == nil
				}
				if refused && kind == "stalled" {
					// The server would wait for the end of lingerWithin, and later steps for BodyStartWithin.
					kind = "idle"
				}
				h := b.hold(address, kind)
				if refused == h.open() {
					r.Fatalf("step %d: connection from %s rejected: %t, want %t", step, address, !h.open(), refused)
				}
				if !refused {
					all = append(all, h)
				}
				all = slices.DeleteFunc(all, func(h *held) bool {
					if h.open() == (h == out) {
						r.Fatalf("step %d: the connection of %s, %s since %s, is open: %t", step, h.address, h.kind, h.since, h.open())
					}
					return h == out
				})
			}
		})
	})
}

// A client whose requests are all being processed closes no connection of another client that has just
// connected and whose request may be in transit.
func TestConnections_BusyClientConnectsAgain_ClosesNoFreshConnection(t *testing.T) {
	t.Parallel()
	const limit, byAddress = 12, 3
	synctest.Test(t, func(t *testing.T) {
		b := serveBounded(limit, nil, slog.New(slog.DiscardHandler))
		defer b.close()
		for i := range limit - 1 {
			b.hold(fmt.Sprintf("192.0.2.%d", 1+i/byAddress), "busy")
		}
		fresh := b.hold("198.51.100.1", "silent")
		const attacker = "192.0.2.4" // with two connections
		if again := b.hold(attacker, "busy"); again.open() || !fresh.open() {
			t.Errorf("the busy client's next connection is open: %t, the fresh connection: %t; want only the fresh one", again.open(), fresh.open())
		}
		time.Sleep(readapi.WaitGrace)
		if again := b.hold(attacker, "busy"); !again.open() || fresh.open() {
			t.Errorf("after %v, the busy client's next connection is open: %t, the silent connection: %t; want only the busy client's", readapi.WaitGrace, again.open(), fresh.open())
		}
	})
}

// An attacker whose connections are younger than those of many honest clients, and which a scan of the
// oldest would not reach, is evicted first.
func TestConnections_AttackerAmongIdleClients_IsEvictedFirst(t *testing.T) {
	t.Parallel()
	const limit, reserve, honest, newClients = 1632, 32, 1500, 90
	synctest.Test(t, func(t *testing.T) {
		b := serveBounded(limit, nil, slog.New(slog.DiscardHandler))
		defer b.close()
		var idle, attackers []*held
		for i := range honest {
			idle = append(idle, b.hold(fmt.Sprintf("198.18.%d.%d", i/256, i%256), "idle"))
		}
		for range limit - reserve - honest {
			attackers = append(attackers, b.hold("192.0.2.66", "body"))
		}
		for i := range newClients {
			if h := b.hold(fmt.Sprintf("198.19.0.%d", i), "idle"); !h.open() {
				t.Fatal("a new client was rejected")
			}
		}
		closed := func(all []*held) (n int) {
			for _, h := range all {
				if !h.open() {
					n++
				}
			}
			return n
		}
		if got := closed(idle); got != 0 {
			t.Errorf("%d idle connections of clients with one each were closed, want 0", got)
		}
		if got := closed(attackers); got != newClients {
			t.Errorf("%d of the attacker's connections were closed, want %d", got, newClients)
		}
	})
}

func TestConnections_AddressAtItsLimit_IsLoggedOnceAMinuteAndCounted(t *testing.T) {
	t.Parallel()
	const limit, byAddress = 12, 3
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := serveBounded(limit, nil, slog.New(slog.NewJSONHandler(&log, nil)))
		defer b.close()
		// line returns the only log line since the last call.
		line := func() (line struct {
			Level, Address, Hint  string
			Most, Refused, Closed int
		}) {
			t.Helper()
			text := log.String()
			log.Reset()
			if strings.Count(text, "\n") > 1 {
				t.Errorf("more than one line was logged:\n%s", text)
			}
			if text != "" {
				if err := json.Unmarshal([]byte(text), &line); err != nil {
					t.Fatal(err)
				}
			}
			return line
		}
		for range byAddress {
			b.hold("2001:db8::1", "busy")
		}
		if got := line(); got.Address != "" {
			t.Errorf("logged before the limit was reached: %+v", got)
		}
		for range 5 {
			if b.hold("2001:db8::2", "busy").open() {
				t.Error("a connection past the limit was not rejected")
			}
		}
		got := line()
		if got.Level != "WARN" || got.Address != "2001:db8::/64" || got.Most != byAddress || got.Refused != 1 || got.Closed != 0 || !strings.Contains(got.Hint, "LETTERHEAD_TRUSTED_PROXIES") {
			t.Errorf("the first rejection: %+v", got)
		}
		time.Sleep(readapi.BoundLogEvery - time.Second)
		for range byAddress + 2 {
			if !b.hold("192.0.2.1", "idle").open() {
				t.Error("a connection was rejected although others of its address are idle")
			}
		}
		if got := line(); got.Address != "" {
			t.Errorf("logged again within the minute: %+v", got)
		}
		time.Sleep(time.Second)
		b.hold("192.0.2.1", "idle")
		if got := line(); got.Address != "192.0.2.1/32" || got.Refused != 4 || got.Closed != 3 {
			t.Errorf("after the minute: %+v", got)
		}
		if refused, closed := b.metric("letterhead_http_connections_refused_total", "address"), b.metric("letterhead_http_connections_evicted_total", "request"); refused != 5 || closed != 3 {
			t.Errorf("%v rejected, %v closed; want 5 and 3", refused, closed)
		}
	})
}
