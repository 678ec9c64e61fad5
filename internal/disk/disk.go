// Package disk knows how much space a file system has, and how much of it long work must leave for appends.
package disk

import "fmt"

const (
	// MaxReserve is what long work leaves free at most, in bytes: room for some hundred thousand events.
	MaxReserve = 256 << 20
	// reserveShare is the part of a small file system that is left free instead: one in twenty.
	reserveShare = 20
)

// Space is that of a file system, in bytes.
type Space struct {
	// Free can be written by this user.
	Free int64
	// Size is that of the whole file system.
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

// Reserve is what long work must leave free: appends that are refused for want of space are charges that are
// refused.
func (s Space) Reserve() int64 { return min(MaxReserve, s.Size/reserveShare) }
