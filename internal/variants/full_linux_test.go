package variants_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"letterhead/internal/disk/disktest"
)

// smallDisk has room for what two sharers may keep, and not for ballast besides.
const (
	smallDisk = "1m"
	ballast   = 824 << 10
)

// TestTwoProcessesShareASmallDisk is as TestTwoProcessesShareAFullDisk, with a disk that really has no space.
func TestTwoProcessesShareASmallDisk(t *testing.T) {
	t.Parallel()
	disktest.Run(t, "TestOnASmallDisk")
}

func TestOnASmallDisk(t *testing.T) {
	at := disktest.Mount(t, smallDisk)
	weight := filepath.Join(at, "ballast")
	full := func([]*sharer) {
		err := os.WriteFile(weight, make([]byte, ballast), 0o600)
		if err != nil && !errors.Is(err, syscall.ENOSPC) { // which is as full as can be
			t.Fatal(err)
		}
	}
	onAFullDisk(t, filepath.Join(at, "logos"), full, func([]*sharer) { noError(t, os.Remove(weight)) })
}
