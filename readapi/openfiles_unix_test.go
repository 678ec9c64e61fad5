//go:build unix

package readapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"letterhead/domain/plan"
	"letterhead/internal/testmust"
)

// fewFilesEnv marks a run of the test binary as the server of TestConnections_FewOpenFiles_LeaveSomeForStores.
const fewFilesEnv = "LETTERHEAD_TEST_FEW_FILES"

// TestConnections_FewOpenFiles_LeaveSomeForStores limits the open files of a process: more connections are open
// than it may have files, and both the next client and the stores still get theirs. The server is a
// separate process, because the limit applies to a process.
func TestConnections_FewOpenFiles_LeaveSomeForStores(t *testing.T) {
	t.Parallel()
	const files, held = 128, 200
	if os.Getenv(fewFilesEnv) != "" {
		few := syscall.Rlimit{Cur: files, Max: files}
		testmust.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
		s := start(t)
		s.known("acme.com", record("acme"))
		fmt.Printf("serves %s %s\n", s.url, s.account(plan.Custom, 50).secret)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	ctx, kill := context.WithTimeout(context.Background(), 2*waitLimit)
	t.Cleanup(kill)
	server := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
	server.Env = append(os.Environ(), fewFilesEnv+"=1")
	stop := testmust.Get(server.StdinPipe())(t)
	said := testmust.Get(server.StdoutPipe())(t)
	testmust.Succeed(t, server.Start())
	lines := bufio.NewReader(said)
	t.Cleanup(func() {
		stop.Close()
		rest, _ := io.ReadAll(lines)
		if err := server.Wait(); err != nil {
			t.Errorf("the server: %v\n%s", err, rest)
		}
	})
	var url, key string
	line, err := lines.ReadString('\n')
	if n, _ := fmt.Sscanf(line, "serves %s %s", &url, &key); n != 2 {
		t.Fatalf("%q, %v", line, err)
	}
	ask := func(path string) {
		t.Helper()
		conn := testmust.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
		t.Cleanup(func() { conn.Close() })
		testmust.Succeed(t, conn.SetDeadline(time.Now().Add(waitLimit)))
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\n\r\n", path, key)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v", path, resp, err)
		}
	}
	for range held {
		ask("/docs/errors")
	}
	for _, path := range []string{"/v1/brands/acme.com", "/v1/search?q=acme", "/v1/me"} {
		ask(path)
	}
}
