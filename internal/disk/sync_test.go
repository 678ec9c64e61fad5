package disk_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"testing"

	"letterhead/internal/disk"
)

func TestSyncFolder_MissingFolder_Fails(t *testing.T) {
	folder := t.TempDir()
	if err := disk.SyncFolder(folder); err != nil {
		t.Errorf("SyncFolder of a folder: %v", err)
	}
	if err := disk.SyncFolder(filepath.Join(folder, "missing")); !errors.Is(err, fs.ErrNotExist) && runtime.GOOS != "windows" {
		t.Errorf("SyncFolder of a missing folder = %v, want fs.ErrNotExist", err)
	}
}
