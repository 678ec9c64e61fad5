package operations_test

import (
	"io"
	"testing"

	"letterhead/internal/config"
	"letterhead/internal/testmust"
	"letterhead/node"
	"letterhead/node/datafolder"
)

// openNodeOf opens a node of one folder that has not begun.
func openNodeOf(t *testing.T, parts node.Parts) *node.Node {
	t.Helper()
	cfg, err := config.Load(func(string) (string, bool) { return "", false }, map[string]string{"LETTERHEAD_DATA": t.TempDir(), "LETTERHEAD_STARTER": "off"})
	testmust.Succeed(t, err)
	lock, err := datafolder.Acquire(cfg.Data, datafolder.MayBeNew, "test")
	testmust.Succeed(t, err)
	n, err := node.Open(t.Context(), cfg, lock, node.Options{Release: "test", Logs: io.Discard, LogLevel: "error", Parts: parts})
	testmust.Succeed(t, err)
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return n
}
