//go:build !linux

package sqlite_test

import "errors"

// Each system sets the limit on file sizes that TestFullDisk_RejectsAppendsUntilRoom uses in its own way.
func fullDiskChild(string) error { return errors.New("only on Linux") }
