// Package program builds the binary that the tests of e2e and tools run, and provides what its processes need: an
// environment, addresses to listen on, and a wait until a server is ready.
package program

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Build builds the binary into a folder and returns its path.
func Build(folder string) (string, error) { return BuildCommand(folder, "letterhead/cmd/letterhead") }

// BuildCommand builds a command into a folder and returns its path.
func BuildCommand(folder, command string) (string, error) {
	name := filepath.Join(folder, path.Base(command))
	build := exec.Command("go", "build", "-o", name, command)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", command, err)
	}
	return name, nil
}

// Environ returns the environment of a child process: without the developer's own settings, and with its own
// cache folder.
func Environ(cache string, extra ...string) []string {
	out := []string{"XDG_CACHE_HOME=" + cache}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "LETTERHEAD_") && !strings.HasPrefix(kv, "XDG_CACHE_HOME=") {
			out = append(out, kv)
		}
	}
	return append(out, extra...)
}

// Servers use ports below the system's ephemeral range (from 32768 by default), because a connection could take an
// ephemeral port before the server listens on it or while the server restarts.
const (
	firstPort, ports = 20_000, 10_000
	portTries        = 100
)

var nextPort = sync.OnceValue(func() *atomic.Int64 {
	var n atomic.Int64
	n.Store(rand.Int64N(ports)) // other runs may use ports at the same time
	return &n
})

// FreeAddress returns a loopback address (host:port) that was just free. It fails if it finds none.
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
	// pollEvery is the pause between two requests that check whether a server is ready.
	pollEvery = 20 * time.Millisecond
	// pollTimeout limits one such request.
	pollTimeout = 2 * time.Second
)

// Each request uses a new connection, because an old one may lead to a killed process.
var polls = &http.Client{Timeout: pollTimeout, Transport: &http.Transport{DisableKeepAlives: true}}

// Serves reports whether a server answers 200 at a URL.
func Serves(url string) bool {
	resp, err := polls.Get(url)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// AwaitServing waits until a server answers 200 at a URL. It fails if the process ends first, which closes ended, or
// if it takes longer than within.
func AwaitServing(url string, within time.Duration, ended <-chan struct{}) error {
	over := time.NewTimer(within)
	defer over.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !Serves(url) {
		select {
		case <-tick.C:
		case <-ended:
			return errors.New("the server ended before it was ready")
		case <-over.C:
			return fmt.Errorf("the server was not ready within %s", within)
		}
	}
	return nil
}
