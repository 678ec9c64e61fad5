package operations_test

import (
	"io"
	"testing"

	"letterhead/internal/config"
	"letterhead/internal/testmust"
	"letterhead/node"
	"letterhead/node/datafolder"
)

// openNodeOf opens a node of one folder that has not begun, until the test ends.
func openNodeOf(t *testing.T, parts node.Parts) *node.Node {
	t.Helper()
	n := openUnclosed(t, parts)
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return n
}

// openUnclosed opens a node that the test closes.
func openUnclosed(t *testing.T, parts node.Parts) *node.Node {
	t.Helper()
	cfg := testmust.Get(config.Load(func(string) (string, bool) { return "", false }, map[string]string{"LETTERHEAD_DATA": t.TempDir(), "LETTERHEAD_STARTER": "off"}))(t)
	lock := testmust.Get(datafolder.Acquire(cfg.Data, datafolder.MayBeNew, "test"))(t)
	return testmust.Get(node.Open(t.Context(), cfg, lock, node.Options{Release: "test", Logs: io.Discard, LogLevel: "error", Parts: parts}))(t)
}
