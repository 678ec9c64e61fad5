//go:build !linux && !darwin && !freebsd

package sqlstore

import "net"

// alive cannot look without waiting here: a connection that died while it rested for less than a second
// fails the first statement on it.
func alive(net.Conn) bool { return true }
