package main

import (
	"errors"
	"io"
	"os"

	"letterhead/internal/disk"
)

// writeWhole writes a file that the user named, completely or not at all. If the name is not a regular file, such as
// /dev/null or a pipe, it writes to that instead of replacing it.
func writeWhole(name string, write func(io.Writer) error) error {
	if there, err := os.Stat(name); err == nil && !there.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	if err := disk.WriteFile(name, write); err != nil {
		return err
	}
	return os.Chmod(name, 0o644)
}
