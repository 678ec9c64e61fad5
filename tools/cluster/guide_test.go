//go:build services

package cluster

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"letterhead/internal/testwait"
	"letterhead/tools/e2e/program"
)

// guideWithin is the maximum time for following the guide.
const guideWithin = 4 * time.Minute

// Runs the commands in the section "By hand" of docs/distributed.md, with other names and addresses.
func TestDistributedGuide_FollowedVerbatim_Works(t *testing.T) {
	at := servicesOf(t)
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("psql is not installed: cannot follow the guide")
	}
	guide, err := os.ReadFile("../../docs/distributed.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "\n## By hand\n")
	section, _, _ = strings.Cut(section, "\n## ")
	script := ""
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		script += block[1]
	}
	server, err := url.Parse(at.postgres)
	if err != nil {
		t.Fatal(err)
	}
	name, dir := "guide"+random(), t.TempDir()
	admin := *server
	admin.Path, admin.RawQuery = "/postgres", ""
	addresses := make([]string, 5) // three nodes, two event stores
	for i := range addresses {
		if addresses[i], err = program.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	for i, store := range addresses[3:] {
		p := newEventStore(name+"-events"+[]string{"1", "2"}[i], store)
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
	}
	port := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	for _, change := range [][2]string{
		{"postgres://postgres:secret@db:5432/postgres", admin.String()},
		{"@db:5432/letterhead'", "@" + server.Host + "/" + name + "'"},
		{"@db:5432/restored'", "@" + server.Host + "/" + name + "restored'"},
		{"CREATE USER letterhead PASSWORD", "CREATE USER " + name + " PASSWORD"},
		{"postgres://letterhead:secret", "postgres://" + name + ":secret"},
		{"CREATE DATABASE letterhead OWNER letterhead", "CREATE DATABASE " + name + " OWNER " + name},
		{"CREATE DATABASE restored OWNER letterhead", "CREATE DATABASE " + name + "restored OWNER " + name},
		{"events:2113", addresses[3]}, {"events2:2113", addresses[4]},
		{"http://search:9200", strings.TrimSuffix(at.elasticsearch, "/") + "?alias=" + name + "&replicas=0"},
		{"kafka://kafka:9092", "kafka://" + at.kafka + "?prefix=" + name + "."},
		{"file:///srv/letterhead", "file://" + filepath.Join(dir, "srv")},
		{"8081", port(addresses[0])}, {"8082", port(addresses[1])}, {"8083", port(addresses[2])},
	} {
		if !strings.Contains(script, change[0]) {
			t.Fatalf("docs/distributed.md does not contain %q: adapt the test", change[0])
		}
		script = strings.ReplaceAll(script, change[0], change[1])
	}
	if err := os.Symlink(binary, filepath.Join(dir, "letterhead")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, what := range []string{"DATABASE IF EXISTS " + name, "DATABASE IF EXISTS " + name + "restored", "ROLE IF EXISTS " + name} {
			if out, err := exec.Command("psql", admin.String(), "-c", "DROP "+what).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	})
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	shell.Dir = dir
	shell.Env = environ("PATH="+dir+":"+os.Getenv("PATH"), "LETTERHEAD_REFRESH=off") // the test needs no crawls
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// The nodes inherit standard output and outlive the shell, so Wait would block on a pipe. A file avoids that.
	printed, err := os.Create(filepath.Join(dir, "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	shell.Stdout, shell.Stderr = printed, printed
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- shell.Wait() }()
	var result error
	_, over := testwait.Until(guideWithin, func() bool {
		select {
		case result = <-ended:
			return true
		default:
			return false
		}
	})
	// The nodes are in the shell's process group. End them too.
	if err := syscall.Kill(-shell.Process.Pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		t.Error(err)
	}
	text, err := os.ReadFile(printed.Name())
	if err != nil {
		t.Fatal(err)
	}
	output := string(text)
	if !over || result != nil {
		t.Fatalf("the guide ended with %v (in time: %t):\n%s\nlogs:\n%s", result, over, output, logsIn(dir))
	}
	for _, want := range []string{`"domain":"github.com"`, "ready"} {
		if !strings.Contains(output, want) {
			t.Errorf("the guide did not print %q:\n%s", want, output)
		}
	}
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is valid
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			// The first reader may find the index before Elasticsearch has started its shard.
			if strings.Contains(line, "level=WARN") && !strings.Contains(line, "no_shard_available") {
				t.Errorf("%s of the guide warns: %s", filepath.Base(name), line)
			}
		}
	}
	if len(logs) != 3 {
		t.Errorf("the guide wrote the logs %v, want 3", logs)
	}
	t.Logf("output of the guide:\n%s", output)
}

func logsIn(dir string) string {
	all := ""
	names, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is valid
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		all += filepath.Base(name) + ":\n" + string(text[max(0, len(text)-shownLog):])
	}
	return all
}
