package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"letterhead/internal/disk"
	"letterhead/internal/eventlog"
)

// Suffixes of the files next to the log after a loss.
const (
	suffixSalvaged = ".salvaged" // the copy of the intact part while it is written
	suffixReplace  = ".replace"  // the record of a replacement in progress
	suffixLost     = ".lost-"    // plus a time: the previous files
)

// acceptLoss replaces a log by its intact beginning. The previous files are renamed and kept.
func acceptLoss(ctx context.Context, cfg Config, s state) error {
	attempt := "accept the loss of " + cfg.Path
	if s.head.position <= 0 && s.loss.Remembered > 0 {
		return fmt.Errorf("%s: no event can be read, so no log would remain: %w", attempt, s.loss)
	}
	if !s.rewrite {
		err := moveAway(MarkerPath(cfg.Path), lostSuffix())
		if err == nil {
			err = disk.SyncFolder(filepath.Dir(cfg.Path))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", attempt, err)
		}
		return nil
	}
	copied := cfg.Path + suffixSalvaged
	err := removeLog(copied)
	if err == nil {
		if err = copyIntact(ctx, cfg, copied, s.alone); err != nil {
			err = errors.Join(err, removeLog(copied))
		}
	}
	if err == nil {
		err = replace(cfg.Path, copied, lostSuffix()) // from here on, only the copy may be in place
	}
	if err != nil {
		return fmt.Errorf("%s: %w", attempt, err)
	}
	return nil
}

// copyIntact writes the intact beginning of a log to a new log.
func copyIntact(ctx context.Context, cfg Config, into string, alone bool) (err error) {
	from, err := openSoleAudit(cfg.Path, alone)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	to, err := Open(ctx, Config{Path: into, Logger: cfg.Logger})
	if err != nil {
		return err
	}
	var events []eventlog.Recorded // not yet written
	size := 0                      // of their data, in bytes
	write := func() error {
		size = 0
		for len(events) > 0 {
			runs, n := eventlog.Runs(events)
			if err := to.Import(ctx, runs); err != nil {
				return err
			}
			events = events[n:]
		}
		return nil
	}
	_, _, err = from.intact(ctx, func(e *eventlog.Recorded) error {
		events, size = append(events, *e), size+eventlog.Size(&e.Proposed)
		if len(events) < eventlog.MaxImportEvents && size < eventlog.MaxImportBytes {
			return nil
		}
		return write()
	})
	if err == nil {
		err = write()
	}
	return errors.Join(err, to.Close())
}

// Replace replaces a log by another log in the same folder, together with their markers. Neither may be
// open. After a crash the next Open finishes the replacement. The previous files are kept, with a suffix.
//
// Errors: ErrInUse, the errors of the file system.
func Replace(path, with, suffix string) (err error) {
	for _, p := range []string{path, with} {
		lock, locking := takeLock(p)
		if locking != nil {
			return locking
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	if err := replace(path, with, suffix); err != nil {
		return fmt.Errorf("replace the event log %s: %w", path, err)
	}
	return nil
}

// Replacing reports whether a Replace of the log at path was interrupted, so that its file may be missing
// until the next Open.
func Replacing(path string) (bool, error) {
	_, err := os.Stat(path + suffixReplace)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// replacement is the record of a replacement. Once it is on the disk, the replacement will be finished, now
// or at the next start.
type replacement struct {
	With string `json:"with"` // file name of the new log
	Lost string `json:"lost"` // suffix of the previous files
}

func lostSuffix() string { return suffixLost + time.Now().UTC().Format("20060102T150405.000Z") }

func replace(path, with, suffix string) error {
	if filepath.Dir(path) != filepath.Dir(with) {
		return fmt.Errorf("%s is in another folder", with)
	}
	if size, err := sizeOf(with + "-wal"); err != nil || size > 0 {
		return errors.Join(err, fmt.Errorf("%s was not closed", with))
	}
	note, err := json.Marshal(replacement{With: filepath.Base(with), Lost: suffix})
	if err == nil {
		err = writeNew(path+suffixReplace+".new", note)
	}
	if err == nil {
		err = os.Rename(path+suffixReplace+".new", path+suffixReplace)
	}
	if err != nil {
		return err
	}
	return finishReplace(path)
}

// finishReplace finishes the replacement that the record describes.
func finishReplace(path string) error {
	raw, err := os.ReadFile(path + suffixReplace)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var n replacement
	if err := json.Unmarshal(raw, &n); err != nil || n.With == "" || n.With != filepath.Base(n.With) || n.Lost == "" {
		return fmt.Errorf("%s is damaged", path+suffixReplace)
	}
	folder := filepath.Dir(path)
	with := filepath.Join(folder, n.With)
	if err := disk.SyncFolder(folder); err != nil { // first the record, before any of the steps that it describes
		return err
	}
	if _, err := os.Stat(with); err == nil { // so the file at path is still the old log
		for _, old := range []string{path + "-wal", MarkerPath(path), path} {
			if err := moveAway(old, n.Lost); err != nil {
				return err
			}
		}
		// SQLite would mistake the old log's WAL index for the new log's.
		if err := removeIfThere(path + "-shm"); err != nil {
			return err
		}
		if err := os.Rename(with, path); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(MarkerPath(with), MarkerPath(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, rest := range []string{with + "-wal", with + "-shm", with + ".lock", path + suffixReplace} {
		if err := removeIfThere(rest); err != nil {
			return err
		}
		if err := disk.SyncFolder(folder); err != nil { // the record is removed last
			return err
		}
	}
	return nil
}

// moveAway renames a file, if it exists and has not been renamed yet.
func moveAway(name, suffix string) error {
	if err := os.Rename(name, name+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Remove removes a closed log with its marker and the remains of interrupted operations. Removing a missing
// log is not an error.
func Remove(path string) error {
	if err := removeLog(path); err != nil {
		return fmt.Errorf("remove the event log %s: %w", path, err)
	}
	return nil
}

func removeLog(path string) error {
	var errs []error
	for _, name := range []string{path, path + "-wal", path + "-shm", path + ".lock", MarkerPath(path)} {
		errs = append(errs, removeIfThere(name))
	}
	return errors.Join(errs...)
}

func removeIfThere(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
