//go:build linux || darwin || freebsd

package sqlstore

import (
	"net"
	"syscall"
)

// alive reports whether an idle connection received neither its end nor a message, such as of a server that restarts.
// It does not block, so that idle connections need not be pinged.
func alive(conn net.Conn) bool {
	if outer, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = outer.NetConn()
	}
	if patient, ok := conn.(*patientConn); ok {
		conn = patient.Conn
	}
	below, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := below.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
	})
	return err == nil && quiet
}
