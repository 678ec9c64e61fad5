//go:build services

package cluster

import (
	"strings"
	"testing"
	"time"
)

// endsWithin bounds the time until a node that is refused has ended: it waits as long as a node that was cut off keeps
// its name, and starts before that.
const endsWithin = 60 * time.Second

func TestNodeName_UsedTwice_IsRefused(t *testing.T) {
	c := whole(t)
	twin, err := c.newNode("api-twin", "api", "LETTERHEAD_NODE=api-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := twin.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(twin.kill)
	until(t, endsWithin, "the second node of one name has ended", func() bool { return !twin.alive() })
	cmd, _ := twin.life()
	const want = "another process that serves on this database has the same LETTERHEAD_NODE"
	if said := twin.said(0); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said, want) {
		t.Errorf("it ended with %d and said:\n%s", cmd.ProcessState.ExitCode(), said)
	}
	// The first one goes on, and has its name again after a kill, under which it is started at once.
	if !c.apis[0].alive() {
		t.Error("the first node of the name has ended")
	}
	c.apis[0].kill()
	if err := c.apis[0].start(); err != nil {
		t.Fatal(err)
	}
	c.ready(t)
}
