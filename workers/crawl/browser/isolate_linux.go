package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const unprivileged = 65534 // the id of the user and group as which the browser runs if this process is root

// maxTempDir limits the path of the folder for temporary files, in bytes. The address of a socket has at most 107
// (unix(7)), and Chromium's is chromedp-runnerN/org.chromium.Chromium.XXXXXX/SingletonSocket in it, where N has ten
// digits.
const maxTempDir = 36

// ErrTempDir means that the path of the folder for temporary files is too long for Chromium.
var ErrTempDir = fmt.Errorf("the path of the folder for temporary files is too long for a socket of Chromium: set TMPDIR to one of at most %d bytes", maxTempDir)

// confinement returns a function that confines a browser before it starts. The browser is killed with this process.
//
// If this process is root, the browser runs as the user nobody, in a network namespace without a network where
// permitted; it talks to us through a pipe and needs none. Chromium creates its own sandbox, for every user but root.
// Errors: ErrRoot, ErrTempDir.
func confinement() (func(*exec.Cmd), error) {
	if len(filepath.Clean(os.TempDir())) > maxTempDir {
		return nil, ErrTempDir
	}
	if os.Geteuid() != 0 {
		return func(cmd *exec.Cmd) {
			useProfile(cmd)
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
		if profile := useProfile(cmd); profile != "" {
			// If Chown fails, the browser cannot write there, reports an error and exits.
			_ = os.Chown(profile, unprivileged, unprivileged)
		}
		cmd.SysProcAttr = asNobody(namespaces)
	}, nil
}

// asNobody returns the attributes of a process without root's privileges, in separate namespaces.
func asNobody(namespaces uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: namespaces,
		Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}, // no supplementary groups
	}
}

// try starts a process as the user nobody in separate namespaces.
func try(namespaces uintptr) error {
	probe := exec.Command("/bin/true")
	probe.Dir = os.TempDir() // where its profile will be
	probe.SysProcAttr = asNobody(namespaces)
	return probe.Run()
}

// useProfile makes the empty profile, which is new for each browser, the working,
// home and temporary folder, and returns it.
func useProfile(cmd *exec.Cmd) string {
	for _, arg := range cmd.Args {
		if profile, ok := strings.CutPrefix(arg, "--user-data-dir="); ok {
			cmd.Dir = profile
			cmd.Env = append(cmd.Env, "HOME="+profile, "TMPDIR="+profile)
			return profile
		}
	}
	return ""
}
