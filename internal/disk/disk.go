// Package disk reports how much space a file system has, and how much of it long work must leave for
// appends.
package disk

import "fmt"

const (
	// MaxReserve is the most that long work leaves free, in bytes: room for a few hundred thousand
	// events.
	MaxReserve = 256 << 20
	// reserveShare limits the reserve of a small file system to 1/reserveShare of its size.
	reserveShare = 20
)

// Space is the space of a file system, in bytes.
type Space struct {
	// Free is the space that this user can write.
	Free int64
	// Size is the size of the whole file system.
	Size int64
}

// At returns the space of the file system that holds path.
func At(path string) (Space, error) {
	s, err := space(path)
	if err != nil {
		return Space{}, fmt.Errorf("free space of %s: %w", path, err)
	}
	return s, nil
}

// Reserve returns the space that long work must leave free: an append that fails for lack of space is
// a refused charge.
func (s Space) Reserve() int64 { return min(MaxReserve, s.Size/reserveShare) }
