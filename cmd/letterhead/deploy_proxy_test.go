package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"letterhead/internal/testmust"
)

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
		testmust.Succeed(t, conn.SetDeadline(time.Now().Add(proxyTimeout)))
		_, _ = io.WriteString(conn, "GET /v1/me HTTP/1.1\r\nHost: x\r\n\r\n") // fails if the connection is already refused
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return nil
		}
		if resp.StatusCode != http.StatusOK {
			t.Errorf("from %s: status %d, want %d", from, resp.StatusCode, http.StatusOK)
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
