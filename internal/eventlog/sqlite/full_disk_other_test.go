//go:build !linux

package sqlite_test

import "errors"

// The limit on file sizes that TestFullDisk uses is set in another way on each system.
func fullDiskChild(string) error { return errors.New("only on Linux") }
