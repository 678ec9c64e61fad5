//go:build !unix

package readapi

import (
	"math"
	"net"
)

// openFiles returns how many files the process may have open at a time: only Unix has such a limit.
func openFiles() uint64 { return math.MaxUint64 }

// hasBytes reports whether bytes of a client wait to be read from a connection: unknown on this system.
func hasBytes(net.Conn) bool { return false }
