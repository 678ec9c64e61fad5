package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Group is a cgroup (version 1 or 2) whose processes may use a limited amount of memory, like those of
// a container: beyond it the kernel kills one of them.
type Group struct {
	folder string
	v1     bool
}

const cgroups = "/sys/fs/cgroup"

// NewGroup creates a group without processes that may use that many bytes. The caller must call Close.
// The error explains why this machine or user may not have one.
func NewGroup(name string, bytes int64) (*Group, error) {
	g := &Group{folder: filepath.Join(cgroups, name)}
	if _, err := os.Stat(filepath.Join(cgroups, "memory", "memory.limit_in_bytes")); err == nil {
		g.folder, g.v1 = filepath.Join(cgroups, "memory", name), true
	} else if err := os.WriteFile(filepath.Join(cgroups, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
		return nil, fmt.Errorf("give groups below %s a memory limit: %w", cgroups, err)
	}
	if err := os.Mkdir(g.folder, 0o755); err != nil {
		return nil, fmt.Errorf("create a cgroup: %w", err)
	}
	if err := g.Limit(bytes); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Limit changes how much memory the processes may use, in bytes, without swap. The kernel rejects less
// than they use now.
func (g *Group) Limit(bytes int64) error {
	if !g.v1 {
		return errors.Join(g.write("memory.max", bytes), g.writeIfThere("memory.swap.max", 0))
	}
	// The limit of memory and swap together may never be lower than that of memory alone: a higher
	// limit is written there first.
	const both = "memory.memsw.limit_in_bytes"
	if now, err := g.number(both, ""); err == nil && now < bytes {
		if err := g.write(both, bytes); err != nil {
			return err
		}
	}
	if err := g.write("memory.limit_in_bytes", bytes); err != nil {
		return err
	}
	return g.writeIfThere(both, bytes)
}

// writeIfThere is write for a file that kernels without swap lack.
func (g *Group) writeIfThere(name string, bytes int64) error {
	if _, err := os.Stat(filepath.Join(g.folder, name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return g.write(name, bytes)
}

func (g *Group) write(name string, bytes int64) error {
	if err := os.WriteFile(filepath.Join(g.folder, name), strconv.AppendInt(nil, bytes, 10), 0); err != nil {
		return fmt.Errorf("limit the memory of a cgroup to %d bytes: %w", bytes, err)
	}
	return nil
}

// Command is exec.Command for a process in the group.
func (g *Group) Command(name string, args ...string) *exec.Cmd {
	script := `echo $$ >"$0" && exec "$@"`
	return exec.Command("/bin/sh", append([]string{"-c", script, filepath.Join(g.folder, "cgroup.procs"), name}, args...)...)
}

// Kills returns the number of processes that the kernel killed for lack of memory.
func (g *Group) Kills() (int64, error) {
	name := "memory.events"
	if g.v1 {
		name = "memory.oom_control"
	}
	return g.number(name, "oom_kill ")
}

// Peak returns the maximum memory of the processes, in bytes, including files cached by the kernel: as
// long as there is room, it caches everything they read and write.
func (g *Group) Peak() (int64, error) {
	if g.v1 {
		return g.number("memory.max_usage_in_bytes", "")
	}
	return g.number("memory.peak", "")
}

// number parses the number after a word at the beginning of a line.
func (g *Group) number(name, word string) (int64, error) {
	data, err := os.ReadFile(filepath.Join(g.folder, name))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, word); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s of a cgroup has no %q: %q", name, word, data)
}

// Close removes the group, which must have no processes.
func (g *Group) Close() error {
	if err := os.Remove(g.folder); err != nil {
		return fmt.Errorf("remove a cgroup: %w", err)
	}
	return nil
}
