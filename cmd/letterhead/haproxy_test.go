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
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// proxyTimeout bounds how long a test waits for the proxy.
const proxyTimeout = 30 * time.Second

// proxied is a running HAProxy with deploy/haproxy/haproxy.cfg in front of three nodes that answer with their names.
type proxied struct {
	url     string
	metrics string // URL of HAProxy's own metrics
	health  string // URL that Kubernetes probes, only with the chart's configuration
	admin   string // URL of the admin API, only with the configuration of Docker
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
	for own, url := range map[string]*string{"8080": &p.url, "8081": &p.health, "8090": &p.admin, "9091": &p.metrics} {
		if !strings.Contains(config, "    bind :"+own+"\n") {
			continue
		}
		listener := testmust.Get(net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
		defer listener.Close()
		handle := testmust.Get(listener.File())(t)
		defer handle.Close()
		config = strings.Replace(config, "    bind :"+own+"\n", fmt.Sprintf("    bind fd@%d\n", 3+len(handles)), 1)
		handles = append(handles, handle)
		*url = "http://" + listener.Addr().String()
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	testmust.Succeed(t, os.WriteFile(file, []byte(config), 0o600))
	var output bytes.Buffer
	command := exec.Command(program, "-db", "-f", file)
	command.ExtraFiles = handles // descriptors from 3 on
	command.Stdout, command.Stderr = &output, &output
	testmust.Succeed(t, command.Start())
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

// adaptProxy returns the configuration with servers of the test instead of names that Docker resolves, and with
// changes.
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
	r := testmust.Get(http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil))(t)
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
	body := testmust.Get(io.ReadAll(io.LimitReader(resp.Body, 1<<16)))(t)
	return resp.StatusCode, string(body)
}

// node returns the name of the node that answers requests with a key.
func (p *proxied) node(t *testing.T, key string) string {
	t.Helper()
	status, name := p.ask(t, "/v1/me", "Authorization", "Bearer "+key)
	if status != http.StatusOK {
		t.Fatalf("key %s: status %d, want %d", key, status, http.StatusOK)
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

func until(condition func() bool) bool {
	_, ok := testwait.Until(proxyTimeout, condition)
	return ok
}

// get returns the body of a response, preceded by its status unless that is 200.
func get(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Timeout: proxyTimeout}
	resp := testmust.Get(client.Get(url))(t)
	defer resp.Body.Close()
	body := testmust.Get(io.ReadAll(io.LimitReader(resp.Body, 1<<20)))(t)
	if resp.StatusCode != http.StatusOK {
		return resp.Status + "\n" + string(body)
	}
	return string(body)
}

// answers waits until the proxy answers a path with a status and a body.
func (p *proxied) answers(t *testing.T, path string, status int, body string) {
	t.Helper()
	var last string
	if !until(func() bool {
		got, answer := p.ask(t, path)
		last = fmt.Sprintf("%d %q", got, answer)
		return got == status && strings.Contains(answer, body)
	}) {
		t.Fatalf("%s answered %s, want %d %q", path, last, status, body)
	}
}
