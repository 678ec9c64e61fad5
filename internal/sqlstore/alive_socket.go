//go:build linux || darwin || freebsd

package sqlstore

import (
	"net"
	"syscall"
)

// alive says that nothing came over a resting connection: neither its end nor a farewell, as after a
// restart of the server. It looks without waiting, so that a connection need not be pinged each time.
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
