//go:build conformance

// Package conformance tests the MCP endpoint of the built binary with two tools from npm: the official conformance
// scenarios for servers, and the MCP Inspector. `make conformance` runs it.
//
// LETTERHEAD_BINARY names the binary. npx fetches the tools. If the installed Node.js is too old for them, npx also
// fetches a newer one.
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

	"letterhead/tools/e2e/program"
)

const (
	scenariosPackage = "@modelcontextprotocol/conformance@0.1.16"
	inspectorPackage = "@modelcontextprotocol/inspector@2.12.0"
	// Both tools need this version of Node.js or a later one. The npm package node contains it.
	nodePackage  = "node@22"
	minNodeMajor = 22
	minNodeMinor = 19

	startTimeout = 2 * time.Minute
	toolTimeout  = 5 * time.Minute // includes the download by npx
)

// server runs the binary with `serve` and has one account.
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
		t.Fatal("LETTERHEAD_BINARY is not set")
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
	logged := func() string {
		text, err := os.ReadFile(logs.Name())
		return fmt.Sprint(string(text), err)
	}
	cmd := exec.Command(binary, "serve", "--data", data, "--listen", listen)
	cmd.Env = append(os.Environ(), "LETTERHEAD_REFRESH=off", "LETTERHEAD_BASE_URL="+s.url) // no background crawls
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := errors.Join(cmd.Start(), logs.Close()); err != nil { // the process has its own descriptor
		t.Fatal(err)
	}
	exited := make(chan struct{})
	var exitErr error // of Wait; set before exited is closed
	go func() { defer close(exited); exitErr = cmd.Wait() }()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("stop the server: %v", err)
		}
		if <-exited; exitErr != nil || t.Failed() {
			t.Logf("the server ended with %v; its log:\n%s", exitErr, logged())
		}
	})
	if err := program.AwaitServing(s.url+"/readyz", startTimeout, exited); err != nil {
		t.Fatal(err) // the cleanup logs the server's output
	}
	out, err := exec.Command(binary, "--data", data, "account", "create", "--name", "conformance", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &s.account)
	}
	if err != nil {
		t.Fatalf("create an account: %v", err)
	}
	return s
}

// proxyWithKey starts a proxy that adds a key to each request and changes nothing else, not even Host. It returns the
// proxy's URL. The scenarios send no key, and the server rejects requests without one.
func (s *server) proxyWithKey(t *testing.T) string {
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

// npx runs a tool from npm and returns its output.
func npx(t *testing.T, tool string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), toolTimeout)
	defer cancel()
	all := []string{"--yes", "--package", tool}
	if !nodeRunsTools(t) {
		all = append(all, "--package", nodePackage)
	}
	cmd := exec.CommandContext(ctx, "npx", append(append(all, "--"), args...)...)
	cmd.Dir = t.TempDir() // outside of any npm package
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// nodeRunsTools reports whether the installed Node.js is new enough for the tools.
func nodeRunsTools(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command("node", "--version").Output()
	parts := strings.Split(strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), ".")
	if err != nil || len(parts) < 2 {
		return false
	}
	major, _ := strconv.Atoi(parts[0])
	minor, _ := strconv.Atoi(parts[1])
	return major > minNodeMajor || major == minNodeMajor && minor >= minNodeMinor
}

// TestMCP_OfficialScenarios_Pass runs the scenarios for a stateless server with tools. The other scenarios test
// features that Letterhead does not have, or call tools that only a test server has.
func TestMCP_OfficialScenarios_Pass(t *testing.T) {
	endpoint := serve(t).proxyWithKey(t) + "/mcp"
	for _, scenario := range []string{"server-initialize", "ping", "tools-list", "dns-rebinding-protection"} {
		t.Run(scenario, func(t *testing.T) {
			stdout, stderr, err := npx(t, scenariosPackage, "conformance", "server", "--url", endpoint, "--scenario", scenario, "--output-dir", t.TempDir())
			t.Log(stdout)
			if err != nil {
				t.Errorf("%v: %s", err, stderr)
			}
			if !strings.Contains(stdout, " 0 failed") || strings.Contains(stdout, "Passed: 0/") {
				t.Errorf("no check passed, or a check failed")
			}
		})
	}
}

// TestMCP_Inspector_CallsEveryTool lists the tools and calls each of them, in both protocol eras of the inspector.
func TestMCP_Inspector_CallsEveryTool(t *testing.T) {
	s := serve(t)
	inspect := func(t *testing.T, era string, args ...string) map[string]any {
		t.Helper()
		all := append([]string{"mcp-inspector", "--cli", s.url + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + s.secret(t),
			"--protocol-era", era, "--stored-auth-only", "--quiet"}, args...)
		stdout, stderr, err := npx(t, inspectorPackage, all...)
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
				t.Errorf("tools = %v, want get_brand, search_brands and get_logo_url", names)
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
					t.Errorf("%s answered %v, which lacks the expected value", call.tool, result)
				}
			}
		})
	}
}
