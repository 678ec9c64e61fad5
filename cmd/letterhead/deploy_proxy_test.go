package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
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
	"syscall"
	"testing"
	"text/template"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"letterhead/internal/testwait"
)

// proxyTimeout bounds how long a test waits for the proxy.
const proxyTimeout = 30 * time.Second

// proxied is HAProxy with deploy/haproxy/haproxy.cfg before three nodes that say their name.
type proxied struct {
	url     string
	metrics string // where it serves its own
	health  string // where the chart's is probed
	nodes   []*httptest.Server
	asked   atomic.Pointer[http.Header] // of the last request that reached a node
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
	p.start(t, adaptProxy(t, servers, changes))
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

// start starts HAProxy with a configuration, on ports of this machine instead of its own.
func (p *proxied) start(t *testing.T, config string) {
	t.Helper()
	program := haproxy(t)
	// The ports are opened here and handed over, so that no other process can take them in between.
	var handles []*os.File
	for own, url := range map[string]*string{"8080": &p.url, "8081": &p.health, "9091": &p.metrics} {
		if !strings.Contains(config, "    bind :"+own+"\n") {
			continue
		}
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
		config = strings.Replace(config, "    bind :"+own+"\n", fmt.Sprintf("    bind fd@%d\n", 3+len(handles)), 1)
		handles = append(handles, handle)
		*url = "http://" + listener.Addr().String()
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	command := exec.Command(program, "-db", "-f", file)
	command.ExtraFiles = handles // descriptor 3 and up
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
}

// adaptProxy puts servers that are here in place of names that Docker resolves, and changes nothing else.
func adaptProxy(t *testing.T, servers string, changes []string) string {
	t.Helper()
	text := read(t, "deploy/haproxy/haproxy.cfg")
	adapted := [][2]string{
		{"    maxconn 8000\n", "    maxconn 200\n"}, // descriptors are few on some machines
		{"    nameserver docker 127.0.0.11:53\n", ""},
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

func TestProxy_KeyInAnyPlace_ReachesOneNode(t *testing.T) {
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

func TestProxy_NodeDies_MovesOnlyItsKeys(t *testing.T) {
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

func TestProxy_OperatorEndpoints_AreNotPublished(t *testing.T) {
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
		t.Errorf("a node got %v as the client's address, want what the proxy saw", got)
	}
}

func TestProxy_LogosOfOneBrand_ReachOneNode(t *testing.T) {
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
func TestProxy_ProxyInFrontAndLogoHost_AreConfigurable(t *testing.T) {
	p := newProxiedWith(t, "    acl before_us always_false\n", "    acl before_us src 127.0.0.1\n", "    acl logo_host always_false\n", "    acl logo_host hdr(host),host_only -i logos.example.com\n")
	if _, _ = p.ask(t, "/logo/acme.com", "X-Forwarded-For", "198.51.100.7"); strings.Join((*p.asked.Load())["X-Forwarded-For"], ", ") != "198.51.100.7, 127.0.0.1" {
		t.Errorf("a node got %v as the client's address", (*p.asked.Load())["X-Forwarded-For"])
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

// HAProxy bounds the connections of one address and counts the refused ones in its metrics. It does not bound
// addresses that many clients share, nor proxies in front of it.
func TestProxy_ManyConnectionsOfOneAddress_AreRefused(t *testing.T) {
	const bound, dialed = 5, 8
	p := newProxiedWith(t, "sc0_conn_cur gt 1000", fmt.Sprintf("sc0_conn_cur gt %d", bound),
		"    acl shared src ", "    acl shared src 127.0.14.0/24 ", "    acl before_us always_false\n", "    acl before_us src 127.0.15.0/24\n")
	// connect opens a connection from an address and asks for something. It returns nil if that was refused.
	connect := func(from string) net.Conn {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: proxyTimeout}
		conn, err := dialer.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Skipf("this machine does not connect from other loopback addresses: %v", err)
		}
		if err != nil {
			return nil
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(proxyTimeout)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "GET /v1/me HTTP/1.1\r\nHost: x\r\n\r\n") // fails if it is refused already
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return nil
		}
		if resp.StatusCode != http.StatusOK {
			t.Errorf("from %s: status %d", from, resp.StatusCode)
		}
		return conn
	}
	var last net.Conn
	for from, want := range map[string]int{"127.0.0.2": bound, "127.0.0.3": bound, "127.0.14.1": dialed, "127.0.15.1": dialed} {
		open := 0
		for range dialed {
			if conn := connect(from); conn != nil {
				open++
				if from == "127.0.0.2" {
					last = conn
				}
			}
		}
		if open != want {
			t.Errorf("%d connections of %s are open, want %d", open, from, want)
		}
	}
	metrics := get(t, p.metrics+"/metrics")
	if want := fmt.Sprintf(`haproxy_frontend_denied_connections_total{proxy="letterhead"} %d`, 2*(dialed-bound)); !strings.Contains(metrics, want+"\n") {
		t.Errorf("the proxy's metrics lack %q:\n%s", want, strings.Join(regexp.MustCompile(`.*denied_connections.*`).FindAllString(metrics, -1), "\n"))
	}
	if last.Close(); !until(func() bool { return connect("127.0.0.2") != nil }) {
		t.Error("an address stays refused though it has closed a connection")
	}
}

func until(so func() bool) bool {
	_, ok := testwait.Until(proxyTimeout, so)
	return ok
}

// get returns the body of an answer, with its status before it unless that is 200.
func get(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Timeout: proxyTimeout}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		return resp.Status + "\n" + string(body)
	}
	return string(body)
}

// chartDefaults returns the chart's values, as maps.
func chartDefaults(t *testing.T) map[string]any {
	t.Helper()
	values := map[string]any{}
	readYAML(t, "deploy/helm/letterhead/values.yaml", &values)
	return values
}

// chartConfig returns the chart's haproxy.cfg for values.
func chartConfig(t *testing.T, values map[string]any) string {
	t.Helper()
	// The functions of Helm that it calls.
	parsed, err := template.New("haproxy.cfg").Option("missingkey=zero").Funcs(template.FuncMap{
		"include": func(name string, _ any) (string, error) {
			if name != "letterhead.fullname" {
				return "", fmt.Errorf("this test has no template %q", name)
			}
			return "lint-letterhead", nil
		},
		"join": func(separator string, list []any) string {
			words := make([]string, len(list))
			for i, word := range list {
				words[i] = fmt.Sprint(word)
			}
			return strings.Join(words, separator)
		},
		"splitList": func(separator, text string) []string { return strings.Split(text, separator) },
		"first":     func(list []string) string { return list[0] },
	}).Parse(read(t, "deploy/helm/letterhead/files/haproxy.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, map[string]any{"Values": values, "Release": map[string]any{"Namespace": "default"}}); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// A proxy that gets every connection from the chart's own Ingress must not bound them: all have its address.
func TestChartsProxy_BehindItsIngress_BoundsNoAddress(t *testing.T) {
	const bounded = "tcp-request connection reject if { sc0_conn_cur gt 700 }"
	for _, c := range []struct {
		name     string
		perProxy int
		ingress  bool
		service  string
		trusted  []any
		want     bool
	}{
		{"clients reach the proxy", 700, false, "ClusterIP", nil, true},
		{"the Ingress only", 700, true, "ClusterIP", nil, false},
		{"the Ingress, which is named", 700, true, "ClusterIP", []any{"10.42.0.0/16"}, true},
		{"the Ingress, and clients", 700, true, "LoadBalancer", nil, true},
		{"no bound", 0, false, "LoadBalancer", nil, false},
	} {
		values := chartDefaults(t)
		proxy := values["proxy"].(map[string]any)
		proxy["connectionsPerAddress"], proxy["trusted"] = c.perProxy, c.trusted
		values["ingress"].(map[string]any)["enabled"] = c.ingress
		values["service"].(map[string]any)["type"] = c.service
		if config := chartConfig(t, values); strings.Contains(config, bounded) != c.want || strings.Contains(config, "sc0_conn_cur") != c.want {
			t.Errorf("%s: the connections of an address are bounded: %t, want %t", c.name, !c.want, c.want)
		}
	}
}

// cluster is API pods at addresses of their own and one port, and the DNS that Kubernetes has for the chart's
// headless Services.
type cluster struct {
	services map[string]bool // by name: whether pods that are not ready are published, too
	port     int
	pods     []*pod
	dns      net.PacketConn
	empty    atomic.Int64 // answers of the DNS that no pod is ready
}

type pod struct {
	address [4]byte
	exists  atomic.Bool
	ready   atomic.Bool // says Kubernetes: its probe succeeds, and it is not about to end
	serves  atomic.Bool // says the node at /readyz
	asked   atomic.Int64
}

func newCluster(t *testing.T, services map[string]bool) *cluster {
	t.Helper()
	c := &cluster{services: services}
	for i := byte(1); i <= 3; i++ {
		p := &pod{address: [4]byte{127, 0, 14, i}}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.14.%d:%d", i, c.port)) // the first one chooses the port
		if err != nil {
			t.Skipf("this machine does not listen at other loopback addresses: %v", err)
		}
		c.port = listener.Addr().(*net.TCPAddr).Port
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: p}}
		server.Start()
		t.Cleanup(server.Close)
		c.pods = append(c.pods, p)
	}
	var err error
	if c.dns, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	answering := make(chan struct{})
	t.Cleanup(func() {
		c.dns.Close()
		<-answering
	})
	go func() {
		defer close(answering)
		c.answer(t)
	}()
	return c
}

// run puts pods into a state, all of it.
func (c *cluster) run(ready bool, pods ...*pod) {
	for _, p := range pods {
		p.exists.Store(true)
		p.serves.Store(ready)
		p.ready.Store(ready)
	}
}

func (p *pod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/readyz" {
		p.asked.Add(1)
	}
	switch {
	case r.URL.Path == "/cdn/logo.png": // is served without the event store
		fmt.Fprint(w, "logo")
	case p.serves.Load():
		fmt.Fprint(w, "ok")
	default:
		http.Error(w, "the node's own words", http.StatusServiceUnavailable)
	}
}

// answer answers DNS queries until the socket is closed, as Kubernetes does for headless Services.
func (c *cluster) answer(t *testing.T) {
	packet := make([]byte, 1<<12)
	for {
		n, from, err := c.dns.ReadFrom(packet)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if err := query.Unpack(packet[:n]); err != nil || len(query.Questions) != 1 {
			t.Errorf("a DNS query that cannot be read: %v", err)
			continue
		}
		question := query.Questions[0]
		service, _, _ := strings.Cut(question.Name.String(), ".")
		publish, known := c.services[service]
		reply := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true, RCode: dnsmessage.RCodeNameError}, Questions: query.Questions}
		for _, p := range c.pods {
			if !known || !p.exists.Load() || !publish && !p.ready.Load() {
				continue
			}
			reply.RCode = dnsmessage.RCodeSuccess
			if question.Type == dnsmessage.TypeA {
				reply.Answers = append(reply.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 1},
					Body:   &dnsmessage.AResource{A: p.address},
				})
			}
		}
		if known && !publish && question.Type == dnsmessage.TypeA && len(reply.Answers) == 0 {
			c.empty.Add(1)
		}
		out, err := reply.Pack()
		if err != nil {
			t.Error(err)
			continue
		}
		_, _ = c.dns.WriteTo(out, from) // it asks again
	}
}

