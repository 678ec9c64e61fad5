// Package datafolder locks a data folder for one process and keeps its format: an older release rejects a folder whose
// format it does not know.
package datafolder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"letterhead/eventschemas"
	"letterhead/internal/disk"
)

// Format is the format that this release gives to the data folders it writes to. It is the format of their events.
const Format = eventschemas.Format

// firstFormat is the format of a new folder that nothing was written to yet; see Raise.
const firstFormat = 1

var (
	// ErrInUse means that another process holds the data folder.
	ErrInUse = errors.New("the data folder is in use by another letterhead process")
	// ErrReadOnly means that the data folder, or a file in it, cannot be written.
	ErrReadOnly = errors.New("cannot be written")
)

// Lock holds a data folder for this process until it is released.
type Lock struct {
	path    string
	release string // of letterhead
	flock   *flock.Flock
	format  int
}

// Mode is whether Acquire requires a folder with data.
type Mode int

// The modes of Acquire.
const (
	MustExist Mode = iota
	MayBeNew
)

type formatFile struct {
	Format  int    `json:"format"`
	Written string `json:"written_by"`
}

const formatName = "format.json"

// Acquire locks a data folder for a release. It returns ErrInUse if another process holds the folder, ErrReadOnly if
// this process cannot write it, and an error with advice if the folder is missing or a newer release wrote it.
func Acquire(path string, mode Mode, release string) (*Lock, error) {
	_, err := os.Stat(filepath.Join(path, formatName))
	if errors.Is(err, fs.ErrNotExist) && mode == MustExist {
		return nil, fmt.Errorf("there is no letterhead data in %s; start the server once (letterhead serve), or name the folder with --data", path)
	}
	if _, err := os.Stat(path); err == nil {
		if err := CheckWritable(path); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	l := &Lock{path: path, release: release, flock: flock.New(filepath.Join(path, "lock"))}
	ok, err := l.flock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the data folder %s: %w", path, err)
	}
	if !ok {
		return nil, fmt.Errorf("%s: %w", path, ErrInUse)
	}
	if err := l.checkFormat(); err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// CheckWritable returns ErrReadOnly with the reason if this process cannot write the folder or a database in it.
func CheckWritable(folder string) error {
	for _, name := range []string{"", "events.db", "letterhead.db"} {
		path := filepath.Join(folder, name)
		err := writable(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return fmt.Errorf("the data folder %s %w (%s: %w); make it writable for this user to serve it or to change anything (\"letterhead ledger verify\", \"projections verify\", \"backup\" and \"doctor\" read it as it is)",
			folder, ErrReadOnly, path, err)
	}
	return nil
}

// checkFormat reads the format of the folder, and gives a new folder the first format.
func (l *Lock) checkFormat() (err error) {
	l.format, err = ReadFormat(l.path, l.release)
	if errors.Is(err, fs.ErrNotExist) {
		return l.write(firstFormat)
	}
	return err
}

// ReadFormat returns the format of a data folder, which need not be locked. It returns fs.ErrNotExist if the folder has
// none, and an error with advice if a newer release than this one wrote the folder.
func ReadFormat(path, release string) (int, error) {
	name := filepath.Join(path, formatName)
	raw, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("read the format of the data folder: %w", err)
	}
	var f formatFile
	if err := json.Unmarshal(raw, &f); err != nil || f.Format < firstFormat {
		return 0, fmt.Errorf("%s is not what letterhead writes there; restore it from a backup", name)
	}
	if f.Format > Format {
		return 0, fmt.Errorf("the data folder %s has format %d, written by letterhead %s; this is letterhead %s, which knows format %d: use a newer release",
			path, f.Format, f.Written, release, Format)
	}
	return f.Format, nil
}

// Format returns the format of the folder.
func (l *Lock) Format() int { return l.format }

// Raise gives the folder at least a format. Releases that do not know the format reject the folder from then on; a
// folder with the format of this release has finished its upgrade.
func (l *Lock) Raise(format int) error {
	if l.format >= format {
		return nil
	}
	return l.write(format)
}

func (l *Lock) write(format int) error {
	data, err := json.Marshal(formatFile{Format: format, Written: l.release})
	if err != nil {
		return err
	}
	if err := disk.WriteText(filepath.Join(l.path, formatName), string(data)+"\n"); err != nil {
		return fmt.Errorf("note the format of the data folder: %w", err)
	}
	l.format = format
	return nil
}

// Release releases the folder. It does nothing with a nil lock.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	return l.flock.Unlock()
}

// restoring is the file that marks a folder while a restore into it is unfinished.
const restoring = "restoring"

// MarkRestoring notes that a restore into the folder has begun.
func MarkRestoring(folder string) error {
	text := "A restore into this folder is unfinished. Run \"letterhead restore\" again to finish it.\n"
	return disk.WriteText(filepath.Join(folder, restoring), text)
}

// EndRestoring removes the mark of MarkRestoring.
func EndRestoring(folder string) error {
	if err := os.Remove(filepath.Join(folder, restoring)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// CheckRestored fails if a restore into the folder is unfinished: a server must not serve a part of a ledger.
func CheckRestored(folder string) error {
	_, err := os.Stat(filepath.Join(folder, restoring))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check for an unfinished restore: %w", err)
	}
	return fmt.Errorf(
		"the restore into %s is unfinished; run \"letterhead restore\" again, or start over with an empty folder",
		folder)
}
