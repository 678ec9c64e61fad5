package testprocess

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

// Group is a cgroup (version 1 or 2) that limits the memory of its processes, like a container. If they
// exceed the limit the kernel kills one of them.
type Group struct {
	folder string
	v1     bool
}

const cgroups = "/sys/fs/cgroup"

// NewGroup creates an empty group with a memory limit in bytes. The caller must call Close. It fails if the
// machine has no cgroups or the user may not create them.
func NewGroup(name string, bytes int64) (*Group, error) {
	g := &Group{folder: filepath.Join(cgroups, name)}
	if _, err := os.Stat(filepath.Join(cgroups, "memory", "memory.limit_in_bytes")); err == nil {
		g.folder, g.v1 = filepath.Join(cgroups, "memory", name), true
	} else if err := os.WriteFile(filepath.Join(cgroups, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
		return nil, fmt.Errorf("enable memory limits for cgroups below %s: %w", cgroups, err)
	}
	if err := os.Mkdir(g.folder, 0o755); err != nil {
		return nil, fmt.Errorf("create a cgroup: %w", err)
	}
	if err := g.Limit(bytes); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Limit changes the memory limit, in bytes, and disables swap. The kernel rejects a limit below the current use.
func (g *Group) Limit(bytes int64) error {
	if !g.v1 {
		return errors.Join(g.write("memory.max", bytes), g.writeIfThere("memory.swap.max", 0))
	}
	// The limit of memory plus swap must never be lower than the limit of memory, so raise it first.
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

// writeIfThere is write, but ignores a missing file: kernels without swap do not have it.
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

// Peak returns the maximum memory of the processes, in bytes. It includes the page cache, in which the
// kernel keeps everything they read and write while there is room.
func (g *Group) Peak() (int64, error) {
	if g.v1 {
		return g.number("memory.max_usage_in_bytes", "")
	}
	return g.number("memory.peak", "")
}

// number parses the number that follows word at the beginning of a line.
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
