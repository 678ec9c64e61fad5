package disk_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"letterhead/internal/disk"
	"letterhead/internal/testmust"
)

func TestRemoveLeft_FoldersInUseAndOthers_Stay(t *testing.T) {
	parent := t.TempDir()
	used := testmust.Get(disk.NewTempFolder(parent, "demo-"))(t)
	for _, folder := range []string{"demo-left", "demo-without-lock", "other-left"} {
		testmust.Succeed(t, os.Mkdir(filepath.Join(parent, folder), 0o700))
	}
	outside := t.TempDir()
	for _, folder := range []string{filepath.Join(parent, "demo-left"), filepath.Join(parent, "other-left"), outside} {
		testmust.Succeed(t, os.WriteFile(filepath.Join(folder, "lock"), nil, 0o600))
	}
	testmust.Succeed(t, os.WriteFile(filepath.Join(parent, "demo-file"), nil, 0o600))
	testmust.Succeed(t, os.Symlink(outside, filepath.Join(parent, "demo-link")))
	kept := []string{used.Path}
	linked := filepath.Join(parent, "demo-linked-lock")
	testmust.Succeed(t, os.Mkdir(linked, 0o700))
	testmust.Succeed(t, os.Symlink(filepath.Join(outside, "lock"), filepath.Join(linked, "lock")))
	kept = append(kept, linked)
	if runtime.GOOS != "windows" { // which has no such modes
		shared := filepath.Join(parent, "demo-shared")
		testmust.Succeed(t, os.Mkdir(shared, 0o700))
		testmust.Succeed(t, os.WriteFile(filepath.Join(shared, "lock"), nil, 0o600))
		testmust.Succeed(t, os.Chmod(shared, 0o710))
		kept = append(kept, shared)
	}
	testmust.Succeed(t, disk.RemoveLeft(parent, "demo-"))
	if _, err := os.Stat(filepath.Join(parent, "demo-left")); !os.IsNotExist(err) {
		t.Errorf("the folder that was left: %v, want that it does not exist", err)
	}
	kept = append(kept, filepath.Join(parent, "demo-without-lock"), filepath.Join(parent, "other-left"), filepath.Join(parent, "demo-file"), filepath.Join(parent, "demo-link"), filepath.Join(outside, "lock"))
	for _, name := range kept {
		if _, err := os.Lstat(name); err != nil {
			t.Error(err)
		}
	}
	testmust.Succeed(t, used.Remove())
	if _, err := os.Stat(used.Path); !os.IsNotExist(err) {
		t.Errorf("the removed folder: %v", err)
	}
	testmust.Succeed(t, disk.RemoveLeft(filepath.Join(parent, "missing"), "demo-"))
}
