package datafolder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"letterhead/internal/disk"
)

// restoring is the file that marks a folder while a restore into it is unfinished.
const restoring = "restoring"

// MarkRestoring notes that a restore into the folder has begun.
func MarkRestoring(folder string) error {
	text := "A restore into this folder is unfinished. Run \"letterhead restore\" again to finish it.\n"
	return disk.WriteText(filepath.Join(folder, restoring), text)
}

// EndRestoring removes the mark of MarkRestoring.
func EndRestoring(folder string) error {
	if err := os.Remove(filepath.Join(folder, restoring)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// CheckRestored fails if a restore into the folder is unfinished: a server must not serve a part of a ledger.
func CheckRestored(folder string) error {
	_, err := os.Stat(filepath.Join(folder, restoring))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check for an unfinished restore: %w", err)
	}
	return fmt.Errorf(
		"the restore into %s is unfinished; run \"letterhead restore\" again, or start over with an empty folder",
		folder)
}
