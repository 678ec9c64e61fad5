package disk

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// SyncFolder makes the names of the files in a folder durable: a new file, a rename or a removal. On Windows it does
// nothing, because a folder cannot be flushed there; NTFS writes names to its journal.
func SyncFolder(folder string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync folder %s: %w", folder, err)
	}
	return nil
}
