package starter

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"letterhead/internal/disk"
)

// FileMarker is a Marker in a file of the data folder.
type FileMarker struct{ Path string }

// Load returns the version in the file, "" if there is no file.
func (m FileMarker) Load(context.Context) (string, error) {
	data, err := os.ReadFile(m.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(data)), err
}

// Save writes the file atomically: a crash leaves the old file or the new one.
func (m FileMarker) Save(_ context.Context, version string) error {
	return disk.WriteText(m.Path, version+"\n")
}
