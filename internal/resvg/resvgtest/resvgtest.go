// Package resvgtest shares the compiled vector renderer among the test binaries of a machine. Compiling it takes two
// seconds of processor time, and fifteen under the race detector.
package resvgtest

import (
	"os"
	"path/filepath"
	"testing"
)

// Folder returns the folder that keeps the compiled renderer between test binaries. It is "" if the user has no cache
// folder; each renderer is then compiled.
func Folder() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "letterhead-test")
}

// Link makes a node in a new data folder load the renderer from Folder.
func Link(t testing.TB, data string) {
	t.Helper()
	shared := Folder()
	if shared == "" {
		return
	}
	cache := filepath.Join(data, "cache")
	for _, dir := range []string{shared, cache} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(shared, filepath.Join(cache, "resvg")); err != nil {
		t.Fatal(err)
	}
}
