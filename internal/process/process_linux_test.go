package process_test

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"letterhead/internal/process"
	"letterhead/internal/race"
)

func TestCPUTime_Grows(t *testing.T) {
	id, took := process.ID(os.Getpid()), 50*time.Millisecond
	began, own := told(t, id.CPUTime), process.CPUTime()
	for told(t, id.CPUTime) < began+took { // the test's own deadline ends a clock that stopped
	}
	// The kernel counts in hundredths for one, and exactly for the other.
	if used := process.CPUTime() - own; used < took-20*time.Millisecond {
		t.Errorf("the two ways differ: %s of at least %s", used, took)
	}
}

func TestPeak_KeptUntilForgotten(t *testing.T) {
	const size = 64 << 20
	id := process.ID(os.Getpid())
	before := told(t, id.Resident)
	held := make([]byte, size)
	for i := 0; i < len(held); i += 1 << 10 {
		held[i] = 1
	}
	if now := told(t, id.Resident); now < before+size/2 {
		t.Errorf("resident %d, before %d", now, before)
	}
	runtime.KeepAlive(held)
	held = nil
	debug.FreeOSMemory()
	if peak := told(t, id.Peak); peak < before+size/2 {
		t.Errorf("peak %d, before %d", peak, before)
	}
	if race.Enabled {
		t.Skip("the race detector gives no memory back, so that there is no lower peak to see")
	}
	if err := id.ForgetPeak(); err != nil {
		t.Fatal(err)
	}
	if peak := told(t, id.Peak); peak >= before+size/2 {
		t.Errorf("peak %d after it was forgotten, before %d", peak, before)
	}
}

func TestID_NoSuchProcess(t *testing.T) {
	const nobody = process.ID(1 << 30) // above the highest number that Linux assigns
	if _, err := nobody.CPUTime(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := nobody.Peak(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func told[T any](t *testing.T, read func() (T, error)) T {
	t.Helper()
	value, err := read()
	if err != nil {
		t.Fatal(err)
	}
	return value
}
