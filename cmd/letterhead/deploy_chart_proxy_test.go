package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"letterhead/internal/testmust"
)

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
		"trim":      strings.TrimSpace,
	}).Parse(read(t, "deploy/helm/letterhead/files/haproxy.cfg"))
	testmust.Succeed(t, err)
	var text strings.Builder
	testmust.Succeed(t, parsed.Execute(&text, map[string]any{"Values": values, "Release": map[string]any{"Namespace": "default"}}))
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
	server  *httptest.Server
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
		p.server = server
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
				if status, body := p.ask(t, "/cdn/logo.png"); status != http.StatusOK || body != "logo" {
					t.Fatalf("an asset while no node is ready: %d %q, want 200", status, body)
				}
				p.answers(t, "/v1/me", http.StatusServiceUnavailable, "the node's own error")
				if body := get(t, p.health+"/ready"); strings.Contains(body, "503") {
					t.Fatalf("the proxy itself is not ready, so Kubernetes sends it no requests: %s", body)
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
	if body := get(t, p.health+"/ready"); !strings.HasPrefix(body, "503 ") {
		t.Errorf("the proxy is ready without a node: %s, want text that begins with %q", body, "503 ")
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
			if status, body := p.ask(t, "/v1/me", "Authorization", "Bearer "+key); status != http.StatusOK {
				t.Fatalf("status %d: %s; want %d", status, body, http.StatusOK)
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
		t.Errorf("%d requests reached a starting node, want 0", got)
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
		t.Errorf("%d requests reached a terminating node, want 0", got)
	}
}

// A node that restarts refuses connections until it can answer. HAProxy and Kubernetes notice it seconds later, so that
// HAProxy must repeat refused connections at other nodes, but no request that reached a node.
func TestChartsProxy_NodeRefusesConnections_OthersAnswer(t *testing.T) {
	t.Parallel()
	config := chartConfig(t, chartDefaults(t))
	for _, setting := range []string{"retries 2", "retry-on conn-failure", "option redispatch 1"} {
		if !strings.Contains(config, "\n    "+setting+"\n") {
			t.Errorf("the chart's proxy lacks %q", setting)
		}
	}
	c := newCluster(t, chartHeadless(t))
	c.run(true, c.pods...)
	p := c.proxy(t)
	p.answers(t, "/v1/me", http.StatusOK, "ok")
	keys := testKeys()[:20]
	if !until(func() bool {
		for _, key := range keys {
			p.ask(t, "/v1/me", "Authorization", "Bearer "+key)
		}
		return !slices.ContainsFunc(c.pods, func(p *pod) bool { return p.asked.Load() == 0 })
	}) {
		t.Fatal("three ready nodes do not share the requests")
	}
	c.pods[1].server.Close()
	for _, key := range keys {
		if status, body := p.ask(t, "/v1/me", "Authorization", "Bearer "+key); status != http.StatusOK || body != "ok" {
			t.Errorf("while a node refuses connections: status %d: %s; want 200", status, body)
		}
	}
}
