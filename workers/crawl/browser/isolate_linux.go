package browser

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// nobody is the user and group that the browser runs as when this process is root: those that own nothing.
const nobody = 65534

// confinement returns what a browser is confined with before it starts. It dies with this process.
//
// Where this process is root, the browser runs as nobody, in a network namespace without a network as far as
// that is permitted; it talks to us through a pipe and needs none. Chromium makes its sandbox itself, which it
// does for every user but root. Errors: ErrRoot.
func confinement() (func(*exec.Cmd), error) {
	if os.Geteuid() != 0 {
		return func(cmd *exec.Cmd) {
			settle(cmd)
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		}, nil
	}
	if err := try(0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRoot, err)
	}
	var namespaces uintptr
	if try(syscall.CLONE_NEWNET) == nil {
		namespaces = syscall.CLONE_NEWNET
	}
	return func(cmd *exec.Cmd) {
		if profile := settle(cmd); profile != "" {
			// Where it cannot be given away, the browser cannot write into it, says so and ends.
			_ = os.Chown(profile, nobody, nobody)
		}
		cmd.SysProcAttr = asNobody(namespaces)
	}, nil
}

// asNobody are the attributes of a process that has given up everything that root has, in namespaces of its own.
func asNobody(namespaces uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: namespaces,
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, // no further groups
	}
}

// try starts a process as nobody in namespaces of its own.
func try(namespaces uintptr) error {
	probe := exec.Command("/bin/true")
	probe.Dir = os.TempDir() // where its profile will be
	probe.SysProcAttr = asNobody(namespaces)
	return probe.Run()
}

// settle makes the empty profile, which is made anew for each browser, the place of all its files, and returns
// it.
func settle(cmd *exec.Cmd) string {
	for _, arg := range cmd.Args {
		if profile, ok := strings.CutPrefix(arg, "--user-data-dir="); ok {
			cmd.Dir = profile
			cmd.Env = append(cmd.Env, "HOME="+profile, "TMPDIR="+profile)
			return profile
		}
	}
	return ""
}
