//go:build !unix

package admin

import (
	"fmt"
	"net"
)

// listenPrivately makes a unix socket. On Windows the access list that it inherits from its folder decides who can
// open it.
func listenPrivately(path string) (net.Listener, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open the admin socket %s: %w", path, err)
	}
	return listener, nil
}
