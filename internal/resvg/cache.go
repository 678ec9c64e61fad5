package resvg

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"letterhead/internal/disk"
)

// wazero verifies a checksum of the code in its cache but trusts the lengths that precede it. A wrong
// length makes it request more memory than the machine has, which crashes the process. So a checksum of
// the whole folder is stored next to the folder.

// maxCacheBytes limits how much of a cache is read. A compiled module is about 8 MiB.
const maxCacheBytes = 128 << 20

// sealOf returns the path of the file with the checksum of a folder.
func sealOf(dir string) string { return dir + ".sha256" }

// intact reports whether a cache has not changed since seal. A missing cache is not intact.
func intact(dir string) bool {
	want, err := os.ReadFile(sealOf(dir))
	if err != nil {
		return false
	}
	got, err := checksum(dir)
	return err == nil && got == string(want)
}

// seal stores a cache's checksum. It ignores failures, because without a checksum the next start compiles again.
func seal(dir string) {
	sum, err := checksum(dir)
	if err != nil {
		return
	}
	if have, err := os.ReadFile(sealOf(dir)); err == nil && string(have) == sum {
		return
	}
	_ = disk.WriteText(sealOf(dir), sum)
}

// checksum returns the hex checksum of the names and contents of all files in a folder. It fails if
// they cannot be read or exceed maxCacheBytes.
func checksum(dir string) (string, error) {
	h := sha256.New()
	left := int64(maxCacheBytes)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is not a file", path)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := io.Copy(h, io.LimitReader(f, left+1))
		if left -= n; left < 0 {
			return fmt.Errorf("the cache has more than %d bytes", maxCacheBytes)
		}
		fmt.Fprintf(h, "%d %q\n", n, name)
		return err
	})
	return fmt.Sprintf("%x", h.Sum(nil)), err
}
