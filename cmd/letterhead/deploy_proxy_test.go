package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"letterhead/internal/testwait"
)

// proxyTimeout bounds how long a test waits for the proxy.
const proxyTimeout = 30 * time.Second

// proxied is HAProxy with deploy/haproxy/haproxy.cfg before three nodes that say their name.
type proxied struct {
	url   string
	nodes []*httptest.Server
	asked atomic.Pointer[http.Header] // of the last request that reached a node
}

func newProxied(t *testing.T) *proxied {
	t.Helper()
	return newProxiedWith(t)
}

// newProxiedWith changes lines of the configuration: what is there, and what is to be there, in turn.
func newProxiedWith(t *testing.T, changes ...string) *proxied {
	t.Helper()
	haproxy(t)
	p := &proxied{}
	servers := ""
	for _, name := range []string{"a", "b", "c"} {
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				p.asked.Store(&r.Header)
			}
			fmt.Fprint(w, name)
		}))
		t.Cleanup(node.Close)
		p.nodes = append(p.nodes, node)
		servers += fmt.Sprintf("    server %s %s\n", name, node.Listener.Addr())
	}
	p.url = startProxy(t, adaptProxy(t, servers, changes))
	return p
}

func haproxy(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("haproxy is not installed: the proxy's configuration was not run")
	}
	return program
}

// startProxy starts HAProxy with a configuration that listens at descriptor 3, and returns its URL.
func startProxy(t *testing.T, config string) string {
	t.Helper()
	program := haproxy(t)
	// The port is opened here and handed over, so that nobody can take it between.
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	handle, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	command := exec.Command(program, "-db", "-f", file)
	command.ExtraFiles = []*os.File{handle} // descriptor 3
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := command.Process.Kill(); err != nil {
			t.Error(err)
		}
		command.Wait() //nolint:errcheck // it was killed
		if t.Failed() {
			t.Logf("haproxy said:\n%s", said.String())
		}
	})
	return "http://" + listener.Addr().String()
}

