// Package process tells what a process takes of its machine: processor time and memory. It is for tests and
// for tools that measure.
package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// ID is the number of a process. What it tells stands in proc(5): on a system without that, all errors are
// fs.ErrNotExist.
type ID int

// clockTicks is the unit of /proc/PID/stat: USER_HZ, which is 100 on every architecture that Go builds for.
const clockTicks = 100

func (id ID) file(name string) string { return fmt.Sprintf("/proc/%d/%s", id, name) }

// CPUTime is what the process has computed so far, in hundredths of a second.
func (id ID) CPUTime() (time.Duration, error) {
	stat, err := os.ReadFile(id.file("stat"))
	if err != nil {
		return 0, err
	}
	// The second field is the name in brackets, and may hold blanks; utime and stime are fields 14 and 15.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s is cut short: %q", id.file("stat"), stat)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", id.file("stat"), err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / clockTicks, nil
}

// Resident is the memory that the process has resident now, in bytes.
func (id ID) Resident() (int64, error) { return id.memory("VmRSS:") }

// Peak is the most memory that the process has had resident, in bytes, since it began or since ForgetPeak.
func (id ID) Peak() (int64, error) { return id.memory("VmHWM:") }

// ForgetPeak makes Peak start from what is resident now.
func (id ID) ForgetPeak() error { return os.WriteFile(id.file("clear_refs"), []byte("5"), 0) }

func (id ID) memory(begins string) (int64, error) {
	status, err := os.ReadFile(id.file("status"))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte(begins)); ok {
			var kib int64
			if _, err := fmt.Sscanf(string(value), "%d kB", &kib); err != nil {
				return 0, fmt.Errorf("%s: %s %w", id.file("status"), begins, err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("%s has no %s; has the process ended?", id.file("status"), begins)
}
