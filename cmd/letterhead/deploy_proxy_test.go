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

// proxied is a running HAProxy with deploy/haproxy/haproxy.cfg in front of three nodes that answer with their names.
type proxied struct {
	url     string
	metrics string // URL of HAProxy's own metrics
	health  string // URL that Kubernetes probes, only with the chart's configuration
	nodes   []*httptest.Server
	asked   atomic.Pointer[http.Header] // headers of the last request that reached a node
}

func newProxied(t *testing.T) *proxied {
	t.Helper()
	return newProxiedWith(t)
}

// newProxiedWith takes pairs of strings, and replaces the first of each pair by the second in the configuration.
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
		t.Skip("haproxy is not installed: cannot test its configuration")
	}
	return program
}

// start starts HAProxy with a configuration whose ports are replaced by free ones.
func (p *proxied) start(t *testing.T, config string) {
	t.Helper()
	program := haproxy(t)
	// HAProxy inherits open sockets, so that no other process can take the ports in between.
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
	var output bytes.Buffer
	command := exec.Command(program, "-db", "-f", file)
	command.ExtraFiles = handles // descriptors from 3 on
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := command.Process.Kill(); err != nil {
			t.Error(err)
		}
		command.Wait() //nolint:errcheck // it was killed
		if t.Failed() {
			t.Logf("output of haproxy:\n%s", output.String())
		}
	})
}

// adaptProxy returns the configuration with servers of the test instead of names that Docker resolves, and with changes.
func adaptProxy(t *testing.T, servers string, changes []string) string {
	t.Helper()
	text := read(t, "deploy/haproxy/haproxy.cfg")
	adapted := [][2]string{
		{"    maxconn 8000\n", "    maxconn 200\n"}, // some machines allow few descriptors
		{"    nameserver docker 127.0.0.11:53\n", ""},
		{" resolvers containers init-addr none", ""},
		{"    server-template api 1-10 api:8080\n", servers},
	}
	for pair := range slices.Chunk(changes, 2) {
		adapted = append(adapted, [2]string{pair[0], pair[1]})
	}
	for _, change := range adapted {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("deploy/haproxy/haproxy.cfg does not contain %q: adapt the test", change[0])
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
		t.Fatalf("request %s through the proxy: %v", path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// node returns the name of the node that answers requests with a key.
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

func TestProxy_KeyInHeaderOrQuery_ReachesSameNode(t *testing.T) {
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
			{"/v1/me", "X-Api-Key", key, "Authorization", "Basic dXNlcjpwYXNz"}, // as a gateway in front may add
		} {
			if status, got := p.ask(t, sent[0], sent[1:]...); status != http.StatusOK || got != want {
				t.Errorf("%v reached node %s (status %d), want %s, which the Bearer token reaches", sent, got, status, want)
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
			t.Errorf("node %s gets %d of %d keys, want a tenth at least", name, count[name], len(before))
		}
	}
	p.nodes[1].Close()
	for key, was := range before {
		switch now := p.node(t, key); {
		case was == "b" && now == "b":
			t.Errorf("key %s still goes to the dead node", key)
		case was != "b" && now != was:
			t.Errorf("key %s moved from %s to %s, although %s is alive", key, was, now, was)
		}
	}
}

func TestProxy_OperatorEndpoints_AreNotPublished(t *testing.T) {
	p := newProxied(t)
	for _, path := range []string{
		"/metrics", "/metrics/", "/metrics?x=1", "//metrics", "/%6detrics", "/Metrics", "/readyz", "/healthz", "/%2Fmetrics", "/metrics/x",
	} {
		if status, body := p.ask(t, path); status != http.StatusNotFound || len(body) == 1 {
			t.Errorf("%s: status %d, body %q, want the proxy's own 404", path, status, body)
		}
	}
	if p.asked.Load() != nil {
		t.Error("a request for an operator endpoint reached a node")
	}
	if status, _ := p.ask(t, "/v1/brands/metrics", "X-Forwarded-For", "198.51.100.7"); status != http.StatusOK {
		t.Errorf("/v1/brands/metrics: status %d, want 200", status)
	}
	if got := (*p.asked.Load())["X-Forwarded-For"]; len(got) != 1 || got[0] != "127.0.0.1" {
		t.Errorf("X-Forwarded-For at the node = %v, want the peer of the proxy", got)
	}
}

func TestProxy_LogosOfOneBrand_ReachSameNode(t *testing.T) {
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
				t.Errorf("%v reached node %s (status %d), want %s, which /logo/%s reaches", sent, got, status, want, domain)
			}
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		if count[name] < 9 {
			t.Errorf("node %s gets %d of 90 brands, want a tenth at least", name, count[name])
		}
	}
}