// adaptProxy puts servers that are here in place of names that Docker resolves, and changes nothing else.
func adaptProxy(t *testing.T, servers string, changes []string) string {
	t.Helper()
	text := read(t, "deploy/haproxy/haproxy.cfg")
	adapted := [][2]string{
		{"    maxconn 8000\n", "    maxconn 200\n"}, // descriptors are few on some machines
		{"    nameserver docker 127.0.0.11:53\n", ""},
		{"bind :8080", "bind fd@3"},
		{" resolvers containers init-addr none", ""},
		{"    server-template api 1-10 api:8080\n", servers},
	}
	for pair := range slices.Chunk(changes, 2) {
		adapted = append(adapted, [2]string{pair[0], pair[1]})
	}
	for _, change := range adapted {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("deploy/haproxy/haproxy.cfg has no %q: the test must be adapted", change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	return text
}

// ask returns the status and the name of the node that answered.
func (p *proxied) ask(t *testing.T, path string, header ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), proxyTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("ask the proxy for %s: %v", path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// node returns who answers for a key that is sent as clients mostly do.
func (p *proxied) node(t *testing.T, key string) string {
	t.Helper()
	status, name := p.ask(t, "/v1/me", "Authorization", "Bearer "+key)
	if status != http.StatusOK {
		t.Fatalf("key %s: status %d", key, status)
	}
	return name
}

func testKeys() []string {
	keys := make([]string, 300)
	for i := range keys {
		keys[i] = fmt.Sprintf("lh_sk_%032x", i*7919)
	}
	return keys
}

func TestTheProxyKeepsAKeyOnOneNodeWhereverItIsSent(t *testing.T) {
	p := newProxied(t)
	for _, key := range testKeys()[:40] {
		want := p.node(t, key)
		for _, sent := range [][]string{
			{"/v1/me", "Authorization", "Bearer " + key},
			{"/v1/brands/acme.com?fields=name", "Authorization", "bearer " + key},
			{"/v1/me", "X-Api-Key", key},
			{"/v1/search?q=a&key=" + key},
			{"/l/acme.com?c=" + key},
			{"/v1/me?key=another", "Authorization", "Bearer " + key},
			{"/v1/me", "X-Api-Key", key, "Authorization", "Basic dXNlcjpwYXNz"}, // a gateway's own
		} {
			if status, got := p.ask(t, sent[0], sent[1:]...); status != http.StatusOK || got != want {
				t.Errorf("%v reached %s (status %d), Bearer reaches %s", sent, got, status, want)
			}
		}
	}
}

func TestTheProxySpreadsKeysAndMovesOnlyThoseOfADeadNode(t *testing.T) {
	p := newProxied(t)
	before := map[string]string{}
	count := map[string]int{}
	for _, key := range testKeys() {
		before[key] = p.node(t, key)
		count[before[key]]++
	}
	for _, name := range []string{"a", "b", "c"} {
		if count[name] < len(before)/10 {
			t.Errorf("of %d keys node %s has %d", len(before), name, count[name])
		}
	}
	p.nodes[1].Close()
	for key, was := range before {
		switch now := p.node(t, key); {
		case was == "b" && now == "b":
			t.Errorf("%s is still sent to a dead node", key)
		case was != "b" && now != was:
			t.Errorf("%s moved from %s to %s, though %s lives", key, was, now, was)
		}
	}
}

func TestTheProxyKeepsOperatorsEndpointsInside(t *testing.T) {
	p := newProxied(t)
	for _, path := range []string{
		"/metrics", "/metrics/", "/metrics?x=1", "//metrics", "/%6detrics", "/Metrics", "/readyz", "/healthz", "/%2Fmetrics", "/metrics/x",
	} {
		if status, body := p.ask(t, path); status != http.StatusNotFound || len(body) == 1 {
			t.Errorf("%s: status %d from %q, want the proxy's own 404", path, status, body)
		}
	}
	if p.asked.Load() != nil {
		t.Error("a request for an operators' endpoint reached a node")
	}
	if status, _ := p.ask(t, "/v1/brands/metrics", "X-Forwarded-For", "198.51.100.7"); status != http.StatusOK {
		t.Errorf("an identifier that reads like an endpoint: status %d", status)
	}
	if got := (*p.asked.Load())["X-Forwarded-For"]; len(got) != 1 || got[0] != "127.0.0.1" {
		t.Errorf("a node is told %v about the client's address, want what the proxy saw", got)
	}
}

func TestTheProxyKeepsTheLogosOfABrandOnOneNodeAndSpreadsBrands(t *testing.T) {
	p := newProxied(t)
	count := map[string]int{}
	for i := range 90 {
		domain := fmt.Sprintf("brand-%d.com", i)
		_, want := p.ask(t, "/logo/"+domain)
		count[want]++
		for _, sent := range [][]string{
			{"/logo/" + domain + "?size=32&theme=dark"}, {"/logo/" + domain + "/icon.png"}, {"/logo/" + strings.ToUpper(domain) + "/w/64/"},
			{"/logo/" + domain + "?key=" + testKeys()[i%40]}, {"/logo/" + domain, "Authorization", "Bearer " + testKeys()[i%40]},
		} {
			if status, got := p.ask(t, sent[0], sent[1:]...); status != http.StatusOK || got != want {
				t.Errorf("%v reached %s (status %d), the logo alone reaches %s", sent, got, status, want)
			}
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		if count[name] < 9 {
			t.Errorf("of 90 brands node %s has %d", name, count[name])
		}
	}
}

// A host of logos, and a proxy before the proxy, are lines that an operator adds.
func TestTheProxyKnowsWhoStandsBeforeItAndAHostOfLogos(t *testing.T) {
	p := newProxiedWith(t, "    acl before_us always_false\n", "    acl before_us src 127.0.0.1\n", "    acl logo_host always_false\n", "    acl logo_host hdr(host),host_only -i logos.example.com\n")
	if _, _ = p.ask(t, "/logo/acme.com", "X-Forwarded-For", "198.51.100.7"); strings.Join((*p.asked.Load())["X-Forwarded-For"], ", ") != "198.51.100.7, 127.0.0.1" {
		t.Errorf("a node is told %v about the client's address", (*p.asked.Load())["X-Forwarded-For"])
	}
	for i := range 20 {
		domain := fmt.Sprintf("brand-%d.com", i)
		_, want := p.ask(t, "/logo/"+domain)
		for _, host := range []string{"logos.example.com", "Logos.Example.com:8443"} {
			if _, got := p.ask(t, "/"+domain+"/icon?size=32", "Host", host); got != want {
				t.Errorf("%s on %s reached %s, /logo/%s reaches %s", domain, host, got, domain, want)
			}
		}
	}
}

// headless is the chart's headless Service: nodes at addresses of their own and one port, and the DNS that tells the
// proxy about them.
type headless struct {
	port    int
	publish bool // addresses of nodes that are not ready, too
	ready   atomic.Bool
	dns     net.PacketConn
	asked   atomic.Int64 // DNS queries
}

func newHeadless(t *testing.T, publish bool) *headless {
	t.Helper()
	h := &headless{publish: publish}
	h.ready.Store(true)
	node := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/cdn/logo.png": // is served without the event store
			fmt.Fprint(w, "logo")
		case h.ready.Load():
			fmt.Fprint(w, "ok")
		default:
			http.Error(w, "the node's own words", http.StatusServiceUnavailable)
		}
	})
	for i := 1; i <= 2; i++ {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.14.%d:%d", i, h.port)) // the first one chooses the port
		if err != nil {
			t.Skipf("this machine does not listen at other loopback addresses: %v", err)
		}
		h.port = listener.Addr().(*net.TCPAddr).Port
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: node}}
		server.Start()
		t.Cleanup(server.Close)
	}
	var err error
	if h.dns, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	answering := make(chan struct{})
	t.Cleanup(func() {
		h.dns.Close()
		<-answering
	})
	go func() {
		defer close(answering)
		h.answer(t)
	}()
	return h
}

