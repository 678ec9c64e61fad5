package browser_test

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"letterhead/internal/safehttp"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl/browser"
)

// process is the kernel's information about one process.
type process struct {
	args   []string
	status map[string]string // of /proc/<id>/status
	net    string            // its network namespace; "" if it is not readable
	home   string            // its working directory
}

// TestRender_Process_HasNoPrivileges inspects the processes of a browser while it renders a page.
func TestRender_Process_HasNoPrivileges(t *testing.T) {
	dir := temporary(t)
	n := newNet(t)
	var mu sync.Mutex
	var seen []process
	n.sites["acme.com"] = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/app.js" {
			io.WriteString(w, `<!doctype html><title>Acme</title><p>Tools</p><script src="/app.js"></script>`)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, processesOf(t, dir)...)
		io.WriteString(w, `document.body.append("drawn")`)
	}
	html, _, err := render(t, newBrowser(t, n), "http://acme.com/", waitLimit)
	if err != nil || !strings.Contains(html, "drawn") {
		t.Fatalf("Render = %q, %v, want the drawn page", html, err)
	}
	mu.Lock()
	defer mu.Unlock()
	browsers, renderers := 0, 0
	for _, p := range seen {
		if slices.Contains(p.args, "--no-sandbox") {
			t.Errorf("a process has no sandbox: %q", p.args)
		}
		if os.Geteuid() == 0 && (strings.Join(strings.Fields(p.status["Uid"]), " ") != "65534 65534 65534 65534" || p.status["Groups"] != "") {
			t.Errorf("a process runs as user %q, groups %q: %q", p.status["Uid"], p.status["Groups"], p.args)
		}
		switch {
		case slices.Contains(p.args, "--type=renderer"):
			renderers++
			// Chromium filters the system calls of a renderer in its sandbox.
			if p.status["Seccomp"] != "2" || p.status["CapEff"] != "0000000000000000" {
				t.Errorf("a renderer has seccomp %q, capabilities %q", p.status["Seccomp"], p.status["CapEff"])
			}
		case !slices.ContainsFunc(p.args, func(a string) bool { return strings.HasPrefix(a, "--type=") }):
			browsers++
			if own, err := os.Readlink("/proc/self/ns/net"); err == nil && os.Geteuid() == 0 && mayHaveNoNetwork() && p.net == own {
				t.Error("the browser shares our network")
			}
			if !strings.HasPrefix(p.home, dir) {
				t.Errorf("the browser runs in %s", p.home)
			}
		}
	}
	if browsers == 0 || renderers == 0 {
		t.Errorf("%d browsers and %d renderers were seen", browsers, renderers)
	}
}

// mayHaveNoNetwork reports whether a process may be started in a separate network namespace.
func mayHaveNoNetwork() bool {
	probe := exec.Command("/bin/true")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	return probe.Run() == nil
}

// processesOf describes the processes whose command line names a folder.
func processesOf(t *testing.T, dir string) []process {
	var out []process
	for _, file := range processesNaming(t, dir) {
		at := filepath.Dir(file)
		line, err := os.ReadFile(file)
		status, errStatus := os.ReadFile(filepath.Join(at, "status"))
		if err != nil || errStatus != nil {
			continue // it exited meanwhile
		}
		// A child of the zygote has one argument, which is its whole command line.
		args := strings.FieldsFunc(string(line), func(r rune) bool { return r == 0 || r == ' ' })
		p := process{args: args, status: map[string]string{}}
		for line := range strings.Lines(string(status)) {
			if key, value, ok := strings.Cut(line, ":"); ok {
				p.status[key] = strings.TrimSpace(value)
			}
		}
		p.net, _ = os.Readlink(filepath.Join(at, "ns/net"))
		p.home, _ = os.Readlink(filepath.Join(at, "cwd"))
		out = append(out, p)
	}
	return out
}

// alone is set in the environment of a process that runs as root where no other user exists.
const alone = "LETTERHEAD_TEST_ROOT_ALONE"

func TestNew_RootWithoutOtherUser_Fails(t *testing.T) {
	if os.Getenv(alone) != "" {
		client := testmust.Get(safehttp.New(safehttp.Config{OwnAddrs: func() ([]netip.Addr, error) { return nil, nil }}))(t)
		defer client.Close()
		// Any program will do: it is not started.
		if _, err := browser.New(browser.Config{Path: "/bin/true"}, client); !errors.Is(err, browser.ErrRoot) {
			t.Errorf("got %v, want ErrRoot", err)
		}
		return
	}
	again := exec.Command(os.Args[0], "-test.run=^TestNew_RootWithoutOtherUser_Fails$", "-test.v")
	again.Env = append(os.Environ(), alone+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	out, err := again.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skip("user namespaces are not permitted here:", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("the test in a namespace failed: %v\n%s", err, out)
	}
}

// The longest path of a folder for temporary files with which a browser starts is the longest that New accepts.
func TestNew_TempDirTooLongForSocket_Fails(t *testing.T) {
	const longest = 36
	t.Setenv("TMPDIR", "/tmp")
	dir := temporary(t)
	dir += "/" + strings.Repeat("x", longest-1-len(dir))
	for _, folder := range []string{dir, dir + "x"} {
		testmust.Succeed(t, os.Mkdir(folder, 0o755))
	}
	n := newNet(t)
	n.sites["acme.com"] = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `<!doctype html><title>Acme</title>`) }
	t.Setenv("TMPDIR", dir)
	if html, _, err := render(t, newBrowser(t, n), "http://acme.com/", waitLimit); err != nil || !strings.Contains(html, "Acme") {
		t.Errorf("in a folder with %d bytes: %v, %q", longest, err, html)
	}
	t.Setenv("TMPDIR", dir+"x")
	client := testmust.Get(safehttp.New(safehttp.Config{}))(t)
	defer client.Close()
	if _, err := browser.New(browser.Config{}, client); !errors.Is(err, browser.ErrTempDir) {
		t.Errorf("in a folder with %d bytes: %v, want ErrTempDir", longest+1, err)
	}
}
