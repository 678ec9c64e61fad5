package eventlog

import "context"

// ReadPages reads a stream from its beginning and calls f for each page of at most size events, the last of which may
// have none. Errors: those of ReadStream and of f.
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