// answer answers DNS queries until the socket is closed: A records of the nodes while they are ready, or published
// all the same, and none otherwise, as Kubernetes does for a headless Service.
func (h *headless) answer(t *testing.T) {
	packet := make([]byte, 1<<12)
	for {
		n, from, err := h.dns.ReadFrom(packet)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if err := query.Unpack(packet[:n]); err != nil || len(query.Questions) != 1 {
			t.Errorf("a DNS query that cannot be read: %v", err)
			continue
		}
		reply := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true}, Questions: query.Questions}
		question := query.Questions[0]
		switch {
		case !h.publish && !h.ready.Load():
			reply.RCode = dnsmessage.RCodeNameError
		case question.Type == dnsmessage.TypeA:
			for i := range byte(2) {
				reply.Answers = append(reply.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 1},
					Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 14, i + 1}},
				})
			}
		}
		out, err := reply.Pack()
		if err != nil {
			t.Error(err)
			continue
		}
		_, _ = h.dns.WriteTo(out, from) // it asks again
		h.asked.Add(1)
	}
}

// chartProxy is the chart's configuration of HAProxy as it is with the usual values, on this machine. The times for
// which an answer of the DNS holds are shorter.
func (h *headless) chartProxy(t *testing.T) string {
	t.Helper()
	text := read(t, "deploy/helm/letterhead/files/haproxy.cfg")
	text = regexp.MustCompile(`(?m)^ *\{\{- with .*\n(?:.*\n)*? *\{\{- end \}\}\n`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`(?m)^# For the probes of the pod\.\nfrontend health\n(?: .*\n)*`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`\{\{ include "letterhead.fullname" \. \}\}-api\.\{\{ .*:8080`).ReplaceAllString(text, fmt.Sprintf("lint-letterhead-api.default.svc.cluster.local:%d", h.port))
	for _, change := range [][2]string{
		{"    maxconn 8000\n", "    maxconn 200\n"},
		{"    parse-resolv-conf\n", fmt.Sprintf("    nameserver cluster %s\n    hold nx 1s\n    hold other 1s\n", h.dns.LocalAddr())},
		{"    hold valid 5s\n", "    hold valid 1s\n"},
		{"bind :8080", "bind fd@3"},
		{"1-{{ .Values.proxy.maxNodes }}", "1-4"},
		{" hash-key addr", ""}, // of HAProxy 3.0
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("the chart's haproxy.cfg has no %q: the test must be adapted", change[0])
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	if strings.Contains(text, "{{") {
		t.Fatalf("a part of the chart's haproxy.cfg is not filled in:\n%s", text)
	}
	return text
}

// All nodes lose the event store and are not ready, so Kubernetes takes their addresses out of the DNS, unless the
// Service publishes them all the same. What does not need the event store must still be served, and the rest answered
// in the API's own words.
func TestBehindTheChartsProxy_NoNodeIsReady_WhatTheyCanIsStillServed(t *testing.T) {
	_, service, _ := strings.Cut(read(t, "deploy/helm/letterhead/templates/services.yaml"), "-api\n")
	service, _, _ = strings.Cut(service, "---")
	for name, publish := range map[string]bool{
		"as the chart has it":                           strings.Contains(service, "publishNotReadyAddresses: true"),
		"without addresses of nodes that are not ready": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHeadless(t, publish)
			p := &proxied{url: startProxy(t, h.chartProxy(t))}
			until := func(path string, status int, body string) {
				t.Helper()
				var last string
				if _, ok := testwait.Until(proxyTimeout, func() bool {
					got, said := p.ask(t, path)
					last = fmt.Sprintf("%d %q", got, said)
					return got == status && strings.Contains(said, body)
				}); !ok {
					t.Fatalf("%s is %s, want %d %q", path, last, status, body)
				}
			}
			until("/v1/me", http.StatusOK, "ok")
			h.ready.Store(false)
			if name != "as the chart has it" {
				until("/cdn/logo.png", http.StatusServiceUnavailable, "No server is available") // the defect that the chart had
				return
			}
			until("/v1/me", http.StatusServiceUnavailable, "the node's own words")
			const queries = 4 // the answers from before are no longer believed
			before := h.asked.Load()
			if _, ok := testwait.Until(proxyTimeout, func() bool {
				if status, said := p.ask(t, "/cdn/logo.png"); status != http.StatusOK || said != "logo" {
					t.Fatalf("an asset while no node is ready: %d %q", status, said)
				}
				until("/v1/me", http.StatusServiceUnavailable, "the node's own words")
				return h.asked.Load() >= before+queries
			}); !ok {
				t.Errorf("HAProxy sent %d DNS queries in %s, want %d", h.asked.Load()-before, proxyTimeout, queries)
			}
			h.ready.Store(true)
			until("/v1/me", http.StatusOK, "ok")
		})
	}
}
