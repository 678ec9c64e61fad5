package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"letterhead/eventschemas"
	"letterhead/internal/delay"
)

// folderFormat is the format of the data folder that this binary writes: that of the events in it. An older binary
// refuses a folder of a format that it does not know.
const folderFormat = eventschemas.Format

// firstFormat is that of a folder that this binary has not written to yet; see raise.
const firstFormat = 1

var errFolderInUse = errors.New("the data folder is in use by another letterhead process")

// folderLock holds the data folder for this process until it is released.
type folderLock struct {
	path  string
	flock *flock.Flock
	fresh bool // the folder held nothing before
	// format is that of the folder.
	format int
}

type folderMode int

const (
	folderMustExist folderMode = iota
	folderMayBeNew
)

type formatFile struct {
	Format  int    `json:"format"`
	Written string `json:"written_by"`
}

// lockFolder takes the data folder. It returns errFolderInUse when another process holds it, and an error
// that says what to do when the folder is absent or was written by a newer release.
func lockFolder(path string, mode folderMode) (*folderLock, error) {
	_, err := os.Stat(filepath.Join(path, "format.json"))
	absent := errors.Is(err, fs.ErrNotExist)
	if absent && mode == folderMustExist {
		return nil, fmt.Errorf("there is no letterhead data in %s; start the server once (letterhead serve), or name the folder with --data", path)
	}
	if _, err := os.Stat(path); err == nil {
		if err := checkWritable(path); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	l := &folderLock{path: path, flock: flock.New(filepath.Join(path, "lock"))}
	ok, err := l.flock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the data folder %s: %w", path, err)
	}
	if !ok {
		return nil, fmt.Errorf("%s: %w", path, errFolderInUse)
	}
	l.fresh = absent
	if err := l.checkFormat(); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

const (
	// folderTimeout bounds how long a starting server waits for a command, or for a server that is stopping, to
	// release the data folder.
	folderTimeout = 10 * time.Second
	// folderPoll is the pause between two attempts to lock the folder: flock(2) has no wait with a deadline.
	folderPoll = 50 * time.Millisecond
)

// awaitFolder is lockFolder for a server: while a command holds the folder, or a server that does not answer on
// its admin socket because it is stopping, it waits and says so. It returns errFolderInUse at once when a server
// answers, and when the folder is not free within the timeout.
func awaitFolder(ctx context.Context, path string, timeout time.Duration, logger *slog.Logger) (*folderLock, error) {
	lock, err := lockFolder(path, folderMayBeNew)
	if !errors.Is(err, errFolderInUse) || serverAnswers(ctx, path) {
		return lock, err
	}
	logger.Warn("another letterhead process holds the data folder, such as a command; waiting for it to end", "data", path, "at_most", timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w; it was not released within %s", err, timeout))
	defer cancel()
	for {
		if delay.For(ctx, folderPoll) != nil {
			return nil, context.Cause(ctx)
		}
		lock, err := lockFolder(path, folderMayBeNew)
		if !errors.Is(err, errFolderInUse) || serverAnswers(ctx, path) {
			return lock, err
		}
	}
}

// checkFormat is readFormat, and gives a new folder the first format.
func (l *folderLock) checkFormat() error {
	err := l.readFormat()
	if errors.Is(err, fs.ErrNotExist) {
		return l.write(firstFormat)
	}
	return err
}

// readFormat reads the folder's format. It returns fs.ErrNotExist if the folder has none, and an error with advice if a
// newer release wrote the folder.
func (l *folderLock) readFormat() error {
	name := filepath.Join(l.path, "format.json")
	raw, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read the format of the data folder: %w", err)
	}
	var f formatFile
	if err := json.Unmarshal(raw, &f); err != nil || f.Format < firstFormat {
		return fmt.Errorf("%s is not what letterhead writes there; restore it from a backup", name)
	}
	l.format = f.Format
	if f.Format > folderFormat {
		return fmt.Errorf("the data folder %s has format %d, written by letterhead %s; this is letterhead %s, which knows format %d: use a newer release", l.path, f.Format, f.Written, version, folderFormat)
	}
	return nil
}

// raise gives the folder at least a format. Releases that do not know it refuse the folder from now on; that of this
// release finishes an upgrade.
func (l *folderLock) raise(format int) error {
	if l.format >= format {
		return nil
	}
	return l.write(format)
}

func (l *folderLock) write(format int) error {
	data, err := json.Marshal(formatFile{Format: format, Written: version})
	if err != nil {
		return err
	}
	if err := writeDurably(filepath.Join(l.path, "format.json"), append(data, '\n')); err != nil {
		return fmt.Errorf("note the format of the data folder: %w", err)
	}
	l.format = format
	return nil
}

// writeDurably writes a file in one step: after a crash, also of the machine, it is there whole or not at
// all.
func writeDurably(name string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), name); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// writeWhole writes a file that somebody asked for, which is whole or stays as it was. What is there already and
// is no ordinary file, such as /dev/null or a pipe, is written to and not replaced.
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

// release releases the folder. Nil is no lock.
func (l *folderLock) release() error {
	if l == nil {
		return nil
	}
	return l.flock.Unlock()
}
