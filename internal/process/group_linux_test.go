package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/internal/process"
)

// The kernel would swap out memory instead of killing a process that exceeds its limit.
func TestGroup_HasNoSwap(t *testing.T) {
	name := fmt.Sprintf("letterhead-test-%d", os.Getpid())
	g, err := process.NewGroup(name, 64<<20)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	looked := false
	for _, limit := range []int64{64 << 20, 128 << 20, 32 << 20} {
		if err := g.Limit(limit); err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]string{
			filepath.Join(name, "memory.swap.max"):                       "0",
			filepath.Join("memory", name, "memory.memsw.limit_in_bytes"): fmt.Sprint(limit),
		} {
			if data, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", file)); err == nil {
				looked = true
				if got := strings.TrimSpace(string(data)); got != want {
					t.Errorf("limit %d: %s is %s", limit, file, got)
				}
			}
		}
	}
	if !looked {
		t.Skip("this kernel does not limit swap")
	}
}
