//go:build unix

package datafolder

import "golang.org/x/sys/unix"

// writable returns an error if this process cannot write the file or folder. It does not open a file: closing
// a database that is open elsewhere in this process would drop its locks.
func writable(path string) error { return unix.Access(path, unix.W_OK) }
