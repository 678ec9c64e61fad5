//go:build !linux

package browser

import (
	"os"
	"os/exec"
)

// confinement returns a function that confines a browser before it starts. It does nothing, because namespaces are
// specific to Linux. Errors: ErrRoot, because Chromium has no sandbox for root, and no other user is available here.
func confinement() (func(*exec.Cmd), error) {
	if os.Geteuid() == 0 {
		return nil, ErrRoot
	}
	return func(*exec.Cmd) {}, nil
}
