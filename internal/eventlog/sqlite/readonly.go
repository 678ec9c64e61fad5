package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"letterhead/internal/eventlog"
)

// ErrReadOnly means that the log was opened by OpenReadOnly.
var ErrReadOnly = errors.New("the event log is open read-only")

// ReadOnly reads a log and writes nothing, neither to the file nor to its folder. It serves folders that cannot
// be written, and processes other than the one that has the log open. It implements eventlog.Log; Append and
// Subscribe return ErrReadOnly.
type ReadOnly struct{ *Log }

var _ eventlog.Log = ReadOnly{}

// OpenReadOnly opens the log at cfg.Path. It takes no lock and recovers nothing.
//
// Errors: eventlog.ErrCorrupt, eventlog.ErrUnavailable if the file cannot be read or has a write-ahead log that cannot
// be read without writing; ctx.Err().
func OpenReadOnly(ctx context.Context, cfg Config) (ReadOnly, error) {
	if err := ctx.Err(); err != nil {
		return ReadOnly{}, err
	}
	cfg = cfg.withDefaults()
	l := &Log{cfg: cfg, names: newNames(), readers: make(chan *reader, cfg.Readers)}
	l.closing, l.close = context.WithCancel(context.Background()) // Close ends it
	r := ReadOnly{l}
	err := l.openReading()
	if err == nil {
		var head eventlog.Position
		head, err = r.Head(ctx)
		l.tail = newTail(head, 1)
	}
	if err != nil {
		l.close()
		return ReadOnly{}, errors.Join(err, l.closeReaders(len(l.readers)))
	}
	return r, nil
}

func (l *Log) openReading() (err error) {
	attempt := "open the event log " + l.cfg.Path + " for reading"
	if _, err := checkHeader(l.cfg.Path); err != nil {
		return err
	}
	if l.mode, err = readingMode(l.cfg.Path); err != nil {
		return fmt.Errorf("%s: %w", attempt, err)
	}
	return classify(attempt, l.openReaders())
}

// Alone reports whether the log was opened without its write-ahead log, because there was none or it was
// empty. Such a log must not be written while it is read, or the reads would mix different states.
func (r ReadOnly) Alone() bool { return r.mode == modeAlone }

// Check is Log.Check, with the marker next to the file. Errors: as Log.Check.
func (r ReadOnly) Check(ctx context.Context, progress func(done, last eventlog.Position)) error {
	const attempt = "check the event log"
	if err := r.usable(ctx, attempt); err != nil {
		return err
	}
	m, _, err := readMark(r.cfg.Path) // read before the log's end: the marker of an open log is never past it
	if err != nil {
		return fmt.Errorf("%s: %w", attempt, err)
	}
	return r.check(ctx, attempt, progress, func(a *audit) (last int64, err error) {
		last, _, err = a.begin(m, true)
		return last, err
	})
}

// readingMode returns the mode for opening a file without writing: without the write-ahead log if there is
// none, because SQLite would create an empty one; otherwise with it, which requires its index. An empty
// write-ahead log with an index belongs to a process that has the file open and may append at any time.
func readingMode(path string) (mode string, err error) {
	info, err := os.Stat(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return modeAlone, nil
	}
	if err == nil {
		_, err = os.Stat(path + "-shm")
	}
	if errors.Is(err, fs.ErrNotExist) {
		if info.Size() == 0 {
			return modeAlone, nil
		}
		return "", fmt.Errorf(
			"%w: its write-ahead log must be recovered before it can be read: copy the data folder to a writable place",
			eventlog.ErrUnavailable)
	}
	return "ro", err
}

// Head implements eventlog.Log. It reads the file, because another process may append to it.
func (r ReadOnly) Head(ctx context.Context) (head eventlog.Position, err error) {
	const attempt = "read the head"
	err = r.borrow(ctx, attempt, func(rd *reader) error {
		last, err := rd.conn.lastPosition()
		head = eventlog.Position(last)
		return err
	})
	return head, err
}

// ReadAll implements eventlog.Log.
func (r ReadOnly) ReadAll(ctx context.Context, after eventlog.Position, filter eventlog.Filter,
	limit int) (page eventlog.Page, err error) {
	const attempt = "read all streams"
	if err := eventlog.CheckLimit(limit); err != nil {
		return eventlog.Page{}, fmt.Errorf("%s: %w", attempt, err)
	}
	if err := r.pace(ctx, attempt); err != nil {
		return eventlog.Page{}, err
	}
	err = r.borrow(ctx, attempt, func(rd *reader) (err error) {
		page, err = rd.all(ctx, after, filter, limit, after+eventlog.Position(limit))
		return err
	})
	return page, err
}

// ReadStream implements eventlog.Log.
func (r ReadOnly) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction,
	limit int) ([]eventlog.Recorded, error) {
	if err := r.pace(ctx, "read "+stream); err != nil {
		return nil, err
	}
	return r.Log.ReadStream(ctx, stream, from, direction, limit)
}

func (r ReadOnly) pace(ctx context.Context, attempt string) error {
	if r.cfg.Pace == nil {
		return nil
	}
	if err := r.cfg.Pace(ctx); err != nil {
		return fmt.Errorf("%s: %w", attempt, err)
	}
	return nil
}

// Append implements eventlog.Log.
func (r ReadOnly) Append(_ context.Context, stream string, _ eventlog.Expected,
	_ []eventlog.Proposed) (eventlog.Appended, error) {
	return eventlog.Appended{}, fmt.Errorf("append to %s: %w", stream, ErrReadOnly)
}

// Subscribe implements eventlog.Log.
func (r ReadOnly) Subscribe(context.Context, eventlog.Position, eventlog.Filter) (eventlog.Subscription, error) {
	return nil, fmt.Errorf("subscribe: %w", ErrReadOnly)
}

// Close implements eventlog.Log.
func (r ReadOnly) Close() error {
	r.once.Do(func() {
		r.close()
		r.closed = r.closeReaders(r.cfg.Readers)
	})
	return r.closed
}
