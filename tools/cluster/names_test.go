//go:build services

package cluster

import (
	"strings"
	"testing"
	"time"
)

// endsWithin is the timeout for the second node to exit: it starts, and then waits for as long as a disconnected node
// keeps its name.
const endsWithin = 60 * time.Second

func TestNodeName_UsedTwice_SecondNodeExits(t *testing.T) {
	c := whole(t)
	twin, err := c.newNode("api-twin", "api", "LETTERHEAD_NODE=api-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := twin.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(twin.kill)
	until(t, endsWithin, "the second node with the same name exits", func() bool { return !twin.alive() })
	cmd, _ := twin.life()
	const want = "another process that serves on this database has the same LETTERHEAD_NODE"
	if log := twin.output(0); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(log, want) {
		t.Errorf("the second node exited with %d, want 1; its log:\n%s", cmd.ProcessState.ExitCode(), log)
	}
	// The first node keeps running. If it is killed and started immediately, it gets its name back.
	if !c.apis[0].alive() {
		t.Error("the first node exited")
	}
	c.apis[0].kill()
	if err := c.apis[0].start(); err != nil {
		t.Fatal(err)
	}
	c.ready(t)
}
