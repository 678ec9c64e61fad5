package testprocess_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/internal/testprocess"
)

// The kernel would swap out memory instead of killing a process that exceeds its limit.
func TestGroup_HasNoSwap(t *testing.T) {
	name := fmt.Sprintf("letterhead-test-%d", os.Getpid())
	g, err := testprocess.NewGroup(name, 64<<20)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { testmust.Succeed(t, g.Close()) })
	looked := false
	for _, limit := range []int64{64 << 20, 128 << 20, 32 << 20} {
		testmust.Succeed(t, g.Limit(limit))
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
