// Package program builds the binary that the tests of e2e run, and knows what its processes have in common:
// their environment, where they listen, and when they serve.
package program

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Build builds the binary into a folder and returns its path.
func Build(folder string) (path string, err error) { return build(folder, "cmd/letterhead") }

// BuildStandin builds the stand-in for an EventStoreDB server into a folder and returns its path.
func BuildStandin(folder string) (path string, err error) { return build(folder, "tools/esdb-standin") }

func build(folder, command string) (path string, err error) {
	path = filepath.Join(folder, filepath.Base(command))
	build := exec.Command("go", "build", "-o", path, "letterhead/"+command)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", command, err)
	}
	return path, nil
}

// Environ is the environment of a child: none of the developer's own settings, and a folder for its cache.
func Environ(cache string, extra ...string) []string {
	out := []string{"XDG_CACHE_HOME=" + cache}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "LETTERHEAD_") && !strings.HasPrefix(kv, "XDG_CACHE_HOME=") {
			out = append(out, kv)
		}
	}
	return append(out, extra...)
}

// Ports of servers lie below those that the system gives to connections (from 32768 on by default): one of those
// might be taken by somebody's connection before the server listens on it, or while it is being restarted.
const (
	firstPort, ports = 20_000, 10_000
	portTries        = 100
)

var nextPort = sync.OnceValue(func() *atomic.Int64 {
	var n atomic.Int64
	n.Store(rand.Int64N(ports)) // another run may be at work
	return &n
})

// FreeAddress is an address of the loopback (host:port) that was free a moment ago.
func FreeAddress() (string, error) {
	for range portTries {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+int(nextPort().Add(1)%ports)))
		l, err := net.Listen("tcp", address)
		if err == nil {
			return address, l.Close()
		}
	}
	return "", fmt.Errorf("no free port after %d attempts from %d on", portTries, firstPort)
}

const (
	// lookEvery is the pause between two requests that check whether a server serves.
	lookEvery = 20 * time.Millisecond
	// answersWithin bounds one such request.
	answersWithin = 2 * time.Second
)

// A look takes a connection of its own: one to a process that was killed is of no use.
var looks = &http.Client{Timeout: answersWithin, Transport: &http.Transport{DisableKeepAlives: true}}

// Serves reports whether a server answers 200 at a URL.
func Serves(url string) bool {
	resp, err := looks.Get(url)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// AwaitServing waits until a server answers 200 at a URL. It returns an error when the process ends before, which
// closes ended, and when the time is over.
func AwaitServing(url string, within time.Duration, ended <-chan struct{}) error {
	over := time.NewTimer(within)
	defer over.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !Serves(url) {
		select {
		case <-tick.C:
		case <-ended:
			return errors.New("the server ended before it was ready")
		case <-over.C:
			return fmt.Errorf("the server did not get ready within %s", within)
		}
	}
	return nil
}
