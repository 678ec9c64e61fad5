package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
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
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
