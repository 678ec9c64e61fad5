// Package disk reports the free space of a file system, and how much of it long-running work must leave for appends.
package disk

import "fmt"

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
