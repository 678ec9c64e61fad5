package starter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"letterhead/internal/disk"
)

// maxMarker limits the marker file, in bytes.
const maxMarker = 1 << 10

// FileMarker is a Marker in a file of the data folder.
type FileMarker struct{ Path string }

// Load returns the version in the file, "" if there is no file.
func (m FileMarker) Load(context.Context) (string, error) {
	f, err := os.Open(m.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxMarker))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(data)), nil
}

// Save writes the file atomically: a crash leaves the old file or the new one.
func (m FileMarker) Save(_ context.Context, version string) error {
	f, err := os.CreateTemp(filepath.Dir(m.Path), filepath.Base(m.Path)+".*")
	if err != nil {
		return err
	}
	_, writeErr := io.WriteString(f, version+"\n")
	err = errors.Join(writeErr, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), m.Path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", m.Path, err), removeIfThere(f.Name()))
	}
	return disk.SyncFolder(filepath.Dir(m.Path))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
