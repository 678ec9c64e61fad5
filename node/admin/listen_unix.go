//go:build unix

package admin

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// listenPrivately makes a unix socket that only this user can open. The umask is set before the bind, so that other
// users cannot connect at any moment.
func listenPrivately(path string) (net.Listener, error) {
	old := syscall.Umask(0o177)
	listener, err := net.Listen("unix", path)
	syscall.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("open the admin socket %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, fmt.Errorf("protect the admin socket: %w", err)
	}
	return listener, nil
}
