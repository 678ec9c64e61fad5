package testprocess_test

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"letterhead/internal/race"
	"letterhead/internal/testmust"
	"letterhead/internal/testprocess"
)

func TestCPUTime_Grows(t *testing.T) {
	id, took := testprocess.ID(os.Getpid()), 50*time.Millisecond
	began, own := value(t, id.CPUTime), testprocess.CPUTime()
	for value(t, id.CPUTime) < began+took { // if the clock has stopped, the test times out
	}
	// /proc counts in hundredths of a second; getrusage is exact.
	if used := testprocess.CPUTime() - own; used < took-20*time.Millisecond {
		t.Errorf("CPUTime grew by %s, want at least %s", used, took)
	}
}

func TestPeak_KeptUntilForgotten(t *testing.T) {
	const size = 64 << 20
	id := testprocess.ID(os.Getpid())
	before := value(t, id.Resident)
	held := make([]byte, size)
	for i := 0; i < len(held); i += 1 << 10 {
		held[i] = 1
	}
	if now := value(t, id.Resident); now < before+size/2 {
		t.Errorf("resident memory is %d after an allocation, was %d", now, before)
	}
	runtime.KeepAlive(held)
	held = nil
	debug.FreeOSMemory()
	if peak := value(t, id.Peak); peak < before+size/2 {
		t.Errorf("peak is %d, resident memory was %d before the allocation", peak, before)
	}
	if race.Enabled {
		t.Skip("the race detector returns no memory to the system, so the peak stays")
	}
	testmust.Succeed(t, id.ForgetPeak())
	if peak := value(t, id.Peak); peak >= before+size/2 {
		t.Errorf("peak is %d after ForgetPeak, resident memory was %d before the allocation", peak, before)
	}
}

func TestID_NoSuchProcess(t *testing.T) {
	const nobody = testprocess.ID(1 << 30) // above the highest number that Linux assigns
	if _, err := nobody.CPUTime(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := nobody.Peak(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func value[T any](t *testing.T, read func() (T, error)) T {
	t.Helper()
	v := testmust.Get(read())(t)
	return v
}
