//go:build unix

package readapi

import (
	"math"
	"net"
	"syscall"
)

// openFiles returns how many files the process may have open at a time. Go has raised the limit to the
// maximum that the system allows.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}

// hasBytes reports whether bytes of a client wait to be read from a connection.
func hasBytes(conn net.Conn) (has bool) {
	of, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := of.SyscallConn() // of a socket that does not block, as all of Go's
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		has = err == nil && n > 0
	})
	return has && err == nil
}
