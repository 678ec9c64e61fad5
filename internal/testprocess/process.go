// Package testprocess measures what a process uses: CPU time and memory. It is for tests and measuring tools.
package testprocess

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// ID is a process id. The data comes from proc(5); on systems without it, all methods return fs.ErrNotExist.
type ID int

// clockTicks is the unit of /proc/PID/stat: USER_HZ, which is 100 on every architecture that Go supports.
const clockTicks = 100

func (id ID) file(name string) string { return fmt.Sprintf("/proc/%d/%s", id, name) }

// CPUTime returns the CPU time of the process, in hundredths of a second.
func (id ID) CPUTime() (time.Duration, error) {
	stat, err := os.ReadFile(id.file("stat"))
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses, which may contain spaces. Fields 14 and 15 are utime and stime.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s is truncated: %q", id.file("stat"), stat)
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

// Resident returns the resident memory of the process, in bytes.
func (id ID) Resident() (int64, error) { return id.memory("VmRSS:") }

// Peak returns the maximum resident memory of the process, in bytes, since it started or since ForgetPeak.
func (id ID) Peak() (int64, error) { return id.memory("VmHWM:") }

// ForgetPeak makes Peak start from the current resident memory.
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
