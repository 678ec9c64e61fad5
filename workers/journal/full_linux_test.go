package journal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"letterhead/internal/disk/disktest"
	"letterhead/internal/testmust"
)

func TestWriteFile_FullDisk_LeavesNothing(t *testing.T) {
	disktest.Run(t, "16k", func(at string) {
		w := newWorld(t)
		for range 3 {
			w.append(day(1, 1), first, manyCharges(w, 1000)...)
		}
		for _, format := range Formats() {
			name := filepath.Join(at, "journal")
			testmust.Succeed(t, os.WriteFile(name, []byte("older"), 0o600))
			err := WriteFile(t.Context(), w.stored(), Options{Format: format, Chart: DefaultChart()}, name)
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: %v, want ENOSPC", format, err)
			}
			if text, err := os.ReadFile(name); err != nil || string(text) != "older" {
				t.Errorf("%s: the older file has changed to %d bytes (%v)", format, len(text), err)
			}
			if files, err := os.ReadDir(at); err != nil || len(files) != 1 {
				t.Errorf("%s: files %v remain (%v), want the older export", format, files, err)
			}
		}
	})
}
