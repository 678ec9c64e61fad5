package assets

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"
)

const (
	// keptPrefix begins the keys of files that are no assets.
	keptPrefix = "checkpoints/"
	// maxKept limits such a file: some four million accounts.
	maxKept     = 256 << 20
	keptTimeout = 2 * time.Minute
)

// Keep stores or replaces a file that is no asset, under a name without slashes. Errors: ErrInvalid, ErrUnavailable.
func (s *Store) Keep(ctx context.Context, name string, data []byte) error {
	if len(data) > maxKept {
		return fmt.Errorf("keep %s of %d bytes: %w", name, len(data), ErrInvalid)
	}
	ctx, cancel := context.WithTimeout(ctx, keptTimeout)
	defer cancel()
	err := s.bucket.WriteAll(ctx, keptPrefix+name, data, nil)
	if err == nil {
		err = s.sync(keptPrefix + name)
	}
	if err != nil {
		return s.failed(ctx, "keep", name, err)
	}
	return nil
}

// Kept returns a file of Keep, or its beginning up to a limit that is not 0. Errors: ErrNotFound, ErrUnavailable.
func (s *Store) Kept(ctx context.Context, name string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, keptTimeout)
	defer cancel()
	r, err := s.bucket.NewRangeReader(ctx, keptPrefix+name, 0, cmp.Or(limit, maxKept), nil)
	if err != nil {
		return nil, s.failed(ctx, "read", name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, s.failed(ctx, "read", name, err)
	}
	return data, nil
}
