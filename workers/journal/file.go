package journal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"letterhead/internal/disk"
	"letterhead/internal/eventlog"
)

// Suffixes of an unfinished file, and of the file that its writer locks.
const (
	partialSuffix = ".partial"
	lockSuffix    = ".partial.lock"
)

// ErrLocked: another process writes the same file.
var ErrLocked = errors.New("another export writes this file")

// WriteFile writes the journal to a file, which appears or is replaced when it is complete. Until then the file has the
// suffix .partial. If ctx ends or the process dies, an unfinished file in a text format remains. The next WriteFile
// derives the journal again, compares it with that file, and continues from the first difference. If writing fails, as
// on a full disk, the unfinished file is removed.
//
// Errors: as Write and of files, ErrLocked.
func WriteFile(ctx context.Context, log eventlog.Log, o Options, name string) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", name)
	}
	unlock, err := lockFile(name + lockSuffix)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err = writeLocked(ctx, log, o, name)
	unlock()
	if err != nil {
		return err
	}
	return disk.SyncFolder(filepath.Dir(name))
}

// lockFile locks a file until unlock is called, which removes it.
func lockFile(name string) (unlock func(), err error) {
	lock := flock.New(name)
	locked, err := lock.TryLock()
	if err != nil {
		return nil, err
	}
	if locked { // perhaps a file that its last owner has removed
		held, heldErr := lock.Stat()
		found, foundErr := os.Stat(name)
		locked = heldErr == nil && foundErr == nil && os.SameFile(held, found)
	}
	if !locked {
		return nil, errors.Join(ErrLocked, lock.Close())
	}
	return func() {
		_ = os.Remove(name) // not possible on Windows; the file is empty
		_ = lock.Unlock()
	}, nil
}

// writeLocked is WriteFile for the owner of the lock.
func writeLocked(ctx context.Context, log eventlog.Log, o Options, name string) error {
	partial := name + partialSuffix
	keep, err := writePartial(ctx, log, o, partial)
	if err == nil {
		err = os.Rename(partial, name)
	}
	if err != nil && !keep {
		if removed := os.Remove(partial); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

// writePartial writes an unfinished file, and reports whether a later call can continue it.
func writePartial(ctx context.Context, log eventlog.Log, o Options, partial string) (keep bool, err error) {
	flags := os.O_RDWR | os.O_CREATE
	if !o.Format.IsText() {
		flags |= os.O_TRUNC
	}
	file, err := os.OpenFile(partial, flags, 0o600)
	if err != nil {
		return false, err
	}
	c := &continuation{file: file, written: bufio.NewReaderSize(file, bufferBytes)}
	if info, err := file.Stat(); err == nil {
		c.begun = info.Size() > 0
	}
	err = Write(ctx, log, o, c)
	keep = o.Format.IsText() && c.begun && !c.failed && !errors.Is(err, ErrDigest)
	if err == nil {
		keep, err = false, c.end()
	}
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); closed != nil {
		keep, err = false, errors.Join(err, closed)
	}
	return keep, err
}

// continuation writes a file. As long as what is written equals what the file has, it only reads.
type continuation struct {
	file    *os.File
	written *bufio.Reader // nil after the first difference
	same    int64         // bytes
	begun   bool          // the file has content
	failed  bool          // the file could not be read or written
	compare []byte
}

func (c *continuation) Write(b []byte) (int, error) {
	n, err := c.write(b)
	c.begun, c.failed = true, c.failed || err != nil
	return n, err
}

func (c *continuation) write(b []byte) (int, error) {
	common := 0
	if c.written != nil {
		if cap(c.compare) < len(b) {
			c.compare = make([]byte, len(b))
		}
		n, err := io.ReadFull(c.written, c.compare[:len(b)])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, fmt.Errorf("compare with the unfinished file: %w", err)
		}
		common = commonPrefix(c.compare[:n], b)
		if c.same += int64(common); common == len(b) {
			return len(b), nil
		}
		if err := c.end(); err != nil {
			return common, err
		}
	}
	n, err := c.file.Write(b[common:])
	return common + n, err
}

// end drops what the file has after the common beginning.
func (c *continuation) end() error {
	if c.written == nil {
		return nil
	}
	c.written = nil
	if err := c.file.Truncate(c.same); err != nil {
		return err
	}
	_, err := c.file.Seek(c.same, io.SeekStart)
	return err
}

// commonPrefix returns the number of leading bytes that are equal.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	if bytes.Equal(a[:n], b[:n]) {
		return n
	}
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
