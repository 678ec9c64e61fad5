package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// A server that is killed while it warms a list continues it, and requests each domain once. A command that finds the
// folder without a server shows the same progress.
func TestWarm_Killed_ListContinues(t *testing.T) {
	data := folderWithoutStarter(t)
	const domains = 60
	var list strings.Builder
	list.WriteString("\ufeffName;Domain\r\nNowhere;192.0.2.1\r\n")
	for i := range domains {
		fmt.Fprintf(&list, "Customer %d;https://WWW.letterhead-warm-test-%d.org/\r\n", i, i)
	}
	file := filepath.Join(t.TempDir(), "customers.csv")
	testmust.Succeed(t, os.WriteFile(file, []byte(list.String()), 0o600))

	env := []string{"LETTERHEAD_STARTER=off", "LETTERHEAD_WARM_PER_MINUTE=240", "LETTERHEAD_CRAWL_DENY=0.0.0.0/0,::/0",
		"LETTERHEAD_REFRESH_WORKERS=32"}
	n := start(t, data, env...)
	printed := ok(t, data, "warm", file)
	for _, want := range []string{"60 domains accepted", "1 lines rejected", "line 2: "} {
		if !strings.Contains(printed, want) {
			t.Errorf("the command printed %q, want %q in it", printed, want)
		}
	}
	var now struct {
		State                         string
		Examined, Requested, Accepted int
	}
	reached := func(n int) func() bool {
		return func() bool {
			decode(t, ok(t, data, "warm", "--json"), &now)
			return now.Examined >= n
		}
	}
	if _, ok := testwait.Until(testwait.Timeout, reached(5)); !ok {
		t.Fatalf("not some domains are examined: %+v", now)
	}
	n.kill()
	if reached(5); now.State != "running" || now.Examined == domains {
		t.Fatalf("the list ended before the server was killed, so the test shows nothing: %+v", now)
	}
	start(t, data, env...)
	if _, ok := testwait.Until(testwait.Timeout, reached(domains)); !ok {
		t.Fatalf("not all domains are examined: %+v", now)
	}
	if now.Requested != domains {
		t.Errorf("%d domains were requested, want %d", now.Requested, domains)
	}
	requested := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(ok(t, data, "events", "tail", "--from", "0", "--no-follow", "--type", "CrawlRequested", "--json")), "\n") {
		var ev struct{ Stream string }
		decode(t, line, &ev)
		requested[ev.Stream]++
	}
	if len(requested) != domains {
		t.Errorf("%d domains were requested, want %d", len(requested), domains)
	}
}