// proxy starts HAProxy as the chart does with the usual values. The times for which an answer of the DNS holds are
// shorter.
func (c *cluster) proxy(t *testing.T) *proxied {
	t.Helper()
	text := chartConfig(t, chartDefaults(t))
	for _, change := range [][2]string{
		{"    maxconn 8000\n", "    maxconn 200\n"},
		{"    parse-resolv-conf\n", fmt.Sprintf("    nameserver cluster %s\n    hold nx 1s\n    hold other 1s\n", c.dns.LocalAddr())},
		{"    hold valid 2s\n", "    hold valid 1s\n"},
		{".default.svc.cluster.local:8080\n", fmt.Sprintf(".default.svc.cluster.local:%d\n", c.port)},
		{" hash-key addr", ""}, // of HAProxy 3.0
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("the chart's haproxy.cfg has no %q: the test must be adapted", change[0])
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	p := &proxied{}
	p.start(t, text)
	return p
}

// chartHeadless returns the chart's headless Services, and whether each publishes pods that are not ready.
func chartHeadless(t *testing.T) map[string]bool {
	t.Helper()
	services := map[string]bool{}
	for text := range strings.SplitSeq(read(t, "deploy/helm/letterhead/templates/services.yaml"), "\n---\n") {
		if m := regexp.MustCompile(`(?m)^  name: \{\{ include "letterhead.fullname" . \}\}(\S*)$`).FindStringSubmatch(text); m != nil && strings.Contains(text, "clusterIP: None") {
			services["lint-letterhead"+m[1]] = strings.Contains(text, "publishNotReadyAddresses: true")
		}
	}
	return services
}

// answers waits until the proxy's answer to a path is as wanted.
func (p *proxied) answers(t *testing.T, path string, status int, body string) {
	t.Helper()
	var last string
	if !until(func() bool {
		got, said := p.ask(t, path)
		last = fmt.Sprintf("%d %q", got, said)
		return got == status && strings.Contains(said, body)
	}) {
		t.Fatalf("%s is %s, want %d %q", path, last, status, body)
	}
}

// All nodes lose the event store and are not ready, so Kubernetes takes their addresses out of the DNS, unless a
// Service publishes them all the same. What does not need the event store must still be served, and the rest answered
// in the API's own words.
func TestBehindTheChartsProxy_NoNodeIsReady_WhatTheyCanIsStillServed(t *testing.T) {
	none := map[string]bool{}
	for name := range chartHeadless(t) {
		none[name] = false
	}
	for name, services := range map[string]map[string]bool{"as the chart has it": chartHeadless(t), "without addresses of nodes that are not ready": none} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, services)
			c.run(true, c.pods...)
			p := c.proxy(t)
			p.answers(t, "/v1/me", http.StatusOK, "ok")
			c.run(false, c.pods...)
			if name != "as the chart has it" {
				p.answers(t, "/cdn/logo.png", http.StatusServiceUnavailable, "No server is available") // the defect that the chart had
				return
			}
			p.answers(t, "/v1/me", http.StatusServiceUnavailable, "the node's own words")
			// For longer than an address is kept that the DNS does not have any more: HAProxy asks once a second.
			for began := c.empty.Load(); c.empty.Load() < began+5; {
				if status, said := p.ask(t, "/cdn/logo.png"); status != http.StatusOK || said != "logo" {
					t.Fatalf("an asset while no node is ready: %d %q", status, said)
				}
				p.answers(t, "/v1/me", http.StatusServiceUnavailable, "the node's own words")
				if said := get(t, p.health+"/ready"); strings.Contains(said, "503") {
					t.Fatalf("the proxy itself is not ready, and gets no requests: %s", said)
				}
				<-time.After(100 * time.Millisecond)
			}
			c.run(true, c.pods...)
			p.answers(t, "/v1/me", http.StatusOK, "ok")
		})
	}
}

