package resvg

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// wazero compares a checksum of the code in its cache, but believes the lengths before it: a wrong one ends
// the process, which asks for more memory than there is. So a checksum of the whole folder lies beside it.

// maxCacheBytes bounds what is read of a cache. A compiled module is some 8 MiB.
const maxCacheBytes = 128 << 20

// sealOf is the file with the checksum of a folder.
func sealOf(dir string) string { return dir + ".sha256" }

// intact says whether a cache is as seal left it. One that is not there yet is not.
func intact(dir string) bool {
	want, err := os.ReadFile(sealOf(dir))
	if err != nil {
		return false
	}
	got, err := checksum(dir)
	return err == nil && got == string(want)
}

// seal notes a cache's checksum. A start that finds none compiles again, so its failure costs time only.
func seal(dir string) {
	sum, err := checksum(dir)
	if err != nil {
		return
	}
	if have, err := os.ReadFile(sealOf(dir)); err == nil && string(have) == sum {
		return
	}
	// Written aside first: another process may read it at this moment.
	f, err := os.CreateTemp(filepath.Dir(dir), filepath.Base(dir)+"-*")
	if err != nil {
		return
	}
	_, err = f.WriteString(sum)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), sealOf(dir))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

// checksum is that of all files in a folder, with their names, in hex. Errors: those of reading them, and that
// they are more than maxCacheBytes.
func checksum(dir string) (string, error) {
	h := sha256.New()
	left := int64(maxCacheBytes)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is no file", path)
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
			return fmt.Errorf("a cache of more than %d bytes", maxCacheBytes)
		}
		fmt.Fprintf(h, "%d %q\n", n, name)
		return err
	})
	return fmt.Sprintf("%x", h.Sum(nil)), err
}
