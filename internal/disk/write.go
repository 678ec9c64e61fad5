package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// WriteFile writes a file in one step and durably, with mode 0600: after a crash, even of the machine, the file is
// complete, or as it was before. If write fails, nothing changes. Errors: as write and of files.
func WriteFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = write(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), name); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(name))
}

// WriteText is WriteFile for a text.
func WriteText(name, text string) error {
	return WriteFile(name, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}