// A pod that starts gets no request before it is ready, though HAProxy takes a new address for one that serves until
// its first check. A pod that is about to end gets none once Kubernetes has said so, though it still answers that it
// is ready.
func TestBehindTheChartsProxy_PodsStartAndEnd_OnlyReadyOnesAreAsked(t *testing.T) {
	t.Parallel()
	c := newCluster(t, chartHeadless(t))
	p := c.proxy(t)
	if said := get(t, p.health+"/ready"); !strings.HasPrefix(said, "503 ") {
		t.Errorf("the proxy is ready without any node: %s", said)
	}
	stays, leaves, comes := c.pods[0], c.pods[1], c.pods[2]
	c.run(true, stays, leaves)
	if !until(func() bool { return get(t, p.health+"/ready") == "" }) {
		t.Fatal("the proxy does not become ready")
	}
	// round asks with keys that hash to every node, and fails unless all are answered.
	round := func() {
		t.Helper()
		for _, key := range testKeys()[:20] {
			if status, said := p.ask(t, "/v1/me", "Authorization", "Bearer "+key); status != http.StatusOK {
				t.Fatalf("status %d: %s", status, said)
			}
		}
	}
	everyone := func(pods ...*pod) bool {
		return until(func() bool {
			round()
			return !slices.ContainsFunc(pods, func(p *pod) bool { return p.asked.Load() == 0 })
		})
	}
	if p.answers(t, "/v1/me", http.StatusOK, "ok"); !everyone(stays, leaves) {
		t.Fatal("two ready nodes do not share the requests")
	}
	c.run(false, comes)
	for range 30 { // for longer than its address would need to be known and checked
		round()
		<-time.After(100 * time.Millisecond)
	}
	if got := comes.asked.Load(); got != 0 {
		t.Errorf("%d requests reached a node that was starting", got)
	}
	if c.run(true, comes); !everyone(comes) {
		t.Error("a new node gets no requests once it is ready")
	}
	leaves.ready.Store(false)
	if !until(func() bool {
		leaves.asked.Store(0)
		round()
		return leaves.asked.Load() == 0
	}) {
		t.Fatal("a node that is about to end still gets requests")
	}
	for range 10 {
		round()
		<-time.After(100 * time.Millisecond)
	}
	if got := leaves.asked.Load(); got != 0 {
		t.Errorf("%d requests reached a node that is about to end", got)
	}
}