// Operators change single lines to add a logo host or to trust a proxy in front of HAProxy.
func TestProxy_ProxyInFrontAndLogoHost_AreConfigurable(t *testing.T) {
	p := newProxiedWith(t, "    acl before_us always_false\n", "    acl before_us src 127.0.0.1\n", "    acl logo_host always_false\n", "    acl logo_host hdr(host),host_only -i logos.example.com\n")
	if _, _ = p.ask(t, "/logo/acme.com", "X-Forwarded-For", "198.51.100.7"); strings.Join((*p.asked.Load())["X-Forwarded-For"], ", ") != "198.51.100.7, 127.0.0.1" {
		t.Errorf("X-Forwarded-For at the node = %v, want the client and the proxy", (*p.asked.Load())["X-Forwarded-For"])
	}
	for i := range 20 {
		domain := fmt.Sprintf("brand-%d.com", i)
		_, want := p.ask(t, "/logo/"+domain)
		for _, host := range []string{"logos.example.com", "Logos.Example.com:8443"} {
			if _, got := p.ask(t, "/"+domain+"/icon?size=32", "Host", host); got != want {
				t.Errorf("%s on %s reached node %s, want %s, which /logo/%s reaches", domain, host, got, want, domain)
			}
		}
	}
}

// HAProxy limits the connections of an address, and counts refused ones in its metrics. The limit does not apply to
// addresses that many clients share, or to proxies in front of HAProxy.
func TestProxy_ManyConnectionsOfOneAddress_AreRefused(t *testing.T) {
	const limit, dialed = 5, 8
	p := newProxiedWith(t, "sc0_conn_cur gt 1000", fmt.Sprintf("sc0_conn_cur gt %d", limit),
		"    acl shared src ", "    acl shared src 127.0.14.0/24 ", "    acl before_us always_false\n", "    acl before_us src 127.0.15.0/24\n")
	// connect opens a connection from an address and sends a request. It returns nil if the proxy refused it.
	connect := func(from string) net.Conn {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: proxyTimeout}
		conn, err := dialer.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Skipf("this machine cannot connect from other loopback addresses: %v", err)
		}
		if err != nil {
			return nil
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(proxyTimeout)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "GET /v1/me HTTP/1.1\r\nHost: x\r\n\r\n") // fails if the connection is already refused
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
	for from, want := range map[string]int{"127.0.0.2": limit, "127.0.0.3": limit, "127.0.14.1": dialed, "127.0.15.1": dialed} {
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
			t.Errorf("%d connections from %s are open, want %d", open, from, want)
		}
	}
	metrics := get(t, p.metrics+"/metrics")
	if want := fmt.Sprintf(`haproxy_frontend_denied_connections_total{proxy="letterhead"} %d`, 2*(dialed-limit)); !strings.Contains(metrics, want+"\n") {
		t.Errorf("the proxy's metrics lack %q:\n%s", want, strings.Join(regexp.MustCompile(`.*denied_connections.*`).FindAllString(metrics, -1), "\n"))
	}
	if last.Close(); !until(func() bool { return connect("127.0.0.2") != nil }) {
		t.Error("an address stays refused after it closed a connection")
	}
}

func until(condition func() bool) bool {
	_, ok := testwait.Until(proxyTimeout, condition)
	return ok
}

// get returns the body of a response, preceded by its status unless that is 200.
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

// chartDefaults returns the default values of the chart.
func chartDefaults(t *testing.T) map[string]any {
	t.Helper()
	values := map[string]any{}
	readYAML(t, "deploy/helm/letterhead/values.yaml", &values)
	return values
}

