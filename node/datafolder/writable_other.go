//go:build !unix

package datafolder

import (
	"io/fs"
	"os"
)

// writable returns an error if the file does not exist or is marked read-only. On Windows the mark has no effect
// on folders, and whether access lists permit a write is only known after trying.
func writable(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() && info.Mode().Perm()&0o200 == 0 {
		return fs.ErrPermission
	}
	return err
}
