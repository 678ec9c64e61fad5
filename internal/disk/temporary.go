package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// TempFolder is a temporary folder. A file in it is locked while its process uses it.
type TempFolder struct {
	Path string

	lock *flock.Flock
}

const tempLock = "lock"

// NewTempFolder makes a folder below parent, whose name begins with prefix.
func NewTempFolder(parent, prefix string) (*TempFolder, error) {
	path, err := os.MkdirTemp(parent, prefix+"*")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	f := &TempFolder{Path: path, lock: flock.New(filepath.Join(path, tempLock))}
	err = f.lock.Lock()
	if err == nil {
		_, err = os.Stat(f.lock.Path()) // RemoveLeft may have taken the lock first
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the temporary folder %s: %w", path, err), f.Remove())
	}
	return f, nil
}

// Remove deletes the folder with everything in it.
func (f *TempFolder) Remove() error { return errors.Join(os.RemoveAll(f.Path), f.lock.Close()) }

// RemoveLeft deletes the folders of NewTempFolder that processes left when they were killed, but none that is in use or
// that this process may not lock, such as another person's.
func RemoveLeft(parent, prefix string) error {
	left, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, record := range left {
		if !record.IsDir() || !strings.HasPrefix(record.Name(), prefix) {
			continue
		}
		folder := filepath.Join(parent, record.Name())
		// Without O_CREATE: a folder that has no lock yet is not touched.
		lock := flock.New(filepath.Join(folder, tempLock), flock.SetFlag(os.O_RDWR))
		if ok, err := lock.TryLock(); err == nil && ok {
			errs = append(errs, os.RemoveAll(folder), lock.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete old temporary folders in %s: %w", parent, err)
	}
	return nil
}
