package variants_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"letterhead/internal/disk/disktest"
)

// smallDisk has room for the files of two processes, but not for additional ballast.
const (
	smallDisk = "1m"
	ballast   = 824 << 10
)

// TestProcesses_SmallDisk_AnswerCorrectly is like TestProcesses_FullDisk_AnswerCorrectly, with a disk that is really
// full.
func TestProcesses_SmallDisk_AnswerCorrectly(t *testing.T) {
	t.Parallel()
	disktest.Run(t, smallDisk, func(at string) {
		weight := filepath.Join(at, "ballast")
		full := func([]*sharer) {
			err := os.WriteFile(weight, make([]byte, ballast), 0o600)
			if err != nil && !errors.Is(err, syscall.ENOSPC) { // the disk is full
				t.Fatal(err)
			}
		}
		onAFullDisk(t, filepath.Join(at, "logos"), full, func([]*sharer) { noError(t, os.Remove(weight)) })
	})
}
