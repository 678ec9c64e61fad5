// Package disk reports the free space of a file system, and how much of it long-running work must leave for appends. It
// writes files and makes temporary folders.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/gofrs/flock"
)

const (
	// MaxReserve limits the reserve, in bytes. It has room for a few hundred thousand events.
	MaxReserve = 256 << 20
	// reserveShare limits the reserve of a small file system to 1/reserveShare of its size.
	reserveShare = 20
)

// Space is the space of a file system, in bytes.
type Space struct {
	Free int64 // available to this user
	Size int64 // of the whole file system
}

// At returns the space of the file system that holds path.
func At(path string) (Space, error) {
	s, err := space(path)
	if err != nil {
		return Space{}, fmt.Errorf("free space of %s: %w", path, err)
	}
	return s, nil
}

// Reserve returns the space that long-running work must leave free. Without space appends fail, and then
// charges are rejected.
func (s Space) Reserve() int64 { return min(MaxReserve, s.Size/reserveShare) }

// SyncFolder makes the names of the files in a folder durable: a new file, a rename or a removal. On Windows it does
// nothing, because a folder cannot be flushed there; NTFS writes names to its journal.
func SyncFolder(folder string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync folder %s: %w", folder, err)
	}
	return nil
}

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

// Remove deletes the folder with everything in it. Windows, which deletes no open file, keeps the lock at first;
// elsewhere it must be deleted before it is released, or NewTempFolder could take it.
func (f *TempFolder) Remove() error {
	_ = os.RemoveAll(f.Path) // the second call has the error of what remains
	return errors.Join(f.lock.Close(), os.RemoveAll(f.Path))
}

// RemoveLeft deletes the folders of NewTempFolder that processes left when they were killed, but none that is in use or
// that another user owns or may enter.
func RemoveLeft(parent, prefix string) error {
	left, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, record := range left {
		folder := filepath.Join(parent, record.Name())
		if !record.IsDir() || !strings.HasPrefix(record.Name(), prefix) || !private(folder) {
			continue
		}
		// Without O_CREATE: a folder that has no lock yet is not touched.
		f := TempFolder{folder, flock.New(filepath.Join(folder, tempLock), flock.SetFlag(os.O_RDWR))}
		if file, err := os.Lstat(f.lock.Path()); err != nil || !file.Mode().IsRegular() {
			continue
		}
		if ok, err := f.lock.TryLock(); err == nil && ok {
			errs = append(errs, f.Remove())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete old temporary folders in %s: %w", parent, err)
	}
	return nil
}