// chartConfig returns the chart's haproxy.cfg, rendered with values.
func chartConfig(t *testing.T, values map[string]any) string {
	t.Helper()
	// The template functions of Helm that the file calls.
	parsed, err := template.New("haproxy.cfg").Option("missingkey=zero").Funcs(template.FuncMap{
		"include": func(name string, _ any) (string, error) {
			if name != "letterhead.fullname" {
				return "", fmt.Errorf("this test cannot include the template %q", name)
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

// Behind the chart's own Ingress, all connections come from the same address, so the proxy must not limit them.
func TestChartsProxy_BehindItsIngress_DoesNotLimitConnections(t *testing.T) {
	const limited = "tcp-request connection reject if { sc0_conn_cur gt 700 }"
	for _, c := range []struct {
		name     string
		perProxy int
		ingress  bool
		service  string
		trusted  []any
		want     bool
	}{
		{"clients reach the proxy", 700, false, "ClusterIP", nil, true},
		{"only the Ingress", 700, true, "ClusterIP", nil, false},
		{"only a trusted Ingress", 700, true, "ClusterIP", []any{"10.42.0.0/16"}, true},
		{"the Ingress and clients", 700, true, "LoadBalancer", nil, true},
		{"no limit configured", 0, false, "LoadBalancer", nil, false},
	} {
		values := chartDefaults(t)
		proxy := values["proxy"].(map[string]any)
		proxy["connectionsPerAddress"], proxy["trusted"] = c.perProxy, c.trusted
		values["ingress"].(map[string]any)["enabled"] = c.ingress
		values["service"].(map[string]any)["type"] = c.service
		if config := chartConfig(t, values); strings.Contains(config, limited) != c.want || strings.Contains(config, "sc0_conn_cur") != c.want {
			t.Errorf("%s: connections per address are limited: %t, want %t", c.name, !c.want, c.want)
		}
	}
}

// cluster simulates Kubernetes: API pods with their own IP addresses and a common port, and the DNS of the chart's
// headless Services.
type cluster struct {
	services map[string]bool // by name; true if the Service also publishes pods that are not ready
	port     int
	pods     []*pod
	dns      net.PacketConn
	empty    atomic.Int64 // DNS answers without any ready pod
}

type pod struct {
	address [4]byte
	exists  atomic.Bool
	ready   atomic.Bool // as Kubernetes sees it: the probe succeeds, and the pod is not terminating
	serves  atomic.Bool // as the node reports at /readyz
	asked   atomic.Int64
}

func newCluster(t *testing.T, services map[string]bool) *cluster {
	t.Helper()
	c := &cluster{services: services}
	for i := byte(1); i <= 3; i++ {
		p := &pod{address: [4]byte{127, 0, 14, i}}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.14.%d:%d", i, c.port)) // the first pod chooses the port
		if err != nil {
			t.Skipf("this machine cannot listen on other loopback addresses: %v", err)
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

// run starts pods as ready or not ready, both for Kubernetes and for the node itself.
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
	case r.URL.Path == "/cdn/logo.png": // needs no event store
		fmt.Fprint(w, "logo")
	case p.serves.Load():
		fmt.Fprint(w, "ok")
	default:
		http.Error(w, "the node's own error", http.StatusServiceUnavailable)
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
			t.Errorf("invalid DNS query: %v", err)
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
		_, _ = c.dns.WriteTo(out, from) // HAProxy repeats a query without an answer
	}
}

// proxy starts HAProxy as the chart does with its default values, except that DNS answers are valid for shorter times.
func (c *cluster) proxy(t *testing.T) *proxied {
	t.Helper()
	text := chartConfig(t, chartDefaults(t))
	for _, change := range [][2]string{
		{"    maxconn 8000\n", "    maxconn 200\n"},
		{"    parse-resolv-conf\n", fmt.Sprintf("    nameserver cluster %s\n    hold nx 1s\n    hold other 1s\n", c.dns.LocalAddr())},
		{"    hold valid 2s\n", "    hold valid 1s\n"},
		{".default.svc.cluster.local:8080\n", fmt.Sprintf(".default.svc.cluster.local:%d\n", c.port)},
		{" hash-key addr", ""}, // needs HAProxy 3.0
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("the chart's haproxy.cfg does not contain %q: adapt the test", change[0])
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	p := &proxied{}
	p.start(t, text)
	return p
}

// chartHeadless returns the names of the chart's headless Services. The value is true if a Service publishes pods that
// are not ready.
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

// answers waits until the proxy answers a path with a status and a body.
func (p *proxied) answers(t *testing.T, path string, status int, body string) {
	t.Helper()
	var last string
	if !until(func() bool {
		got, said := p.ask(t, path)
		last = fmt.Sprintf("%d %q", got, said)
		return got == status && strings.Contains(said, body)
	}) {
		t.Fatalf("%s answered %s, want %d %q", path, last, status, body)
	}
}

// If all nodes lose the event store, they are not ready, and Kubernetes removes their addresses from the DNS unless a
// Service publishes them anyway. Requests that do not need the event store must still be served, and the others must
// get the API's own error.
func TestChartsProxy_NoNodeReady_StillForwardsRequests(t *testing.T) {
	none := map[string]bool{}
	for name := range chartHeadless(t) {
		none[name] = false
	}
	for name, services := range map[string]map[string]bool{"Services of the chart": chartHeadless(t), "Services without unready nodes": none} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, services)
			c.run(true, c.pods...)
			p := c.proxy(t)
			p.answers(t, "/v1/me", http.StatusOK, "ok")
			c.run(false, c.pods...)
			if name != "Services of the chart" {
				p.answers(t, "/cdn/logo.png", http.StatusServiceUnavailable, "No server is available") // an old defect of the chart
				return
			}
			p.answers(t, "/v1/me", http.StatusServiceUnavailable, "the node's own error")
			// HAProxy queries once a second. Wait for longer than it keeps an address that the DNS has removed.
			for began := c.empty.Load(); c.empty.Load() < began+5; {
				if status, said := p.ask(t, "/cdn/logo.png"); status != http.StatusOK || said != "logo" {
					t.Fatalf("an asset while no node is ready: %d %q, want 200", status, said)
				}
				p.answers(t, "/v1/me", http.StatusServiceUnavailable, "the node's own error")
				if said := get(t, p.health+"/ready"); strings.Contains(said, "503") {
					t.Fatalf("the proxy itself is not ready, so Kubernetes sends it no requests: %s", said)
				}
				<-time.After(100 * time.Millisecond)
			}
			c.run(true, c.pods...)
			p.answers(t, "/v1/me", http.StatusOK, "ok")
		})
	}
}

// A starting pod must get no requests before it is ready, although HAProxy considers a new address healthy until its
// first check. A terminating pod must get none once Kubernetes has removed it, although /readyz still succeeds.
func TestChartsProxy_PodsStartAndTerminate_OnlyReadyPodsGetRequests(t *testing.T) {
	t.Parallel()
	c := newCluster(t, chartHeadless(t))
	p := c.proxy(t)
	if said := get(t, p.health+"/ready"); !strings.HasPrefix(said, "503 ") {
		t.Errorf("the proxy is ready without a node: %s", said)
	}
	stays, leaves, comes := c.pods[0], c.pods[1], c.pods[2]
	c.run(true, stays, leaves)
	if !until(func() bool { return get(t, p.health+"/ready") == "" }) {
		t.Fatal("the proxy does not become ready")
	}
	// round sends requests with keys that hash to every node, and fails the test unless all succeed.
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
	for range 30 { // for longer than HAProxy needs to resolve and check an address
		round()
		<-time.After(100 * time.Millisecond)
	}
	if got := comes.asked.Load(); got != 0 {
		t.Errorf("%d requests reached a starting node", got)
	}
	if c.run(true, comes); !everyone(comes) {
		t.Error("a new node gets no requests after it became ready")
	}
	leaves.ready.Store(false)
	if !until(func() bool {
		leaves.asked.Store(0)
		round()
		return leaves.asked.Load() == 0
	}) {
		t.Fatal("a terminating node still gets requests")
	}
	for range 10 {
		round()
		<-time.After(100 * time.Millisecond)
	}
	if got := leaves.asked.Load(); got != 0 {
		t.Errorf("%d requests reached a terminating node", got)
	}
}
