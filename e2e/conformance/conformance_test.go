//go:build conformance

// Package conformance asks what others wrote about the MCP endpoint: the protocol's official scenarios for servers
// and its inspector, both from npm, against a served binary in a folder of its own. `make conformance` runs it.
//
// The binary is LETTERHEAD_BINARY. npx fetches the tools, and a Node.js new enough for them where the machine's own
// is not.
package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"letterhead/e2e/program"
)

const (
	scenarios = "@modelcontextprotocol/conformance@0.1.16"
	inspector = "@modelcontextprotocol/inspector@2.12.0"
	// node is what both need at least; the package of that name brings one along.
	node      = "node@22"
	nodeMajor = 22
	nodeMinor = 19

	startsWithin = 2 * time.Minute
	toolWithin   = 5 * time.Minute // npx may have to fetch it
)

// server is a served binary with one account.
type server struct {
	url     string
	account struct {
		Keys []struct{ Kind, Key string }
	}
}

func (s *server) secret(t *testing.T) string {
	t.Helper()
	for _, k := range s.account.Keys {
		if k.Kind == "secret" {
			return k.Key
		}
	}
	t.Fatalf("the account has no secret key")
	return ""
}

func serve(t *testing.T) *server {
	t.Helper()
	binary := os.Getenv("LETTERHEAD_BINARY")
	if binary == "" {
		t.Fatal("LETTERHEAD_BINARY names no binary")
	}
	listen, err := program.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	s := &server{url: "http://" + listen}
	logs, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	said := func() string {
		text, err := os.ReadFile(logs.Name())
		return fmt.Sprint(string(text), err)
	}
	cmd := exec.Command(binary, "serve", "--data", data, "--listen", listen)
	cmd.Env = append(os.Environ(), "LETTERHEAD_REFRESH=off", "LETTERHEAD_BASE_URL="+s.url) // nothing leaves the machine
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := errors.Join(cmd.Start(), logs.Close()); err != nil { // the process has its own
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var end error // of the process, when ended is closed
	go func() { defer close(ended); end = cmd.Wait() }()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("end the server: %v", err)
		}
		if <-ended; end != nil || t.Failed() {
			t.Logf("the server ended with %v and said\n%s", end, said())
		}
	})
	if err := program.AwaitServing(s.url+"/readyz", startsWithin, ended); err != nil {
		t.Fatal(err) // the server's own words are logged at its end
	}
	out, err := exec.Command(binary, "--data", data, "account", "create", "--name", "conformance", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &s.account)
	}
	if err != nil {
		t.Fatalf("make an account: %v", err)
	}
	return s
}

// keyed returns the address of a proxy that adds a key to each request and leaves all else, the Host too, as it
// was sent: the scenarios know no keys, and the server rejects requests without one.
func (s *server) keyed(t *testing.T) string {
	t.Helper()
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	key := s.secret(t)
	proxy := &http.Server{Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+key)
	}}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go proxy.Serve(l)
	t.Cleanup(func() { proxy.Close() })
	return "http://" + l.Addr().String()
}

// npx runs a tool from npm and returns what it printed.
func npx(t *testing.T, tool string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), toolWithin)
	defer cancel()
	all := []string{"--yes", "--package", tool}
	if !newEnough(t) {
		all = append(all, "--package", node)
	}
	cmd := exec.CommandContext(ctx, "npx", append(append(all, "--"), args...)...)
	cmd.Dir = t.TempDir() // no package of ours stands above it
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// newEnough reports whether the machine's Node.js runs the tools.
func newEnough(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command("node", "--version").Output()
	parts := strings.Split(strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), ".")
	if err != nil || len(parts) < 2 {
		return false
	}
	major, _ := strconv.Atoi(parts[0])
	minor, _ := strconv.Atoi(parts[1])
	return major > nodeMajor || major == nodeMajor && minor >= nodeMinor
}

// TestMCP_OfficialScenarios_Pass runs those for a server that has tools and no state. The other scenarios are of
// features that are left out, or call tools that only a test server has.
func TestMCP_OfficialScenarios_Pass(t *testing.T) {
	at := serve(t).keyed(t) + "/mcp"
	for _, scenario := range []string{"server-initialize", "ping", "tools-list", "dns-rebinding-protection"} {
		t.Run(scenario, func(t *testing.T) {
			stdout, stderr, err := npx(t, scenarios, "conformance", "server", "--url", at, "--scenario", scenario, "--output-dir", t.TempDir())
			t.Log(stdout)
			if err != nil {
				t.Errorf("%v: %s", err, stderr)
			}
			if !strings.Contains(stdout, " 0 failed") || strings.Contains(stdout, "Passed: 0/") {
				t.Errorf("no check has passed, or one has failed")
			}
		})
	}
}

// TestMCP_Inspector_CallsEveryTool lists the tools and calls each of them, in both eras of the protocol.
func TestMCP_Inspector_CallsEveryTool(t *testing.T) {
	s := serve(t)
	inspect := func(t *testing.T, era string, args ...string) map[string]any {
		t.Helper()
		all := append([]string{"mcp-inspector", "--cli", s.url + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + s.secret(t),
			"--protocol-era", era, "--stored-auth-only", "--quiet"}, args...)
		stdout, stderr, err := npx(t, inspector, all...)
		var result map[string]any
		if err == nil {
			err = json.Unmarshal([]byte(stdout), &result)
		}
		if err != nil {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
		return result
	}
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			listed := inspect(t, era, "--method", "tools/list", "--strict")["tools"].([]any)
			var names []string
			for _, tool := range listed {
				names = append(names, tool.(map[string]any)["name"].(string))
			}
			t.Logf("tools/list: %v", names)
			if fmt.Sprint(names) != "[get_brand search_brands get_logo_url]" {
				t.Errorf("tools %v", names)
			}
			for _, call := range []struct{ tool, arguments, field, want string }{
				{"get_brand", `{"identifier":"github.com"}`, "domain", "github.com"},
				{"search_brands", `{"query":"github","limit":1}`, "query", "github"},
				{"get_logo_url", `{"domain":"github.com","theme":"dark"}`, "url", s.url + "/logo/github.com?theme=dark"},
			} {
				result := inspect(t, era, "--method", "tools/call", "--tool-name", call.tool, "--tool-args-json", call.arguments)
				structured, _ := result["structuredContent"].(map[string]any)
				t.Logf("tools/call %s %s: %s %v", call.tool, call.arguments, call.field, structured[call.field])
				if structured[call.field] != call.want {
					t.Errorf("%s answered %v", call.tool, result)
				}
			}
		})
	}
}
