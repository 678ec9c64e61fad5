package eventlog

import (
	"context"
	"time"
)

// ReadPages reads a stream from its beginning and calls f for each page of at most size events, the last of which may
// have none. Errors: as ReadStream and of f.
func ReadPages(ctx context.Context, log Log, stream string, size int, f func([]Recorded) error) error {
	for revision := uint64(0); ; {
		page, err := log.ReadStream(ctx, stream, revision, Forward, size)
		if err != nil {
			return err
		}
		if err := f(page); err != nil || len(page) < size {
			return err
		}
		revision += uint64(len(page))
	}
}

// NextWithin is Next of a subscription, which waits for at most the given time and then returns an empty batch.
// Errors: as Subscription.Next.
func NextWithin(ctx context.Context, s Subscription, most time.Duration) (Batch, error) {
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	batch, err := s.Next(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return Batch{}, nil
	}
	return batch, err
}
